"""The PreScore and Score phases: score, normalize, weigh.

Owns weights, the range check and the total.
Upstream: pkg/scheduler/framework/runtime/framework.go RunPreScorePlugins, RunScorePlugins
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX, NODE_SCORE_MIN
from kubesched.framework.runtime.adapters import (
    ColumnScore,
    OneNodeScore,
    as_scores,
    as_status,
    call_plugin,
)
from kubesched.framework.status import Status, error
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

Score: TypeAlias = ColumnScore | OneNodeScore


@dataclass(frozen=True, slots=True)
class Scores:
    """The weighted scores of each plugin, and the totals."""

    by_plugin: Mapping[str, IntColumn]
    total: IntColumn
    lots: BoolColumn | None = None
    """The nodes from which one is drawn at random if totals are equal; None for none."""


class ScorePhase:
    """A profile's scoring, ready to run on the feasible nodes."""

    def __init__(
        self, pre_scores: Sequence[Any], scores: Sequence[Any], weights: Mapping[str, int]
    ) -> None:
        """Wrap the plugins of the two extension points."""
        self.pre_scores = pre_scores
        self.scores: list[Score] = [
            ColumnScore(plugin) if hasattr(plugin, "score_nodes") else OneNodeScore(plugin)
            for plugin in scores
        ]
        self.weights = weights

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Run the pre-score plugins in order; anything but success and skip is an error."""
        skipped: set[str] = set()
        failure: Status | None = None
        for plugin in self.pre_scores:
            answer = call_plugin("PreScore", plugin.name, plugin.pre_score, state, pod, nodes)
            status = as_status(answer, "pre_score")
            if status is None or status.is_success:
                continue
            if not status.is_skip:
                failure = error(f'running PreScore plugin "{plugin.name}": {status.message}')
                break
            skipped.add(plugin.name)
        state.skip_score_plugins = frozenset(skipped)
        return failure

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Scores | Status:
        """Return each plugin's weighted scores and the totals."""
        active = [s for s in self.scores if s.name not in state.skip_score_plugins]
        raw: dict[str, IntColumn] = {}
        for plugin in active:
            result = plugin.score(state, pod, nodes)
            if isinstance(result, Status):
                return _failed("running Score plugins", plugin.name, result)
            raw[plugin.name] = result
        for plugin in active:
            result = _normalized(plugin, state, pod, raw[plugin.name])
            if isinstance(result, Status):
                return _failed("running Normalize on Score plugins", plugin.name, result)
            raw[plugin.name] = result
        return self._weigh(raw, len(nodes))

    def _weigh(self, normalized: Mapping[str, IntColumn], count: int) -> Scores | Status:
        total = np.zeros(count, dtype=np.int64)
        weighted: dict[str, IntColumn] = {}
        for name, scores in normalized.items():
            outside = scores[(scores > NODE_SCORE_MAX) | (scores < NODE_SCORE_MIN)]
            if len(outside):
                return error(
                    f'applying score defaultWeights on Score plugins: plugin "{name}" returns an '
                    f"invalid score {outside[0]}, it should in the range of "
                    f"[{NODE_SCORE_MIN}, {NODE_SCORE_MAX}] after normalizing"
                )
            weighted[name] = scores * np.int64(self.weights[name])
            total += weighted[name]
        return Scores(weighted, total)


def normalized_and_weighted(
    plugin: Score, weight: int, state: CycleState, pod: PodInfo, nodes: NodeTable
) -> IntColumn | Status:
    """Return the normalized and weighted scores of one plugin, or its failure."""
    scores = plugin.score(state, pod, nodes)
    if not isinstance(scores, Status):
        scores = _normalized(plugin, state, pod, scores)
    if isinstance(scores, Status):
        return scores
    if len(scores):
        # As an unsigned integer, a negative score is very large. argmax is twice as fast as max.
        unsigned = scores.view(np.uint64)
        if unsigned.item(unsigned.argmax()) > NODE_SCORE_MAX:
            return error("score out of range")
    return scores if weight == 1 else scores * np.int64(weight)


def _normalized(
    plugin: Score, state: CycleState, pod: PodInfo, scores: IntColumn
) -> IntColumn | Status:
    if plugin.normalize is None:
        return scores
    point = "ScoreExtensionNormalize"
    answer = call_plugin(point, plugin.name, plugin.normalize, state, pod, scores)
    return as_scores(answer, len(scores))


def _failed(stage: str, plugin: str, status: Status) -> Status:
    return error(f'{stage}: plugin "{plugin}" failed with: {status.message}')
