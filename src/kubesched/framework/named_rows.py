"""Kept pre-filters of pods that are alike but for the node they name, as those of a DaemonSet are.

Owns what plugins said of such pods before any row is judged, for as long as that is true: with it,
one row is all there is to judge for the next of them. Never keeps a verdict on a row.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from kubesched.columns.node_columns import IdColumn, NodeCells
from kubesched.columns.trial import Trial
from kubesched.columns.view import ClusterView, NodeRow, NodeTable
from kubesched.framework.adapt import ColumnFilter
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.kept_columns import PlanParts
from kubesched.framework.plan_frame import NotLocalError, prepared
from kubesched.framework.status import Status, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.model.pod_info import PodInfo

TEMPLATES_MAX = 256


class _RowRule(NamedTuple):
    """How one filter judges a row."""

    refuses: Callable[[NodeCells], Any] | None
    """False if the row is certainly not refused; there is none if the filter has to be asked."""
    judge: Callable[[CycleState, PodInfo, NodeRow], Status | None]


class NamedTemplate:
    """What plugins said of one template of such pods."""

    def __init__(self, parts: PlanParts, view: ClusterView, pod: PodInfo) -> None:
        self._parts = parts
        self._node_epoch, self._objects_seen = view.node_epoch, view.objects.change_count
        self._term_count = len(view.term_sets)
        reads = {name: parts.reads_of(name, pod) for name in parts.names}
        if None in reads.values():
            raise NotLocalError
        moving = {name for name, one in reads.items() if one is not None and one.usage}
        self.state = state = CycleState()
        others = (plugin for plugin in parts.pre_filters if plugin is not parts.naming_plugin)
        skipped = prepared("pre_filter", others, reads, state, pod, view.all_nodes())
        state.skip_filter_plugins = frozenset(skipped)
        self.named_by: str = parts.naming_plugin.name
        self.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{self.named_by}]")
        """The verdict on all other nodes."""
        self._rules: list[_RowRule] = []
        self._moving: list[ColumnFilter] = []
        """Those of the filters that read what pods take."""
        for plugin in parts.filters:
            if plugin.name not in self.state.skip_filter_plugins:
                if not plugin.takes_rows:
                    raise NotLocalError
                make = plugin.refuses_by_cells
                refuses = None if make is None else make(self.state, pod)
                self._rules.append(_RowRule(refuses, plugin.judge_row))
                if plugin.name in moving:
                    self._moving.append(plugin)

    def still_holds(self, view: ClusterView) -> bool:
        """Return whether nothing has changed that plugins may have read, usage of rows aside."""
        return (
            view.node_epoch == self._node_epoch
            and view.objects.change_count == self._objects_seen
            and len(view.term_sets) == self._term_count
        )

    def row_of(self, view: ClusterView, pod: PodInfo) -> int:
        """Return the row that a pod names, if that is there and fits.

        Raises:
            NotLocalError: It is not, or does not; the ordinary way tells why.
        """
        row = view.row_of(self._parts.naming_plugin.named_node(pod))
        if row < 0:
            raise NotLocalError
        state, cells, node = self.state, view.cells(row), view.row(row)
        for refuses, judge in self._rules:
            if refuses is not None and cells is not None and not refuses(cells):
                continue
            if judge(state, pod, node) is not None:
                raise NotLocalError
        return row

    def fits_with(self, steps: Sequence[IdColumn], node: NodeTable, pod: PodInfo) -> bool:
        """Return whether a row that fits does so with more pods on it, too.

        Args:
            steps: those pods.
            node: the row.
            pod: that names it.
        """
        trial, verdicts = Trial(node.view, node.rows), Verdicts(1)
        for step in steps:
            trial.add(step)
        nodes = trial.nodes
        for plugin in self._moving:
            plugin.judge(self.state, pod, nodes, verdicts)
        return bool(verdicts.fits.all())


class NamedRows:
    """The templates of pods that name a node, for one cluster at a time."""

    def __init__(self, parts: PlanParts) -> None:
        self._parts = parts
        self._templates: dict[Hashable, NamedTemplate] = {}
        self._cluster: object = None

    def template_of(self, view: ClusterView, pod: PodInfo) -> NamedTemplate:
        """Return what is kept of the pod's template, made anew where it is no longer true.

        Raises:
            NotLocalError: Nothing can be kept of such pods.
        """
        if self._cluster is not view.identity:
            self._cluster = view.identity
            self._templates.clear()
        key = pod.unnamed_template
        found = self._templates.get(key)
        if found is None or not found.still_holds(view):
            if len(self._templates) >= TEMPLATES_MAX:
                self._templates.clear()
            found = self._templates[key] = NamedTemplate(self._parts, view, pod)
        return found
