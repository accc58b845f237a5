"""Events about objects, for people: which are one series, and when their memory ends.

Owns the recorders and the memory of what was recorded. Never makes anybody wait: recording puts an
entry into the queue of event_writer.
Upstream: staging/src/k8s.io/client-go/tools/events/{event_broadcaster,event_recorder}.go,
tools/record/event.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from kubesched.client.event_bodies import (
    EventFacts,
    ObjectReference,
    truncated_note,
)
from kubesched.client.event_correlator import EventCorrelator
from kubesched.client.event_writer import Entry, EventClient, EventMetrics, EventWriter
from kubesched.client.resources import CORE_EVENTS, EVENTS
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.rng import Generator
from kubesched.kit.tasks import Tasks

__all__ = [
    "CoreEventRecorder",
    "EventBroadcaster",
    "EventRecorder",
    "ObjectReference",
    "truncated_note",
]

_FINISH_S: Final = 6 * 60.0
_REFRESH_S: Final = 30 * 60.0
_TYPES: Final = ("Normal", "Warning")

QUEUED_MAX: Final = 100_000
REMEMBERED_MAX: Final = 20_000
CONCURRENCY: Final = 8


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


class EventBroadcaster:
    """Takes the events of all recorders, counts those that come again, has them written."""

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
        is_busy: Callable[[], bool] = lambda: False,
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
            is_busy: Whether the API server has more important things to do for us.
        """
        self.hostname = hostname
        self.log = log
        self._clock = clock
        self._writer = EventWriter(
            client,
            clock=clock,
            log=log,
            metrics=metrics,
            rng=rng or Generator(0, "events"),
            concurrency=concurrency,
            queued_max=queued_max,
            is_busy=is_busy,
        )
        self._remembered_max = remembered_max
        self._entries: dict[tuple[object, ...], Entry] = {}
        self._core_entries: dict[tuple[object, ...], Entry] = {}
        self._correlator = EventCorrelator()
        self._tasks = Tasks()
        self._last_ns = 0

    @property
    def dropped_count(self) -> int:
        """Return how many events were lost: no room, no success, refused, or stopped before."""
        return self._writer.dropped_count

    @property
    def pending_count(self) -> int:
        """Return how many writes wait or are under way."""
        return self._writer.pending_count

    def recorder(self, reporting_controller: str) -> EventRecorder:
        """Return what records events as one controller: a profile."""
        return EventRecorder(self, reporting_controller)

    def core_recorder(self, component: str, host: str = "") -> CoreEventRecorder:
        """Return what records events of the core group: of leases, controllers, kubelets."""
        return CoreEventRecorder(self, component, host)

    def now_ns(self) -> int:
        """Return the time; later than it was before, since events are named by it."""
        now_ns = _nanoseconds(self._clock.now_s())
        self._last_ns = now_ns if now_ns > self._last_ns else self._last_ns + 1
        return self._last_ns

    def record(self, facts: EventFacts) -> None:
        """Count an event, and queue it unless it only adds to a series.

        Parity: events/event_broadcaster.go recordToSink, v1.36.
        """
        regarding, related, kind, reason, action, _, controller, instance, at_ns = facts
        key = (regarding, reason, kind, action, controller, instance, related)
        entry = self._entries.get(key)
        if entry is None:
            entry = Entry(EVENTS, facts)
            if self._writer.put(entry):
                self._remember(key, entry)
        elif entry.count > 1:
            entry.count += 1
            entry.last_ns = at_ns
        else:
            self._begin_series(entry, at_ns)

    def record_core(self, facts: EventFacts) -> None:
        """Count an event of the core group, and queue it or its new count.

        Parity: record/event.go recordToSink, events_cache.go EventCorrelate, v1.36.
        """
        key, facts = self._correlator.combined(facts)
        entry = self._core_entries.get(key)
        if entry is not None:
            entry.count += 1
            entry.last_ns = facts.at_ns
            # What is combined says what was said last.
            entry.facts = entry.facts._replace(note=facts.note)
        if self._correlator.is_too_much(facts):
            return
        if entry is None:
            entry = Entry(CORE_EVENTS, facts)
            if self._writer.put(entry):
                self._core_entries[key] = entry
                if len(self._core_entries) > self._remembered_max:
                    del self._core_entries[next(iter(self._core_entries))]
        elif not entry.is_written:
            entry.awaited = entry.series
        else:
            self._writer.put(entry, entry.series)

    async def run(self) -> None:
        """Write events until cancelled."""
        try:
            self._writer.start()
            self._tasks.start(self._every(_REFRESH_S, self._refresh), name="events-refresh")
            await self._every(_FINISH_S, self._finish)
        finally:
            await self._tasks.stop()
            await self._writer.stop()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; return False if that took too long."""
        return await self._writer.drain(timeout_s)

    def _begin_series(self, entry: Entry, at_ns: int) -> None:
        if not entry.is_written:
            # A patch that overtakes its event finds nothing to change.
            entry.awaited = (2, at_ns)
        elif not self._writer.put(entry, (2, at_ns)):
            return
        entry.count = 2
        entry.last_ns = at_ns

    def _remember(self, key: tuple[object, ...], entry: Entry) -> None:
        self._entries[key] = entry
        while len(self._entries) > self._remembered_max:
            # The oldest is the least likely to come again; if it does, it is a new event.
            oldest = next(iter(self._entries))
            if not self._entries[oldest].is_written:
                return
            del self._entries[oldest]

    async def _every(self, period_s: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(period_s)
            await act()

    async def _refresh(self) -> None:
        """Write every series as it is now, so that it does not expire.

        Parity: events/event_broadcaster.go refreshExistingEventSeries, v1.36.
        """
        for entry in list(self._entries.values()):
            if (series := entry.series) is not None:
                await self._writer.record(entry, series)

    async def _finish(self) -> None:
        """Forget what did not come again for a while; write the last count of a series.

        Parity: events/event_broadcaster.go finishSeries, v1.36.
        """
        before_ns = _nanoseconds(self._clock.now_s() - _FINISH_S)
        for key, entry in list(self._entries.items()):
            series = entry.series
            if entry.last_ns >= before_ns or not entry.is_written:
                continue
            if series is not None and not await self._writer.record(entry, series):
                continue
            # It may have come again while it was written.
            if entry.series == series and self._entries.get(key) is entry:
                del self._entries[key]


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
    """Records events of the core group, as leader election, controllers and kubelets do."""

    __slots__ = ("_broadcaster", "_component", "_host")

    def __init__(self, broadcaster: EventBroadcaster, component: str, host: str = "") -> None:
        self._broadcaster = broadcaster
        self._component = component
        self._host = host

    def event(
        self,
        regarding: ObjectReference | Mapping[str, Any],
        *,
        kind: str = "Normal",
        reason: str,
        note: str,
        field_path: str = "",
    ) -> None:
        """Record an event about an object: a reference, or the object as JSON has it.

        Args:
            regarding: The object.
            kind: Normal or Warning.
            reason: One word.
            note: A sentence.
            field_path: Which part of an object as JSON has it.
        """
        broadcaster = self._broadcaster
        if isinstance(regarding, Mapping):
            regarding = ObjectReference.of_document(regarding, field_path)
        at_ns = broadcaster.now_ns()
        broadcaster.record_core(
            EventFacts(regarding, None, kind, reason, "", note, self._component, self._host, at_ns)
        )


def _nanoseconds(time_s: float) -> int:
    # A float of today has no room for nanoseconds beside the seconds.
    second = int(time_s)
    return second * 1_000_000_000 + int((time_s - second) * 1e9)


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
