"""The rows that fit where single rows begin and cease to fit from attempt to attempt.

Owns where each of them is among those that fit, and their totals in that order. Never asks whether
a row fits.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

import numpy as np

from kubesched.columns.view import Rows
from kubesched.engine.selection import heap_preferences
from kubesched.framework.totals import RaisedColumn


class MovingRows:
    """Totals by place among the rows that fit, which are visited in the order of their positions.

    A row that begins or ceases to fit moves all after it by one place. Arrays of the standard
    library do that in the memory they have, in a fraction of the time of making new columns.
    """

    __slots__ = ("_keys", "_positions", "_preferences", "_raised")

    def __init__(self, positions: Rows, row_count: int, raised: RaisedColumn) -> None:
        """Take over the rows.

        Args:
            positions: of the rows that fit.
            row_count: how many rows there are.
            raised: the totals of those that fit.
        """
        self._positions = _as_array(positions)
        self._raised = _as_array(raised)
        self._preferences = heap_preferences(row_count, raised.dtype)
        self._keys: RaisedColumn | None = None
        """There as long as no row comes or goes."""

    def __len__(self) -> int:
        return len(self._positions)

    def put_in(self, position: int, total: int) -> None:
        """Have a row fit."""
        place = bisect_left(self._positions, position)
        self._positions.insert(place, position)
        self._raised.insert(place, total)
        self._keys = None

    def take_out(self, position: int) -> None:
        """Have a row no longer fit."""
        place = bisect_left(self._positions, position)
        del self._positions[place]
        del self._raised[place]
        self._keys = None

    def set_total(self, position: int, total: int) -> None:
        """Give a row that fits another total."""
        place, keys = bisect_left(self._positions, position), self._keys
        if keys is not None:
            keys[place] = keys.item(place) + total - self._raised[place]
        self._raised[place] = total

    def keys(self) -> RaisedColumn:
        """Return the keys of the rows that fit, by place; not to be written."""
        keys = self._keys
        if keys is None:
            preferences = self._preferences[: len(self._raised)]
            # As long as there is a column of it, an array cannot grow.
            keys = np.frombuffer(self._raised, dtype=preferences.dtype) + preferences
            self._keys = keys
        return keys

    def position_at(self, place: int) -> int:
        """Return which row is at a place."""
        return self._positions[place]


def _as_array(column: RaisedColumn) -> array[int]:
    return array(column.dtype.char, column.tobytes())
