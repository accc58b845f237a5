"""Rows with nominated pods, evaluated with these pods added.

Owns the kept verdicts on such rows and their refreshing. A row fits only if it fits with the
nominated pods and without them; where it does not fit with them, that verdict is the row's.
Upstream: pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.attempt.kept.verdicts import ChangedPositions, KeptVerdicts, verdicts_of
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.fast import IncrementalFilter
from kubesched.framework.runtime.adapters import ColumnFilter
from kubesched.framework.runtime.filter_phase import FilterPhase
from kubesched.framework.runtime.nominated_pods import Nominated
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.snapshot.node_columns import (
    SMALL_BITS,
    BoolColumn,
    IdColumn,
    Room,
    SupposedRoom,
)
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows, Trial
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

_NO_PODS = Nominated(np.zeros(0, dtype=np.int64), [])


class NominatedRows:
    """Verdicts by usage on rows with nominated pods; they count among the kept rejections."""

    __slots__ = (
        "_kept",
        "_key",
        "_rejected",
        "_slot_of",
        "_taken",
        "positions",
        "rows",
        "steps",
        "verdicts",
    )

    def __init__(self, kept: KeptVerdicts, view: ClusterView, pod: PodInfo, to: Nominated) -> None:
        self._kept = kept
        self._key = (view.nomination_epoch, pod.priority)
        self.positions: Rows = to.positions
        """The positions of the rows."""
        self.rows: Rows = kept.rows[to.positions]
        self.steps: list[IdColumn] = to.steps
        self._taken = _taken(view, self.steps)
        """By slot, what the nominated pods request; None if that is large."""
        self._slot_of: IdColumn = np.full(len(kept.rows), -1, dtype=np.int32)
        self._slot_of[to.positions] = np.arange(len(to.positions))
        self.verdicts = {
            kept_filter.plugin.name: Verdicts(len(self.rows))
            for kept_filter in kept.filters
            if kept_filter.reads.usage
        }
        self._rejected: BoolColumn = np.zeros(len(self.rows), dtype=np.bool_)
        self._judge(view, np.arange(len(self.rows)))

    def matches(self, view: ClusterView, pod: PodInfo) -> bool:
        """Return whether the nominations that count for the pod are the same."""
        return self._key == (view.nomination_epoch, pod.priority)

    def refresh(self, view: ClusterView, changed: ChangedPositions) -> None:
        """Evaluate changed rows again, by their positions."""
        slots = self._slot_of[np.asarray(changed, dtype=np.int64)]
        self._judge(view, slots[slots >= 0].astype(np.int64))

    def withdraw(self) -> None:
        """Take these rejections out of the kept ones."""
        self._reject(np.arange(len(self.rows)), np.zeros(len(self.rows), dtype=np.bool_))

    def _judge(self, view: ClusterView, slots: Rows) -> None:
        if len(slots) == 0:
            return
        room, nodes = self._room(view, slots), None
        rejected = np.zeros(len(slots), dtype=np.bool_)
        for kept_filter in self._kept.filters:
            if not kept_filter.reads.usage:
                continue
            plugin, rule = kept_filter.plugin, kept_filter.matrix_rule
            verdicts = self.verdicts[plugin.name]
            if len(verdicts.statuses) > 1:
                verdicts.ids[slots] = FITS
            if room is None or rule is None or rule(room):
                nodes = nodes or self._with_pods(view, slots)
                changed = verdicts_of(plugin, self._kept.state, self._kept.pod, nodes)
                verdicts.add_rejections(slots, changed)
                rejected |= ~changed.fits
        self._reject(slots, rejected)

    def _room(self, view: ClusterView, slots: Rows) -> Room | None:
        """Return the room that the pods leave on some of the rows."""
        if self._taken is None:
            return None
        matrix = view.resource_matrix(self.rows.take(slots))
        taken = self._taken.take(slots, axis=1)
        return None if matrix is None else SupposedRoom(matrix.left - taken)

    def _with_pods(self, view: ClusterView, slots: Rows) -> NodeTable:
        """Return some of the rows with the nominated pods added."""
        trial = Trial(view, self.rows[slots])
        for step in self.steps:
            trial.add(step[slots])
        return trial.nodes

    def _reject(self, slots: Rows, rejected: BoolColumn) -> None:
        before = self._rejected[slots]
        if (before != rejected).any():
            by = rejected.view(np.int8) - before.view(np.int8)
            self._kept.shift_rejections(self.positions[slots], by)
            self._rejected[slots] = rejected


def _taken(view: ClusterView, steps: Sequence[IdColumn]) -> NDArray[np.float64] | None:
    """Return cpu, memory and number of the pods; None if floats may not hold them."""
    if not steps:
        return None
    pods, taken = view.pods, np.zeros((3, len(steps[0])), dtype=np.int64)
    for step in steps:
        present = step >= 0
        taken[:2] += pods.shape_usage[:2].take(pods.shape.take(step, mode="wrap"), axis=1) * present
        taken[2] += present
    return None if (taken >> SMALL_BITS).any() else taken.astype(np.float64)


def refresh_nominated(
    kept: KeptVerdicts,
    view: ClusterView,
    pod: PodInfo,
    filters: FilterPhase,
    changed: ChangedPositions,
) -> bool:
    """Add the pods that were nominated before this one to the kept verdicts.

    Return whether that is possible: it is not if a kept filter has AddPod, which needs a state per
    attempt.

    Args:
        kept: of the pod's signature.
        view: of the cluster.
        pod: to be placed; it is not nominated itself.
        filters: of the profile.
        changed: the positions that changed since the last attempt.

    Raises:
        PluginFailedError: A plugin failed.
    """
    previous = kept.nominated
    if previous is not None and previous.matches(view, pod):
        previous.refresh(view, changed)
        return True
    forget_nominated(kept)
    if any(filters.follows(kept_filter.plugin.name) for kept_filter in kept.filters):
        return False
    nominated = filters.nominated(view.whole(), pod) or _NO_PODS
    kept.nominated = NominatedRows(kept, view, pod, nominated)
    return True


def forget_nominated(kept: KeptVerdicts) -> None:
    """Take the nominated pods out of the kept verdicts."""
    if kept.nominated is not None:
        kept.nominated.withdraw()
        kept.nominated = None


def uncached_verdicts_on_nominated(
    kept: KeptVerdicts,
    view: ClusterView,
    state: CycleState,
    pod: PodInfo,
    filters: FilterPhase,
    incremental: Mapping[str, IncrementalFilter],
) -> dict[str, Verdicts] | None:
    """Return the verdicts of uncached filters on rows with nominated pods, by plugin.

    Filters whose verdict the pods cannot change are left out. None if the rows have to be evaluated
    one by one, or a plugin fails: that is the ordinary path's work.

    Args:
        kept: of the pod's signature, with the nominated rows.
        view: of the cluster.
        state: of the attempt.
        pod: to be placed.
        filters: of the profile.
        incremental: the filters that were refreshed in this attempt.

    Raises:
        PluginFailedError: A plugin failed.
    """
    nominated = kept.nominated
    if nominated is None or len(nominated.rows) == 0:
        return {}
    if filters.has_one_node_filters:
        return None
    steps = [PodRows(view, step) for step in nominated.steps]
    concerned = [
        plugin
        for plugin in kept.layout.uncached_filters
        if plugin.name not in state.skip_filter_plugins
        and not _is_unconcerned(incremental.get(plugin.name), steps)
    ]
    if not concerned:
        return {}
    if filters.needs_single_rows(state):
        return None
    state, trial = state.clone(), Trial(view, nominated.rows)
    for step in nominated.steps:
        if filters.change_pods("add", state, pod, trial.add(step), trial) is not None:
            return None
    nodes = trial.nodes
    return {plugin.name: verdicts_of(plugin, state, pod, nodes) for plugin in concerned}


def _is_unconcerned(incremental: IncrementalFilter | None, steps: Sequence[PodRows]) -> bool:
    """Return whether a filter is incremental, and none of the pods matters to it."""
    return incremental is not None and not any(map(incremental.concerns, steps))


def joined_verdicts(
    kept: KeptVerdicts,
    order: Sequence[ColumnFilter],
    uncached: Mapping[str, Verdicts],
    uncached_on_nominated: Mapping[str, Verdicts],
) -> Verdicts:
    """Return every row's first rejection, in the order of the filters.

    Args:
        kept: verdicts of the signature.
        order: all filters.
        uncached: verdicts of uncached filters on all rows.
        uncached_on_nominated: the same on rows with nominated pods, with these pods added.
    """
    everywhere = {f.plugin.name: f.verdicts for f in kept.filters} | dict(uncached)
    joined = _first_rejections(order, everywhere, len(kept.rows))
    nominated = kept.nominated
    if nominated is not None and len(nominated.rows):
        positions = nominated.positions
        without_pods = {name: verdicts.at(positions) for name, verdicts in everywhere.items()}
        with_pods = {**without_pods, **nominated.verdicts, **uncached_on_nominated}
        joined.add_rejections(positions, _first_rejections(order, with_pods, len(positions)))
    return joined


def _first_rejections(
    order: Sequence[ColumnFilter], by_plugin: Mapping[str, Verdicts], count: int
) -> Verdicts:
    joined = Verdicts(count)
    for plugin in order:
        verdicts = by_plugin.get(plugin.name)
        if verdicts is not None and len(verdicts.statuses) > 1:
            rejected = np.flatnonzero(joined.fits & (verdicts.ids != FITS))
            joined.add_rejections(rejected, verdicts.at(rejected))
    return joined
