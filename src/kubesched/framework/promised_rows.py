"""A plan's rows that other pods were promised, judged with those pods supposed there.

Owns the kept verdicts on such rows and their refreshing, beside what the plan itself keeps. A row
fits only if it fits with those pods and without them; where it does not fit with them, that verdict
is the row's.
Upstream: pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import (
    SMALL_BITS,
    BoolColumn,
    IdColumn,
    Room,
    SupposedRoom,
)
from kubesched.columns.trial import PodRows, Trial
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.adapt import ColumnFilter
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.filter_phase import FilterPhase
from kubesched.framework.followers import FilterFollower
from kubesched.framework.nominated import Promised
from kubesched.framework.plan import Plan
from kubesched.framework.plan_frame import NotLocalError
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.model.pod_info import PodInfo

_NOBODY = Promised(np.zeros(0, dtype=np.int64), [])


class PromisedRows:
    """What local filters that read usage say of promised rows; counted in the plan's refusals."""

    __slots__ = (
        "_key",
        "_plan",
        "_refused",
        "_slots",
        "_taken",
        "positions",
        "rows",
        "steps",
        "verdicts",
    )

    def __init__(self, plan: Plan, view: ClusterView, pod: PodInfo, to: Promised) -> None:
        self._plan = plan
        self._key = (view.nomination_epoch, pod.priority)
        self.positions: Rows = to.positions
        """Where the rows are in the plan."""
        self.rows: Rows = plan.rows[to.positions]
        self.steps: list[IdColumn] = to.steps
        self._taken = _taken(view, self.steps)
        """By slot, what the pods would take; None if that is large."""
        self._slots: IdColumn = np.full(len(plan.rows), -1, dtype=np.int32)
        self._slots[to.positions] = np.arange(len(to.positions))
        self.verdicts = {
            kept.plugin.name: Verdicts(len(self.rows)) for kept in plan.filters if kept.reads.usage
        }
        self._refused: BoolColumn = np.zeros(len(self.rows), dtype=np.bool_)
        self._judge(view, np.arange(len(self.rows)))

    def is_of(self, view: ClusterView, pod: PodInfo) -> bool:
        """Return whether the promises are still those that count before the pod."""
        return self._key == (view.nomination_epoch, pod.priority)

    def follow(self, view: ClusterView, changed: Sequence[int] | Rows) -> None:
        """Judge the rows again that changed, by their positions in the plan."""
        places = self._slots[np.asarray(changed, dtype=np.int64)]
        self._judge(view, places[places >= 0].astype(np.int64))

    def withdraw(self) -> None:
        """Have the plan forget what was refused here."""
        self._refuse(np.arange(len(self.rows)), np.zeros(len(self.rows), dtype=np.bool_))

    def _judge(self, view: ClusterView, places: Rows) -> None:
        if len(places) == 0:
            return
        room, nodes = self._room(view, places), None
        refused = np.zeros(len(places), dtype=np.bool_)
        for kept in self._plan.filters:
            if not kept.reads.usage:
                continue
            verdicts = self.verdicts[kept.plugin.name]
            if len(verdicts.statuses) > 1:
                verdicts.ids[places] = FITS
            if room is None or kept.by_lines is None or kept.by_lines(room):
                nodes = nodes or self._supposed(view, places)
                part = _said(kept.plugin, self._plan.state, self._plan.pod, nodes)
                verdicts.override(places, part)
                refused |= ~part.fits
        self._refuse(places, refused)

    def _room(self, view: ClusterView, places: Rows) -> Room | None:
        """Return what the pods would leave on some of the rows."""
        if self._taken is None:
            return None
        lines, taken = view.lines(self.rows.take(places)), self._taken.take(places, axis=1)
        return None if lines is None else SupposedRoom(lines.left - taken)

    def _supposed(self, view: ClusterView, places: Rows) -> NodeTable:
        """Return some of the rows with the pods there."""
        trial = Trial(view, self.rows[places])
        for step in self.steps:
            trial.add(step[places])
        return trial.nodes

    def _refuse(self, places: Rows, refused: BoolColumn) -> None:
        before = self._refused[places]
        if (before != refused).any():
            by = refused.view(np.int8) - before.view(np.int8)
            self._plan.shift_refusals(self.positions[places], by)
            self._refused[places] = refused


def _taken(view: ClusterView, steps: Sequence[IdColumn]) -> NDArray[np.float64] | None:
    """Return cpu, memory and number of pods by line; None if floats may not hold them."""
    if not steps:
        return None
    pods, taken = view.pods, np.zeros((3, len(steps[0])), dtype=np.int64)
    for step in steps:
        present = step >= 0
        taken[:2] += pods.shape_usage[:2].take(pods.shape.take(step, mode="wrap"), axis=1) * present
        taken[2] += present
    return None if (taken >> SMALL_BITS).any() else taken.astype(np.float64)


def suppose_promised(
    plan: Plan,
    view: ClusterView,
    pod: PodInfo,
    filters: FilterPhase,
    changed: Sequence[int] | Rows | None,
) -> None:
    """Have a plan that is up to date count the pods that were promised nodes before this one.

    Args:
        plan: of the pod's template.
        view: of the cluster.
        pod: to be placed; it was promised nothing itself.
        filters: of the profile.
        changed: the plan's positions that changed, None for all.

    Raises:
        NotLocalError: Kept verdicts cannot answer for this pod.
    """
    known: PromisedRows | None = plan.promised
    if known is None and not view.pods.nominated_of:
        return
    try:
        if known is not None and changed is not None and known.is_of(view, pod):
            known.follow(view, changed)
        else:
            _suppose_anew(plan, view, pod, filters)
    except NotLocalError:
        # Changes are told only once: whoever keeps something of the plan has to begin anew.
        plan.rankings.clear()
        _forget(plan)
        raise


def _suppose_anew(plan: Plan, view: ClusterView, pod: PodInfo, filters: FilterPhase) -> None:
    _forget(plan)
    if any(filters.follows(kept.plugin.name) for kept in plan.filters):
        raise NotLocalError  # It keeps a state of its own, which a plan knows nothing of.
    to = filters.promised(view.whole(), pod) or _NOBODY
    plan.promised = PromisedRows(plan, view, pod, to)


def _forget(plan: Plan) -> None:
    if plan.promised is not None:
        plan.promised.withdraw()
        plan.promised = None


def judge_promised(
    plan: Plan,
    view: ClusterView,
    state: CycleState,
    pod: PodInfo,
    filters: FilterPhase,
    following: Mapping[str, FilterFollower],
) -> dict[str, Verdicts]:
    """Return what filters that are asked anew say of the promised rows, by name.

    Those are left out whose verdict is the same with and without the pods there.

    Args:
        plan: of the pod's template, with the promised rows.
        view: of the cluster.
        state: of the attempt.
        pod: to be placed.
        filters: of the profile.
        following: by name, those that follow.

    Raises:
        NotLocalError: The ordinary way must be gone.
    """
    promised: PromisedRows | None = plan.promised
    if promised is None or len(promised.rows) == 0:
        return {}
    if filters.has_one_node_filters:
        raise NotLocalError
    steps = [PodRows(view, step) for step in promised.steps]
    asked = [
        plugin
        for plugin in plan.live_filters
        if plugin.name not in state.skip_filter_plugins
        and not _is_unconcerned(following.get(plugin.name), steps)
    ]
    if not asked:
        return {}
    if filters.needs_single_rows(state):
        raise NotLocalError
    state, trial = state.clone(), Trial(view, promised.rows)
    for step in promised.steps:
        if filters.change_pods("add", state, pod, trial.add(step), trial) is not None:
            raise NotLocalError
    nodes = trial.nodes
    return {plugin.name: _said(plugin, state, pod, nodes) for plugin in asked}


def _is_unconcerned(follower: FilterFollower | None, steps: Sequence[PodRows]) -> bool:
    """Return whether a filter follows, and none of the pods matters to it."""
    return follower is not None and not any(map(follower.concerns, steps))


def joined_verdicts(
    plan: Plan,
    order: Sequence[ColumnFilter],
    live: Mapping[str, Verdicts],
    live_on_promised: Mapping[str, Verdicts],
) -> Verdicts:
    """Return every row's first refusal, in the order of the filters.

    Args:
        plan: with what is kept.
        order: all filters.
        live: what those say of all rows that are asked anew.
        live_on_promised: the same of promised rows, with the pods supposed they were promised to.
    """
    everywhere = {local.plugin.name: local.verdicts for local in plan.filters} | dict(live)
    joined = _first_refusals(order, everywhere, len(plan.rows))
    promised: PromisedRows | None = plan.promised
    if promised is not None and len(promised.rows):
        there = {name: verdicts.at(promised.positions) for name, verdicts in everywhere.items()}
        said = {**there, **promised.verdicts, **live_on_promised}
        joined.override(promised.positions, _first_refusals(order, said, len(promised.rows)))
    return joined


def _first_refusals(
    order: Sequence[ColumnFilter], said: Mapping[str, Verdicts], count: int
) -> Verdicts:
    joined = Verdicts(count)
    for plugin in order:
        verdicts = said.get(plugin.name)
        if verdicts is not None and len(verdicts.statuses) > 1:
            standing = np.flatnonzero(joined.fits & (verdicts.ids != FITS))
            joined.override(standing, verdicts.at(standing))
    return joined


def _said(plugin: ColumnFilter, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Verdicts:
    verdicts = Verdicts(len(nodes))
    plugin.judge(state, pod, nodes, verdicts)
    if verdicts.first_error() is not None:
        raise NotLocalError
    return verdicts
