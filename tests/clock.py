"""A clock that only tests advance."""

from __future__ import annotations


class StillClock:
    """Time does not advance by itself; sleeping is an error."""

    def __init__(self, at_s: float = 0.0) -> None:
        self.at_s = at_s

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return self.at_s

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("nothing here waits for a clock")
