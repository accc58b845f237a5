"""The quick way through an attempt: kept verdicts for local plugins, the others asked anew.

Owns the ranking of rows under a plan. What it answers equals what the ordinary way would; where it
cannot answer it says so, and the ordinary way is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.engine.diagnosis import Diagnosis, FitError
from kubesched.engine.search import Basis, Detail, ScheduleResult, Search
from kubesched.engine.selection import ORDER_BITS, TOTAL_MAX, as_keys
from kubesched.framework.adapt import asked
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import FilterVerdict, PreFilterResult
from kubesched.framework.kept_columns import LocalScore
from kubesched.framework.plan import ROWS_BY_INTEGERS_MAX, NotLocalError, Plan
from kubesched.framework.planner import Planner
from kubesched.framework.profile import Profile
from kubesched.framework.promised_rows import joined_verdicts, judge_promised, suppose_promised
from kubesched.framework.score_phase import Scores, normalized_and_weighted
from kubesched.framework.status import SKIP, Code, Status
from kubesched.framework.verdicts import NodeToStatus, Verdicts
from kubesched.model.pod_info import PodInfo

_NEVER = np.iinfo(np.int64).min
_ORDER_MASK = (1 << ORDER_BITS) - 1
# Making keys costs as much as choosing several times without: only what comes again pays.
MEETINGS_MIN = 3

Best: TypeAlias = "tuple[int, IntColumn, bool]"
"""The best row, the keys by which it is, and whether these are by the plan's positions."""


def schedule_planned(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult | None:
    """Choose a node by kept verdicts; None if they cannot answer for this attempt.

    Raises:
        FitError: No node fits.
    """
    if profile.planner is None or pod.nominated_node_name:
        return None
    if profile.planner.total_max >= TOTAL_MAX:
        return None
    if view.pods.nominated_of and pod.uid in view.pods.index_of:
        return None  # It was promised a node itself, which is a matter of its own.
    if search.extender_count:
        return None
    schedule = _schedule if profile.measuring is None else _schedule_measured
    try:
        return schedule(profile, view, state, pod, search)
    except NotLocalError:
        state.clear()
        return None


def _schedule_measured(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult:
    measuring = profile.measuring
    assert measuring is not None, "who calls this knows"
    measuring.begin()
    try:
        result = _schedule(profile, view, state, pod, search)
    except FitError:
        measuring.planned(state, view.node_count, 0)
        raise
    measuring.planned(state, result.evaluated_node_count, result.feasible_node_count)
    return result


def _schedule(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult:
    assert profile.planner is not None, "without one there are no plans"
    plan, changed = profile.planner.plan_for(view, pod)
    if plan.promised is not None or view.pods.nominated_of:
        suppose_promised(plan, view, pod, profile.filters, changed)
    count = view.node_count
    start = 0 if search.all_nodes else search.next_start_index % count
    want = search.want(profile, count)
    # The changes are told once, so that they are taken over before anything can go wrong.
    kept = _kept_ranking(plan, changed if want >= count else None, start)
    state.adopt(plan.state)
    begun = _Begun(plan, kept, start, want)
    if plan.is_all_kept and not search.detail:
        ranking = _current_ranking(begun, view, None)
        if len(ranking.rows):
            if profile.measuring is not None:
                profile.measuring.filtered()
            search.next_start_index = (start + ranking.visited_count) % count
            row, keys, by_position = ranking.best_row()
            basis = Basis(plan, profile.planner.parts, ranking, start, keys, by_position)
            name, found = view.name_of(row), len(ranking.rows)
            return ScheduleResult(name, found, ranking.visited_count, None, basis)
    return _Attempt(profile, view, state, pod, begun).choose(search)


class Ranking:
    """A plan's rows that fit, in visiting order, for as long as the same rows fit.

    Who is the best of them under kept plugins alone is told by a key per row, once that pays.
    """

    __slots__ = (
        "_added",
        "_fits",
        "_is_narrowed",
        "_keys",
        "_plan",
        "_start",
        "_version",
        "meetings",
        "normalized",
        "positions",
        "rows",
        "visited_count",
    )
    normalized_by_position = True
    positions: Rows
    """Where the rows are in the plan."""
    rows: Rows

    def __init__(
        self, plan: Plan, view: ClusterView, start: int, narrowed: BoolColumn | None
    ) -> None:
        """Order the rows.

        Args:
            plan: with what is kept.
            view: of the cluster.
            start: the place in the visiting order where attempts begin.
            narrowed: the rows that fit; None for those that the plan has.
        """
        self._plan = plan
        self._version = plan.version
        self._start = start
        self._is_narrowed = narrowed is not None
        fits = plan.fits if narrowed is None else narrowed

        def make() -> tuple[bytes, Rows, Rows]:
            positions = _in_visiting_order(plan, view, start, fits)
            return fits.tobytes(), positions, plan.rows_at(positions)

        # Most plans are refused nothing beside what many are refused together.
        is_fixed = narrowed is None and plan.moving_refusal_count == 0
        kept = plan.fixed.kept(("rows that fit", start), make) if is_fixed else make()
        self._fits, self.positions, self.rows = kept
        self._added: IntColumn | None = None
        """What normalising plugins add, by position; None if it is the same for all."""
        self.normalized: list[tuple[LocalScore, IntColumn | int]] = plan.normalized(fits)
        for _, column in self.normalized:
            if not isinstance(column, int):
                self._added = column if self._added is None else self._added + column
        self._keys: IntColumn | None = None
        self.meetings = 1
        """In how many attempts these were the rows that fit."""
        self.visited_count = view.node_count

    def is_current(self, start: int) -> bool:
        """Return whether nothing changed but what `update` takes over."""
        return self._version == self._plan.version and self._start == start

    def is_of(self, narrowed: BoolColumn | None) -> bool:
        """Return whether these are the rows that fit; None stands for those of the plan."""
        if narrowed is None and not self._is_narrowed:
            return True
        # Bytes compare ten times as fast as columns.
        return self._fits == (self._plan.fits if narrowed is None else narrowed).tobytes()

    def totals(self) -> IntColumn:
        """Return what kept plugins give to each of the rows, but for what they give to all."""
        totals: IntColumn = self._plan.plain_sum.take(self.positions)
        if self._added is not None:
            totals += self._added.take(self.positions)
        return totals

    def best_row(self) -> Best:
        """Return the row that is best under kept plugins alone."""
        keys = self._keys
        if keys is None:
            if self.meetings < MEETINGS_MIN:
                return _best_of(self.rows, self.totals())
            keys = self._keys = np.full(len(self._plan.rows), _NEVER)
            keys[self.positions] = as_keys(self.totals())
        return self._plan.rows.item(keys.argmax()), keys, True

    def update(self, positions: Sequence[int] | Rows) -> None:
        """Take over the new totals of some rows, none of which began or ceased to fit."""
        keys, added, plain_sum = self._keys, self._added, self._plan.plain_sum
        if keys is None:
            return
        if len(positions) > ROWS_BY_INTEGERS_MAX:
            where = np.asarray(positions)
            where = where[keys[where] != _NEVER]
            total = plain_sum[where] if added is None else plain_sum[where] + added[where]
            keys[where] = (total << ORDER_BITS) | (keys[where] & _ORDER_MASK)
            return
        for position in positions:
            key = keys.item(position)
            if key != _NEVER:
                more = 0 if added is None else added.item(position)
                moved = (plain_sum.item(position) + more) << ORDER_BITS
                keys[position] = moved | (key & _ORDER_MASK)


class Sample:
    """The first of a plan's rows that fit, as many as are wanted, in visiting order.

    The start moves on with every attempt, so that there is nothing to keep.
    """

    __slots__ = ("_plan", "normalized", "positions", "rows", "visited_count")
    normalized_by_position = False

    def __init__(self, begun: _Begun, view: ClusterView, narrowed: BoolColumn | None) -> None:
        plan, start, want = begun.plan, begun.start, begun.want
        self._plan = plan
        order = _visiting_order(plan, view)
        places = _visited(plan.fits if narrowed is None else narrowed, order, start)[:want]
        count = view.node_count
        self.visited_count = (places.item(-1) - start) % count + 1 if len(places) == want else count
        """How many rows were looked at."""
        self.positions: Rows = places if order is None else order.take(places)
        self.rows: Rows = plan.rows_at(self.positions)
        self.normalized: list[tuple[LocalScore, IntColumn | int]] = []
        """What normalising plugins add, once the totals were wanted."""

    def totals(self) -> IntColumn:
        """Return what kept plugins give to each of the rows, but for what they give to all."""
        totals: IntColumn = self._plan.plain_sum.take(self.positions)
        self.normalized = list(self._plan.normalized_at(self.positions))
        for _, added in self.normalized:
            totals += added
        return totals

    def best_row(self) -> Best:
        """Return the row that is best under kept plugins alone."""
        return _best_of(self.rows, self.totals())


def _best_of(rows: Rows, totals: IntColumn) -> Best:
    """Return the best of the rows by their totals, which are overwritten."""
    keys = as_keys(totals)
    return rows.item(keys.argmax()), keys, False


def visited_positions(plan: Plan, view: ClusterView, start: int, count: int) -> Rows:
    """Return the plan's positions of the first so many rows from the rotating start."""
    order = _visiting_order(plan, view)
    places: Rows = np.arange(start, start + count)
    if start + count > len(plan.rows):
        places[len(plan.rows) - start :] -= len(plan.rows)
    return places if order is None else order.take(places)


def _visiting_order(plan: Plan, view: ClusterView) -> Rows | None:
    """Return the plan's positions in visiting order; None if that is their own."""

    def make() -> tuple[Rows | None]:
        order = np.argsort(view.rank()[plan.rows], kind="stable")
        return (None if (order[1:] > order[:-1]).all() else order,)

    return plan.shared_by_nodes("visiting order", make)[0]


def _visited(fits: BoolColumn, order: Rows | None, start: int) -> Rows:
    """Return the places in visiting order that fit, from the rotating start."""
    places: Rows = (fits if order is None else fits.take(order)).nonzero()[0]
    if start:
        cut = int(np.searchsorted(places, start))
        places = np.concatenate((places[cut:], places[:cut]))
    return places


def _in_visiting_order(plan: Plan, view: ClusterView, start: int, fits: BoolColumn) -> Rows:
    """Return the positions that fit in visiting order, from the rotating start."""
    order = _visiting_order(plan, view)
    places = _visited(fits, order, start)
    return places if order is None else order.take(places)


class _Begun(NamedTuple):
    """A plan that is up to date, the ranking of its last attempt if that still holds, how far."""

    plan: Plan
    kept: Ranking | None
    start: int
    want: int
    """How many rows that fit are enough."""


class _Attempt:
    """One pod over a plan: what plugins said that are asked anew, joined with what is kept."""

    __slots__ = (
        "_live_on_promised",
        "_measuring",
        "_narrowed",
        "_nodes",
        "_plan",
        "_planner",
        "_pod",
        "_ranking",
        "_said",
        "_start",
        "_state",
        "_view",
    )

    def __init__(
        self, profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, begun: _Begun
    ) -> None:
        assert profile.planner is not None, "without one there are no plans"
        self._planner: Planner = profile.planner
        self._view = view
        self._state = state
        self._pod = pod
        self._plan, self._start = begun.plan, begun.start
        self._nodes: NodeTable = view.whole()
        self._measuring = profile.measuring
        self._pre_filter_live()
        if self._measuring is not None:
            self._measuring.pre_filtered()
        self._live_on_promised = judge_promised(self._plan, view, state, pod, profile.filters)
        self._said: dict[str, FilterVerdict] = {}
        self._narrowed = self._narrow()
        self._ranking = _current_ranking(begun, view, self._narrowed)
        if self._measuring is not None:
            self._measuring.filtered()

    def choose(self, search: Search) -> ScheduleResult:
        """Return the best row's node."""
        ranking = self._ranking
        rows = ranking.rows
        if len(rows) == 0:
            raise FitError(self._view.node_count, self._diagnosis())
        live: dict[str, IntColumn] = {}
        row, keys, by_position = rows.item(0), None, False
        if len(rows) > 1:
            live = self._score_live(rows)
            row, keys, by_position = self._best_row(live) if live else ranking.best_row()
        name, visited = self._view.name_of(row), ranking.visited_count
        search.next_start_index = (self._start + visited) % self._view.node_count
        detail = self._detail(live, scored=len(rows) > 1) if search.detail else None
        basis = Basis(
            self._plan,
            self._planner.parts,
            ranking,
            self._start,
            keys,
            by_position,
            live,
            self._narrowed,
            self._said,
            self._live_on_promised,
        )
        return ScheduleResult(name, len(rows), visited, detail, basis)

    # -- filtering ------------------------------------------------------------------------------

    def _pre_filter_live(self) -> None:
        plan, state = self._plan, self._state
        skipped: tuple[str, ...] = ()
        for plugin in plan.live_pre_filters:
            call = plugin.pre_filter
            result = asked("PreFilter", plugin.name, call, state, self._pod, self._nodes)
            if result is SKIP:
                skipped = (*skipped, plugin.name)
            elif result is not None and not _is_plain(result):
                raise NotLocalError
        state.skip_filter_plugins = plan.skipping("filter", skipped)

    def _narrow(self) -> BoolColumn | None:
        """Return the rows that fit if some filter was asked anew."""
        plan, skipped = self._plan, self._state.skip_filter_plugins
        asked = [p for p in plan.live_filters if p.name not in skipped]
        if not asked:
            return None
        fits = plan.fits
        for plugin in asked:
            if not plugin.narrow(self._state, self._pod, self._nodes, fits):
                raise NotLocalError
            self._said[plugin.name] = plugin.said
        for verdicts in self._live_on_promised.values():
            fits[plan.promised.positions] &= verdicts.fits
        return fits

    def _diagnosis(self) -> Diagnosis:
        """Return every row's first refusal, in the order of the filters."""
        live: dict[str, Verdicts] = {}
        for plugin in self._plan.live_filters:
            if plugin.name not in self._state.skip_filter_plugins:
                verdicts = live[plugin.name] = Verdicts(len(self._nodes))
                plugin.judge(self._state, self._pod, self._nodes, verdicts)
        joined = joined_verdicts(
            self._plan, self._planner.parts.filters, live, self._live_on_promised
        )
        statuses = NodeToStatus(self._view)
        visited = self._visited_positions()
        if visited is None:
            statuses.set_all(self._nodes.rows, joined)
        else:
            statuses.set_all(self._plan.rows_at(visited), joined.at(visited))
        return Diagnosis(
            statuses,
            unschedulable_plugins=statuses.plugins(),
            pending_plugins=statuses.plugins(Code.PENDING),
        )

    def _visited_positions(self) -> Rows | None:
        """Return the plan's positions that were looked at; None for all."""
        visited = self._ranking.visited_count
        if visited == len(self._plan.rows):
            return None
        return visited_positions(self._plan, self._view, self._start, visited)

    # -- scoring --------------------------------------------------------------------------------

    def _score_live(self, fit_rows: Rows) -> dict[str, IntColumn]:
        """Return what each plugin that is asked anew adds to the fitting rows."""
        plan, state = self._plan, self._state
        if not plan.live_pre_scores and not plan.live_scores:
            return {}
        fitting = self._view.nodes_at(fit_rows)
        skipped: tuple[str, ...] = ()
        for plugin in plan.live_pre_scores:
            call = plugin.pre_score
            status = asked("PreScore", plugin.name, call, state, self._pod, fitting)
            if status is SKIP:
                skipped = (*skipped, plugin.name)
            elif status is not None and not _is_plain(status):
                raise NotLocalError
        state.skip_score_plugins = plan.skipping("score", skipped)
        if self._measuring is not None:
            self._measuring.pre_scored()
        live: dict[str, IntColumn] = {}
        for score in plan.live_scores:
            if score.name not in skipped:
                weight = self._planner.parts.weights[score.name]
                added = normalized_and_weighted(score, weight, state, self._pod, fitting)
                if isinstance(added, Status):
                    raise NotLocalError
                live[score.name] = added
        return live

    def _best_row(self, live: dict[str, IntColumn]) -> Best:
        """Return the best of the rows that fit."""
        totals = self._ranking.totals()
        for added in live.values():
            totals += added
        return _best_of(self._ranking.rows, totals)

    def _detail(self, live: dict[str, IntColumn], *, scored: bool) -> Detail:
        """Return what led to the choice, in visiting order."""
        feasible = self._view.nodes_at(self._ranking.rows)
        return Detail(feasible, self._scores(live) if scored else None, self._diagnosis())

    def _scores(self, live: dict[str, IntColumn]) -> Scores:
        plan, positions = self._plan, self._ranking.positions
        fits = np.zeros(len(plan.rows), dtype=np.bool_)
        fits[positions] = True
        by_plugin: dict[str, IntColumn] = {}
        normalized = {score.plugin.name: column for score, column in plan.normalized(fits)}
        kept = {score.plugin.name: score for score in plan.scores}
        for plugin in self._planner.parts.scores:
            name = plugin.name
            if name in live:
                by_plugin[name] = live[name]
            elif name in normalized:
                by_plugin[name] = np.broadcast_to(normalized[name], len(fits))[positions]
            elif name in kept:
                by_plugin[name] = kept[name].raw[positions].astype(np.int64) * kept[name].weight
        total = np.zeros(len(positions), dtype=np.int64)
        for column in by_plugin.values():
            total += column
        return Scores(by_plugin, total)


def _is_plain(result: Status | PreFilterResult) -> bool:
    """Return whether a plugin that was asked has nothing to say against the pod as a whole."""
    # Skip with reasons of its own is rare, and the ordinary way knows what to do with it.
    return isinstance(result, Status) and result.is_success


def _current_ranking(
    begun: _Begun, view: ClusterView, narrowed: BoolColumn | None
) -> Ranking | Sample:
    """Return the rows that no filter refuses, those included that are asked anew."""
    plan, kept, start, want = begun
    if want < view.node_count:
        return Sample(begun, view, narrowed)
    if kept is not None and kept.is_of(narrowed):
        kept.meetings += 1
        return kept
    ranking = plan.ranking = Ranking(plan, view, start, narrowed)
    return ranking


def _kept_ranking(plan: Plan, changed: Sequence[int] | Rows | None, start: int) -> Ranking | None:
    """Return the ranking of the last attempt as it is now, None if it is of no use."""
    ranking: Ranking | None = plan.ranking
    if ranking is None or changed is None or not ranking.is_current(start):
        plan.ranking = None
        return None
    ranking.update(changed)
    return ranking
