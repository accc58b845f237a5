"""A server that keeps events, and recorders whose time a test moves."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kubesched.client.errors import AlreadyExistsError, NotFoundError
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.client.lanes import Lane
from kubesched.kit.log import make_log
from kubesched.kit.tasks import Tasks
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.process_metrics import ProcessMetrics
from tests.unit.client.election_world import HandClock, settle
from tests.unit.kit.log_world import Pages

MERGE = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Subject:
    """A pod, as much of it as an event says."""

    name: str = "a"
    namespace: str = "default"
    uid: str = "uid-a"
    resource_version: str = "7"


class EventServer:
    """Keeps events by path, notes what it was asked, and fails when told to."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: deque[Exception] = deque()
        self.is_down: Exception | None = None
        self.under_way = 0
        self.under_way_max = 0
        self.gate: asyncio.Event | None = None
        """Where requests wait, if there is one."""

    @property
    def names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.events]

    @property
    def only(self) -> dict[str, Any]:
        (event,) = self.events.values()
        return event

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes,
        content_type: str = "application/json",
        lane: Lane = Lane.OTHER,
    ) -> bytes:
        assert lane is Lane.EVENT
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self._answer(method, path, json.loads(body), content_type)
        finally:
            self.under_way -= 1

    def _answer(self, method: str, path: str, document: Any, content_type: str) -> bytes:
        self.requests.append((method, path))
        if self.is_down is not None:
            raise self.is_down
        if self.failures:
            raise self.failures.popleft()
        if method == "POST":
            path = f"{path}/{document['metadata']['name']}"
            if path in self.events:
                raise AlreadyExistsError("it is there", code=409)
            self.events[path] = document
        else:
            assert (method, content_type) == ("PATCH", MERGE)
            if path not in self.events:
                raise NotFoundError("there is none", code=404)
            self.events[path] |= document
        return b"{}"


class World:
    """One broadcaster and what is around it."""

    def __init__(self, **options: Any) -> None:
        self.server = EventServer()
        self.clock = HandClock()
        self.pages = Pages()
        self.metrics = SchedulerMetrics()
        self.broadcaster = EventBroadcaster(
            self.server,
            clock=self.clock,
            log=make_log(self.pages, clock=self.clock, verbosity=5),
            hostname="host",
            metrics=ProcessMetrics(self.metrics.measures, version="v1.36.4"),
            **options,
        )
        self.recorder = self.broadcaster.recorder("default-scheduler")

    def failed(self, subject: Subject | None = None, note: str = "no room") -> None:
        """Record that a pod found no node."""
        self.recorder.event(
            subject or Subject(),
            kind="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=note,
        )

    def scheduled(self, name: str) -> None:
        """Record that a pod found one."""
        self.recorder.event(
            Subject(name, uid=f"uid-{name}"),
            kind="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned default/{name} to n",
        )

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.server.requests]

    @property
    def messages(self) -> list[str]:
        return [line.split('"')[1] for line in self.pages.text.splitlines()]

    def dropped(self, why: str) -> float:
        """Return what the metric says was lost."""
        sample = self.metrics.registry.get_sample_value
        return sample("kubesched_events_dropped_total", {"reason": why}) or 0.0


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    """Have the broadcaster write for as long as the block lasts."""
    tasks = Tasks()
    tasks.start(world.broadcaster.run(), name="events")
    await settle()
    try:
        yield
    finally:
        await tasks.stop()
