"""Pre-filter, filter, and filter with nominated pods.

Owns order, attribution and early stop: the plugin owns its verdict.
Upstream: pkg/scheduler/framework/runtime/framework.go
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IdColumn
from kubesched.columns.trial import PodRows, Trial
from kubesched.columns.view import NodeTable, Rows
from kubesched.framework.adapt import (
    ColumnFilter,
    OneNodeFilter,
    PodExtensions,
    as_status,
    asked,
    guarded,
    pod_extensions,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult, Reads
from kubesched.framework.nominated import Nominations, Promised
from kubesched.framework.status import Code, Status, error, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.model.pod_info import PodInfo

Filter: TypeAlias = ColumnFilter | OneNodeFilter


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """What pre-filter came to: a refusal, or the nodes to look at (None: all)."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    plugins_with_nodes: tuple[str, ...] = ()


class TrialRows(NamedTuple):
    """A trial's nodes, and which of them a question is about."""

    nodes: NodeTable
    wanted: BoolColumn


class _Supposed(NamedTuple):
    """Some nodes with the pods that were promised them."""

    state: CycleState
    nodes: NodeTable
    positions: Rows
    """Where they are in the table that was asked about."""
    places: Rows
    """Where they are in `nodes`."""
    failed: Status | None
    """Why the pods could not be supposed, if they could not."""


class FilterPhase:
    """A profile's filters, ready to run on any rows."""

    def __init__(self, pre_filters: Sequence[Any], filters: Sequence[Filter]) -> None:
        self._pre_filters = pre_filters
        self._filters = filters
        self._extensions: list[PodExtensions] = [
            extensions for extensions in map(pod_extensions, pre_filters) if extensions is not None
        ]
        self.has_one_node_filters = any(f.one_node for f in filters)
        self.trusts_reads = True
        """Whether what plugins say they read is believed; tests compare both ways."""
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
        refusal: Status | None = None
        names: frozenset[str] | None = None
        named_by: list[str] = []
        for plugin in self._pre_filters:
            result = asked("PreFilter", plugin.name, plugin.pre_filter, state, pod, nodes)
            if isinstance(result, PreFilterResult):
                named_by.append(plugin.name)
                names = result.node_names if names is None else names & result.node_names
                if not names:
                    return PreFilterOutcome(_nobody_left(named_by), names, tuple(sorted(named_by)))
                continue
            status = as_status(result, "pre_filter")
            if status is None or status.is_success:
                continue
            if status.is_skip:
                skipped.add(plugin.name)
            elif status.code is Code.UNSCHEDULABLE:
                # Preemption may follow, and needs the state of all plugins.
                refusal = status.by(plugin.name)
            else:
                return PreFilterOutcome(_ending(plugin.name, status))
        return PreFilterOutcome(refusal, names, tuple(sorted(named_by)))

    def row_filters(self, state: CycleState) -> list[ColumnFilter] | None:
        """Return the filters that are not skipped if all of them take rows."""
        asked = [f for f in self._filters if f.name not in state.skip_filter_plugins]
        by_row = [f for f in asked if isinstance(f, ColumnFilter) and f.takes_rows]
        return by_row if len(by_row) == len(asked) else None

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
        for supposed in self._suppose_nominated(state, pod, nodes):
            if supposed.failed is None:
                found = self.judge(supposed.state, pod, supposed.nodes)
            else:
                found = Verdicts(len(supposed.nodes))
                found.refuse(np.ones(len(supposed.nodes), dtype=np.bool_), supposed.failed)
            # The verdict with the nominated pods wins where it refuses, whatever the other says.
            verdicts.override(supposed.positions, found.at(supposed.places))
        return verdicts

    def narrow_with_nominated(
        self, filters: Sequence[Filter], state: CycleState, pod: PodInfo, trial: TrialRows
    ) -> BoolColumn:
        """Return which of a trial's nodes fit by some filters, with and without nominated pods.

        Args:
            filters: those to ask, from `moving`.
            state: of the trial.
            pod: to be placed.
            trial: the nodes, and which of them it is about.
        """
        fits = trial.wanted.copy()
        for plugin in filters:
            plugin.narrow(state, pod, trial.nodes, fits)
        for supposed in self._suppose_nominated(state, pod, trial.nodes):
            places, positions = supposed.places, supposed.positions
            also = np.zeros(len(supposed.nodes), dtype=np.bool_)
            if supposed.failed is None:
                also[places] = fits[positions]
                for plugin in filters:
                    plugin.narrow(supposed.state, pod, supposed.nodes, also)
            fits[positions] = also[places]
        return fits

    def moving(self, state: CycleState, pod: PodInfo) -> list[Filter]:
        """Return the filters that may judge a node differently once its pods are others."""
        return [
            plugin
            for plugin in self._filters
            if plugin.name not in state.skip_filter_plugins
            and (self.follows(plugin.name) or not self._is_fixed(plugin, pod))
        ]

    def _is_fixed(self, plugin: Filter, pod: PodInfo) -> bool:
        if plugin.reads is None or not self.trusts_reads:
            return False
        reads = guarded(plugin.reads, pod)
        return isinstance(reads, Reads) and not reads.usage

    def _suppose_nominated(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable
    ) -> Iterator[_Supposed]:
        promised = self.promised(nodes, pod)
        if promised is None:
            return
        positions = promised.positions
        if self.needs_single_rows(state):
            for place in range(len(positions)):
                alone = [step[[place]] for step in promised.steps]
                trial = trial_of(nodes, positions[[place]])
                yield self._suppose(state, pod, trial, alone, positions[[place]])
        elif isinstance(nodes.usage, Trial):
            # Plugins' states speak of the trial's rows, all of them in their order.
            steps = promised.over(len(nodes))
            supposed = self._suppose(state, pod, nodes.usage.copy(), steps, positions)
            yield supposed._replace(places=positions)
        else:
            trial = trial_of(nodes, positions)
            yield self._suppose(state, pod, trial, promised.steps, positions)

    def _suppose(
        self,
        state: CycleState,
        pod: PodInfo,
        trial: Trial,
        steps: Sequence[IdColumn],
        positions: Rows,
    ) -> _Supposed:
        state = state.clone()
        failed: Status | None = None
        for step in steps:
            failed = failed or self.change_pods("add", state, pod, trial.add(step), trial)
        return _Supposed(state, trial.nodes, positions, np.arange(len(positions)), failed)

    def promised(self, nodes: NodeTable, pod: PodInfo) -> Promised | None:
        """Return who is to be supposed on which nodes before the pod; None: nobody."""
        return self._nominations.on(nodes, pod)

    def follows(self, plugin_name: str) -> bool:
        """Return whether a plugin can be told of pods supposed or gone."""
        return any(extensions.name == plugin_name for extensions in self._extensions)

    def follows_pods(self, state: CycleState) -> bool:
        """Return whether a plugin wants to know of every pod supposed or gone."""
        return any(e.name not in state.skip_filter_plugins for e in self._extensions)

    def needs_single_rows(self, state: CycleState) -> bool:
        """Return whether a plugin's state can only speak of one supposed node at a time."""
        return any(e.one_node and e.name not in state.skip_filter_plugins for e in self._extensions)

    def change_pods(
        self, verb: str, state: CycleState, pod: PodInfo, pods: PodRows, nodes: NodeTable | Trial
    ) -> Status | None:
        """Tell the plugins that a pod was supposed on (`add`) or gone from (`remove`) each node."""
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
    """Return a trial that starts from some nodes of a table as they are there."""
    if isinstance(nodes.usage, Trial):
        return nodes.usage.take(positions)
    return Trial(nodes.view, nodes.rows[positions])


def _ending(plugin: str, status: Status) -> Status:
    """Return a pre-filter status that ends the attempt, an error in upstream's words."""
    if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return status.by(plugin)
    return error(f'running PreFilter plugin "{plugin}": {status.message}').by(plugin)


def _nobody_left(named_by: list[str]) -> Status:
    if len(set(named_by)) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {named_by[0]}")
    listed = " ".join(sorted(set(named_by)))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{listed}] simultaneously")
