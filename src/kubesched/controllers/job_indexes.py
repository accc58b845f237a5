"""Completion indexes of Indexed Jobs, as a status writes them: `1,3-5,7`.

Owns sets of indexes kept as ordered intervals, and the text for them. Never looks at a pod.
Upstream: pkg/controller/job/indexed_job_utils.go orderedIntervals
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

Interval: TypeAlias = tuple[int, int]
"""The first and the last index."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of indexes: intervals in order, none of which touches the next."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> Indexes:
        """Return the indexes below the number of completions; what cannot be read is left out."""
        found: list[Interval] = []
        for part in text.split(",") if text else ():
            limits = part.split("-")[:2]
            if not all(_NUMBER.fullmatch(limit) for limit in limits):
                continue
            first, last = int(limits[0]), int(limits[-1])
            if first >= completions:
                break
            last = min(last, completions - 1)
            if found and found[-1][1] == first - 1:
                found[-1] = (found[-1][0], last)
            else:
                found.append((first, last))
        return cls(tuple(found))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        """Return the set of these indexes."""
        return cls(_merged((index, index) for index in sorted(indexes)))

    def merge(self, other: Indexes) -> Indexes:
        """Return what is in either."""
        return Indexes(_merged(sorted((*self.intervals, *other.intervals))))

    @property
    def total(self) -> int:
        """Return how many indexes there are."""
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        position = bisect_left(self.intervals, index, key=_last)
        return position < len(self.intervals) and self.intervals[position][0] <= index

    def __str__(self) -> str:
        """Return it as a status has it: two neighbours are listed, more are a range."""
        return ",".join(_shown(first, last) for first, last in self.intervals)

    def missing(self, below: int) -> Iterator[int]:
        """Return the indexes that are not in it, the lowest first."""
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, below))
            candidate = max(candidate, last + 1)
        yield from range(candidate, below)

    def overlap(self, other: Indexes) -> int:
        """Return how many indexes are in both."""
        count = mine = theirs = 0
        while mine < len(self.intervals) and theirs < len(other.intervals):
            first, last = self.intervals[mine]
            other_first, other_last = other.intervals[theirs]
            count += max(0, min(last, other_last) - max(first, other_first) + 1)
            mine += last <= other_last
            theirs += other_last <= last
        return count


def _merged(ordered: Iterable[Interval]) -> tuple[Interval, ...]:
    out: list[Interval] = []
    for first, last in ordered:
        if not out or first > out[-1][1] + 1:
            out.append((first, last))
        elif out[-1][1] < last:
            out[-1] = (out[-1][0], last)
    return tuple(out)


def _last(interval: Interval) -> int:
    return interval[1]


def _shown(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
