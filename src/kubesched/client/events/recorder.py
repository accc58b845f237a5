"""Event recorders: series, aggregation and spam filtering.

Owns the recorders, and the cache of recorded events. Never blocks: recording adds an entry to the
queue of writer.
Upstream: staging/src/k8s.io/client-go/tools/events/{event_broadcaster,event_recorder}.go,
tools/record/event.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from kubesched.api.meta import ObjectReference
from kubesched.client.events.bodies import EventFacts, reference_of, truncated_note
from kubesched.client.events.writer import Entry, EventWriter
from kubesched.client.resources import CORE_EVENTS, EVENTS
from kubesched.client.rest import Client
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.kit.tasks import Tasks

__all__ = ["CoreEventRecorder", "EventBroadcaster", "EventRecorder", "truncated_note"]

_FINISH_S: Final = 6 * 60.0
_REFRESH_S: Final = 30 * 60.0
_TYPES: Final = ("Normal", "Warning")

_CORRELATED_MAX: Final = 4096
_SIMILAR_MAX: Final = 10
_SIMILAR_S: Final = 600.0
_BURST: Final = 25.0
_REFILL_PER_S: Final = 1 / 300
_COMBINED: Final = "(combined from similar events): "


class Regarding(Protocol):
    """The fields of a pod that an event needs."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class EventBroadcaster:
    """Collects the events of all recorders, counts repeated ones, and queues them."""

    remembered_max = 20_000
    """The number of written events that are kept to detect repeated ones."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        log: Log,
        hostname: str,
        metrics: Any = None,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create a broadcaster; nothing is written before `run`.

        Args:
            client: The API client of events.
            clock: The clock.
            log: The log.
            hostname: The host name in events.
            metrics: Counts lost events, as `events_dropped_total`.
            is_busy: Returns whether more important requests are active.
        """
        self.hostname = hostname
        self.log = log
        self._clock = clock
        self._writer = EventWriter(client, clock=clock, log=log, metrics=metrics, is_busy=is_busy)
        self._entries: dict[tuple[object, ...], Entry] = {}
        self._core_entries: dict[tuple[object, ...], Entry] = {}
        self._correlator = EventCorrelator()
        self._tasks = Tasks()
        self._last_ns = 0

    @property
    def dropped_count(self) -> int:
        """Return the number of lost events: queue full, failed, rejected, or stopped before."""
        return self._writer.dropped_count

    @property
    def pending_count(self) -> int:
        """Return the number of waiting and active writes."""
        return self._writer.pending_count

    def recorder(self, reporting_controller: str) -> EventRecorder:
        """Return the recorder of one controller, such as a profile."""
        return EventRecorder(self, reporting_controller)

    def core_recorder(self, component: str, host: str = "") -> CoreEventRecorder:
        """Return a recorder of core events, for leases, controllers and kubelets."""
        return CoreEventRecorder(self, component, host)

    def now_ns(self) -> int:
        """Return a strictly increasing time, since events are named by it."""
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
        elif not entry.is_written:
            # A patch must not overtake its event.
            entry.awaited = (2, at_ns)
            entry.count, entry.last_ns = 2, at_ns
        elif self._writer.put(entry, (2, at_ns)):
            entry.count, entry.last_ns = 2, at_ns

    def record_core(self, facts: EventFacts) -> None:
        """Count an event of the core group, and queue it or its new count.

        Parity: record/event.go recordToSink, events_cache.go EventCorrelate, v1.36.
        """
        key, facts = self._correlator.combined(facts)
        entry = self._core_entries.get(key)
        if entry is not None:
            entry.count += 1
            entry.last_ns = facts.at_ns
            # An aggregated event has the last message.
            entry.facts = entry.facts._replace(note=facts.note)
        if self._correlator.is_too_much(facts):
            return
        if entry is None:
            entry = Entry(CORE_EVENTS, facts)
            if self._writer.put(entry):
                self._core_entries[key] = entry
                if len(self._core_entries) > self.remembered_max:
                    del self._core_entries[next(iter(self._core_entries))]
        elif not entry.is_written:
            entry.awaited = entry.series
        else:
            self._writer.put(entry, entry.series)

    async def run(self) -> None:
        """Write events until canceled."""
        try:
            self._writer.start()
            self._tasks.start(self._every(_REFRESH_S, self._refresh), name="events-refresh")
            await self._every(_FINISH_S, self._finish)
        finally:
            await self._tasks.stop()
            await self._writer.stop()

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; return False after the timeout."""
        return await self._writer.drain(timeout_s)

    def _remember(self, key: tuple[object, ...], entry: Entry) -> None:
        self._entries[key] = entry
        while len(self._entries) > self.remembered_max:
            # The oldest event is the least likely to repeat; if it does, it is a new event.
            oldest = next(iter(self._entries))
            if not self._entries[oldest].is_written:
                return
            del self._entries[oldest]

    async def _every(self, period_s: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep(period_s)
            await act()

    async def _refresh(self) -> None:
        """Write every series, so that it does not expire.

        Parity: events/event_broadcaster.go refreshExistingEventSeries, v1.36.
        """
        for entry in list(self._entries.values()):
            if (series := entry.series) is not None:
                await self._writer.record(entry, series)

    async def _finish(self) -> None:
        """Forget events that have not repeated for a while; write the last count of a series.

        Parity: events/event_broadcaster.go finishSeries, v1.36.
        """
        before_ns = _nanoseconds(self._clock.now_s() - _FINISH_S)
        for key, entry in list(self._entries.items()):
            series = entry.series
            if entry.last_ns >= before_ns or not entry.is_written:
                continue
            if series is not None and not await self._writer.record(entry, series):
                continue
            # It may have repeated during the write.
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
        """Record an event about a pod or a referenced object; kind is its type."""
        broadcaster = self._broadcaster
        if kind not in _TYPES:
            broadcaster.log.error("Unsupported event type", eventType=kind)
            return
        if not isinstance(regarding, ObjectReference):
            regarding = ObjectReference(
                kind="Pod",
                api_version="v1",
                namespace=regarding.namespace,
                name=regarding.name,
                uid=regarding.uid,
                resource_version=regarding.resource_version,
            )
        broadcaster.record(
            EventFacts(
                regarding,
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
        """Record an event about an object: a reference, or a decoded object.

        Args:
            regarding: The object.
            kind: Normal or Warning.
            reason: One word.
            note: A sentence.
            field_path: Which part of an object as JSON has it.
        """
        broadcaster = self._broadcaster
        if isinstance(regarding, Mapping):
            regarding = reference_of(regarding, field_path)
        at_ns = broadcaster.now_ns()
        broadcaster.record_core(
            EventFacts(regarding, None, kind, reason, "", note, self._component, self._host, at_ns)
        )


def _nanoseconds(time_s: float) -> int:
    # A float cannot hold the current time with nanoseconds.
    second = int(time_s)
    return second * 1_000_000_000 + int((time_s - second) * 1e9)


KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class EventCorrelator:
    """Aggregates similar events and limits the events per object."""

    def __init__(self) -> None:
        self._similar: dict[tuple[object, ...], tuple[dict[str, None], float]] = {}
        self._budgets: dict[tuple[object, ...], tuple[float, float]] = {}

    def combined(self, facts: EventFacts) -> tuple[tuple[object, ...], EventFacts]:
        """Return the key under which an event is counted, and its message.

        Parity: events_cache.go EventAggregate, v1.36.
        """
        about = (*_source_and_object(facts), facts.type, facts.reason)
        now_s = facts.at_ns / 1e9
        notes, last_s = self._similar.pop(about, ({}, now_s))
        if now_s - last_s > _SIMILAR_S:
            notes = {}
        notes[facts.note] = None
        is_much = len(notes) >= _SIMILAR_MAX
        if is_much:
            # Drop the oldest message to bound the set.
            del notes[next(iter(notes))]
        _keep(self._similar, about, (notes, now_s))
        if not is_much:
            return (*about, facts.regarding.field_path, facts.note), facts
        return about, facts._replace(note=_COMBINED + facts.note)

    def is_too_much(self, facts: EventFacts) -> bool:
        """Return whether a source exceeds its rate for an object.

        Parity: events_cache.go EventSourceObjectSpamFilter Filter, v1.36.
        """
        key = _source_and_object(facts)
        now_s = facts.at_ns / 1e9
        left, at_s = self._budgets.pop(key, (_BURST, now_s))
        left = min(_BURST, left + max(0.0, now_s - at_s) * _REFILL_PER_S)
        is_over = left < 1
        _keep(self._budgets, key, (left if is_over else left - 1, now_s))
        return is_over


def _source_and_object(facts: EventFacts) -> tuple[str, ...]:
    about = facts.regarding
    names = (about.kind, about.namespace, about.name, about.uid, about.api_version)
    return (facts.controller, facts.instance, *names)


def _keep(memory: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    """Add an entry as the newest, and drop the oldest."""
    memory[key] = value
    if len(memory) > _CORRELATED_MAX:
        del memory[next(iter(memory))]
