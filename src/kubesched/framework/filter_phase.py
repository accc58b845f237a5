"""Pre-filter, filter, and filter with nominated pods.

Owns order, attribution and early stop: the plugin owns its verdict.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kubesched.columns.trial import NO_POD, PodRows, Trial
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.adapt import (
    ColumnFilter,
    OneNodeFilter,
    PodExtensions,
    as_status,
    guarded,
    pod_extensions,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult
from kubesched.framework.status import Code, Status, error, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.model.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """What pre-filter came to: a refusal, or the nodes to look at (None: all)."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    plugins_with_nodes: tuple[str, ...] = ()


class FilterPhase:
    """A profile's filters, ready to run on any rows."""

    def __init__(
        self, pre_filters: Sequence[Any], filters: Sequence[ColumnFilter | OneNodeFilter]
    ) -> None:
        self._pre_filters = pre_filters
        self._filters = filters
        self._extensions: list[PodExtensions] = [
            extensions for extensions in map(pod_extensions, pre_filters) if extensions is not None
        ]
        self.has_one_node_filters = any(f.one_node for f in filters)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterOutcome:
        """Run the pre-filter plugins in order."""
        # Parity: runtime/framework.go RunPreFilterPlugins, v1.36.
        skipped: set[str] = set()
        try:
            return self._pre_filter(state, pod, nodes, skipped)
        finally:
            state.skip_filter_plugins = frozenset(skipped)

    def _pre_filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, skipped: set[str]
    ) -> PreFilterOutcome:
        refusal: Status | None = None
        names: frozenset[str] | None = None
        named_by: list[str] = []
        for plugin in self._pre_filters:
            result = guarded(plugin.pre_filter, state, pod, nodes)
            if not isinstance(result, PreFilterResult):
                result = as_status(result, "pre_filter")
            if isinstance(result, Status) and not result.is_success:
                if result.is_skip:
                    skipped.add(plugin.name)
                elif result.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(result.by(plugin.name))
                elif result.code is Code.UNSCHEDULABLE:
                    # Preemption may follow, and needs the state of all plugins.
                    refusal = result.by(plugin.name)
                else:
                    text = f'running PreFilter plugin "{plugin.name}": {result.message}'
                    return PreFilterOutcome(error(text).by(plugin.name))
            elif isinstance(result, PreFilterResult):
                named_by.append(plugin.name)
                names = result.node_names if names is None else names & result.node_names
                if not names:
                    return PreFilterOutcome(_nobody_left(named_by), names, tuple(sorted(named_by)))
        return PreFilterOutcome(refusal, names, tuple(sorted(named_by)))

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Verdicts:
        """Return the first refusal of each node, in the order of the filters."""
        verdicts = Verdicts(len(nodes))
        for plugin in self._filters:
            if plugin.name not in state.skip_filter_plugins:
                plugin.judge(state, pod, nodes, verdicts)
        return verdicts

    def judge_with_nominated(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Verdicts:
        """Judge with the pods supposed that were promised a node, and without them; both count."""
        # Parity: runtime/framework.go RunFilterPluginsWithNominatedPods, v1.36.
        verdicts = self.judge(state, pod, nodes)
        steps, positions = nominated_steps(nodes, pod)
        if not steps:
            return verdicts
        supposed = self._judge_supposing(state, pod, nodes, steps, positions)
        # The verdict with the nominated pods wins where it refuses, whatever the other says.
        verdicts.override(positions, supposed)
        return verdicts

    def _judge_supposing(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable, steps: list[Rows], positions: Rows
    ) -> Verdicts:
        if self.needs_single_rows(state):
            verdicts = Verdicts(len(positions))
            for place, position in enumerate(positions):
                trial = trial_of(nodes, np.array([position]))
                alone = [step[[position]] for step in steps]
                status = self._suppose(state.clone(), pod, trial, alone)[0]
                if not status.is_success:
                    verdicts.refuse_one(place, status)
            return verdicts
        if isinstance(nodes.usage, Trial):
            # Plugins' states speak of the trial's rows, all of them in their order.
            everywhere = self._suppose(state.clone(), pod, nodes.usage.copy(), steps)
            return everywhere.at(positions)
        trial = trial_of(nodes, positions)
        return self._suppose(state.clone(), pod, trial, [step[positions] for step in steps])

    def _suppose(
        self, state: CycleState, pod: PodInfo, trial: Trial, steps: list[Rows]
    ) -> Verdicts:
        for step in steps:
            status = self.change_pods(
                "add", state, pod, trial.add(step.astype(np.int32)), trial.nodes
            )
            if status is not None:
                verdicts = Verdicts(len(trial.rows))
                verdicts.refuse(np.ones(len(trial.rows), dtype=np.bool_), status)
                return verdicts
        return self.judge(state, pod, trial.nodes)

    def needs_single_rows(self, state: CycleState) -> bool:
        """Return whether a plugin's state can only speak of one supposed node at a time."""
        return any(e.one_node and e.name not in state.skip_filter_plugins for e in self._extensions)

    def change_pods(
        self, verb: str, state: CycleState, pod: PodInfo, pods: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Tell the plugins that a pod was supposed on (`add`) or gone from (`remove`) each node."""
        for extensions in self._extensions:
            if extensions.name in state.skip_filter_plugins:
                continue
            status = extensions.change(verb, state, pod, pods, nodes)
            if status is not None and not status.is_success:
                method = f"{verb.capitalize()}Pod"
                text = f'running {method} on PreFilter plugin "{extensions.name}": {status.message}'
                return error(text)
        return None


def nominated_steps(nodes: NodeTable, pod: PodInfo) -> tuple[list[Rows], Rows]:
    """Return who is to be supposed where: one pod index per node and step, and which nodes."""
    view: ClusterView = nodes.view
    if not view.pods.nominated_of:
        return [], np.zeros(0, dtype=np.int64)
    # Parity: runtime/framework.go addGENominatedPods, v1.36: equal or higher priority, not itself.
    wanted: dict[int, list[int]] = {}
    for position, row in enumerate(nodes.rows.tolist()):
        there = [
            index
            for index in view.nominated_on(row)
            if view.bound_pod(index).priority >= pod.priority
            and view.bound_pod(index).uid != pod.uid
        ]
        if there:
            wanted[position] = there
    steps = []
    for number in range(max(map(len, wanted.values()), default=0)):
        step = np.full(len(nodes), NO_POD, dtype=np.int64)
        for position, indices in wanted.items():
            if number < len(indices):
                step[position] = indices[number]
        steps.append(step)
    return steps, np.array(list(wanted), dtype=np.int64)


def trial_of(nodes: NodeTable, positions: Rows) -> Trial:
    """Return a trial that starts from some nodes of a table as they are there."""
    if isinstance(nodes.usage, Trial):
        return nodes.usage.take(positions)
    return Trial(nodes.view, nodes.rows[positions])


def _nobody_left(named_by: list[str]) -> Status:
    if len(set(named_by)) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {named_by[0]}")
    listed = " ".join(sorted(set(named_by)))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously")
