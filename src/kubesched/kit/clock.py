"""Time, handed in.

Owns the only readers of the machine's clocks. Code that needs the time takes a Clock, so that a
test or a simulation can move it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks and a way to wait."""

    def now_s(self) -> float:
        """Return seconds since the epoch: what documents say."""

    def monotonic_s(self) -> float:
        """Return seconds since some moment; never goes back: what durations are measured by."""

    async def sleep(self, delay_s: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clocks."""

    # Asked many times in every attempt, so without a call in between.
    now_s = staticmethod(time.time)
    monotonic_s = staticmethod(time.monotonic)

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        await asyncio.sleep(delay_s)
