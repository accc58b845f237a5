"""What changed since a reader last looked.

Owns the recent changes in order, bounded. A reader that is too far behind has to start anew.
"""

from __future__ import annotations

from typing import NamedTuple

LENGTH_MAX = 65_536


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

    __slots__ = ("_entries", "_first", "latest", "stamp")

    def __init__(self) -> None:
        self._entries: list[Change] = []
        self._first = 0
        self.stamp = 0
        """The stamp of the next change."""
        self.latest: tuple[Change, ...] | None = None
        """The last change alone, which is all that many readers have not seen."""

    def append(self, change: Change) -> None:
        """Record a change."""
        self._entries.append(change)
        self.latest = (change,)
        self.stamp += 1
        if len(self._entries) > 2 * LENGTH_MAX:
            del self._entries[:LENGTH_MAX]
            self._first += LENGTH_MAX

    def since(self, seen: int) -> list[Change] | None:
        """Return the changes from a stamp on, None if some of them were dropped."""
        if seen < self._first:
            return None
        return self._entries[seen - self._first :]
