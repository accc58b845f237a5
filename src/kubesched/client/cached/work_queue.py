"""Keys that wait to be worked on.

Owns that a key waits once however often it is added, is never worked on twice at a time, and comes
back later each time it fails. Never knows what the work is.
Upstream: staging/src/k8s.io/client-go/util/workqueue
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_FIRST_RETRY_S: Final = 0.005
_LAST_RETRY_S: Final = 60.0


class WorkQueue:
    """Keys in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._dirty: dict[str, None] = {}
        self._working: dict[str, None] = {}
        self._failures: dict[str, int] = {}
        self._later: dict[str, tuple[float, asyncio.Handle]] = {}
        """When a key is due, and the timer; uvloop's do not all know their own time."""
        self._getters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return how many keys wait, or will in a while, or are worked on."""
        return len(self._dirty) + len(self._later) + len(self._working)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits for now and nothing is worked on."""
        return not self._dirty and not self._working

    def add(self, key: str) -> None:
        """Have a key worked on soon."""
        if key in self._dirty:
            return
        self._dirty[key] = None
        if key not in self._working:
            self._waiting.append(key)
            self._wake()

    def add_after(self, key: str, delay_s: float) -> None:
        """Have a key worked on in a while, or sooner if that was said before."""
        if delay_s <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due_s = loop.time() + delay_s
        planned = self._later.get(key)
        if planned is not None:
            if planned[0] <= due_s:
                return
            planned[1].cancel()
        self._later[key] = (due_s, loop.call_later(delay_s, self._due, key))

    def _due(self, key: str) -> None:
        self._later.pop(key, None)
        self.add(key)

    def retry(self, key: str) -> None:
        """Have a key that failed worked on again, later each time."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self.add_after(key, min(_FIRST_RETRY_S * 2**count, _LAST_RETRY_S))

    def forget(self, key: str) -> None:
        """Have the next failure of a key count as the first."""
        self._failures.pop(key, None)

    async def get(self) -> str:
        """Return the next key, when there is one; `done` must follow."""
        while not self._waiting:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise
        key = self._waiting.popleft()
        self._dirty.pop(key, None)
        self._working[key] = None
        return key

    def done(self, key: str) -> None:
        """Take note that the work on a key has ended."""
        self._working.pop(key, None)
        if key in self._dirty:
            self._waiting.append(key)
            self._wake()

    def close(self) -> None:
        """Forget what was to come later."""
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()

    def _wake(self) -> None:
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
