"""Pre-score, score, normalise, weigh.

Owns weights, the range check and the total. The plugin owns its raw score.
Upstream: pkg/scheduler/framework/runtime/framework.go RunPreScorePlugins, RunScorePlugins
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import NodeTable
from kubesched.framework.adapt import ColumnScore, OneNodeScore, as_scores, as_status, asked
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX, NODE_SCORE_MIN
from kubesched.framework.status import Status, error
from kubesched.model.pod_info import PodInfo

_NORMALIZE: Final = "ScoreExtensionNormalize"


@dataclass(frozen=True, slots=True)
class Scores:
    """What each plugin adds to each node's total, weighted."""

    by_plugin: Mapping[str, IntColumn]
    total: IntColumn
    lots: BoolColumn | None = None
    """Which nodes draw lots where totals are equal; None for none of them."""


class ScorePhase:
    """A profile's scoring, ready to run on the nodes that fit."""

    def __init__(
        self,
        pre_scores: Sequence[Any],
        scores: Sequence[ColumnScore | OneNodeScore],
        weights: Mapping[str, int],
    ) -> None:
        self._pre_scores = pre_scores
        self._scores = scores
        self._weights = weights

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Run the pre-score plugins in order; anything but success and skip is an error."""
        skipped: set[str] = set()
        failure: Status | None = None
        for plugin in self._pre_scores:
            answer = asked("PreScore", plugin.name, plugin.pre_score, state, pod, nodes)
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
        active = [s for s in self._scores if s.name not in state.skip_score_plugins]
        raw: dict[str, IntColumn] = {}
        for plugin in active:
            result = plugin.score(state, pod, nodes)
            if isinstance(result, Status):
                return _failed("running Score plugins", plugin.name, result)
            raw[plugin.name] = result
        for plugin in active:
            if plugin.normalize is None:
                continue
            scores = raw[plugin.name]
            answer = asked(_NORMALIZE, plugin.name, plugin.normalize, state, pod, scores)
            result = as_scores(answer, len(nodes))
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
            weighted[name] = scores * np.int64(self._weights[name])
            total += weighted[name]
        return Scores(weighted, total)


def normalized_and_weighted(
    plugin: ColumnScore | OneNodeScore,
    weight: int,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
) -> IntColumn | Status:
    """Return what one plugin adds to the totals, or that it failed."""
    scores = plugin.score(state, pod, nodes)
    if not isinstance(scores, Status) and plugin.normalize is not None:
        answer = asked(_NORMALIZE, plugin.name, plugin.normalize, state, pod, scores)
        scores = as_scores(answer, len(nodes))
    if isinstance(scores, Status):
        return scores
    if len(scores):
        # Seen as unsigned, a negative score is a very large one; looking for its place takes half
        # the time of looking for the value.
        unsigned = scores.view(np.uint64)
        if unsigned.item(unsigned.argmax()) > NODE_SCORE_MAX:
            return error("score out of range")
    return scores if weight == 1 else scores * np.int64(weight)


def _failed(stage: str, plugin: str, status: Status) -> Status:
    return error(f'{stage}: plugin "{plugin}" failed with: {status.message}')
