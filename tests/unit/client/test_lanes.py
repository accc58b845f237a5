"""Who may send next."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kubesched.client.lanes import LIMITS, Lane, Lanes, TokenBucket
from kubesched.kit.tasks import Tasks
from tests.unit.client.election_world import HandClock, settle

WIDE = dict.fromkeys(Lane, 1000)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


class Road:
    """Lanes, and the order in which requests got through them."""

    def __init__(self, *, qps: float, burst: int, limits: dict[Lane, int] | None = None) -> None:
        self.clock = HandClock()
        self.lanes = Lanes(qps=qps, burst=burst, clock=self.clock, limits=limits or WIDE)
        self.through: list[tuple[float, str]] = []
        self._tasks = Tasks()

    def queue(self, lane: Lane, name: str) -> asyncio.Task[None]:
        async def drive() -> None:
            await self.lanes.enter(lane)
            self.through.append((self.clock.monotonic_s(), name))

        return self._tasks.start(drive(), name=name)

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.through]


async def test_a_burst_then_the_rate() -> None:
    clock = HandClock()
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    assert bucket.wait_s() == pytest.approx(0.1)
    await clock.advance(0.05)
    assert not bucket.take()
    await clock.advance(0.05)
    assert bucket.take()
    await clock.advance(60)
    # Never more than the burst, however long nobody asked.
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
