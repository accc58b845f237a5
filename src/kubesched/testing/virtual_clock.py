"""A clock that stands until it is moved.

Owns who sleeps and until when. Nobody really waits: a hundred seconds pass in no time.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import Final

from kubesched.kit.clock import SystemClock

START_S: Final = 1_800_000_000.0
"""When the world of a virtual clock begins, in seconds since the epoch."""


class VirtualClock:
    """Time for tests; who sleeps for no time lets the others run once."""

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
        """Wait until the clock was moved so far."""
        if delay_s <= 0:
            await SystemClock().sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._at_s + delay_s, next(self._order), woken))
        await woken

    def next_s(self) -> float | None:
        """Return in how many seconds the next sleeper is due; None if nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] - self._at_s if self._sleepers else None

    def move(self, seconds: float) -> None:
        """Let time pass; whoever is due by then wakes."""
        self._at_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._at_s:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
