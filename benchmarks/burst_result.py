"""Figures of one benchmark run, and the rates that follow from them."""

from __future__ import annotations

import msgspec


class BurstResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one burst: decisions, outcomes and duration."""

    burst: int
    decided: int
    """Fewer than the burst if time was up."""
    placed: int
    preempting: int
    """Of those placed, how many evicted others first."""
    unschedulable: int
    seconds: float
    cpu_seconds: float
    """Of all threads."""
    p50_us: float
    p99_us: float
    resident_mb: float

    @property
    def rate(self) -> float:
        """Return decisions a second."""
        return self.decided / self.seconds if self.seconds else 0.0

    @property
    def cpu_rate(self) -> float:
        """Return decisions per second of processor time, which other load does not affect."""
        return self.decided / self.cpu_seconds if self.cpu_seconds else 0.0

    @property
    def is_complete(self) -> bool:
        """Return whether the whole burst was decided."""
        return self.decided == self.burst
