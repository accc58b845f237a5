"""Clocks.

Owns the only reads of the machine's clocks. Code that needs the time takes a Clock, so that a test
or a simulation can move it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """A wall clock, a monotonic clock, and sleep."""

    def now_s(self) -> float:
        """Return seconds since the epoch, for timestamps in documents."""

    def monotonic_s(self) -> float:
        """Return seconds of a clock that never goes back, for durations."""

    async def sleep(self, delay_s: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    # Read many times in every attempt, so without a call in between.
    now_s = staticmethod(time.time)
    monotonic_s = staticmethod(time.monotonic)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
