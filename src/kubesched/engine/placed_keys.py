"""Keys of the rows that fit by their place, and what comes of them if others add to them.

Owns how both follow rows that change, and rows to which others add another amount. Never asks which
rows fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

import numpy as np

from kubesched.columns.view import Rows
from kubesched.engine.selection import heap_preferences
from kubesched.framework.followers import Added
from kubesched.framework.plan import ROWS_BY_INTEGERS_MAX, Plan
from kubesched.framework.totals import ORDER_BITS, RaisedColumn, raise_all

_ORDER_MASK = (1 << ORDER_BITS) - 1


class PlacedKeys:
    """The keys under kept plugins alone, for as long as the same rows fit."""

    __slots__ = ("_added", "_live", "_moved", "_plan", "_slots", "_summed", "keys")

    def __init__(
        self, plan: Plan, added: RaisedColumn | None, slots: Rows, keys: RaisedColumn
    ) -> None:
        """Begin with the keys as they are.

        Args:
            plan: with the totals.
            added: what is added to these, by position; None if it is the same for all.
            slots: each position's place among the rows that fit, -1 if it does not.
            keys: by place.
        """
        self._plan = plan
        self._added = added
        self._slots = slots
        self.keys = keys
        self._live: Sequence[Added] = ()
        """What others last added."""
        self._summed: RaisedColumn | None = None
        """What came of it."""
        self._moved: list[int] = []
        """For each of those who add, how many of the places that moved were taken over."""

    def with_live(self, live: Sequence[Added]) -> RaisedColumn:
        """Return the keys with what others add; not to be written."""
        summed, known = self._summed, self._live
        is_same = len(live) == len(known) and all(map(is_, live, known))
        if summed is None or not is_same:
            summed = summed_keys(self.keys, live)
            # What comes again pays; plans are many, and memory that was just used is at hand.
            self._summed = summed if is_same else None
            self._live, self._moved = live, [len(added.moved) for added in live]
            return summed
        for number, added in enumerate(live):
            if self._moved[number] != len(added.moved):
                for place in added.moved[self._moved[number] :]:
                    total = self.keys.item(place)
                    for one in live:
                        total += one.raised_at(place)
                    summed[place] = total
                self._moved[number] = len(added.moved)
        return summed

    def update(self, positions: Sequence[int] | Rows) -> bool:
        """Take over the new totals of some rows; return whether these are few enough."""
        if len(positions) > len(self.keys) // 4:
            return False
        if len(positions) > ROWS_BY_INTEGERS_MAX:
            self._update_many(np.asarray(positions))
            return True
        raised_sum, added, slots = self._plan.raised_sum, self._added, self._slots
        keys, summed = self.keys, self._summed
        for position in positions:
            place = slots.item(position)
            if place >= 0:
                total = raised_sum.item(position)
                if added is not None:
                    total += added.item(position)
                before = keys.item(place)
                after = keys[place] = total | (before & _ORDER_MASK)
                if summed is not None:
                    summed[place] = summed.item(place) + after - before
        return True

    def _update_many(self, positions: Rows) -> None:
        places = self._slots.take(positions)
        fitting = places >= 0
        if np.count_nonzero(fitting) < len(places):
            positions, places = positions[fitting], places[fitting]
        raised = self._plan.raised_sum.take(positions)
        if self._added is not None:
            raised += self._added.take(positions)
        raised += heap_preferences(len(self.keys), raised.dtype).take(places)
        self.keys[places] = raised
        self._summed = None


def summed_keys(keys: RaisedColumn, live: Sequence[Added]) -> RaisedColumn:
    """Return keys by place with what others add, which is somebody."""
    for amounts, ways, _ in live:
        raised = raise_all(amounts.astype(keys.dtype))
        if ways is not None:
            # Each has a way that there is; not to look whether it has takes a fifth less time.
            raised = raised.take(ways, mode="clip")
        keys = np.add(keys, raised, out=raised)
    return keys
