"""The rows that fit, in the order in which they are visited, and which of them is best.

Owns the rankings of a plan: how long they are kept, how they follow what changes, and the sample of
rows that is enough where not all are wanted. Never asks a plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import NamedTuple, TypeAlias

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.selection import ORDER_BITS, as_keys, heap_preferences
from kubesched.framework.followers import FilterFollower
from kubesched.framework.kept_columns import LocalScore
from kubesched.framework.plan import ROWS_BY_INTEGERS_MAX, Plan

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
            positions = in_visiting_order(plan, view, start, fits)
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

    def __init__(self, begun: Begun, view: ClusterView, narrowed: BoolColumn | None) -> None:
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


def in_visiting_order(plan: Plan, view: ClusterView, start: int, fits: BoolColumn) -> Rows:
    """Return the positions that fit in visiting order, from the rotating start."""
    order = _visiting_order(plan, view)
    places = _visited(fits, order, start)
    return places if order is None else order.take(places)


class Begun(NamedTuple):
    """A plan that is up to date with its rankings, and how far to look from where."""

    plan: Plan
    start: int
    want: int
    """How many rows that fit are enough."""
    row_count: int
    """How many rows there are."""
    is_new: bool
    """Whether the plan was made for this attempt."""


def current_ranking(
    begun: Begun, view: ClusterView, narrowed: BoolColumn | None, masks: Masks | None
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
            return used_last(plan, known)
    if rankings and narrowed is not None and rankings[-1].narrow_to(narrowed, masks):
        return rankings[-1]
    ranking = Ranking(plan, view, start, narrowed, masks)
    if len(rankings) > 1 and rankings[-1].meetings == 1:
        rankings.pop()  # Rows that fitted once only are hardly those of a later attempt.
    elif len(rankings) == RANKINGS_MAX:
        del rankings[0]
    rankings.append(ranking)
    return ranking


def used_last(plan: Plan, ranking: Ranking) -> Ranking:
    """Have a ranking stand last, as the one that goes last."""
    rankings = plan.rankings
    if rankings[-1] is not ranking:
        rankings.remove(ranking)
        rankings.append(ranking)
    return ranking


def follow_changes(plan: Plan, changed: Sequence[int] | Rows | None, start: int) -> None:
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
