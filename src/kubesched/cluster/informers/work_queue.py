"""Work queue of keys, and the workers that process it.

A key waits at most once, is never processed twice at the same time, and is retried with backoff
when it fails. What processing means is the caller's.
Upstream: staging/src/k8s.io/client-go/util/workqueue, the processNextWorkItem of every controller
in pkg/controller, pkg/kubelet/pod_workers.go
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from kubesched.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    TransportError,
)
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks

_RETRY_S_INITIAL: Final = 0.005
_RETRY_S_MAX: Final = 60.0
# Another client changed the object first; the retry starts from its current state.
_EXPECTED = (ConflictError, AlreadyExistsError, NotFoundError)


class WorkQueue:
    """Keys in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._dirty: dict[str, None] = {}
        self._processing: dict[str, None] = {}
        self._failures: dict[str, int] = {}
        self._later: dict[str, tuple[float, asyncio.Handle]] = {}
        """Due time and timer of each delayed key; uvloop's handles do not all have `when`."""
        self._getters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        """Return the number of keys that are waiting, delayed or being processed."""
        return len(self._dirty) + len(self._later) + len(self._processing)

    @property
    def is_idle(self) -> bool:
        """Return whether no key is waiting or being processed."""
        return not self._dirty and not self._processing

    def add(self, key: str) -> None:
        """Add a key."""
        if key in self._dirty:
            return
        self._dirty[key] = None
        if key not in self._processing:
            self._waiting.append(key)
            self._wake()

    def add_after(self, key: str, delay_s: float) -> None:
        """Add a key after a delay, or earlier if it is already due earlier."""
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
        """Add a failed key again, with exponential backoff."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        self.add_after(key, min(_RETRY_S_INITIAL * 2**count, _RETRY_S_MAX))

    def forget(self, key: str) -> None:
        """Reset the backoff of a key."""
        self._failures.pop(key, None)

    async def get(self) -> str:
        """Wait for the next key; the caller must call `done`."""
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
        self._processing[key] = None
        return key

    def done(self, key: str) -> None:
        """Mark a key as processed."""
        self._processing.pop(key, None)
        if key in self._dirty:
            self._waiting.append(key)
            self._wake()

    def close(self) -> None:
        """Cancel the delayed keys."""
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()

    def _wake(self) -> None:
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


class Workers:
    """Concurrent workers over one queue."""

    def __init__(
        self, name: str, work: Callable[[str], Awaitable[None]], *, tasks: Tasks, log: Log
    ) -> None:
        """Create the pool; nothing is processed before `start`."""
        self.queue = WorkQueue()
        self._name = name
        self._do = work
        self._tasks = tasks
        self._log = log

    def start(self, count: int) -> None:
        """Start a number of workers."""
        for number in range(count):
            self._tasks.start(self._work(), name=f"{self._name} {number}")

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._do(key)
            except Exception as error:  # noqa: BLE001  # One object must not stop the others.
                self._failed(key, error)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    def _failed(self, key: str, error: Exception) -> None:
        self.queue.retry(key)
        if isinstance(error, _EXPECTED):
            self._log.info("Trying again", level=4, worker=self._name, key=key, err=str(error))
            return
        message = str(error)
        if not isinstance(error, ApiError | TransportError):
            message = "".join(traceback.format_exception(error))
        self._log.error("Unable to sync", err=message, worker=self._name, key=key)
