"""Rate limiting of one client: a token bucket, and lanes with priorities and concurrency limits.

Owns the order of requests: tokens go to the first waiting lane, within a lane by arrival, and no
lane has more active requests than its limit. Never sends anything.
Upstream: staging/src/k8s.io/client-go/util/flowcontrol/throttle.go
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from kubesched.client.errors import TransportError
from kubesched.kit.clock import Clock
from kubesched.kit.tasks import Tasks

_DEFAULT_QPS: Final = 5.0
_DEFAULT_BURST: Final = 10


class Lane(IntEnum):
    """The priority of a request; a lower number goes first."""

    BINDING = 0
    WRITE = 1
    """Status patches, deletions, volumes."""
    OTHER = 2
    EVENT = 3


# The number of active requests per lane. Each takes a connection; the API server has some hundreds
# of seats for all clients.
LIMITS: Final[Mapping[Lane, int]] = {
    Lane.BINDING: 32,
    Lane.WRITE: 32,
    Lane.OTHER: 64,
    Lane.EVENT: 16,
}


class TokenBucket:
    """Tokens that are refilled at a constant rate.

    Parity: golang.org/x/time/rate Limiter as flowcontrol uses it, v1.36; a rate of 0 is client-go's
    default and one below 0 means no limit (rest/config.go RESTClientForConfigAndClient).
    """

    __slots__ = ("_burst", "_clock", "_qps", "_seen_s", "_tokens")

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._qps = qps or _DEFAULT_QPS
        self._burst = float(burst or _DEFAULT_BURST)
        self._clock = clock
        self._tokens = self._burst
        self._seen_s = clock.monotonic_s()

    def take(self) -> bool:
        """Take a token if there is one."""
        if self._qps < 0:
            return True
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def put_back(self) -> None:
        """Return an unused token."""
        self._tokens = min(self._burst, self._tokens + 1)

    def wait_s(self) -> float:
        """Return the time until the next token."""
        if self._qps < 0:
            return 0.0
        self._refill()
        return max(0.0, (1 - self._tokens) / self._qps)

    def _refill(self) -> None:
        now_s = self._clock.monotonic_s()
        self._tokens = min(self._burst, self._tokens + (now_s - self._seen_s) * self._qps)
        self._seen_s = now_s


class Lanes:
    """Admits requests, once per attempt."""

    def __init__(
        self, *, qps: float, burst: int, clock: Clock, limits: Mapping[Lane, int] = LIMITS
    ) -> None:
        self._bucket = TokenBucket(qps, burst, clock)
        self._clock = clock
        self._limits = [limits[lane] for lane in Lane]
        self._active = [0] * len(Lane)
        self._waiting: list[deque[asyncio.Future[None]]] = [deque() for _ in Lane]
        self._waiting_count = 0
        self._tasks = Tasks()

    def try_enter(self, lane: Lane) -> bool:
        """Enter without waiting if possible; `leave` must follow."""
        if self._active[lane] >= self._limits[lane]:
            return False
        if self._waiting_count and self._is_behind(lane):
            return False
        if not self._bucket.take():
            return False
        self._active[lane] += 1
        return True

    async def enter(self, lane: Lane) -> None:
        """Wait for admission; `leave` must follow."""
        if self.try_enter(lane):
            return
        admission: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[lane].append(admission)
        self._waiting_count += 1
        self._admit()
        try:
            await admission
        except asyncio.CancelledError:
            self._give_up(lane, admission)
            raise

    def leave(self, lane: Lane) -> None:
        """End a request, with or without a response."""
        self._active[lane] -= 1
        if self._waiting_count:
            self._admit()

    async def close(self) -> None:
        """Reject all waiting requests."""
        await self._tasks.stop()
        for queue in self._waiting:
            while queue:
                closed = TransportError("the client is closed", is_closed=True)
                queue.popleft().set_exception(closed)
        self._waiting_count = 0

    def _is_behind(self, lane: Lane) -> bool:
        """Return whether a waiting request has priority over a new one of the lane."""
        return bool(self._waiting[lane]) or any(self._needs_token(other) for other in range(lane))

    def _needs_token(self, lane: int) -> bool:
        return bool(self._waiting[lane]) and self._active[lane] < self._limits[lane]

    def _admit(self) -> None:
        for lane, queue in enumerate(self._waiting):
            while queue and self._active[lane] < self._limits[lane]:
                if not self._bucket.take():
                    self._await_token()
                    return
                queue.popleft().set_result(None)
                self._waiting_count -= 1
                self._active[lane] += 1

    def _await_token(self) -> None:
        if not len(self._tasks):
            self._tasks.start(self._admit_by_token(), name="client-token-bucket")

    async def _admit_by_token(self) -> None:
        """Admit requests as tokens arrive, while some wait."""
        while any(map(self._needs_token, Lane)):
            await self._clock.sleep(self._bucket.wait_s())
            self._admit()

    def _give_up(self, lane: Lane, admission: asyncio.Future[None]) -> None:
        if admission in self._waiting[lane]:
            self._waiting[lane].remove(admission)
            self._waiting_count -= 1
        elif not admission.cancelled():
            # Admitted while it was being canceled.
            self._bucket.put_back()
            self.leave(lane)
