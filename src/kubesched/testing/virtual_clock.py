"""A virtual clock for tests, which only advances when it is moved.

Owns the sleeping tasks and their wake-up times. No real time passes.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import Final

from kubesched.kit.clock import SystemClock

START_S: Final = 1_800_000_000.0
"""The start time of a virtual clock, in seconds since the epoch."""


class VirtualClock:
    """A clock for tests; a sleep of zero seconds yields to other tasks once."""

    def __init__(self, start_s: float = START_S) -> None:
        self._start_s = start_s
        self._at_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now_s(self) -> float:
        """Return seconds since the epoch."""
        return self._start_s + self._at_s

    def monotonic_s(self) -> float:
        """Return seconds since the clock was made."""
        return self._at_s

    async def sleep(self, delay_s: float) -> None:
        """Wait until the clock has been moved by the delay."""
        if delay_s <= 0:
            await SystemClock().sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._at_s + delay_s, next(self._order), woken))
        await woken

    def next_s(self) -> float | None:
        """Return the seconds until the next wake-up; None if no task sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] - self._at_s if self._sleepers else None

    def move(self, seconds: float) -> None:
        """Move the clock, and wake the tasks that are due."""
        self._at_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._at_s:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
