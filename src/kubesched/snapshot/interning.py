"""Interning: every distinct value gets the next small integer as its id.

Columns store ids instead of labels, taints or affinity terms: comparing ids is fast, and a
predicate runs once per distinct value instead of once per node (`lut`). An id keeps its meaning for
the life of the interner.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

ValueT = TypeVar("ValueT", bound=Hashable)
LUT_COUNT_MAX = 4096


class Interner(Generic[ValueT]):
    """Maps values to dense ids, and keeps look-up tables of functions over all values."""

    def __init__(self) -> None:
        self.values: list[ValueT] = []
        self._ids: dict[ValueT, int] = {}
        self._luts: dict[Hashable, LookupTable[ValueT]] = {}

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[ValueT]:
        return iter(self.values)

    def intern(self, value: ValueT) -> int:
        """Return the id of a value; a new value gets the next id."""
        value_id = self._ids.get(value)
        if value_id is None:
            value_id = self._ids[value] = len(self.values)
            self.values.append(value)
        return value_id

    def id_of(self, value: ValueT) -> int:
        """Return the id of a value, -1 if it is unknown."""
        return self._ids.get(value, -1)

    def lut(
        self, key: Hashable, function: Callable[[ValueT], Any], dtype: Any = np.bool_
    ) -> NDArray[Any]:
        """Return the results of a function for all values, by id.

        The function runs once per key and value; new values are added at the next call.

        Args:
            key: Identifies the function; equal keys must mean equal functions.
            function: The function of one value.
            dtype: The type of the results.
        """
        table = self._luts.pop(key, None)
        if table is None:
            table = LookupTable(self, function, dtype=dtype)
        self._luts[key] = table  # The most recently used is last.
        if len(self._luts) > LUT_COUNT_MAX:
            del self._luts[next(iter(self._luts))]
        return table.up_to_date()


class LookupTable(Generic[ValueT]):
    """The results of a function for all values of an interner, by id; new ids are added."""

    __slots__ = ("_function", "_known", "_results", "_values")

    def __init__(
        self,
        interner: Interner[ValueT],
        function: Callable[[ValueT], Any],
        candidates: Iterable[int] | None = None,
        dtype: Any = np.int32,
    ) -> None:
        """Compute the results of the present ids; with `candidates`, those of all others are 0."""
        self._values = interner.values
        self._function = function
        self._known = len(self._values)
        self._results: NDArray[Any] = np.zeros(max(self._known, 16), dtype=dtype)
        for place in range(self._known) if candidates is None else candidates:
            self._results[place] = function(self._values[place])

    def up_to_date(self) -> NDArray[Any]:
        """Return the results of all present ids, read-only."""
        count = len(self._values)
        if self._known < count:
            self._results = grown(self._results, count)
            for place in range(self._known, count):
                self._results[place] = self._function(self._values[place])
            self._known = count
        results = self._results[:count]
        results.flags.writeable = False
        return results


def grown(array: NDArray[Any], count: int, fill: float = 0) -> NDArray[Any]:
    """Return the array with at least `count` entries along its last axis, new ones filled."""
    room = array.shape[-1]
    if count <= room:
        return array
    capacity = max(count, 2 * room, 16)
    larger = np.full((*array.shape[:-1], capacity), fill, dtype=array.dtype)
    larger[..., :room] = array
    return larger
