"""The PreFilter and Filter phases, the latter also with nominated pods.

Owns the order of plugins, the attribution of rejections, and the early stop.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult
from kubesched.framework.runtime.adapters import (
    ColumnFilter,
    OneNodeFilter,
    PodExtensions,
    as_status,
    call_plugin,
    declared_reads,
)
from kubesched.framework.runtime.nominated_pods import Nominated, Nominations
from kubesched.framework.status import Code, Status, error, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.node_columns import BoolColumn, IdColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows, Trial
from kubesched.snapshot.view import NodeTable, Rows

Filter: TypeAlias = ColumnFilter | OneNodeFilter


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """The result of pre-filter: a rejection, or the candidate nodes (None: all)."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    plugins_with_nodes: tuple[str, ...] = ()


class _WithNominated(NamedTuple):
    """A trial of some nodes with their nominated pods added."""

    state: CycleState
    nodes: NodeTable
    positions: Rows
    """The positions of these nodes in the evaluated table."""
    trial_positions: Rows
    """Their positions in `nodes`."""
    failure: Status | None
    """The failure to add the pods, if there was one."""


class FilterPhase:
    """A profile's filters, ready to run on any rows."""

    def __init__(self, pre_filters: Sequence[Any], filters: Sequence[Any]) -> None:
        """Wrap the plugins of the two extension points."""
        self.pre_filters = pre_filters
        self.filters: list[Filter] = [
            ColumnFilter(plugin) if hasattr(plugin, "filter_nodes") else OneNodeFilter(plugin)
            for plugin in filters
        ]
        self._extensions = [
            PodExtensions(plugin)
            for plugin in pre_filters
            if hasattr(plugin, "add_pods") or hasattr(plugin, "add_pod")
        ]
        self.has_one_node_filters = any(f.one_node for f in self.filters)
        self.trusts_reads = True
        """Whether `reads` of plugins is trusted; tests compare with a profile without trust."""
        self._nominations = Nominations()

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
        rejection: Status | None = None
        names: frozenset[str] | None = None
        named_by: list[str] = []
        for plugin in self.pre_filters:
            result = call_plugin("PreFilter", plugin.name, plugin.pre_filter, state, pod, nodes)
            if isinstance(result, PreFilterResult):
                named_by.append(plugin.name)
                names = result.node_names if names is None else names & result.node_names
                if not names:
                    return PreFilterOutcome(_no_node_left(named_by), names, tuple(sorted(named_by)))
                continue
            status = as_status(result, "pre_filter")
            if status is None or status.is_success:
                continue
            if status.is_skip:
                skipped.add(plugin.name)
            elif status.code is Code.UNSCHEDULABLE:
                # Preemption may follow, and needs the state of all plugins.
                rejection = status.by(plugin.name)
            else:
                return PreFilterOutcome(_ending(plugin.name, status))
        return PreFilterOutcome(rejection, names, tuple(sorted(named_by)))

    def row_filters(self, state: CycleState) -> list[ColumnFilter] | None:
        """Return the filters that are not skipped if all of them take rows."""
        active = [f for f in self.filters if f.name not in state.skip_filter_plugins]
        by_row = [f for f in active if isinstance(f, ColumnFilter) and f.takes_rows]
        return by_row if len(by_row) == len(active) else None

    def judge(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Verdicts:
        """Return the first rejection of each node, in the order of the filters."""
        verdicts = Verdicts(len(nodes))
        for plugin in self.filters:
            if plugin.name not in state.skip_filter_plugins:
                plugin.judge(state, pod, nodes, verdicts)
        return verdicts

    def judge_with_nominated(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Verdicts:
        """Evaluate nodes with their nominated pods and without them; both count."""
        # Parity: runtime/framework.go RunFilterPluginsWithNominatedPods, v1.36.
        verdicts = self.judge(state, pod, nodes)
        for trial in self._add_nominated(state, pod, nodes):
            if trial.failure is None:
                with_nominated = self.judge(trial.state, pod, trial.nodes)
            else:
                with_nominated = Verdicts(len(trial.nodes))
                with_nominated.reject(with_nominated.fits, trial.failure)
            # The verdict with the nominated pods wins where it rejects.
            verdicts.add_rejections(trial.positions, with_nominated.at(trial.trial_positions))
        return verdicts

    def clear_rejected_with_nominated(
        self,
        filters: Sequence[Filter],
        state: CycleState,
        pod: PodInfo,
        nodes: NodeTable,
        fits: BoolColumn,
    ) -> None:
        """Clear the nodes of a mask that some filters reject, with or without nominated pods."""
        for plugin in filters:
            plugin.clear_rejected(state, pod, nodes, fits)
        for trial in self._add_nominated(state, pod, nodes):
            trial_fits = np.zeros(len(trial.nodes), dtype=np.bool_)
            if trial.failure is None:
                trial_fits[trial.trial_positions] = fits[trial.positions]
                for plugin in filters:
                    plugin.clear_rejected(trial.state, pod, trial.nodes, trial_fits)
            fits[trial.positions] = trial_fits[trial.trial_positions]

    def pod_dependent(self, state: CycleState, pod: PodInfo) -> list[Filter]:
        """Return the filters whose verdict on a node may depend on its pods."""
        return [
            plugin
            for plugin in self.filters
            if plugin.name not in state.skip_filter_plugins
            and (self.follows(plugin.name) or self._may_read_usage(plugin, pod))
        ]

    def _may_read_usage(self, plugin: Filter, pod: PodInfo) -> bool:
        reads = declared_reads(plugin, pod) if self.trusts_reads else None
        return reads is None or reads.usage

    def _add_nominated(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Iterator[_WithNominated]:
        nominated = self.nominated(nodes, pod)
        if nominated is None:
            return
        positions = nominated.positions
        if self.needs_single_rows(state):
            for index in range(len(positions)):
                steps = [step[[index]] for step in nominated.steps]
                trial = trial_of(nodes, positions[[index]])
                yield self._add_steps(state, pod, trial, steps, positions[[index]])
        elif isinstance(nodes.usage, Trial):
            # Plugins' states cover all rows of the trial, in their order.
            steps = nominated.over(len(nodes))
            added = self._add_steps(state, pod, nodes.usage.copy(), steps, positions)
            yield added._replace(trial_positions=positions)
        else:
            trial = trial_of(nodes, positions)
            yield self._add_steps(state, pod, trial, nominated.steps, positions)

    def _add_steps(
        self,
        state: CycleState,
        pod: PodInfo,
        trial: Trial,
        steps: Sequence[IdColumn],
        positions: Rows,
    ) -> _WithNominated:
        state = state.clone()
        failure: Status | None = None
        for step in steps:
            failure = failure or self.change_pods("add", state, pod, trial.add(step), trial)
        return _WithNominated(state, trial.nodes, positions, np.arange(len(positions)), failure)

    def nominated(self, nodes: NodeTable, pod: PodInfo) -> Nominated | None:
        """Return the nominated pods that count for the pod; None if there are none."""
        return self._nominations.on(nodes, pod)

    def follows(self, plugin_name: str) -> bool:
        """Return whether a plugin has AddPod and RemovePod."""
        return any(extensions.name == plugin_name for extensions in self._extensions)

    def follows_pods(self, state: CycleState) -> bool:
        """Return whether an active plugin has AddPod and RemovePod."""
        return any(e.name not in state.skip_filter_plugins for e in self._extensions)

    def needs_single_rows(self, state: CycleState) -> bool:
        """Return whether an active plugin's AddPod and RemovePod take one node at a time."""
        return any(e.one_node and e.name not in state.skip_filter_plugins for e in self._extensions)

    def change_pods(
        self, verb: str, state: CycleState, pod: PodInfo, pods: PodRows, nodes: NodeTable | Trial
    ) -> Status | None:
        """Call the plugins' AddPod (`add`) or RemovePod (`remove`) for one pod on each node."""
        for extensions in self._extensions:
            if extensions.name in state.skip_filter_plugins:
                continue
            if isinstance(nodes, Trial):
                nodes = nodes.nodes
            status = extensions.change(verb, state, pod, pods, nodes)
            if status is not None and not status.is_success:
                method = f"{verb.capitalize()}Pod"
                text = f'running {method} on PreFilter plugin "{extensions.name}": {status.message}'
                return error(text)
        return None


def trial_of(nodes: NodeTable, positions: Rows) -> Trial:
    """Return a trial that starts from some nodes of a table."""
    if isinstance(nodes.usage, Trial):
        return nodes.usage.take(positions)
    return Trial(nodes.view, nodes.rows[positions])


def _ending(plugin: str, status: Status) -> Status:
    """Return a pre-filter status that ends the attempt, an error in upstream's words."""
    if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return status.by(plugin)
    return error(f'running PreFilter plugin "{plugin}": {status.message}').by(plugin)


def _no_node_left(named_by: list[str]) -> Status:
    if len(set(named_by)) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {named_by[0]}")
    plugins = " ".join(sorted(set(named_by)))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}] simultaneously")
