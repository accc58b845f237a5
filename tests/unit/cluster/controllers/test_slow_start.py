"""Slow start of batches."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.cluster.controllers.pod_control import slow_start_batch


class Calls:
    """Counts calls and concurrent calls; fails from a given call on."""

    def __init__(self, fails_at: int = 0) -> None:
        self.count = 0
        self.batches: list[int] = []
        self._fails_at = fails_at
        self._together = 0

    async def __call__(self) -> None:
        self.count += 1
        number = self.count
        self._together += 1
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
        if self._together:
            self.batches.append(self._together)
            self._together = 0
        if self._fails_at and number >= self._fails_at:
            raise ValueError(f"call {number}")


@pytest.mark.parametrize(
    ("count", "batches"),
    [(0, []), (1, [1]), (3, [1, 2]), (10, [1, 2, 4, 3]), (31, [1, 2, 4, 8, 16])],
)
def test_batches_double(count: int, batches: list[int]) -> None:
    calls = Calls()
    assert asyncio.run(slow_start_batch(count, calls)) == count
    assert calls.batches == batches
    assert calls.count == count


@pytest.mark.parametrize(("fails_at", "made"), [(1, 1), (2, 3), (5, 7)])
def test_a_failure_stops_further_batches(fails_at: int, made: int) -> None:
    calls = Calls(fails_at)
    with pytest.raises(ValueError, match=f"call {fails_at}"):
        asyncio.run(slow_start_batch(20, calls))
    assert calls.count == made
