"""The rows that fit, in the order in which they are visited, and which of them is best.

Owns the rankings of a plan: how long they are kept, how they follow what changes, and the sample of
rows that is enough where not all are wanted. Never asks a plugin.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import is_
from typing import TypeAlias

import msgspec
import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.moving_rows import MovingRows
from kubesched.engine.placed_keys import PlacedKeys, summed_keys
from kubesched.engine.selection import as_keys, heap_preferences
from kubesched.framework.followers import Added, FilterFollower
from kubesched.framework.kept_columns import LocalScore
from kubesched.framework.plan import ROWS_BY_INTEGERS_MAX, Plan
from kubesched.framework.totals import ORDER_BITS, RaisedColumn, never, raise_all

# How many sets of rows that fit are kept of a plan; hard spread goes round among a few.
RANKINGS_MAX = 8
# Up to so many rows that begin or cease to fit are put in or taken out one by one.
ROWS_MOVED_MAX = 4
# Making keys costs as much as choosing several times without: only what comes again pays.
MEETINGS_MIN = 3
# Keys are kept if they are wanted again after so many changes; making them takes as long as four.
CHANGES_MAX = 4

Masks: TypeAlias = "Sequence[BoolColumn]"
"""Columns of rows that are refused."""
Best: TypeAlias = "tuple[int, RaisedColumn, bool]"
"""The best row, the keys by which it is, and whether these are by the plan's positions."""


class Ranking:
    """A plan's rows that fit, in visiting order, for as long as the same rows fit.

    Who is the best of them under kept plugins alone is told by a key per row, once that pays.
    """

    __slots__ = (
        "_added",
        "_behind",
        "_fits",
        "_follower",
        "_is_fixed",
        "_keys",
        "_masks",
        "_moves",
        "_moving",
        "_number",
        "_placed",
        "_plan",
        "_positions",
        "_preferences",
        "_rows",
        "_sign",
        "_start",
        "_used_at",
        "_version",
        "fit_count",
        "keeps",
        "meetings",
        "narrowed",
        "normalized",
        "visited_count",
    )
    normalized_by_position = True
    _fits: bytes
    """Which of the plan's rows these are; empty until it is wanted."""
    _positions: Rows | None
    """None until they are wanted."""
    _rows: Rows | None
    _sign: Hashable
    """Of the follower's verdict, None if that is not known."""
    _number: int
    """Of that verdict."""
    keeps: bool
    """Whether there is anything that has to follow changed rows."""
    _behind: list[int]
    """The positions that changed since it last did."""

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
        self._masks = masks

        def make() -> tuple[BoolColumn, bytes, Rows, Rows]:
            fits = plan.fits if narrowed is None else narrowed
            positions = in_visiting_order(plan, view, start, fits)
            return fits, fits.tobytes(), positions, plan.rows_at(positions)

        # Most plans are refused nothing beside what many are refused together.
        self._is_fixed = narrowed is None and plan.moving_refusal_count == 0
        kept = plan.fixed.kept(("rows that fit", start), make) if self._is_fixed else make()
        fits, self._fits, self._positions, self._rows = kept
        self.fit_count = len(kept[2])
        self._preferences: RaisedColumn | None = None
        """What tells equals apart, by position."""
        if self._is_fixed:
            self._preferences = plan.fixed.kept(("preferences", start), self._prefer)
        self.normalized: list[tuple[LocalScore, IntColumn | int]] = plan.normalized(fits)
        self._added = self._raised_normalized()
        """What normalising plugins add, raised, by position; None if it is the same for all."""
        self._keys: RaisedColumn | None = None
        """By position, under kept plugins alone."""
        self._used_at = -1
        """What the plan had seen when keys were last wanted."""
        self._placed: PlacedKeys | None = None
        """By place among the rows that fit, to which others add."""
        self._moving: MovingRows | None = None
        """There once rows came or went."""
        self.keeps, self._behind = False, []
        in_order = not start and _visiting_order(plan, view) is None
        self._moves = in_order and self._added is None and len(plan.rows) == view.row_count
        """Whether a row can be put in or taken out: where it is, so it is visited."""
        self._follower: FilterFollower | None = None
        """What they were narrowed by, if it was one filter that follows."""
        self._sign, self._number = None, 0
        self.meetings = 1
        """In how many attempts these were the rows that fit."""
        self.visited_count = view.node_count

    def is_current(self, start: int) -> bool:
        """Return whether nothing changed but what `update` takes over."""
        return self._version == self._plan.version and self._start == start

    @property
    def positions(self) -> Rows:
        """Return where the rows are in the plan."""
        if self._positions is None:
            assert self.narrowed is not None, "rows moved"
            self._positions = self._rows = self.narrowed.nonzero()[0]
        return self._positions

    @property
    def rows(self) -> Rows:
        """Return the rows."""
        return self.positions if self._rows is None else self._rows

    def _row_at(self, place: int) -> int:
        if self._rows is not None:
            return self._rows.item(place)
        return self.rows.item(place) if self._moving is None else self._moving.position_at(place)

    def is_by(self, masks: Masks) -> bool:
        """Return whether the rows were narrowed by these very masks, which never change."""
        known = self._masks
        return known is not None and len(known) == len(masks) and all(map(is_, known, masks))

    def narrowed_by(self, masks: Masks | None) -> None:
        """Note what the rows are narrowed by now."""
        self._masks = masks

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
        moving = self._as_moving()
        self.narrowed, self._masks, self._follower = fits, masks, None
        for position in differing.tolist():
            self._move(moving, position, fits=fits.item(position))
        self._moved(moving)
        return True

    def follow(self, follower: FilterFollower, sign: Hashable) -> None:
        """Note that the rows were narrowed by a follower alone, and by which verdict."""
        self._follower, self._sign, self._number = follower, sign, follower.number

    def is_signed(self, follower: FilterFollower, sign: Hashable) -> bool:
        """Return whether the rows were narrowed by the very verdict that is given now."""
        if self._sign != sign or self._follower is not follower:
            return False
        self._number = follower.number
        self.meetings += 1
        return True

    def look_again(self, follower: FilterFollower) -> bool:
        """Have the rows fit that a follower leaves now; return whether that could be done."""
        if self._follower is not follower:
            return False
        ahead, moved, narrowed = follower.number - self._number, follower.moved, self.narrowed
        if ahead == 0:
            self.meetings += 1
            return True
        if ahead > 1 or moved is None or narrowed is None or not self._moves:
            return False
        if len(moved) > ROWS_MOVED_MAX:
            return False
        moving, refusals = self._as_moving(), self._plan.refusals
        # Several refusals may have changed in one row.
        for position in dict.fromkeys(moved):
            fits = not refusals.item(position)
            for rows, _ in follower.refusals:
                fits = fits and not rows.has(position)
            if fits != narrowed.item(position):
                narrowed[position] = fits
                self._move(moving, position, fits=fits)
        self._number, self._sign, self._masks = follower.number, None, None
        self._moved(moving)
        return True

    def _as_moving(self) -> MovingRows:
        moving = self._moving
        if moving is None:
            moving = self._moving = MovingRows(self.positions, len(self._plan.rows), self.raised())
            self.keeps = True
        return moving

    def _move(self, moving: MovingRows, position: int, *, fits: bool) -> None:
        if fits:
            moving.put_in(position, self._plan.raised_sum.item(position))
        else:
            moving.take_out(position)

    def _moved(self, moving: MovingRows) -> None:
        self.fit_count, self._fits = len(moving), b""
        self._positions = self._rows = self._keys = self._preferences = self._placed = None
        self.meetings = 1

    def _raised_normalized(self) -> RaisedColumn | None:
        columns = [column for _, column in self.normalized if not isinstance(column, int)]
        if not columns:
            return None
        added = columns[0].astype(self._plan.raised_sum.dtype)
        for column in columns[1:]:
            added += column
        return raise_all(added)

    def _prefer(self) -> RaisedColumn:
        width = self._plan.raised_sum.dtype
        preferences: RaisedColumn = np.full(len(self._plan.rows), never(width), dtype=width)
        preferences[self.positions] = heap_preferences(len(self.positions), width)
        return preferences

    def _place(self) -> Rows:
        slots: Rows = np.full(len(self._plan.rows), -1)
        slots[self.positions] = np.arange(len(self.positions))
        return slots

    def raised(self) -> RaisedColumn:
        """Return what kept plugins give to each of the rows, raised, but for what all get."""
        raised: RaisedColumn = self._plan.raised_sum.take(self.positions)
        if self._added is not None:
            raised += self._added.take(self.positions)
        return raised

    def best_row(self) -> Best:
        """Return the row that is best under kept plugins alone."""
        if self._behind:
            self._catch_up()
        keys = self._keys
        if keys is None:
            if self._preferences is None:
                if self.meetings < MEETINGS_MIN or self._moving is not None:
                    keys = self._by_place()
                    return self._row_at(int(keys.argmax())), keys, False
                self._preferences = self._prefer()
            keys = self._plan.raised_sum + self._preferences
            if self._added is not None:
                keys += self._added
            self._keep_keys(keys)
        return self._plan.rows.item(keys.argmax()), keys, True

    def _keep_keys(self, keys: RaisedColumn) -> None:
        """Keep keys if a few rows are to be changed in them; for many, all are made anew."""
        seen = self._plan.seen
        if seen - self._used_at <= CHANGES_MAX:
            self._keys, self.keeps = keys, True
        self._used_at = seen

    def _by_place(self) -> RaisedColumn:
        """Return the keys of the rows under kept plugins alone, by place; not to be written."""
        return as_keys(self.raised()) if self._moving is None else self._moving.keys()

    def best_row_with(self, live: Sequence[Added]) -> Best:
        """Return the row that is best with what others add."""
        if self._behind:
            self._catch_up()
        if self._placed is None and self.meetings >= MEETINGS_MIN:
            self._placed, self.keeps = self._as_placed(), True
        placed = self._placed
        keys = summed_keys(self._by_place(), live) if placed is None else placed.with_live(live)
        return self._row_at(int(keys.argmax())), keys, False

    def _as_placed(self) -> PlacedKeys:
        fixed, key = self._plan.fixed, ("slots", self._start)
        slots = fixed.kept(key, self._place) if self._is_fixed else self._place()
        keys, self._moving = self._by_place(), None
        return PlacedKeys(self._plan, self._added, slots, keys)

    def note(self, positions: Sequence[int]) -> None:
        """Note that rows have new totals, none of which began or ceased to fit."""
        self._behind += positions
        if len(self._behind) > ROWS_BY_INTEGERS_MAX:
            self._catch_up()

    def _catch_up(self) -> None:
        behind, self._behind = self._behind, []
        self.update(behind)

    def update(self, positions: Sequence[int] | Rows) -> None:
        """Take over the new totals of some rows, none of which began or ceased to fit."""
        if self._keys is not None:
            self._update_keys(self._keys, positions)
        if self._placed is not None and not self._placed.update(positions):
            self._placed = None
        if self._moving is not None:
            self._update_moving(self._moving, positions)

    def _update_keys(self, keys: RaisedColumn, positions: Sequence[int] | Rows) -> None:
        if len(positions) > ROWS_BY_INTEGERS_MAX:
            self._keys = None
            self.keeps = self._placed is not None or self._moving is not None
            return
        added, raised_sum, preferences = self._added, self._plan.raised_sum, self._preferences
        assert preferences is not None, "keys are made of them"
        for position in positions:
            key = raised_sum.item(position) + preferences.item(position)
            if added is not None:
                key += added.item(position)
            keys[position] = key

    def _update_moving(self, moving: MovingRows, positions: Sequence[int] | Rows) -> None:
        if len(positions) > ROWS_BY_INTEGERS_MAX:
            self._moving = None
            return
        narrowed, raised_sum = self.narrowed, self._plan.raised_sum
        assert narrowed is not None, "otherwise rows do not move"
        for position in positions:
            if narrowed.item(position):
                moving.set_total(position, raised_sum.item(position))


class Sample:
    """The first of a plan's rows that fit, as many as are wanted, in visiting order.

    The start moves on with every attempt, so that there is nothing to keep.
    """

    __slots__ = (
        "_plan",
        "fit_count",
        "narrowed",
        "normalized",
        "positions",
        "rows",
        "visited_count",
    )
    normalized_by_position = False

    def __init__(self, begun: Begun, view: ClusterView, narrowed: BoolColumn | None) -> None:
        plan, start, want, count = begun.plan, begun.start, begun.want, begun.row_count
        self._plan = plan
        self.narrowed = narrowed
        order = _visiting_order(plan, view)
        places = _visited(plan.fits if narrowed is None else narrowed, order, start)[:want]
        self.visited_count = (places.item(-1) - start) % count + 1 if len(places) == want else count
        """How many rows were looked at."""
        self.positions: Rows = places if order is None else order.take(places)
        self.rows: Rows = plan.rows_at(self.positions)
        self.fit_count = len(self.rows)
        self.normalized: list[tuple[LocalScore, IntColumn | int]] = []
        """What normalising plugins add, once the totals were wanted."""

    def best_row(self) -> Best:
        """Return the row that is best under kept plugins alone."""
        keys = self._by_place()
        return self.rows.item(keys.argmax()), keys, False

    def best_row_with(self, live: Sequence[Added]) -> Best:
        """Return the row that is best with what others add."""
        keys = summed_keys(self._by_place(), live)
        return self.rows.item(keys.argmax()), keys, False

    def _by_place(self) -> RaisedColumn:
        raised: RaisedColumn = self._plan.raised_sum.take(self.positions)
        self.normalized = list(self._plan.normalized_at(self.positions))
        for _, added in self.normalized:
            raised += added << ORDER_BITS
        return as_keys(raised)


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


class Begun(msgspec.Struct, frozen=True):
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
    plan = begun.plan
    if begun.want < begun.row_count:
        return Sample(begun, view, narrowed)
    rankings: list[Ranking] = plan.rankings
    # Bytes compare ten times as fast as columns.
    fits = None if narrowed is None else narrowed.tobytes()
    for known in rankings:
        if known.narrowed is None if fits is None else known.has_as_bytes(fits):
            known.meetings += 1
            known.narrowed_by(masks)
            return used_last(plan, known)
    if rankings and narrowed is not None and rankings[-1].narrow_to(narrowed, masks):
        return rankings[-1]
    ranking = Ranking(plan, view, begun.start, narrowed, masks)
    if len(rankings) > 1 and rankings[-1].meetings == 1:
        rankings.pop()  # Rows that fitted once only are hardly those of a later attempt.
    elif len(rankings) == RANKINGS_MAX:
        del rankings[0]
    rankings.append(ranking)
    return ranking


def latest_of_all(plan: Plan) -> Ranking | None:
    """Return the ranking of all rows that the plan has, if that was the last one wanted."""
    rankings: list[Ranking] = plan.rankings
    if not rankings or rankings[-1].narrowed is not None:
        return None
    latest = rankings[-1]
    latest.meetings += 1
    return latest


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
    # All of them are of one version of the plan, and of one start.
    if changed is None or not rankings[-1].is_current(start):
        rankings.clear()
    elif len(rankings) == 1 or not isinstance(changed, list):
        for ranking in rankings:
            ranking.update(changed)
    else:
        # Hardly more than one is used in an attempt.
        for ranking in rankings:
            if ranking.keeps:
                ranking.note(changed)
