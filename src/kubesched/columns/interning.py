"""Values as small integers.

Owns the mapping from a value to a dense id. An id keeps its meaning for the life of the interner.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

ValueT = TypeVar("ValueT", bound=Hashable)
LUT_COUNT_MAX = 4096


class Interner(Generic[ValueT]):
    """Gives each distinct value the next integer; answers questions about all values at once."""

    def __init__(self) -> None:
        self.values: list[ValueT] = []
        self._ids: dict[ValueT, int] = {}
        self._luts: dict[Hashable, Lut[ValueT]] = {}

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[ValueT]:
        return iter(self.values)

    def intern(self, value: ValueT) -> int:
        """Return the id of the value, a new one if it was never seen."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found

    def id_of(self, value: ValueT) -> int:
        """Return the id of the value, -1 if it was never seen."""
        return self._ids.get(value, -1)

    def lut(
        self, key: Hashable, answer: Callable[[ValueT], Any], dtype: Any = np.bool_
    ) -> NDArray[Any]:
        """Return the answers to one question for all values, by id.

        Each value is asked once per key; new values are asked when the table is next wanted.

        Args:
            key: what identifies the question; equal keys must ask the same.
            answer: the question put to one value.
            dtype: of the answers.
        """
        table = self._luts.pop(key, None)
        if table is None:
            table = Lut(answer, dtype)
        self._luts[key] = table  # Most recently used stands last.
        if len(self._luts) > LUT_COUNT_MAX:
            del self._luts[next(iter(self._luts))]
        return table.over(self.values)


class Lut(Generic[ValueT]):
    """One question's answers over all ids, extended as ids appear."""

    __slots__ = ("_answer", "_answers", "_known")

    def __init__(self, answer: Callable[[ValueT], Any], dtype: Any) -> None:
        self._answer = answer
        self._answers: NDArray[Any] = np.zeros(16, dtype=dtype)
        self._known = 0

    def over(self, values: list[ValueT]) -> NDArray[Any]:
        """Return the answers for all values, read-only."""
        count = len(values)
        if self._known < count:
            self._answers = grown(self._answers, count)
            for index in range(self._known, count):
                self._answers[index] = self._answer(values[index])
            self._known = count
        answers = self._answers[:count]
        answers.flags.writeable = False
        return answers


def grown(array: NDArray[Any], count: int, fill: float = 0) -> NDArray[Any]:
    """Return the array with room for `count` entries along its last axis, new ones filled."""
    room = array.shape[-1]
    if count <= room:
        return array
    capacity = max(count, 2 * room, 16)
    larger = np.full((*array.shape[:-1], capacity), fill, dtype=array.dtype)
    larger[..., :room] = array
    return larger
