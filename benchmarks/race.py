"""One race: starts a scheduler on pending pods and watches until the last one is bound.

Owns the clock: first and last binding, last event, and the CPU and memory of the process.
"""

from __future__ import annotations

import asyncio
import base64
import re
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import msgspec

from benchmarks.race_cluster import NAMESPACE
from conformance.bulk import Connection, Request
from kubesched.kit.clock import SystemClock
from kubesched.testing import (
    SCHEDULERS,
    RealCluster,
    SchedulerName,
    SchedulerProcess,
    SchedulerSettings,
    Usage,
    start_scheduler,
    usage_of,
)

LIMIT = "limit"
BASELINE = "baseline"
RACERS = (*SCHEDULERS, LIMIT)
_BINDER = Path(__file__).with_name("limit_binder.py")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
_REMAINING = re.compile(rb'"remainingItemCount":\s*(\d+)')
_POLL_S = 0.05
# The wait for another event ends this long after the last one.
_EVENTS_S_MAX = 20.0
_SETTINGS = SchedulerSettings(qps=5000, burst=5000)


class _Key(msgspec.Struct):
    version: str = "0"
    """The number of writes."""


class _Event(msgspec.Struct):
    kv: _Key


class _Result(msgspec.Struct):
    events: list[_Event] = []


class _Answer(msgspec.Struct):
    result: _Result


class Race(msgspec.Struct, kw_only=True):
    """The figures of one racer in one race."""

    racer: str
    pods: int
    bound: int
    start_s: float
    """From the start of the process to the first binding."""
    drain_s: float
    """From the first binding to the last."""
    events: int
    """Events written, 0 where the racer writes none."""
    events_s: float
    """From the first binding to the last event."""
    cpu_s: float
    """Processor time from the first binding to the last event, or binding."""
    start_cpu_s: float
    """Processor time before the first binding."""
    server_cpu_s: float
    """The API server's processor time from the first binding to the last event, or binding."""
    peak_mb: float

    @property
    def rate(self) -> float:
        """Return pods a second."""
        return (self.bound - 1) / self.drain_s if self.drain_s else 0.0

    @property
    def cpu_ms(self) -> float:
        """Return processor time a pod."""
        return 1000 * self.cpu_s / self.bound if self.bound else 0.0

    @property
    def server_cpu_ms(self) -> float:
        """Return the API server's processor time a pod."""
        return 1000 * self.server_cpu_s / self.bound if self.bound else 0.0


def run_race(
    cluster: RealCluster,
    racer: str,
    pod_count: int,
    timeout_s: float,
    *,
    settings: SchedulerSettings = _SETTINGS,
    baseline: Path | None = None,
) -> Race:
    """Start a racer, wait until it has bound all pods, and stop it.

    Args:
        cluster: the cluster with the pending pods.
        racer: one of `RACERS`, or `BASELINE`.
        pod_count: the number of pending pods.
        timeout_s: the maximum duration of the race.
        settings: the schedulers' settings.
        baseline: the kubesched command that the racer `BASELINE` starts.
    """
    if racer == BASELINE:
        settings = replace(settings, command=[str(baseline), "run"])
    return asyncio.run(_Course(cluster, racer, pod_count, settings).run(timeout_s))


def _watch_request() -> bytes:
    prefix = f"/registry/pods/{NAMESPACE}/".encode()
    key, end = (base64.b64encode(text).decode() for text in (prefix, prefix[:-1] + b"0"))
    create_request = {"key": key, "range_end": end, "filters": ["NODELETE"]}
    return msgspec.json.encode({"create_request": create_request})


class _Course:
    def __init__(
        self, cluster: RealCluster, racer: str, pod_count: int, settings: SchedulerSettings
    ) -> None:
        self._cluster = cluster
        self._racer = racer
        self._settings = settings
        self._pod_count = pod_count
        self._bound = 0
        self._first_s = self._last_s = 0.0
        self._events = 0
        self._events_s = 0.0
        self._first_usage = self._end_usage = Usage(0, 0, 0)
        self._server_cpu_s = 0.0
        self._clock = SystemClock()

    async def run(self, timeout_s: float) -> Race:
        watcher, api_server = Connection(self._cluster.etcd_url), Connection.to(self._cluster)
        await watcher.open()
        writes = watcher.lines(Request("POST", "/v3/watch", _watch_request()))
        # The first line confirms the watch.
        await anext(writes)
        start_s = perf_counter()
        pid, end = self._start()
        try:
            async with asyncio.timeout(timeout_s):
                await self._count_bindings(writes, pid)
        except TimeoutError:
            self._last_s = perf_counter()
        # Opened only now: the server closes idle connections.
        await api_server.open()
        self._bound = await self._count_bound(api_server)
        await self._count_events(api_server, pid)
        self._end_usage = usage_of(pid)
        server_cpu_s = usage_of(self._server_pid).cpu_s - self._server_cpu_s
        end()
        await watcher.close()
        await api_server.close()
        return Race(
            racer=self._racer,
            pods=self._pod_count,
            bound=self._bound,
            start_s=self._first_s - start_s,
            drain_s=self._last_s - self._first_s,
            events=self._events,
            events_s=max(0.0, self._events_s - self._first_s),
            cpu_s=self._end_usage.cpu_s - self._first_usage.cpu_s,
            start_cpu_s=self._first_usage.cpu_s,
            server_cpu_s=server_cpu_s,
            peak_mb=self._end_usage.peak_mb,
        )

    @property
    def _server_pid(self) -> int:
        return self._cluster.pids["kube-apiserver"]

    def _start(self) -> tuple[int, Callable[[], None]]:
        group = self._cluster.group
        if self._racer == LIMIT:
            command: list[str | Path] = [sys.executable, _BINDER, "--url", self._cluster.url]
            ca_file = self._cluster.ca_file
            assert ca_file is not None
            process = group.start(LIMIT, [*command, "--ca", ca_file, "--namespace", NAMESPACE])
            return process.pid, lambda: group.stop(LIMIT)
        name: SchedulerName = "kube-scheduler" if self._racer == "kube-scheduler" else "kubesched"
        started: SchedulerProcess = start_scheduler(self._cluster, group, name, self._settings)
        return started.pid, started.kill

    async def _count_bindings(self, writes: AsyncIterator[bytes], pid: int) -> None:
        """Count the pods that were written a second time: the binding follows the creation.

        Watches etcd rather than the API server: encoding pods for one more watcher would slow the
        API server down for the racers, and it disconnects slow watchers.
        """
        async for line in writes:
            answer = msgspec.json.decode(line, type=_Answer)
            changed = sum(event.kv.version == "2" for event in answer.result.events)
            if not changed:
                continue
            now_s = perf_counter()
            if not self._bound:
                self._first_s = now_s
                self._first_usage = usage_of(pid)
                self._server_cpu_s = usage_of(self._server_pid).cpu_s
            self._last_s = now_s
            self._bound += changed
            if self._bound >= self._pod_count:
                return
        raise RuntimeError(f"the watch ended after {self._bound} bindings")

    async def _count_bound(self, api_server: Connection) -> int:
        """Return how many pods of the burst are bound: the second write need not be a binding."""
        waiting = f"{_PODS}?fieldSelector=spec.nodeName="
        code, body = await api_server.send(Request("GET", waiting))
        assert code == 200, body
        return self._pod_count - len(msgspec.json.decode(body)["items"])

    async def _count_events(self, api_server: Connection, pid: int) -> None:
        """Wait for the events of all bindings, or until no more arrive."""
        if self._racer == LIMIT:
            return
        since_s = perf_counter()
        while self._events < self._pod_count and perf_counter() - since_s < _EVENTS_S_MAX:
            code, body = await api_server.send(Request("GET", f"{_EVENTS}?limit=1"))
            assert code == 200, body
            remaining = _REMAINING.search(body)
            is_empty = b'"items":[]' in body
            count = int(remaining[1]) + 1 if remaining else 0 if is_empty else 1
            if count > self._events:
                since_s = self._events_s = perf_counter()
                self._events = count
                self._end_usage = usage_of(pid)
            else:
                await self._clock.sleep(_POLL_S)
