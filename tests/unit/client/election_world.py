"""Candidates of an election, a lease server and a clock that tests advance."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from kubesched.client.errors import AlreadyExistsError, ConflictError, NotFoundError, TransportError
from kubesched.client.leader_election import LeaderCallbacks, LeaderElector, LeaseLock
from kubesched.client.rest import Body, Client, Lane, Query
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import NullLog
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import Tasks

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
START_S = 1_800_000_000.25


class HandClock:
    """A clock that only `advance` moves, waking due sleepers."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now_s(self) -> float:
        return START_S + self._now_s

    def monotonic_s(self) -> float:
        return self._now_s

    async def sleep(self, delay_s: float) -> None:
        wakeup = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_s + delay_s, next(self._order), wakeup))
        await wakeup

    async def advance(self, seconds: float) -> None:
        """Advance the time, from one sleeper's due time to the next."""
        end_s = self._now_s + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            due_s, _, wakeup = heapq.heappop(self._sleepers)
            self._now_s = max(self._now_s, due_s)
            if not wakeup.done():
                wakeup.set_result(None)
                await settle()
        self._now_s = end_s


async def settle() -> None:
    """Run all tasks that can run without the time advancing."""
    for _ in range(40):
        await SystemClock().sleep(0)


class LeaseServer:
    """A server with one lease."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.requests: list[tuple[str, str]] = []

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def answer(self, candidate: str, method: str, path: str, body: Any) -> bytes:
        self.requests.append((candidate, method))
        if method == "POST":
            assert path == PATH
            if self.lease is not None:
                raise AlreadyExistsError("the lease exists", code=409)
            self.store(json.loads(body))
        else:
            assert path == f"{PATH}/kube-scheduler"
            if self.lease is None:
                raise NotFoundError("the lease does not exist", code=404)
        if method == "PUT":
            document = json.loads(body)
            if document["metadata"]["resourceVersion"] != str(self.version):
                raise ConflictError("the lease has changed", code=409)
            self.store(document)
        return json.dumps(self.lease).encode()

    def store(self, document: dict[str, Any]) -> None:
        self.version += 1
        document["metadata"] |= {"resourceVersion": str(self.version), "uid": "u"}
        self.lease = document


class Connection(Client):
    """The client of one candidate."""

    def __init__(self, server: LeaseServer, candidate: str) -> None:
        self._server = server
        self._candidate = candidate
        self.is_cut = False
        self.hangs = False
        self.timeouts_s: list[float | None] = []

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
        self.timeouts_s.append(timeout_s)
        await settle_a_little()
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.is_cut:
            raise TransportError("connection refused", is_refused=True)
        return self._server.answer(self._candidate, method, path, msgspec.json.encode(body))


async def settle_a_little() -> None:
    await SystemClock().sleep(0)


class Lines(NullLog):
    """A log that keeps its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int, str, dict[str, Any]]] = []

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None:
        self.lines.append((level, message, fields))

    def error(self, message: str, /, err: Any = None, **fields: object) -> None:
        self.lines.append((-1, message, {"err": err, **fields}))

    def messages(self, level: int = 0) -> list[str]:
        return [message for at, message, _ in self.lines if at <= level]


class Counters:
    """The two metrics of an election."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.leader_election_master_status = _MetricFamily(self.values, "status")
        self.leader_election_slowpath_total = _MetricFamily(self.values, "slow")


class _MetricFamily:
    def __init__(self, values: dict[str, float], name: str) -> None:
        self._values = values
        self._name = name

    def labels(self, *values: str) -> _MetricFamily:
        assert values == ("kube-scheduler",)
        return self

    def set(self, value: float) -> None:
        self._values[self._name] = value

    def inc(self) -> None:
        self._values[self._name] = self._values.get(self._name, 0) + 1


class Candidate:
    """An elector with a record of its callbacks and events."""

    def __init__(
        self,
        clock: HandClock,
        server: LeaseServer,
        name: str,
        *,
        work: Callable[[], Any] | None = None,
    ) -> None:
        self.clock = clock
        self.connection = Connection(server, name)
        self.log = Lines()
        self.metrics = Counters()
        self.happened: list[tuple[float, str]] = []
        self._do = work
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None
        self.elector = LeaderElector(
            self.connection,
            lock=LeaseLock("kube-system", "kube-scheduler", name),
            lease_duration_s=15,
            renew_deadline_s=10,
            retry_period_s=2,
            callbacks=LeaderCallbacks(self._work, self._stopped),
            clock=clock,
            rng=RandomStream(1, name),
            log=self.log,
            metrics=self.metrics,
            record_event=self._event,
        )

    def start(self) -> None:
        self._task = self._tasks.start(self.elector.run(), name="candidate")

    async def end(self) -> None:
        """Wait until `run` returns."""
        assert self._task is not None
        for _ in range(10):
            await settle()
        assert self._task.done()
        await self._task

    async def cancel(self) -> None:
        """Cancel `run`, as a task group does."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait({self._task})
        assert self._task.cancelled()

    @property
    def is_over(self) -> bool:
        assert self._task is not None
        return self._task.done()

    def callbacks(self, *kinds: str) -> list[str]:
        return [text for _, text in self.happened if not kinds or text.split()[0] in kinds]

    def when(self, text: str) -> float:
        return next(at_s for at_s, happened in self.happened if happened == text)

    def _note(self, text: str) -> None:
        self.happened.append((self.clock.monotonic_s(), text))

    async def _work(self) -> None:
        self._note("work begins")
        try:
            if self._do is not None:
                await self._do()
            await asyncio.get_running_loop().create_future()
        finally:
            self._note("work ends")

    async def _stopped(self) -> None:
        self._note("stopped")

    def _event(self, lease: dict[str, Any], text: str) -> None:
        assert lease["metadata"]["uid"] == "u"
        self._note(f"event {text}")
