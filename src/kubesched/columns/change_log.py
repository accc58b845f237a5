"""What changed since a reader last looked.

Owns the recent changes in order, bounded. A reader that is too far behind has to start anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LENGTH_MAX = 65_536
# Of so many changes, or up to twice as many, the rows stand in an array as well.
ROWS_MIN = 1024


class Change(NamedTuple):
    """One change of one row: a pod come or gone, or (with no label class) the node itself."""

    row: int
    label_class: int = -1
    term_set: int = -1
    delta: int = 0
    """How many pods more."""
    live_delta: int = 0
    """How many pods more that are not being deleted."""


class ChangeLog:
    """Changes by stamp; the oldest are dropped when there are too many."""

    __slots__ = ("_entries", "_first", "_rows", "_rows_first", "latest", "stamp")

    def __init__(self) -> None:
        self._entries: list[Change] = []
        self._first = 0
        self._rows: NDArray[np.int64] = np.zeros(2 * ROWS_MIN, dtype=np.int64)
        self._rows_first = 0
        self.stamp = 0
        """The stamp of the next change."""
        self.latest: tuple[Change, ...] | None = None
        """The last change alone, which is all that many readers have not seen."""

    def append(self, change: Change) -> None:
        """Record a change."""
        entries = self._entries
        entries.append(change)
        self.latest = (change,)
        rows, place = self._rows, self.stamp - self._rows_first
        if place == len(rows):
            rows[:ROWS_MIN] = rows[ROWS_MIN:]
            self._rows_first += ROWS_MIN
            place = ROWS_MIN
        rows[place] = change[0]
        self.stamp += 1
        if len(entries) > 2 * LENGTH_MAX:
            del entries[:LENGTH_MAX]
            self._first += LENGTH_MAX

    def since(self, seen: int) -> list[Change] | None:
        """Return the changes from a stamp on, None if some of them were dropped."""
        if seen < self._first:
            return None
        return self._entries[seen - self._first :]

    def rows_since(self, seen: int) -> NDArray[np.int64] | None:
        """Return the row of each change from a stamp on, until the next one; None if too many."""
        place = seen - self._rows_first
        return None if place < 0 else self._rows[place : self.stamp - self._rows_first]
