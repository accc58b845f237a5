"""The quick way through an attempt: kept verdicts for local plugins, the others asked anew.

Owns the ranking of rows under a plan. What it answers equals what the ordinary way would; where it
cannot answer it says so, and the ordinary way is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.engine.diagnosis import Diagnosis, FitError
from kubesched.engine.search import Detail, ScheduleResult, Search
from kubesched.engine.selection import DEPTH_BITS, PLACE_BITS, heap_order
from kubesched.framework.adapt import guarded
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PreFilterResult
from kubesched.framework.plan import ROWS_BY_INTEGERS_MAX, NotLocalError, Plan
from kubesched.framework.planner import Planner
from kubesched.framework.profile import Profile
from kubesched.framework.promised_rows import joined_verdicts, judge_promised, suppose_promised
from kubesched.framework.score_phase import Scores, normalized_and_weighted
from kubesched.framework.status import SKIP, Code, Status
from kubesched.framework.verdicts import NodeToStatus, Verdicts
from kubesched.model.pod_info import PodInfo

# A key holds the total above and the order among equals below; both fit an int64.
_ORDER_BITS = PLACE_BITS + DEPTH_BITS
_ORDER_MAX = (1 << _ORDER_BITS) - 1
_TOTAL_MAX = 1 << 38
_NEVER = np.iinfo(np.int64).min


def schedule_planned(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult | None:
    """Choose a node by kept verdicts; None if they cannot answer for this attempt.

    Raises:
        FitError: No node fits.
    """
    if profile.planner is None or pod.nominated_node_name:
        return None
    if view.pods.nominated_of and pod.uid in view.pods.index_of:
        return None  # It was promised a node itself, which is a matter of its own.
    if search.extender_count or search.want(profile, view.node_count) < view.node_count:
        return None
    try:
        return _Attempt(profile, view, state, pod, search).choose(search)
    except NotLocalError:
        state.clear()
        return None


class Ranking:
    """A plan's rows by total, as the kept columns alone have it; the best has the largest key."""

    __slots__ = ("added", "fit_rows", "keys", "order", "start", "version")

    def __init__(self, plan: Plan, view: ClusterView, start: int) -> None:
        fits = plan.fits
        self.version = plan.version
        self.start = start
        self.fit_rows: Rows = plan.rows[fits]
        self.added: IntColumn | int = _sum_of_normalized(plan, fits)
        """What normalising plugins add."""
        total = plan.plain_sum + self.added
        if total.max(initial=0) >= _TOTAL_MAX or total.min(initial=0) < 0:
            raise NotLocalError
        nth = _nth_fitting(plan, view, start, fits, slice(None))
        self.order: IntColumn = _ORDER_MAX - heap_order(np.maximum(nth, 1))
        self.keys: IntColumn = np.where(fits, (total << _ORDER_BITS) + self.order, -1)

    def update(self, plan: Plan, positions: Sequence[int]) -> None:
        """Take over the new totals of some rows, none of which began or ceased to fit."""
        added = self.added
        if len(positions) > ROWS_BY_INTEGERS_MAX:
            where = np.array(positions)
            where = where[plan.refusals[where] == 0]
            more = added if isinstance(added, int) else added[where]
            total = plan.plain_sum[where] + more
            self.keys[where] = (total << _ORDER_BITS) + self.order[where]
            return
        for position in positions:
            if plan.refusals.item(position) == 0:
                more = added if isinstance(added, int) else added.item(position)
                key = (plan.plain_sum.item(position) + more) << _ORDER_BITS
                self.keys[position] = key + self.order.item(position)


def _sum_of_normalized(plan: Plan, fits: BoolColumn) -> IntColumn | int:
    total: IntColumn | int = 0
    for _, column in plan.normalized(fits):
        total = total + column
    return total


def visiting_positions(plan: Plan, view: ClusterView, start: int) -> Rows:
    """Return the plan's positions in visiting order, from the rotating start."""

    def make() -> Rows:
        return np.argsort(view.rank()[plan.rows], kind="stable")

    visiting = plan.shared_by_nodes("visiting order", make)
    return np.roll(visiting, -start) if start else visiting


def _nth_fitting(
    plan: Plan, view: ClusterView, start: int, fits: BoolColumn, where: Rows | slice
) -> IntColumn:
    """Return which of the fitting rows, in visiting order and from 1, each position is."""
    places = view.rank()[plan.rows[where]]
    if start:
        places = (places - start) % len(plan.rows)
    if fits.all():
        return places + 1
    nth: IntColumn = np.cumsum(fits[visiting_positions(plan, view, start)], dtype=np.int64)[places]
    return nth


class _Attempt:
    """One pod over a plan: what plugins said that are asked anew, joined with what is kept."""

    __slots__ = (
        "_live",
        "_live_on_promised",
        "_nodes",
        "_plan",
        "_planner",
        "_pod",
        "_ranking",
        "_start",
        "_state",
        "_view",
    )

    def __init__(
        self, profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
    ) -> None:
        assert profile.planner is not None, "without one there are no plans"
        self._planner: Planner = profile.planner
        self._view = view
        self._state = state
        self._pod = pod
        self._start = 0 if search.all_nodes else search.next_start_index % view.node_count
        self._plan, changed = self._planner.plan_for(view, pod)
        suppose_promised(self._plan, view, pod, profile.filters, changed)
        self._ranking: Ranking | None = _ranking_of(self._plan, view, changed, self._start)
        """None while a plan is new: most templates are met once."""
        state.adopt(self._plan.state)
        self._nodes: NodeTable = view.whole()
        self._live = self._judge_live()
        self._live_on_promised = judge_promised(self._plan, view, state, pod, profile.filters)

    def choose(self, search: Search) -> ScheduleResult:
        """Return the best row's node."""
        ranking = None if self._live or self._live_on_promised else self._ranking
        # None stands for "as the ranking has it", which costs nothing.
        fits = self._joined_fits() if ranking is None else None
        fit_rows = self._plan.rows[fits] if ranking is None else ranking.fit_rows
        if len(fit_rows) == 0:
            raise FitError(self._view.node_count, self._diagnosis())
        live: dict[str, IntColumn] = {}
        row = int(fit_rows[0])
        if len(fit_rows) > 1:
            live = self._score_live(fit_rows)
            if ranking is not None and not live:
                row = int(self._plan.rows[np.argmax(ranking.keys)])
            else:
                row = self._best_row(fits, live)
        name = self._view.name_of(row)
        detail = self._detail(live, scored=len(fit_rows) > 1) if search.detail else None
        return ScheduleResult(name, len(fit_rows), self._view.node_count, detail)

    # -- filtering ------------------------------------------------------------------------------

    def _judge_live(self) -> dict[str, Verdicts]:
        plan, state = self._plan, self._state
        skipped: tuple[str, ...] = ()
        for plugin in plan.live_pre_filters:
            result = guarded(plugin.pre_filter, state, self._pod, self._nodes)
            if result is SKIP:
                skipped = (*skipped, plugin.name)
            elif result is not None and not _is_plain(result):
                raise NotLocalError
        state.skip_filter_plugins = plan.skipping("filter", skipped)
        live: dict[str, Verdicts] = {}
        for filter_plugin in plan.live_filters:
            if filter_plugin.name not in skipped:
                verdicts = Verdicts(len(self._nodes))
                filter_plugin.judge(state, self._pod, self._nodes, verdicts)
                if len(verdicts.statuses) == 1:
                    continue  # It refuses nobody.
                if verdicts.first_error() is not None:
                    raise NotLocalError
                live[filter_plugin.name] = verdicts
        return live

    def _joined_fits(self) -> BoolColumn:
        fits = self._plan.fits
        for verdicts in self._live.values():
            fits &= verdicts.fits
        for verdicts in self._live_on_promised.values():
            fits[self._plan.promised.positions] &= verdicts.fits
        return fits

    def _diagnosis(self) -> Diagnosis:
        """Return every row's first refusal, in the order of the filters."""
        joined = joined_verdicts(
            self._plan, self._planner.parts.filters, self._live, self._live_on_promised
        )
        statuses = NodeToStatus(self._view)
        statuses.set_all(self._nodes.rows, joined)
        return Diagnosis(
            statuses,
            unschedulable_plugins=statuses.plugins(),
            pending_plugins=statuses.plugins(Code.PENDING),
        )

    # -- scoring --------------------------------------------------------------------------------

    def _score_live(self, fit_rows: Rows) -> dict[str, IntColumn]:
        """Return what each plugin that is asked anew adds to the fitting rows."""
        plan, state = self._plan, self._state
        fitting = self._view.nodes_at(fit_rows)
        skipped: tuple[str, ...] = ()
        for plugin in plan.live_pre_scores:
            status: Status | None = guarded(plugin.pre_score, state, self._pod, fitting)
            if status is SKIP:
                skipped = (*skipped, plugin.name)
            elif status is not None and not _is_plain(status):
                raise NotLocalError
        state.skip_score_plugins = plan.skipping("score", skipped)
        live: dict[str, IntColumn] = {}
        for score in plan.live_scores:
            if score.name not in skipped:
                weight = self._planner.parts.weights[score.name]
                added = normalized_and_weighted(score, weight, state, self._pod, fitting)
                if isinstance(added, Status):
                    raise NotLocalError
                live[score.name] = added
        return live

    def _best_row(self, fits: BoolColumn | None, live: dict[str, IntColumn]) -> int:
        """Return the best of the rows that fit; None stands for those that the ranking has."""
        plan, ranking = self._plan, self._ranking
        if fits is None:
            fits = plan.fits
        added = None if ranking is None else ranking.added
        if not isinstance(added, int):
            added = _sum_of_normalized(plan, fits)
        total = plan.plain_sum + added
        if live:
            more = np.sum(list(live.values()), axis=0)
            if len(more) == len(total):
                total += more
            else:
                total[fits] += more
        masked = np.where(fits, total, _NEVER)
        best = np.flatnonzero(masked == masked.max())
        if len(best) == 1:
            return int(plan.rows[best[0]])
        nth = _nth_fitting(plan, self._view, self._start, fits, best)
        return int(plan.rows[best[np.argmin(heap_order(nth))]])

    def _detail(self, live: dict[str, IntColumn], *, scored: bool) -> Detail:
        """Return what led to the choice, in visiting order."""
        fits = self._joined_fits()
        visiting = visiting_positions(self._plan, self._view, self._start)
        order = visiting[fits[visiting]]
        feasible = self._view.nodes_at(self._plan.rows[order])
        if not scored:
            return Detail(feasible, None, self._diagnosis())
        return Detail(feasible, self._scores(fits, live, order), self._diagnosis())

    def _scores(self, fits: BoolColumn, live: dict[str, IntColumn], order: Rows) -> Scores:
        nth = np.cumsum(fits)[order] - 1
        by_plugin: dict[str, IntColumn] = {}
        normalized = {s.plugin.name: column for s, column in self._plan.normalized(fits)}
        kept = {score.plugin.name: score for score in self._plan.scores}
        for plugin in self._planner.parts.scores:
            name = plugin.name
            if name in live:
                by_plugin[name] = live[name][nth]
            elif name in normalized:
                by_plugin[name] = np.broadcast_to(normalized[name], len(fits))[order]
            elif name in kept:
                by_plugin[name] = kept[name].raw[order].astype(np.int64) * kept[name].weight
        total = np.zeros(len(order), dtype=np.int64)
        for column in by_plugin.values():
            total += column
        return Scores(by_plugin, total)


def _is_plain(result: Status | PreFilterResult) -> bool:
    """Return whether a plugin that was asked has nothing to say against the pod as a whole."""
    # Skip with reasons of its own is rare, and the ordinary way knows what to do with it.
    return isinstance(result, Status) and result.is_success


def _ranking_of(
    plan: Plan, view: ClusterView, changed: Sequence[int] | None, start: int
) -> Ranking | None:
    if changed is None:
        return None
    ranking: Ranking | None = plan.ranking
    if ranking is None or ranking.version != plan.version or ranking.start != start:
        ranking = plan.ranking = Ranking(plan, view, start)
    else:
        ranking.update(plan, changed)
    return ranking
