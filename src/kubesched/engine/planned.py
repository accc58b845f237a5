"""The quick way through an attempt: kept verdicts for local plugins, the others asked anew.

Owns the ranking of rows under a plan. What it answers equals what the ordinary way would; where it
cannot answer it says so, and the ordinary way is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import NamedTuple, TypeAlias

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.engine.diagnosis import Diagnosis, FitError, SchedulingError
from kubesched.engine.sampling import nodes_to_ask
from kubesched.engine.search import Basis, Detail, ScheduleResult, Search
from kubesched.engine.selection import ORDER_BITS, TOTAL_MAX, as_keys, heap_preferences
from kubesched.framework.adapt import OneNodeFilter, asked
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.followers import Added, FilterFollower, Followers
from kubesched.framework.interface import AllReasons, FilterVerdict, PreFilterResult
from kubesched.framework.kept_columns import LocalScore
from kubesched.framework.named_rows import NamedRows
from kubesched.framework.plan import ROWS_BY_INTEGERS_MAX, Plan
from kubesched.framework.plan_frame import NotLocalError
from kubesched.framework.planner import Planner
from kubesched.framework.profile import Profile
from kubesched.framework.promised_rows import joined_verdicts, judge_promised, suppose_promised
from kubesched.framework.score_phase import Scores, normalized_and_weighted
from kubesched.framework.status import SKIP, Code, Status
from kubesched.framework.verdicts import FITS, NodeToStatus, Verdicts
from kubesched.model.pod_info import PodInfo

# Below any key, and so are sums of it and any total made a key.
_NEVER = -(1 << 62)
_ORDER_MASK = (1 << ORDER_BITS) - 1
# As an array: a few keys are made in half the time.
_SHIFT = np.array(ORDER_BITS)
# How many sets of rows that fit are kept of a plan; hard spread goes round among a few.
RANKINGS_MAX = 8
# Up to so many rows that begin or cease to fit are put in or taken out one by one.
ROWS_MOVED_MAX = 4
# Making keys costs as much as choosing several times without: only what comes again pays.
MEETINGS_MIN = 3

Masks: TypeAlias = "Sequence[BoolColumn]"
"""Columns of rows that are refused."""
Best: TypeAlias = "tuple[int, IntColumn, bool]"
"""The best row, the keys by which it is, and whether these are by the plan's positions."""


def schedule_planned(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult | None:
    """Choose a node by kept verdicts; None if they cannot answer for this attempt.

    Raises:
        FitError: No node fits.
        SchedulingError: A filter for one node failed.
    """
    planner = profile.planner
    if planner is None or pod.nominated_node_name or search.extender_count:
        return None
    if planner.total_max >= TOTAL_MAX:
        return None
    if view.pods.nominated_of and pod.uid in view.pods.index_of:
        return None  # It was promised a node itself, which is a matter of its own.
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
    except SchedulingError:
        measuring.failed(state)
        raise
    measuring.planned(state, result.evaluated_node_count, result.feasible_node_count)
    return result


def _schedule(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult:
    assert profile.planner is not None, "without one there are no plans"
    named_rows = profile.planner.named_rows
    if named_rows is not None and pod.shape.named_node:
        return _schedule_named(named_rows, profile, view, state, pod, search)
    plan, changed = profile.planner.plan_for(view, pod)
    if plan.promised is not None or view.pods.nominated_of:
        suppose_promised(plan, view, pod, profile.filters, changed)
    count = view.node_count
    start = 0 if search.all_nodes else search.next_start_index % count
    want = search.want(profile, count)
    # The changes are told once, so that they are taken over before anything can go wrong.
    if plan.rankings:
        _follow_changes(plan, changed if want >= count else None, start)
    state.adopt(plan.state)
    begun = _Begun(plan, start, want, count, changed is None)
    if plan.is_all_kept and not search.detail:
        ranking = _current_ranking(begun, view, None, ())
        if len(ranking.rows):
            if profile.measuring is not None:
                profile.measuring.filtered()
            search.next_start_index = (start + ranking.visited_count) % count
            row, keys, by_position = ranking.best_row()
            basis = Basis(plan, profile.planner.parts, ranking, start, keys, by_position)
            name, found = view.name_of(row), len(ranking.rows)
            return ScheduleResult(name, found, ranking.visited_count, None, basis)
    return _Attempt(profile, view, state, pod, begun).choose(search)


def _schedule_named(
    named_rows: NamedRows,
    profile: Profile,
    view: ClusterView,
    state: CycleState,
    pod: PodInfo,
    search: Search,
) -> ScheduleResult:
    """Choose the node that a pod names."""
    if search.detail or view.pods.nominated_of:
        raise NotLocalError
    template = named_rows.template_of(view, pod)
    row = template.row_of(view, pod)
    if profile.measuring is not None:
        profile.measuring.filtered()
    state.adopt(template.state)
    search.next_start_index = (search.next_start_index + 1) % view.node_count
    node = view.nodes_at(np.array((row,)))
    statuses = NodeToStatus(view, template.absent)
    diagnosis = Diagnosis(statuses, None, {template.named_by}, candidates=node.rows)
    return ScheduleResult(view.name_of(row), 1, 1, Detail(node, None, diagnosis))


class Ranking:
    """A plan's rows that fit, in visiting order, for as long as the same rows fit.

    Who is the best of them under kept plugins alone is told by a key per row, once that pays.
    """

    __slots__ = (
        "_added",
        "_base",
        "_fits",
        "_is_fixed",
        "_keys",
        "_moves",
        "_plan",
        "_preferences",
        "_raised",
        "_slots",
        "_start",
        "_version",
        "follower",
        "masks",
        "meetings",
        "narrowed",
        "normalized",
        "number",
        "positions",
        "rows",
        "visited_count",
    )
    normalized_by_position = True
    _fits: bytes
    """Which of the plan's rows these are; empty until it is wanted."""
    positions: Rows
    """Where the rows are in the plan."""
    rows: Rows

    def __init__(
        self,
        plan: Plan,
        view: ClusterView,
        start: int,
        narrowed: BoolColumn | None,
        masks: Masks | None,
    ) -> None:
        """Order the rows.

        Args:
            plan: with what is kept.
            view: of the cluster.
            start: the place in the visiting order where attempts begin.
            narrowed: the rows that fit; None for those that the plan has.
            masks: what they were narrowed by; None if by more than that.
        """
        self._plan = plan
        self._version = plan.version
        self._start = start
        self.narrowed = narrowed
        self.masks = masks

        def make() -> tuple[BoolColumn, bytes, Rows, Rows]:
            fits = plan.fits if narrowed is None else narrowed
            positions = _in_visiting_order(plan, view, start, fits)
            return fits, fits.tobytes(), positions, plan.rows_at(positions)

        # Most plans are refused nothing beside what many are refused together.
        self._is_fixed = narrowed is None and plan.moving_refusal_count == 0
        kept = plan.fixed.kept(("rows that fit", start), make) if self._is_fixed else make()
        fits, self._fits, self.positions, self.rows = kept
        self._preferences: IntColumn | None = None
        """What tells equals apart, by position."""
        if self._is_fixed:
            self._preferences = plan.fixed.kept(("preferences", start), self._prefer)
        self._added: IntColumn | None = None
        """What normalising plugins add, by position; None if it is the same for all."""
        self.normalized: list[tuple[LocalScore, IntColumn | int]] = plan.normalized(fits)
        for _, column in self.normalized:
            if not isinstance(column, int):
                self._added = column if self._added is None else self._added + column
        self._keys: IntColumn | None = None
        """By position, under kept plugins alone."""
        self._base: IntColumn | None = None
        """The same by place among the rows that fit, to which others add."""
        self._slots: Rows | None = None
        """Each position's place among the rows that fit, -1 if it does not."""
        self._raised: IntColumn | None = None
        """Totals without what tells equals apart, by place; there once rows came or went."""
        in_order = not start and _visiting_order(plan, view) is None
        self._moves = in_order and self._added is None and len(plan.rows) == view.row_count
        """Whether a row can be put in or taken out: where it is, so it is visited."""
        self.follower: FilterFollower | None = None
        """What they were narrowed by, if it was one filter that follows."""
        self.number = 0
        """Of its verdict."""
        self.meetings = 1
        """In how many attempts these were the rows that fit."""
        self.visited_count = view.node_count

    def is_current(self, start: int) -> bool:
        """Return whether nothing changed but what `update` takes over."""
        return self._version == self._plan.version and self._start == start

    def is_by(self, masks: Masks) -> bool:
        """Return whether the rows were narrowed by these very masks, which never change."""
        known = self.masks
        return known is not None and len(known) == len(masks) and all(map(is_, known, masks))

    def has_as_bytes(self, fits: bytes) -> bool:
        """Return whether these are the rows that fit."""
        if not self._fits and self.narrowed is not None:
            self._fits = self.narrowed.tobytes()
        return self._fits == fits

    def narrow_to(self, fits: BoolColumn, masks: Masks | None) -> bool:
        """Have other rows fit, if they differ in few; return whether that could be done."""
        if self.narrowed is None or not self._moves:
            return False
        differing = np.not_equal(fits, self.narrowed).nonzero()[0]
        if len(differing) > ROWS_MOVED_MAX:
            return False
        self.narrowed, self.masks, self.follower = fits, masks, None
        self._move(differing.tolist())
        return True

    def look_again(self, positions: list[int] | None, masks: Masks) -> bool:
        """Have other rows fit, which differ in some of these alone; return whether it was done."""
        narrowed = self.narrowed
        if positions is None or narrowed is None or not self._moves:
            return False
        if len(positions) > ROWS_MOVED_MAX:
            return False
        refusals, differing = self._plan.refusals, []
        # Several masks may have changed in one row.
        for position in dict.fromkeys(positions):
            fits = not refusals.item(position)
            for mask in masks:
                fits = fits and not mask.item(position)
            if fits != narrowed.item(position):
                narrowed[position] = fits
                differing.append(position)
        self.masks = masks
        self._move(differing)
        return True

    def _move(self, differing: list[int]) -> None:
        """Put in or take out rows, after which all others move up.

        Where hardly a row differs from attempt to attempt, that takes a third of the time of
        finding them anew.
        """
        narrowed, raised, positions = self.narrowed, self._raised, self.positions
        assert narrowed is not None, "who calls this knows"
        if raised is None:
            raised = self.totals()
            raised <<= ORDER_BITS
        for position in differing:
            place = int(positions.searchsorted(position))
            if narrowed.item(position):
                new, total = [position], [self._plan.plain_sum.item(position) << ORDER_BITS]
                positions = np.concatenate((positions[:place], new, positions[place:]))
                raised = np.concatenate((raised[:place], total, raised[place:]))
            else:
                positions = np.concatenate((positions[:place], positions[place + 1 :]))
                raised = np.concatenate((raised[:place], raised[place + 1 :]))
        self.positions = self.rows = positions
        self._raised, self._fits = raised, b""
        self._keys = self._preferences = self._base = self._slots = None
        self.meetings = 1

    def _prefer(self) -> IntColumn:
        preferences: IntColumn = np.full(len(self._plan.rows), _NEVER)
        preferences[self.positions] = heap_preferences(len(self.positions))
        return preferences

    def _place(self) -> Rows:
        slots: Rows = np.full(len(self._plan.rows), -1)
        slots[self.positions] = np.arange(len(self.positions))
        return slots

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
            if self._preferences is None:
                if self.meetings < MEETINGS_MIN:
                    keys = self.base()
                    return self.rows.item(keys.argmax()), keys, False
                self._preferences = self._prefer()
            keys = self._plan.plain_sum << ORDER_BITS
            if self._added is not None:
                keys += self._added << ORDER_BITS
            keys += self._preferences
            self._keys = keys
        return self._plan.rows.item(keys.argmax()), keys, True

    def base(self) -> IntColumn:
        """Return the keys of the rows under kept plugins alone, by place; not to be written."""
        base = self._base
        if base is None:
            raised = self._raised
            if raised is not None and self.meetings < MEETINGS_MIN:
                return raised + heap_preferences(len(raised))
            base = as_keys(self.totals())
            if self.meetings >= MEETINGS_MIN:
                self._base, self._raised = base, None
                fixed, key = self._plan.fixed, ("slots", self._start)
                self._slots = fixed.kept(key, self._place) if self._is_fixed else self._place()
        return base

    def update(self, positions: Sequence[int] | Rows) -> None:
        """Take over the new totals of some rows, none of which began or ceased to fit."""
        if self._keys is not None:
            self._update_keys(self._keys, positions)
        if self._base is not None:
            self._update_base(self._base, positions)
        if self._raised is not None:
            self._update_raised(self._raised, positions)

    def _update_keys(self, keys: IntColumn, positions: Sequence[int] | Rows) -> None:
        added, plain_sum, preferences = self._added, self._plan.plain_sum, self._preferences
        assert preferences is not None, "keys are made of them"
        if len(positions) > ROWS_BY_INTEGERS_MAX:
            where = np.asarray(positions)
            totals = plain_sum.take(where)
            if added is not None:
                totals += added.take(where)
            totals <<= _SHIFT
            totals += preferences.take(where)
            keys[where] = totals
            return
        for position in positions:
            total = plain_sum.item(position)
            if added is not None:
                total += added.item(position)
            keys[position] = (total << ORDER_BITS) + preferences.item(position)

    def _update_base(self, base: IntColumn, positions: Sequence[int] | Rows) -> None:
        added, plain_sum, slots = self._added, self._plan.plain_sum, self._slots
        assert slots is not None, "they are made together"
        if len(positions) > len(base) // 4:
            self._base = self._slots = None
            return
        if len(positions) > ROWS_BY_INTEGERS_MAX:
            where = np.asarray(positions)
            places = slots.take(where)
            fitting = places >= 0
            if np.count_nonzero(fitting) < len(places):
                where, places = where[fitting], places[fitting]
            totals = plain_sum.take(where)
            if added is not None:
                totals += added.take(where)
            totals <<= _SHIFT
            totals += heap_preferences(len(base)).take(places)
            base[places] = totals
            return
        for position in positions:
            place = slots.item(position)
            if place >= 0:
                total = plain_sum.item(position)
                if added is not None:
                    total += added.item(position)
                base[place] = (total << ORDER_BITS) | (base.item(place) & _ORDER_MASK)

    def _update_raised(self, raised: IntColumn, positions: Sequence[int] | Rows) -> None:
        if len(positions) > ROWS_MOVED_MAX:
            self._raised = None
            return
        for position in positions:
            place = int(self.positions.searchsorted(position))
            if place < len(raised) and self.positions.item(place) == position:
                raised[place] = self._plan.plain_sum.item(position) << ORDER_BITS


class Sample:
    """The first of a plan's rows that fit, as many as are wanted, in visiting order.

    The start moves on with every attempt, so that there is nothing to keep.
    """

    __slots__ = ("_plan", "narrowed", "normalized", "positions", "rows", "visited_count")
    normalized_by_position = False

    def __init__(self, begun: _Begun, view: ClusterView, narrowed: BoolColumn | None) -> None:
        plan, start, want, count, _ = begun
        self._plan = plan
        self.narrowed = narrowed
        order = _visiting_order(plan, view)
        places = _visited(plan.fits if narrowed is None else narrowed, order, start)[:want]
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

    def base(self) -> IntColumn:
        """Return the keys of the rows under kept plugins alone."""
        return as_keys(self.totals())


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
    """A plan that is up to date with its rankings, and how far to look from where."""

    plan: Plan
    start: int
    want: int
    """How many rows that fit are enough."""
    row_count: int
    """How many rows there are."""
    is_new: bool
    """Whether the plan was made for this attempt."""


class _Attempt:
    """One pod over a plan: what plugins said that are asked anew, joined with what is kept."""

    __slots__ = (
        "_follower",
        "_followers",
        "_live_on_promised",
        "_masks",
        "_measuring",
        "_nodes",
        "_one_by_one",
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
        plan = self._plan = begun.plan
        self._start = begun.start
        self._nodes: NodeTable | None = None
        self._measuring = profile.measuring
        self._said: dict[str, FilterVerdict | FilterFollower] = {}
        """What filters that are asked anew say of all rows."""
        self._masks: list[BoolColumn] = []
        """The rows that these refuse."""
        self._follower: FilterFollower | None = None
        """The one of them that was asked, if it was one and follows."""
        self._followers = _followers_of(begun, view, state)
        self._pre_filter_live()
        if self._measuring is not None:
            self._measuring.pre_filtered()
        self._live_on_promised: dict[str, Verdicts] = {}
        if plan.promised is not None:
            self._live_on_promised = judge_promised(plan, view, state, pod, profile.filters)
        self._one_by_one: Verdicts | None = None
        self._ask_filters()
        if self._planner.parts.one_node_filters:
            self._ranking: Ranking | Sample = self._ranking_one_by_one(begun, self._masks)
        elif self._said:
            self._ranking = self._ranking_by(begun, self._masks)
        else:
            self._ranking = _current_ranking(begun, view, None, ())
        if self._measuring is not None:
            self._measuring.filtered()

    def choose(self, search: Search) -> ScheduleResult:
        """Return the best row's node."""
        ranking = self._ranking
        rows = ranking.rows
        if len(rows) == 0:
            raise FitError(self._view.node_count, self._diagnosis())
        live: dict[str, Added] = {}
        row, keys, by_position = rows.item(0), None, False
        if len(rows) > 1:
            live = self._score_live(rows)
            row, keys, by_position = self._best_row(live) if live else ranking.best_row()
        name, visited = self._view.name_of(row), ranking.visited_count
        search.next_start_index = (self._start + visited) % len(self._plan.rows)
        detail = self._detail(live, scored=len(rows) > 1) if search.detail else None
        basis = Basis(
            self._plan,
            self._planner.parts,
            ranking,
            self._start,
            keys,
            by_position,
            live,
            ranking.narrowed,
            self._said,
            self._live_on_promised,
            self._one_by_one,
        )
        return ScheduleResult(name, len(rows), visited, detail, basis)

    def _whole(self) -> NodeTable:
        nodes = self._nodes
        if nodes is None:
            nodes = self._nodes = self._view.whole()
        return nodes

    # -- filtering ------------------------------------------------------------------------------

    def _pre_filter_live(self) -> None:
        plan, state, followers = self._plan, self._state, self._followers
        skipped = self._follow_filters() if followers.filters else ()
        for plugin in followers.pre_filters:
            call = plugin.pre_filter
            result = asked("PreFilter", plugin.name, call, state, self._pod, self._whole())
            if result is SKIP:
                skipped = (*skipped, plugin.name)
            elif result is not None and not _is_plain(result):
                raise NotLocalError
        state.skip_filter_plugins = plan.skipping("filter", skipped)

    def _follow_filters(self) -> tuple[str, ...]:
        """Have the verdicts of filters that follow; return those that are skipped."""
        view, state, skipped = self._view, self._state, tuple[str, ...]()
        try:
            for name, follower in self._followers.filters:
                said = follower.follow(view)
                if said is follower:
                    state.write(follower.key, follower.value)
                    self._said[name] = self._follower = follower
                    self._masks += follower.masks
                elif said is None:
                    raise self._outdated()
                else:
                    skipped = (*skipped, name)
        except Exception as problem:
            raise _not_local(problem) from problem
        if len(self._said) != 1 or self._followers.live_filters:
            self._follower = None
        return skipped

    def _outdated(self) -> NotLocalError:
        """Have new followers made in the next attempt."""
        self._plan.followers = None
        return NotLocalError()

    def _ask_filters(self) -> None:
        skipped = self._state.skip_filter_plugins
        for plugin in self._followers.live_filters:
            if plugin.name not in skipped:
                said = plugin.ask(self._state, self._pod, self._whole())
                self._said[plugin.name] = said
                for rejected in said.rejections if isinstance(said, AllReasons) else said:
                    if not rejected.status.is_rejected:
                        raise NotLocalError
                    self._masks.append(rejected.mask)

    def _ranking_by(self, begun: _Begun, masks: list[BoolColumn]) -> Ranking | Sample:
        """Return the rows that fit and are in none of the masks."""
        follower = self._follower
        if follower is None or self._live_on_promised or begun.want < begun.row_count:
            return self._ranking_anew(begun, masks)
        rankings: list[Ranking] = self._plan.rankings
        latest = rankings[-1] if rankings else None
        if latest is not None and latest.follower is follower:
            ahead = follower.number - latest.number
            if ahead == 0:
                latest.meetings += 1
                return latest
            if ahead == 1 and latest.look_again(follower.moved, masks):
                latest.number = follower.number
                return latest
        ranking = self._ranking_anew(begun, masks)
        assert isinstance(ranking, Ranking), "all rows were wanted"
        ranking.follower, ranking.number = follower, follower.number
        return ranking

    def _ranking_anew(self, begun: _Begun, masks: list[BoolColumn]) -> Ranking | Sample:
        plan, promised = self._plan, self._live_on_promised
        # A mask that nobody can write is the same whenever it comes again.
        are_lasting = not promised and not any(map(_is_writeable, masks))
        if are_lasting and begun.want >= begun.row_count:
            for known in plan.rankings:
                if known.is_by(masks):
                    known.meetings += 1
                    return _used(plan, known)
        fits = plan.fits
        for mask in masks:
            # What fits and is not in the mask is greater than the mask.
            np.greater(fits, mask, out=fits)
        for verdicts in promised.values():
            fits[plan.promised.positions] &= verdicts.fits
        return _current_ranking(begun, self._view, fits, masks if are_lasting else None)

    def _ranking_one_by_one(self, begun: _Begun, masks: list[BoolColumn]) -> Ranking | Sample:
        """Return the rows that fit and are in none of the masks, nor refused one by one."""
        plan, filters = self._plan, self._planner.parts.one_node_filters
        fits = plan.fits
        for mask in masks:
            np.greater(fits, mask, out=fits)
        order = _in_visiting_order(plan, self._view, begun.start, fits)
        skipped = self._state.skip_filter_plugins
        asked = [plugin for plugin in filters if plugin.name not in skipped]
        said = judged_in_turn(asked, self._state, self._pod, self._whole(), order, begun.want)
        failure = said.first_error()
        if failure is not None:
            # A row after the last one wanted was never visited.
            standing = said.fits.take(order).nonzero()[0]
            enough = len(standing) >= begun.want
            visited = order[: standing.item(begun.want - 1)] if enough else order
            failure = said.at(visited).first_error()
        if failure is not None:
            raise SchedulingError(failure.message)
        self._one_by_one = said
        return _current_ranking(begun, self._view, fits & said.fits, None)

    def _diagnosis(self) -> Diagnosis:
        """Return every row's first refusal, in the order of the filters."""
        statuses = self._statuses()
        return Diagnosis(
            statuses,
            unschedulable_plugins=statuses.plugins(),
            pending_plugins=statuses.plugins(Code.PENDING),
        )

    def _statuses(self) -> NodeToStatus:
        plan = self._plan
        is_visited = self._ranking.visited_count == len(plan.rows)
        if not is_visited or not plan.is_all_kept or plan.promised is not None:
            return self._statuses_anew()
        known = plan.refused
        if known is None or known[0] != plan.seen:
            known = plan.refused = (plan.seen, self._statuses_anew())
        return known[1]

    def _statuses_anew(self) -> NodeToStatus:
        live: dict[str, Verdicts] = {}
        for plugin in self._plan.live_filters:
            if plugin.name not in self._state.skip_filter_plugins:
                verdicts = live[plugin.name] = Verdicts(len(self._whole()))
                plugin.judge(self._state, self._pod, self._whole(), verdicts)
        joined = joined_verdicts(
            self._plan, self._planner.parts.filters, live, self._live_on_promised
        )
        if self._one_by_one is not None:
            standing = joined.fits.nonzero()[0]
            joined.override(standing, self._one_by_one.at(standing))
        statuses = NodeToStatus(self._view)
        visited = self._visited_positions()
        if visited is None:
            statuses.set_all(self._plan.rows, joined)
        else:
            statuses.set_all(self._plan.rows_at(visited), joined.at(visited))
        return statuses

    def _visited_positions(self) -> Rows | None:
        """Return the plan's positions that were looked at; None for all."""
        visited = self._ranking.visited_count
        if visited == len(self._plan.rows):
            return None
        return visited_positions(self._plan, self._view, self._start, visited)

    # -- scoring --------------------------------------------------------------------------------

    def _score_live(self, fit_rows: Rows) -> dict[str, Added]:
        """Return what each plugin that is asked anew adds to the fitting rows."""
        followers, live = self._followers, dict[str, Added]()
        skipped = self._pre_score_live(fit_rows) if followers.pre_scores else ()
        if self._measuring is not None and self._plan.live_pre_scores:
            self._measuring.pre_scored()
        weights = self._planner.parts.weights
        if followers.scores:
            skipped += self._follow_scores(fit_rows, live)
        for score in followers.live_scores:
            if score.name not in skipped:
                fitting, weight = self._view.nodes_at(fit_rows), weights[score.name]
                added = normalized_and_weighted(score, weight, self._state, self._pod, fitting)
                if isinstance(added, Status):
                    raise NotLocalError
                live[score.name] = Added(added)
        self._state.skip_score_plugins = self._plan.skipping("score", skipped)
        return live

    def _pre_score_live(self, fit_rows: Rows) -> tuple[str, ...]:
        """Have plugins prepare that do not follow; return those that are skipped."""
        fitting, skipped = self._view.nodes_at(fit_rows), tuple[str, ...]()
        for plugin in self._followers.pre_scores:
            call = plugin.pre_score
            status = asked("PreScore", plugin.name, call, self._state, self._pod, fitting)
            if status is SKIP:
                skipped = (*skipped, plugin.name)
            elif status is not None and not _is_plain(status):
                raise NotLocalError
        return skipped

    def _follow_scores(self, fit_rows: Rows, live: dict[str, Added]) -> tuple[str, ...]:
        """Have the scores of plugins that follow; return those that are skipped."""
        weights, skipped = self._planner.parts.weights, tuple[str, ...]()
        try:
            for name, follower in self._followers.scores:
                said = follower.follow(self._view, fit_rows)
                if said is SKIP:
                    skipped = (*skipped, name)
                elif isinstance(said, Added):
                    self._state.write(follower.key, follower.value)
                    weight = weights[name]
                    live[name] = said if weight == 1 else Added(said.amounts * weight, said.ways)
                else:
                    raise self._outdated()
        except Exception as problem:
            raise _not_local(problem) from problem
        return skipped

    def _best_row(self, live: dict[str, Added]) -> Best:
        """Return the best of the rows that fit."""
        keys = self._ranking.base()
        for amounts, ways in live.values():
            shifted = amounts << ORDER_BITS
            if ways is not None:
                shifted = shifted.take(ways)
            keys = np.add(keys, shifted, out=shifted)
        return self._ranking.rows.item(keys.argmax()), keys, False

    def _detail(self, live: dict[str, Added], *, scored: bool) -> Detail:
        """Return what led to the choice, in visiting order."""
        feasible = self._view.nodes_at(self._ranking.rows)
        return Detail(feasible, self._scores(live) if scored else None, self._diagnosis())

    def _scores(self, live: dict[str, Added]) -> Scores:
        plan, positions = self._plan, self._ranking.positions
        fits = np.zeros(len(plan.rows), dtype=np.bool_)
        fits[positions] = True
        by_plugin: dict[str, IntColumn] = {}
        normalized = {score.plugin.name: column for score, column in plan.normalized(fits)}
        kept = {score.plugin.name: score for score in plan.scores}
        for plugin in self._planner.parts.scores:
            name = plugin.name
            if name in live:
                by_plugin[name] = live[name].column()
            elif name in normalized:
                by_plugin[name] = np.broadcast_to(normalized[name], len(fits))[positions]
            elif name in kept:
                by_plugin[name] = kept[name].raw[positions].astype(np.int64) * kept[name].weight
        total = np.zeros(len(positions), dtype=np.int64)
        for column in by_plugin.values():
            total += column
        return Scores(by_plugin, total)


def judged_in_turn(
    filters: Sequence[OneNodeFilter],
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    order: Rows,
    want: int,
) -> Verdicts:
    """Return what filters for one node say of nodes that no other filter refuses.

    Args:
        filters: in their order.
        state: of the attempt.
        pod: to be placed.
        nodes: all nodes.
        order: the positions of those to ask about, in visiting order.
        want: after so many that fit no more is asked.
    """
    verdicts, done, found = Verdicts(len(nodes)), 0, 0
    while done < len(order) and found < want:
        part = order[done : done + nodes_to_ask(want, done, found)]
        done += len(part)
        for plugin in filters:
            plugin.judge_at(state, pod, nodes, part, verdicts)
            part = part[verdicts.ids.take(part) == FITS]
        found += len(part)
    return verdicts


def _followers_of(begun: _Begun, view: ClusterView, state: CycleState) -> Followers:
    """Return how the plugins are asked that have to be asked anew."""
    plan = begun.plan
    # Following pays from the second attempt on; calls that are measured are made one by one.
    if begun.is_new or state.plugin_times is not None:
        return Followers(plan, None)
    found: Followers | None = plan.followers
    if found is None:
        try:
            found = plan.followers = Followers(plan, view)
        except Exception as problem:
            raise _not_local(problem) from problem
    return found


def _not_local(problem: Exception) -> NotLocalError:
    """Have the ordinary way be gone, which asks again and tells what went wrong."""
    return problem if isinstance(problem, NotLocalError) else NotLocalError()


def _is_writeable(mask: BoolColumn) -> bool:
    return mask.flags.writeable


def _is_plain(result: Status | PreFilterResult) -> bool:
    """Return whether a plugin that was asked has nothing to say against the pod as a whole."""
    # Skip with reasons of its own is rare, and the ordinary way knows what to do with it.
    return isinstance(result, Status) and result.is_success


def _current_ranking(
    begun: _Begun, view: ClusterView, narrowed: BoolColumn | None, masks: Masks | None
) -> Ranking | Sample:
    """Return the rows that no filter refuses, those included that are asked anew."""
    plan, start, want, count, _ = begun
    if want < count:
        return Sample(begun, view, narrowed)
    rankings: list[Ranking] = plan.rankings
    # Bytes compare ten times as fast as columns.
    fits = None if narrowed is None else narrowed.tobytes()
    for known in rankings:
        if known.narrowed is None if fits is None else known.has_as_bytes(fits):
            known.meetings += 1
            known.masks = masks
            return _used(plan, known)
    if rankings and narrowed is not None and rankings[-1].narrow_to(narrowed, masks):
        return rankings[-1]
    ranking = Ranking(plan, view, start, narrowed, masks)
    if len(rankings) > 1 and rankings[-1].meetings == 1:
        rankings.pop()  # Rows that fitted once only are hardly those of a later attempt.
    elif len(rankings) == RANKINGS_MAX:
        del rankings[0]
    rankings.append(ranking)
    return ranking


def _used(plan: Plan, ranking: Ranking) -> Ranking:
    """Have a ranking stand last, as the one that goes last."""
    rankings = plan.rankings
    if rankings[-1] is not ranking:
        rankings.remove(ranking)
        rankings.append(ranking)
    return ranking


def _follow_changes(plan: Plan, changed: Sequence[int] | Rows | None, start: int) -> None:
    """Have the rankings as they are now, and drop those that are of no use."""
    rankings: list[Ranking] = plan.rankings
    if changed is None:
        rankings.clear()
        return
    outdated = False
    for ranking in rankings:
        if ranking.is_current(start):
            ranking.update(changed)
        else:
            outdated = True
    if outdated:
        rankings[:] = [ranking for ranking in rankings if ranking.is_current(start)]
