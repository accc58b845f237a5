"""The change log: the recent changes of node rows, in order.

A reader remembers the stamp up to which it has read, and catches up with `since(stamp)`. The log is
bounded: a reader that is too far behind gets None, and rebuilds what it derives from the tables.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.snapshot.interning import grown

LENGTH_MAX = 65_536
# As columns, only this many of the latest changes are available.
COLUMNS_MAX = 8192


class Change(NamedTuple):
    """One change of a row: a pod added or removed, or (without a label class) the node itself."""

    row: int
    label_class: int = -1
    term_set: int = -1
    delta: int = 0
    """The change of the number of pods."""
    live_delta: int = 0
    """The change of the number of pods that are not terminating."""


_FIELD_COUNT = len(Change._fields)


class ChangeLog:
    """Changes by stamp; the oldest are dropped when the log is full."""

    def __init__(self) -> None:
        self._entries: list[Change] = []
        self._first = 0
        self._rows: NDArray[np.int64] = np.zeros(2 * LENGTH_MAX + 1, dtype=np.int64)
        """The row of each entry: converting entries takes longer than to write the row twice."""
        self._columns: NDArray[np.int64] = np.zeros((_FIELD_COUNT, 64), dtype=np.int64)
        self._columns_first = self._columns_end = 0
        self.stamp = 0
        """The stamp of the next change."""

    def append(self, change: Change) -> None:
        entries = self._entries
        self._rows[len(entries)] = change[0]
        entries.append(change)
        self.stamp += 1
        if len(entries) > 2 * LENGTH_MAX:
            del entries[:LENGTH_MAX]
            self._rows[:-LENGTH_MAX] = self._rows[LENGTH_MAX:]
            self._first += LENGTH_MAX

    def since(self, seen: int) -> list[Change] | None:
        """Return the changes from a stamp on; None if some of them were dropped."""
        if seen < self._first:
            return None
        return self._entries[seen - self._first :]

    def rows_since(self, seen: int) -> NDArray[np.int64] | None:
        """Return the rows of the changes from a stamp on; valid until the next change."""
        first = self._first
        return None if seen < first else self._rows[seen - first : self.stamp - first]

    def columns_since(self, seen: int) -> NDArray[np.int64] | None:
        """Return the changes from a stamp on, one line per field of `Change`; None if too old.

        The array is valid until the next change.
        """
        if self.stamp - seen > COLUMNS_MAX:
            return None
        if self._columns_end < self.stamp:
            self._extend_columns()
        first = self._columns_first
        return None if seen < first else self._columns[:, seen - first : self.stamp - first]

    def _extend_columns(self) -> None:
        begin = max(self._columns_end, self.stamp - COLUMNS_MAX)
        changes = self.since(begin)
        if changes is None:
            self._columns_first = self._columns_end = self.stamp
            return
        filled = self._columns_end - self._columns_first
        if begin != self._columns_end:
            self._columns_first = begin  # Earlier changes are useless after a gap.
        elif filled > 4 * COLUMNS_MAX:
            self._columns[:, :COLUMNS_MAX] = self._columns[:, filled - COLUMNS_MAX : filled]
            self._columns_first = begin - COLUMNS_MAX
        first, self._columns_end = self._columns_first, self.stamp
        self._columns = grown(self._columns, self.stamp - first)
        fields = np.fromiter(chain.from_iterable(changes), np.int64, _FIELD_COUNT * len(changes))
        self._columns[:, begin - first : self.stamp - first] = fields.reshape(-1, _FIELD_COUNT).T
