"""A server that stores events, and a broadcaster with a manual clock."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kubesched.client.errors import AlreadyExistsError, NotFoundError
from kubesched.client.events.recorder import EventBroadcaster
from kubesched.client.rest import Body, Client, Lane, Query
from kubesched.kit.log import make_log
from kubesched.kit.tasks import Tasks
from kubesched.metrics.process import ProcessMetrics
from kubesched.metrics.scheduler import SchedulerMetrics
from tests.unit.client.election_world import HandClock, settle
from tests.unit.kit.log_world import Pages

MERGE = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Subject:
    """The fields of a pod that an event needs."""

    name: str = "a"
    namespace: str = "default"
    uid: str = "uid-a"
    resource_version: str = "7"


class EventServer(Client):
    """Stores events by path, records requests, and fails on demand."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: deque[Exception] = deque()
        self.is_down: Exception | None = None
        self.active = 0
        self.active_max = 0
        self.gate: asyncio.Event | None = None
        """Blocks requests while it is not set."""

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
        query: Query | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        lane: Lane = Lane.OTHER,
        timeout_s: float | None = None,
    ) -> bytes:
        assert lane is Lane.EVENT
        assert isinstance(body, bytes)
        self.active += 1
        self.active_max = max(self.active_max, self.active)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self._answer(method, path, json.loads(body), content_type)
        finally:
            self.active -= 1

    def _answer(self, method: str, path: str, document: Any, content_type: str) -> bytes:
        self.requests.append((method, path))
        if self.is_down is not None:
            raise self.is_down
        if self.failures:
            raise self.failures.popleft()
        if method == "POST":
            path = f"{path}/{document['metadata']['name']}"
            if path in self.events:
                raise AlreadyExistsError("the event exists", code=409)
            self.events[path] = document
        else:
            assert (method, content_type) == ("PATCH", MERGE)
            if path not in self.events:
                raise NotFoundError("the event does not exist", code=404)
            self.events[path] |= document
        return b"{}"


class World:
    """A broadcaster with its server, clock, log and metrics."""

    def __init__(self, is_busy: Callable[[], bool] = lambda: False, **limits: int) -> None:
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
            is_busy=is_busy,
        )
        for name, limit in limits.items():
            owner = self.broadcaster if name == "remembered_max" else self.broadcaster._writer
            setattr(owner, name, limit)
        self.recorder = self.broadcaster.recorder("default-scheduler")

    def failed(self, subject: Subject | None = None, note: str = "no room") -> None:
        """Record that no node fits a pod."""
        self.recorder.event(
            subject or Subject(),
            kind="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=note,
        )

    def scheduled(self, name: str) -> None:
        """Record that a pod was scheduled."""
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

    def dropped(self, reason: str) -> float:
        """Return the metric of lost events."""
        sample = self.metrics.registry.get_sample_value
        return sample("kubesched_events_dropped_total", {"reason": reason}) or 0.0


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    """Run the broadcaster within the block."""
    tasks = Tasks()
    tasks.start(world.broadcaster.run(), name="events")
    await settle()
    try:
        yield
    finally:
        await tasks.stop()
