"""A complete scheduler with a manual clock and a scripted network.

Requests to the API server are recorded, and answered as a test specifies. Everything else
is real, connected by `run.live_scheduler`; a test supplies the watch events.
"""

from __future__ import annotations

import asyncio
import heapq
import io
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec

from kubesched.api.decode import STRUCTS, decode_as
from kubesched.client.auth.credentials import ClusterAccess, FixedCredential
from kubesched.client.errors import TransportError
from kubesched.client.http.transport import Outgoing, Response
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.client.watch.changes import Change
from kubesched.config.load import default_config, load_config_object
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.runtime.registry import Registry
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import make_log
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.run.live_scheduler import Environment, LiveScheduler, LiveSettings
from tests.unit.builders import CONFIG_VERSION, Wire, pod_wire
from tests.unit.client.request_world import ScriptedAnswer, on_a_loop, rejection

__all__ = ["World", "on_a_loop", "rejection"]

START_S = 1_800_000_000.5
TURNS_MAX = 20_000


class MovedClock:
    """A clock that a test moves; sleeping for zero seconds yields to other tasks once."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now_s(self) -> float:
        return START_S + self.at_s

    def monotonic_s(self) -> float:
        return self.at_s

    async def sleep(self, delay_s: float) -> None:
        if delay_s <= 0:
            await SystemClock().sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.at_s + delay_s, next(self._order), woken))
        await woken

    def move(self, seconds: float) -> None:
        self.at_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self.at_s:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)


Reply = ScriptedAnswer | TransportError


class Network:
    """Records requests, and replies with success unless a test specifies a reply."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []
        """Method, path and body, in the order in which they were sent."""
        self.answered: list[str] = []
        """Method and path, in the order in which they were answered."""
        self._replies: dict[str, deque[Reply]] = {}
        self._held: dict[str, asyncio.Event] = {}

    def reply(self, request: str, *replies: Reply) -> None:
        """Set the replies to the next requests like `POST .../binding`, by the end of the path."""
        self._replies.setdefault(request, deque()).extend(replies)

    def hold(self, request: str) -> asyncio.Event:
        """Delay the replies to requests like this one until the event is set."""
        return self._held.setdefault(request, asyncio.Event())

    def of(self, method: str, part: str = "") -> list[tuple[str, Any]]:
        """Return path and body of the requests with a method and a part of the path."""
        return [(path, body) for verb, path, body in self.sent if verb == method and part in path]

    async def send(self, request: Outgoing) -> Response:
        path = request.target.partition("?")[0]
        body = None if request.body is None else msgspec.json.decode(request.body)
        self.sent.append((request.method, path, body))
        line = f"{request.method} {path}"
        for name, open_ in self._held.items():
            if _is_meant(name, line):
                await open_.wait()
        self.answered.append(line)
        for name, replies in self._replies.items():
            if replies and _is_meant(name, line):
                reply = replies.popleft()
                if isinstance(reply, TransportError):
                    raise reply
                return reply
        status = 201 if request.method == "POST" else 200
        return ScriptedAnswer(status, request.body or b"{}", {"Content-Type": "application/json"})

    async def close(self) -> None:
        return None


def _is_meant(name: str, line: str) -> bool:
    method, _, part = name.partition(" ")
    return line.startswith(f"{method} ") and line.endswith(part)


class World:
    """A scheduler, its clock, its network and its log."""

    def __init__(
        self,
        *plugins: Any,
        verbosity: int = 0,
        config: Mapping[str, Any] | None = None,
        without: tuple[str, ...] = (),
        qps: float = -1,
        burst: int = 0,
    ) -> None:
        """Build the scheduler.

        Args:
            plugins: Classes with a name, enabled at all their extension points.
            verbosity: Of the log.
            config: Fields of the configuration; None for the default configuration.
            without: Disabled feature gates.
            qps: Requests per second; unlimited if negative.
            burst: Requests that may be sent at once.
        """
        self.clock = MovedClock()
        self.network = Network()
        self.metrics = SchedulerMetrics()
        self.text = io.StringIO()
        self.log = make_log(self.text, verbosity=verbosity, clock=self.clock, buffer_bytes=0)
        self.versions = count(1)
        self.idle_count = 0
        registry = Registry({plugin.name: plugin for plugin in plugins}) if plugins else None
        client = Client(
            ClusterAccess("https://cluster.test:6443", FixedCredential()),
            qps=qps,
            burst=burst,
            user_agent="test",
            clock=self.clock,
            log=self.log,
            transport=self.network,
        )
        self.live = LiveScheduler(
            LiveSettings(
                _config(plugins, config),
                hostname="host",
                out_of_tree=registry,
                is_enabled=lambda gate: gate not in without,
            ),
            Environment(client, self.clock, self.log, self.metrics),
        )
        self.cache, self.queue = self.live.cache, self.live.queue
        self.pods, self.handlers = self.live.pods, self.live.scheduler.handlers
        self.live.scheduler.on_idle = self._note_idle

    def _note_idle(self) -> None:
        self.idle_count += 1

    # -- watch events -----------------------------------------------------------------------------

    def change(
        self, type_: str, wire: Wire, resource: Resource = PODS, *, without_object: bool = False
    ) -> Change:
        """Return a watch event; with `without_object`, a deletion that a list found."""
        meta = wire["metadata"]
        meta.setdefault("resourceVersion", str(next(self.versions)))
        namespace = meta.get("namespace", "")
        key = f"{namespace}/{meta['name']}" if namespace else meta["name"]
        kind = STRUCTS.get((resource.api_version, resource.kind))
        shown = None if without_object else wire if kind is None else decode_as(kind, wire)
        raw = b"" if without_object or resource not in (PODS, NODES) else msgspec.json.encode(wire)
        return Change(resource, type_, key, meta.get("uid", ""), shown, raw, initial=False)

    def show(self, type_: str, wire: Wire, resource: Resource = PODS, **options: Any) -> None:
        """Apply a change at once, while the loop does not run."""
        self.handlers.apply(self.change(type_, wire, resource, **options))

    def put(self, type_: str, wire: Wire, resource: Resource = PODS, **options: Any) -> None:
        """Put a change into the inbox."""
        self.live.inbox.put(self.change(type_, wire, resource, **options))

    def pop(self) -> QueuedPodInfo:
        """Pop the next pod from the queue, which must not be empty."""
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def reject(self, name: str, plugin: str, **parts: Any) -> QueuedPodInfo:
        """Add a pod whose first attempt a plugin rejected."""
        self.show("ADDED", pod_wire(name, **parts))
        queued = self.pop()
        assert queued.pod.name == name, "add other pods later"
        queued.unschedulable_plugins = {plugin}
        self.queue.add_unschedulable_if_not_present(queued)
        return queued

    def assume(self, name: str, node_name: str) -> QueuedPodInfo:
        """Pop a pod from the queue and assume it on a node."""
        queued = self.pop()
        assert queued.pod.name == name, "add other pods later"
        self.cache.assume_pod(queued.pod, node_name)
        return queued

    # -- results ----------------------------------------------------------------------------------

    def where(self, name: str) -> str | None:
        """Return the name of the queue that a pod is in."""
        return self.queue.where(f"default/{name}")

    def node_of(self, name: str) -> str | None:
        """Return the node a pod counts on."""
        bound = self.cache.bound_pod(f"uid-default-{name}")
        return None if bound is None else bound.node_name

    def nominated(self, node_name: str) -> list[str]:
        """Return the names of the pods that were nominated to a node."""
        return [pod.name for pod in self.queue.nominator.nominated_pods(node_name)]

    def messages(self) -> list[str]:
        """Return the messages of the log, without their fields."""
        return re.findall(r'\] "([^"]*)"', self.text.getvalue())

    def lines(self, message: str) -> list[str]:
        """Return the log lines with a message, without their headers."""
        found = (line.partition("] ")[2] for line in self.text.getvalue().splitlines())
        return [line for line in found if line.startswith(f'"{message}"')]

    def bindings(self) -> dict[str, str]:
        """Return the node of every binding that was sent, by the pod's name."""
        sent = self.network.of("POST", "/binding")
        return {body["metadata"]["name"]: body["target"]["name"] for _, body in sent}

    def patches(self, name: str = "") -> list[Wire]:
        """Return the status patches that were sent."""
        part = f"/pods/{name}/status" if name else "/status"
        return [body["status"] for _, body in self.network.of("PATCH", part)]

    def events(self, reason: str = "") -> list[Wire]:
        """Return the events that were created."""
        sent = [body for _, body in self.network.of("POST", "/events")]
        return [event for event in sent if not reason or event["reason"] == reason]

    # -- running ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the loop and the event broadcaster."""
        self.live.tasks.start(self.live.scheduler.run(), name="scheduler")
        self.live.tasks.start(self.live.events.run(), name="events")
        self.live.start_scheduling()
        try:
            yield
        finally:
            self.live.scheduler.stop()
            await self.live.bindings.stop()
            await self.live.tasks.stop()

    async def move(self, seconds: float) -> None:
        """Move the clock, and let all due work run."""
        self.clock.move(seconds)
        await self.rest()

    async def rest(self) -> None:
        """Wait until no work is left before the clock moves."""
        self.live.inbox.put(_nothing)
        idle_before = self.idle_count
        await self.until(lambda: self.idle_count > idle_before and self._is_at_rest())

    def _is_at_rest(self) -> bool:
        live = self.live
        return not (
            len(live.inbox)
            or live.scheduler.outstanding.count
            or len(live.bindings) != len(list(live.waiting_pods))
            or len(live.patches)
            or live.events.pending_count
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Let all tasks run until a condition holds."""
        for _ in range(TURNS_MAX):
            await SystemClock().sleep(0)
            if is_so():
                return
        raise AssertionError(f"the condition never held\n{self.text.getvalue()}")


def _nothing() -> None:
    return None


def _config(
    plugins: tuple[Any, ...], fields: Mapping[str, Any] | None
) -> KubeSchedulerConfiguration:
    if not plugins and fields is None:
        return default_config()
    enabled = [{"name": plugin.name} for plugin in plugins]
    document = {
        "apiVersion": CONFIG_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
    }
    return load_config_object({**document, **(fields or {})})
