"""Writes events to the API server from a bounded queue.

Owns the queue and the retries. Never blocks, and never groups events into series: recorder does.
Lost events are counted and logged.
Upstream: staging/src/k8s.io/client-go/tools/events/event_broadcaster.go attemptRecording,
recordEvent
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kubesched.client.events.bodies import (
    EventFacts,
    core_event_body,
    core_series_patch,
    event_body,
    event_name,
    series_patch,
)
from kubesched.client.http.lanes import Lane
from kubesched.client.resources import CORE_EVENTS, Resource
from kubesched.client.rest import STRATEGIC_MERGE_PATCH, Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks

_TRIES_MAX: Final = 12
_SLEEP_S: Final = 10.0
_JITTER: Final = 0.25
_JITTER_STEPS: Final = 1 << 30
_QUEUED_FOR_ANOTHER: Final = 2000
_LOG_PERIOD_S: Final = 10.0
_REJECTED: Final = "Server rejected event (will not retry!)"


class Entry:
    """A recorded event with its series."""

    __slots__ = ("_name", "awaited", "count", "facts", "is_written", "last_ns", "resource")

    def __init__(self, resource: Resource, facts: EventFacts) -> None:
        self.resource = resource
        self.facts = facts
        self._name = ""
        self.count = 1
        self.last_ns = facts.at_ns
        self.is_written = False
        """Whether its first write is not active."""
        self.awaited: tuple[int, int] | None = None
        """A series to write after the event itself."""

    @property
    def name(self) -> str:
        """Return the name of the event, created lazily to keep recording fast."""
        if not self._name:
            self._name = event_name(self.facts.regarding.name, self.facts.at_ns)
        return self._name

    @property
    def series(self) -> tuple[int, int] | None:
        """Return count and last time if it has repeated."""
        return (self.count, self.last_ns) if self.count > 1 else None

    @property
    def ref(self) -> Ref:
        """Return the event as logged."""
        return Ref(self.facts.namespace, self.name)


@dataclass(slots=True)
class _Write:
    """A write: an event, or the count of its series at that time."""

    entry: Entry
    series: tuple[int, int] | None
    tries: int = 0


class EventWriter:
    """Writes events in order of arrival, several concurrently."""

    concurrency = 8
    # Differs: upstream queues 1,000 events and drops the rest of a burst.
    queued_max = 100_000

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        log: Log,
        metrics: Any,
        is_busy: Callable[[], bool],
    ) -> None:
        self.dropped_count = 0
        self._client = client
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._rng = RandomStream(0, "events")
        self._is_busy = is_busy
        self._queue: deque[_Write] = deque()
        self._later: list[tuple[float, int, _Write]] = []
        self._later_number = 0
        self._active_count = 0
        self._idle: deque[asyncio.Future[None]] = deque()
        self._drained: list[asyncio.Future[None]] = []
        self._tasks = Tasks()
        self._logged_s = float("-inf")
        self._is_stopped = False

    @property
    def pending_count(self) -> int:
        """Return the number of waiting and active writes."""
        return len(self._queue) + len(self._later) + self._active_count

    def put(self, entry: Entry, series: tuple[int, int] | None = None) -> bool:
        """Queue an event or the count of its series; return False if it is dropped."""
        if self._is_stopped:
            self._count_lost(1, "stopped")
            self._log.error(
                "Unable to record event (will not retry!)", err="broadcaster already stopped"
            )
            return False
        if len(self._queue) + len(self._later) >= self.queued_max:
            self._count_lost(1, "queue_full")
            now_s = self._clock.monotonic_s()
            if now_s - self._logged_s >= _LOG_PERIOD_S:  # Thousands of lines would flood the log.
                self._logged_s = now_s
                self._log.error(
                    "Unable to record event: too many queued events, dropped event",
                    event=entry.ref,
                    droppedEvents=self.dropped_count,
                )
            return False
        self._queue.append(_Write(entry, series))
        self._wake()
        return True

    def start(self) -> None:
        for number in range(self.concurrency):
            self._tasks.start(self._work(), name=f"events-writer-{number}")

    async def stop(self) -> None:
        """Stop writing; count the remaining events as lost."""
        self._is_stopped = True
        await self._tasks.stop()
        remaining = self.pending_count
        self._queue.clear()
        self._later.clear()
        if remaining:
            self._count_lost(remaining, "stopped")
            self._log.error("Unable to write events (broadcaster is shut down)", count=remaining)
        self._notify_drained()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; return False after the timeout."""
        if not self.pending_count:
            return True
        drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._drained.append(drained)
        deadline = self._tasks.start(self._clock.sleep(timeout_s), name="events-drain")
        await asyncio.wait({drained, deadline}, return_when=asyncio.FIRST_COMPLETED)
        deadline.cancel()
        return not self.pending_count

    async def record(self, entry: Entry, series: tuple[int, int] | None) -> bool:
        """Write an event or a series once; return False to retry.

        Parity: events/event_broadcaster.go recordEvent, v1.36.
        """
        try:
            await self._send(entry, series)
        except ApiError as error:
            return self._rejected(entry, error, is_series=series is not None)
        except TransportError as error:
            self._log.error("Unable to write event (may retry after sleeping)", err=error)
            return False
        return True

    async def _work(self) -> None:
        while True:
            if not self._queue or self._active_count >= self._allowed():
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(waiting)
                await waiting
                continue
            write = self._queue.popleft()
            self._active_count += 1
            try:
                is_done = await self._try(write)
            except asyncio.CancelledError:
                self._queue.appendleft(write)
                raise
            except Exception as error:  # noqa: BLE001  # One event must not stop the others.
                self._count_lost(1, "rejected")
                self._log.error(
                    "Unable to construct event (will not retry!)", err=error, event=write.entry.ref
                )
                is_done = True
            finally:
                self._active_count -= 1
            if not is_done:
                self._try_later(write)
            self._notify_drained()
            self._wake()

    def _allowed(self) -> int:
        """Return the current concurrency limit.

        An event costs the API server more than a binding does: while pods wait to be bound, few
        events are written at once, and more as their queue grows.
        """
        if not self._is_busy():
            return self.concurrency
        return min(self.concurrency, 1 + len(self._queue) // _QUEUED_FOR_ANOTHER)

    async def _try(self, write: _Write) -> bool:
        if not await self.record(write.entry, write.series):
            write.tries += 1
            if write.tries < _TRIES_MAX:
                return False
            self._count_lost(1, "retries_exceeded")
            self._log.error("Unable to write event (retry limit exceeded!)", event=write.entry.ref)
        entry = write.entry
        entry.is_written = True
        if entry.awaited is not None:
            awaited, entry.awaited = entry.awaited, None
            self.put(entry, awaited)
        return True

    def _try_later(self, write: _Write) -> None:
        """Delay a write without blocking others, as upstream's goroutine per event does."""
        jitter = self._rng.below(_JITTER_STEPS) / _JITTER_STEPS * _JITTER
        due_s = self._clock.monotonic_s() + _SLEEP_S * (1 + jitter)
        if not self._later:
            self._tasks.start(self._requeue_due(), name="events-retry")
        self._later_number += 1
        heapq.heappush(self._later, (due_s, self._later_number, write))

    async def _requeue_due(self) -> None:
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
                    content_type=STRATEGIC_MERGE_PATCH,
                    lane=Lane.EVENT,
                )
            except NotFoundError:
                # It has expired, or was never written.
                pass
            else:
                return
        body = (core_event_body if is_core else event_body)(entry.name, facts, series)
        path = entry.resource.path(facts.namespace)
        await self._client.request("POST", path, body=body, lane=Lane.EVENT)

    def _rejected(self, entry: Entry, error: ApiError, *, is_series: bool) -> bool:
        if isinstance(error, AlreadyExistsError):
            if is_series:
                # It was created after the patch failed.
                return False
            self._log.info(_REJECTED, level=5, event=entry.ref, err=error)
            return True
        self._count_lost(1, "rejected")
        self._log.error(_REJECTED, err=error, event=entry.ref)
        return True

    def _count_lost(self, count: int, reason: str) -> None:
        self.dropped_count += count
        if self._metrics is not None:
            self._metrics.events_dropped_total.labels(reason).inc(count)

    def _wake(self) -> None:
        """Start writes up to the concurrency limit."""
        wanted = min(len(self._queue), self._allowed() - self._active_count)
        while wanted > 0 and self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                wanted -= 1

    def _notify_drained(self) -> None:
        if self._drained and not self.pending_count:
            for waiting in self._drained:
                if not waiting.done():
                    waiting.set_result(None)
            self._drained.clear()
