"""Events on their way to the API server: a queue, and who writes what is in it.

Owns the queue and its bound, and when a write is tried again. Never makes anybody wait, and never
decides which events are one series: event_recorder does. What cannot be kept is counted and logged.
Upstream: staging/src/k8s.io/client-go/tools/events/event_broadcaster.go attemptRecording,
recordEvent
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from kubesched.client.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kubesched.client.event_bodies import (
    EventFacts,
    core_event_body,
    core_series_patch,
    event_body,
    event_name,
    series_patch,
)
from kubesched.client.lanes import Lane
from kubesched.client.resources import CORE_EVENTS, Resource
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

_TRIES_MAX: Final = 12
_SLEEP_S: Final = 10.0
_JITTER: Final = 0.25
_JITTER_STEPS: Final = 1 << 30
_QUEUED_FOR_ANOTHER: Final = 2000
_SAID_AGAIN_S: Final = 10.0
_REJECTED: Final = "Server rejected event (will not retry!)"


class EventClient(Protocol):
    """What events need of the API client."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes,
        content_type: str = ...,
        lane: Lane = ...,
    ) -> bytes: ...


class EventMetrics(Protocol):
    """The metrics of events, among others."""

    @property
    def events_dropped_total(self) -> Any:
        """Return what counts lost events by why."""


class Entry:
    """One event that was recorded, and how often it was seen since."""

    __slots__ = ("_name", "awaited", "count", "facts", "is_written", "last_ns", "resource")

    def __init__(self, resource: Resource, facts: EventFacts) -> None:
        self.resource = resource
        self.facts = facts
        self._name = ""
        self.count = 1
        self.last_ns = facts.at_ns
        self.is_written = False
        """Whether nothing of it is on its way for the first time."""
        self.awaited: tuple[int, int] | None = None
        """A series that is to be written once the event itself is."""

    @property
    def name(self) -> str:
        """Return the name of the event, made when it is first needed: recording is in a hurry."""
        if not self._name:
            self._name = event_name(self.facts.regarding.name, self.facts.at_ns)
        return self._name

    @property
    def series(self) -> tuple[int, int] | None:
        """Return count and last time once it was seen again."""
        return (self.count, self.last_ns) if self.count > 1 else None

    @property
    def ref(self) -> Ref:
        """Return the event as log lines name it."""
        return Ref(self.facts.namespace, self.name)


class _Write:
    """One thing to write: an event, or the count of its series as it was then."""

    __slots__ = ("entry", "series", "tries")

    def __init__(self, entry: Entry, series: tuple[int, int] | None) -> None:
        self.entry = entry
        self.series = series
        self.tries = 0


class EventWriter:
    """Writes events in the order in which they came, several at once."""

    def __init__(  # noqa: PLR0913  # One argument for each thing that is handed in.
        self,
        client: EventClient,
        *,
        clock: Clock,
        log: Log,
        metrics: EventMetrics | None,
        rng: Generator,
        concurrency: int,
        queued_max: int,
        is_busy: Callable[[], bool],
    ) -> None:
        self.dropped_count = 0
        self._client = client
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._rng = rng
        self._concurrency = concurrency
        self._queued_max = queued_max
        self._is_busy = is_busy
        self._queue: deque[_Write] = deque()
        self._later: list[tuple[float, int, _Write]] = []
        self._later_number = 0
        self._under_way = 0
        self._idle: deque[asyncio.Future[None]] = deque()
        self._drained: list[asyncio.Future[None]] = []
        self._tasks = Tasks()
        self._said_s = float("-inf")
        self._is_stopped = False

    @property
    def pending_count(self) -> int:
        """Return how many writes wait or are under way."""
        return len(self._queue) + len(self._later) + self._under_way

    def put(self, entry: Entry, series: tuple[int, int] | None = None) -> bool:
        """Queue an event, or the count of its series; return False if it is lost."""
        if self._is_stopped:
            self._lose(1, "stopped")
            self._log.error(
                "Unable to record event (will not retry!)", err="broadcaster already stopped"
            )
            return False
        if len(self._queue) + len(self._later) >= self._queued_max:
            self._lose(1, "queue_full")
            self._say_full(entry)
            return False
        self._queue.append(_Write(entry, series))
        self._wake()
        return True

    def start(self) -> None:
        """Begin to write."""
        for number in range(self._concurrency):
            self._tasks.start(self._work(), name=f"events-writer-{number}")

    async def stop(self) -> None:
        """Write nothing more; what is left is lost, and counted."""
        self._is_stopped = True
        await self._tasks.stop()
        left = self.pending_count
        self._queue.clear()
        self._later.clear()
        if left:
            self._lose(left, "stopped")
            self._log.error("Unable to write events (broadcaster is shut down)", count=left)
        self._tell_drained()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; return False if that took too long."""
        if not self.pending_count:
            return True
        drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drained.append(drained)
        deadline = self._tasks.start(self._clock.sleep(timeout_s), name="events-drain")
        await asyncio.wait({drained, deadline}, return_when=asyncio.FIRST_COMPLETED)
        deadline.cancel()
        return not self.pending_count

    async def record(self, entry: Entry, series: tuple[int, int] | None) -> bool:
        """Write an event or a series once; return False if that should be tried again.

        Parity: events/event_broadcaster.go recordEvent, v1.36.
        """
        try:
            await self._send(entry, series)
        except ApiError as error:
            return self._refused(entry, error, is_series=series is not None)
        except TransportError as error:
            self._log.error("Unable to write event (may retry after sleeping)", err=error)
            return False
        return True

    async def _work(self) -> None:
        while True:
            if not self._queue or self._under_way >= self._allowed():
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(waiting)
                await waiting
                continue
            write = self._queue.popleft()
            self._under_way += 1
            try:
                is_done = await self._try(write)
            except asyncio.CancelledError:
                self._queue.appendleft(write)
                raise
            except Exception as error:  # noqa: BLE001  # One event must not end the others.
                self._lose(1, "rejected")
                self._log.error(
                    "Unable to construct event (will not retry!)", err=error, event=write.entry.ref
                )
                is_done = True
            finally:
                self._under_way -= 1
            if not is_done:
                self._try_later(write)
            self._tell_drained()
            self._wake()

    def _allowed(self) -> int:
        """Return how many events may be written at once.

        An event costs the API server more than a binding does: while pods wait to be bound few are
        written, the more the more of them wait.
        """
        if not self._is_busy():
            return self._concurrency
        return min(self._concurrency, 1 + len(self._queue) // _QUEUED_FOR_ANOTHER)

    async def _try(self, write: _Write) -> bool:
        if not await self.record(write.entry, write.series):
            write.tries += 1
            if write.tries < _TRIES_MAX:
                return False
            self._lose(1, "retries_exceeded")
            self._log.error("Unable to write event (retry limit exceeded!)", event=write.entry.ref)
        self._settle(write.entry)
        return True

    def _settle(self, entry: Entry) -> None:
        entry.is_written = True
        if entry.awaited is not None:
            awaited, entry.awaited = entry.awaited, None
            self.put(entry, awaited)

    def _try_later(self, write: _Write) -> None:
        """Put a write aside: others go on, as each has a goroutine of its own upstream."""
        jitter = self._rng.below(_JITTER_STEPS) / _JITTER_STEPS * _JITTER
        due_s = self._clock.monotonic_s() + _SLEEP_S * (1 + jitter)
        if not self._later:
            self._tasks.start(self._bring_back(), name="events-retry")
        self._later_number += 1
        heapq.heappush(self._later, (due_s, self._later_number, write))

    async def _bring_back(self) -> None:
        while self._later:
            wait_s = self._later[0][0] - self._clock.monotonic_s()
            if wait_s > 0:
                await self._clock.sleep(wait_s)
                continue
            self._queue.append(heapq.heappop(self._later)[2])
            self._wake()

    async def _send(self, entry: Entry, series: tuple[int, int] | None) -> None:
        facts = entry.facts
        is_core = entry.resource is CORE_EVENTS
        if series is not None:
            try:
                await self._client.request(
                    "PATCH",
                    entry.resource.path(facts.namespace, entry.name),
                    body=core_series_patch(series, facts.note) if is_core else series_patch(series),
                    content_type="application/strategic-merge-patch+json",
                    lane=Lane.EVENT,
                )
            except NotFoundError:
                # Its time was over, or it never arrived.
                pass
            else:
                return
        body = core_event_body if is_core else event_body
        await self._post(entry, body(entry.name, facts, series))

    async def _post(self, entry: Entry, body: bytes) -> None:
        path = entry.resource.path(entry.facts.namespace)
        await self._client.request("POST", path, body=body, lane=Lane.EVENT)

    def _refused(self, entry: Entry, error: ApiError, *, is_series: bool) -> bool:
        if isinstance(error, AlreadyExistsError):
            if is_series:
                # It was not there to be patched, and is there now.
                return False
            self._log.info(_REJECTED, level=5, event=entry.ref, err=error)
            return True
        self._lose(1, "rejected")
        self._log.error(_REJECTED, err=error, event=entry.ref)
        return True

    def _lose(self, count: int, why: str) -> None:
        self.dropped_count += count
        if self._metrics is not None:
            self._metrics.events_dropped_total.labels(why).inc(count)

    def _say_full(self, entry: Entry) -> None:
        # One line for each of thousands would be the next thing to run full.
        now_s = self._clock.monotonic_s()
        if now_s - self._said_s >= _SAID_AGAIN_S:
            self._said_s = now_s
            self._log.error(
                "Unable to record event: too many queued events, dropped event",
                event=entry.ref,
                droppedEvents=self.dropped_count,
            )

    def _wake(self) -> None:
        """Have as many go on as may, and have something to do."""
        wanted = min(len(self._queue), self._allowed() - self._under_way)
        while wanted > 0 and self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                wanted -= 1

    def _tell_drained(self) -> None:
        if self._drained and not self.pending_count:
            for waiting in self._drained:
                if not waiting.done():
                    waiting.set_result(None)
            self._drained.clear()
