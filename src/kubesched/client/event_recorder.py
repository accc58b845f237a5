"""Events about objects, for people: counted, queued, and written at their own pace.

Owns which events are one series, the queue and its bound, and when a write is tried again. Never
makes anybody wait: recording puts an entry into a queue. What cannot be kept is counted and logged.
Upstream: staging/src/k8s.io/client-go/tools/events/{event_broadcaster,event_recorder}.go,
tools/record/event.go
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol

from kubesched.client.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kubesched.client.event_bodies import (
    EventFacts,
    ObjectReference,
    core_event_body,
    event_body,
    event_name,
    series_patch,
    truncated_note,
)
from kubesched.client.lanes import Lane
from kubesched.client.resources import CORE_EVENTS, EVENTS, Resource
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

__all__ = [
    "CoreEventRecorder",
    "EventBroadcaster",
    "EventRecorder",
    "ObjectReference",
    "truncated_note",
]

_TRIES_MAX: Final = 12
_SLEEP_S: Final = 10.0
_JITTER: Final = 0.25
_JITTER_STEPS: Final = 1 << 30
_FINISH_S: Final = 6 * 60.0
_REFRESH_S: Final = 30 * 60.0
_SAID_AGAIN_S: Final = 10.0
_TYPES: Final = ("Normal", "Warning")

QUEUED_MAX: Final = 100_000
REMEMBERED_MAX: Final = 20_000
CONCURRENCY: Final = 8


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


class Regarding(Protocol):
    """A pod, as much of it as an event says."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class DropCounter(Protocol):
    """Counts what was lost, by why."""

    def labels(self, *values: str) -> Any: ...


class EventMetrics(Protocol):
    """The metrics of events, among others."""

    @property
    def events_dropped_total(self) -> DropCounter: ...


class _Entry:
    """One event that was recorded, and how often it was seen since."""

    __slots__ = ("awaited", "count", "facts", "is_written", "last_ns", "name", "resource")

    def __init__(self, resource: Resource, name: str, facts: EventFacts) -> None:
        self.resource = resource
        self.name = name
        self.facts = facts
        self.count = 1
        self.last_ns = facts.at_ns
        self.is_written = False
        self.awaited: tuple[int, int] | None = None
        """A series that is to be written once the event itself is."""

    @property
    def series(self) -> tuple[int, int] | None:
        """Return count and last time once it was seen again."""
        return (self.count, self.last_ns) if self.count > 1 else None


class _Write:
    """One thing to write: an event, or the count of its series as it was then."""

    __slots__ = ("entry", "series", "tries")

    def __init__(self, entry: _Entry, series: tuple[int, int] | None) -> None:
        self.entry = entry
        self.series = series
        self.tries = 0


class EventBroadcaster:
    """Writes the events of all recorders."""

    def __init__(  # noqa: PLR0913  # One argument for each thing that is handed in.
        self,
        client: EventClient,
        *,
        clock: Clock,
        log: Log,
        hostname: str,
        metrics: EventMetrics | None = None,
        rng: Generator | None = None,
        concurrency: int = CONCURRENCY,
        queued_max: int = QUEUED_MAX,
        remembered_max: int = REMEMBERED_MAX,
    ) -> None:
        """Make a broadcaster; nothing is written before it runs.

        Args:
            client: The API client of events.
            clock: What time it is.
            log: Where lines go.
            hostname: The machine, as events name it.
            metrics: Where lost events are counted.
            rng: What spreads retries.
            concurrency: How many events are written at once.
            queued_max: How many may wait to be written. Differs: upstream has room for 1,000 and
                drops the rest of a burst.
            remembered_max: How many written events are kept to find out that one comes again.
        """
        self.hostname = hostname
        self.dropped_count = 0
        self._client = client
        self._clock = clock
        self.log = log
        self._metrics = metrics
        self._rng = rng or Generator(0, "events")
        self._concurrency = concurrency
        self._queued_max = queued_max
        self._remembered_max = remembered_max
        self._queue: deque[_Write] = deque()
        self._later: list[tuple[float, int, _Write]] = []
        self._later_number = 0
        self._under_way = 0
        self._entries: dict[tuple[object, ...], _Entry] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        self._drained: list[asyncio.Future[None]] = []
        self._tasks = Tasks()
        self._last_ns = 0
        self._said_s = float("-inf")
        self._is_stopped = False

    def recorder(self, reporting_controller: str) -> EventRecorder:
        """Return what records events as one controller: a profile."""
        return EventRecorder(self, reporting_controller)

    def core_recorder(self, component: str) -> CoreEventRecorder:
        """Return what records events of the core group: those about leases."""
        return CoreEventRecorder(self, component)

    @property
    def pending_count(self) -> int:
        """Return how many writes wait or are under way."""
        return len(self._queue) + len(self._later) + self._under_way

    def now_ns(self) -> int:
        """Return the time; later than it was before, since events are named by it."""
        now_ns = int(self._clock.now_s() * 1e9)
        self._last_ns = now_ns if now_ns > self._last_ns else self._last_ns + 1
        return self._last_ns

    def record(self, facts: EventFacts) -> None:
        """Count an event, and queue it unless it only adds to a series.

        Parity: events/event_broadcaster.go recordToSink, v1.36.
        """
        _, _, kind, reason, action, _, controller, instance, at_ns = facts
        key = (facts.regarding, reason, kind, action, controller, instance, facts.related)
        entry = self._entries.get(key)
        if entry is None:
            entry = _Entry(EVENTS, event_name(facts.regarding.name, at_ns), facts)
            if self._put(_Write(entry, None)):
                self._remember(key, entry)
        elif entry.count > 1:
            entry.count += 1
            entry.last_ns = at_ns
        else:
            self._begin_series(entry, at_ns)

    def _begin_series(self, entry: _Entry, at_ns: int) -> None:
        if not entry.is_written:
            # A patch that overtakes its event finds nothing to change.
            entry.awaited = (2, at_ns)
        elif not self._put(_Write(entry, (2, at_ns))):
            return
        entry.count = 2
        entry.last_ns = at_ns

    def record_core(self, facts: EventFacts) -> None:
        """Queue an event of the core group.

        Upstream would count one that comes again with the same words; those of leases name a
        process and come once.
        """
        entry = _Entry(CORE_EVENTS, event_name(facts.regarding.name, facts.at_ns), facts)
        self._put(_Write(entry, None))

    async def run(self) -> None:
        """Write events until cancelled."""
        try:
            for number in range(self._concurrency):
                self._tasks.start(self._work(), name=f"events-writer-{number}")
            self._tasks.start(self._every(_REFRESH_S, self._refresh), name="events-refresh")
            await self._every(_FINISH_S, self._finish)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Write nothing more; what is left is lost, and counted."""
        self._is_stopped = True
        await self._tasks.stop()
        left = self.pending_count
        self._queue.clear()
        self._later.clear()
        if left:
            self._lose(left, "stopped")
            self.log.error("Unable to write events (broadcaster is shut down)", count=left)
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

    def _put(self, write: _Write) -> bool:
        if self._is_stopped:
            self._lose(1, "stopped")
            self.log.error(
                "Unable to record event (will not retry!)", err="broadcaster already stopped"
            )
            return False
        if len(self._queue) + len(self._later) >= self._queued_max:
            self._lose(1, "queue_full")
            self._say_full(write.entry)
            return False
        self._queue.append(write)
        self._wake()
        return True

    def _say_full(self, entry: _Entry) -> None:
        # One line for each of thousands would be the next thing to run full.
        now_s = self._clock.monotonic_s()
        if now_s - self._said_s >= _SAID_AGAIN_S:
            self._said_s = now_s
            self.log.error(
                "Unable to record event: too many queued events, dropped event",
                event=_ref(entry),
                droppedEvents=self.dropped_count,
            )

    def _lose(self, count: int, why: str) -> None:
        self.dropped_count += count
        if self._metrics is not None:
            self._metrics.events_dropped_total.labels(why).inc(count)

    def _remember(self, key: tuple[object, ...], entry: _Entry) -> None:
        self._entries[key] = entry
        if len(self._entries) > self._remembered_max:
            # The oldest is the least likely to come again; if it does, it is a new event.
            oldest = next(iter(self._entries))
            if self._entries[oldest].is_written:
                del self._entries[oldest]

    def _wake(self) -> None:
        while self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    async def _work(self) -> None:
        while True:
            if not self._queue:
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
            finally:
                self._under_way -= 1
            if not is_done:
                self._try_later(write)
            self._tell_drained()

    async def _try(self, write: _Write) -> bool:
        is_done = await self._record(write.entry, write.series)
        if is_done:
            self._written(write.entry)
            return True
        write.tries += 1
        if write.tries < _TRIES_MAX:
            return False
        self._lose(1, "retries_exceeded")
        self.log.error("Unable to write event (retry limit exceeded!)", event=_ref(write.entry))
        self._written(write.entry)
        return True

    def _written(self, entry: _Entry) -> None:
        entry.is_written = True
        if entry.awaited is not None:
            awaited, entry.awaited = entry.awaited, None
            self._put(_Write(entry, awaited))

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

    async def _record(self, entry: _Entry, series: tuple[int, int] | None) -> bool:
        """Write an event or a series once; return False if that should be tried again.

        Parity: events/event_broadcaster.go recordEvent, v1.36.
        """
        try:
            await self._send(entry, series)
        except ApiError as error:
            return self._refused(entry, error, is_series=series is not None)
        except TransportError as error:
            self.log.error("Unable to write event (may retry after sleeping)", err=error)
            return False
        return True

    def _refused(self, entry: _Entry, error: ApiError, *, is_series: bool) -> bool:
        message = "Server rejected event (will not retry!)"
        if isinstance(error, AlreadyExistsError):
            if is_series:
                # It was not there to be patched, and is there now.
                return False
            self.log.info(message, level=5, event=_ref(entry), err=error)
            return True
        self._lose(1, "rejected")
        self.log.error(message, err=error, event=_ref(entry))
        return True

    async def _send(self, entry: _Entry, series: tuple[int, int] | None) -> None:
        facts = entry.facts
        resource = entry.resource
        if resource is CORE_EVENTS:
            await self._post(resource, facts.namespace, core_event_body(entry.name, facts))
            return
        if series is not None:
            try:
                await self._client.request(
                    "PATCH",
                    resource.path(facts.namespace, entry.name),
                    body=series_patch(series),
                    content_type="application/strategic-merge-patch+json",
                    lane=Lane.EVENT,
                )
            except NotFoundError:
                # Its time was over, or it is still on its way.
                pass
            else:
                return
        await self._post(resource, facts.namespace, event_body(entry.name, facts, series))

    async def _post(self, resource: Resource, namespace: str, body: bytes) -> None:
        await self._client.request("POST", resource.path(namespace), body=body, lane=Lane.EVENT)

    async def _every(self, period_s: float, act: Any) -> None:
        while True:
            await self._clock.sleep(period_s)
            await act()

    async def _refresh(self) -> None:
        """Write every series as it is now, so that it does not expire."""
        for entry in list(self._entries.values()):
            if (series := entry.series) is not None:
                await self._record(entry, series)

    async def _finish(self) -> None:
        """Forget what did not come again for a while; write the last count of a series."""
        before_ns = int((self._clock.now_s() - _FINISH_S) * 1e9)
        for key, entry in list(self._entries.items()):
            series = entry.series
            if entry.last_ns >= before_ns or not (series or entry.is_written):
                continue
            if series is not None and not await self._record(entry, series):
                continue
            # It may have come again while it was written.
            if entry.series == series and self._entries.get(key) is entry:
                del self._entries[key]

    def _tell_drained(self) -> None:
        if self._drained and not self.pending_count:
            for waiting in self._drained:
                if not waiting.done():
                    waiting.set_result(None)
            self._drained.clear()


class EventRecorder:
    """Records events as one controller."""

    __slots__ = ("_broadcaster", "_controller", "_instance")

    def __init__(self, broadcaster: EventBroadcaster, reporting_controller: str) -> None:
        self._broadcaster = broadcaster
        self._controller = reporting_controller
        self._instance = f"{reporting_controller}-{broadcaster.hostname}"

    def event(
        self,
        regarding: Regarding | ObjectReference,
        *,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ObjectReference | None = None,
    ) -> None:
        """Record an event about a pod, or about what a reference names; kind is its type."""
        broadcaster = self._broadcaster
        if kind not in _TYPES:
            broadcaster.log.error("Unsupported event type", eventType=kind)
            return
        broadcaster.record(
            EventFacts(
                _reference(regarding),
                related,
                kind,
                reason,
                action,
                note,
                self._controller,
                self._instance,
                broadcaster.now_ns(),
            )
        )


class CoreEventRecorder:
    """Records events of the core group, as the leader election does."""

    __slots__ = ("_broadcaster", "_component")

    def __init__(self, broadcaster: EventBroadcaster, component: str) -> None:
        self._broadcaster = broadcaster
        self._component = component

    def event(
        self,
        regarding: ObjectReference | Mapping[str, Any],
        *,
        kind: str = "Normal",
        reason: str,
        note: str,
    ) -> None:
        """Record an event about an object: a reference, or the object as JSON has it."""
        broadcaster = self._broadcaster
        if isinstance(regarding, Mapping):
            regarding = ObjectReference.of_document(regarding)
        broadcaster.record_core(
            EventFacts(
                regarding,
                None,
                kind,
                reason,
                "",
                note,
                self._component,
                "",
                broadcaster.now_ns(),
            )
        )


def _reference(regarding: Regarding | ObjectReference) -> ObjectReference:
    if isinstance(regarding, ObjectReference):
        return regarding
    return ObjectReference(
        "Pod",
        "v1",
        regarding.namespace,
        regarding.name,
        regarding.uid,
        regarding.resource_version,
    )


def _ref(entry: _Entry) -> Ref:
    return Ref(entry.facts.namespace, entry.name)
