"""How long a reflector waits before it asks an API server that failed it again.

Owns the doubling, the jitter and the reset. Never waits itself.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/wait/backoff.go
"""

from __future__ import annotations

from typing import Final

from kubesched.kit.clock import Clock
from kubesched.kit.rng import Generator

_INITIAL_S: Final = 0.8
_MAX_S: Final = 30.0
_FACTOR: Final = 2.0
_RESET_S: Final = 120.0
_GRAINS: Final = 1 << 20


class Backoff:
    """Waits that double from 0.8 s to 30 s, each of them drawn out by up to twice its length."""

    __slots__ = ("_base_s", "_clock", "_rng", "_since_s")

    def __init__(self, clock: Clock, rng: Generator) -> None:
        self._clock = clock
        self._rng = rng
        self._base_s = _INITIAL_S
        self._since_s = clock.monotonic_s()

    def next_s(self) -> float:
        """Return how long to wait now."""
        # Parity: wait/backoff.go backoffManager.Step, v1.36: it starts anew every two minutes,
        # in a long outage too.
        now_s = self._clock.monotonic_s()
        if now_s - self._since_s > _RESET_S:
            self._base_s, self._since_s = _INITIAL_S, now_s
        base_s = self._base_s
        self._base_s = min(base_s * _FACTOR, _MAX_S)
        return base_s * (1.0 + self._rng.below(_GRAINS) / _GRAINS)
