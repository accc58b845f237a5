"""The scheduler in memory with a virtual clock: no sockets, no threads, no waiting.

Owns a cluster in memory that responds to a scheduler's writes like an API server: bindings,
conditions, deletions, events. Cache, queue and plugins are those of the running scheduler. There
are no controllers and no kubelets: evicted pods are deleted immediately, and only the scheduler
name is defaulted.

    def test_big_pods_wait(cluster):
        cluster.add(a_node("small", capacity={"cpu": "1"}), a_pod("big", requests={"cpu": "2"}))
        cluster.schedule()
        assert cluster.why("big") == "0/1 nodes are available: 1 Insufficient cpu. ..."
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from itertools import count
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from kubesched.api.builders import Document
from kubesched.api.decode import STRUCTS, decode_as
from kubesched.api.documents import key_of
from kubesched.api.times import time_text
from kubesched.client.auth.credentials import ClusterAccess, FixedCredential
from kubesched.client.http.connection_pool import WholeResponse
from kubesched.client.http.transport import Outgoing, Response
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.client.watch.changes import Change
from kubesched.config.load import load_config_object
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.profile.plugin_loading import ExtraPlugins, registry_with
from kubesched.run.live_scheduler import Environment, LiveScheduler, LiveSettings
from kubesched.testing.virtual_clock import VirtualClock

DEFAULT_SCHEDULER: Final = "default-scheduler"
_TURNS_MAX: Final = 100_000
_QUIET_TURNS: Final = 10
_STILL_TURNS: Final = 500
"""After this many turns without progress, the remaining tasks wait for the clock."""
_STEP_S: Final = 0.5


class Cluster:
    """Nodes, pods and a scheduler."""

    def __init__(
        self,
        *,
        plugins: ExtraPlugins = (),
        args: Mapping[str, Mapping[str, Any]] | None = None,
        config: Mapping[str, Any] | None = None,
        log: Log | None = None,
        seed: int = 0,
    ) -> None:
        """Create an empty cluster.

        Args:
            plugins: Classes, factories, or a mapping by name; enabled at all extension points.
            args: Arguments under `pluginConfig`, by plugin name.
            config: Fields of the scheduler's configuration; `profiles` replaces the default one.
            log: The scheduler's log.
            seed: The random seed for ties between nodes.
        """
        self.clock = VirtualClock()
        self.metrics = SchedulerMetrics()
        self._store = _Store(self.clock)
        self._idle_count = 0
        registry = registry_with(plugins)
        log = log or NullLog()
        client = Client(
            ClusterAccess("https://cluster.test", FixedCredential()),
            qps=-1,
            burst=0,
            user_agent="kubesched",
            clock=self.clock,
            log=log,
            transport=self._store,
        )
        enabled = [{"name": name} for name in registry]
        plugin_config = [{"name": name, "args": values} for name, values in (args or {}).items()]
        profile = {"plugins": {"multiPoint": {"enabled": enabled}}, "pluginConfig": plugin_config}
        settings = LiveSettings(
            load_config_object(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "profiles": [profile],
                    **(config or {}),
                }
            ),
            "test",
            out_of_tree=registry,
            seed=seed,
        )
        outside = Environment(client, self.clock, log, self.metrics)
        self._loop = _VirtualLoop(self.clock)
        try:
            self.live = self._loop.run_until_complete(self._started(settings, outside))
        except BaseException:  # For example an invalid configuration.
            self._loop.close()
            raise

    async def _started(self, settings: LiveSettings, outside: Environment) -> LiveScheduler:
        # In the loop: a plugin's constructor may start tasks.
        live = LiveScheduler(settings, outside)
        live.scheduler.on_idle = self._note_idle
        self._store.watch(live)
        live.tasks.start(live.scheduler.run(), name="scheduler")
        live.tasks.start(live.events.run(), name="events")
        live.start_scheduling()
        return live

    def close(self) -> None:
        """Stop the scheduler; the creator of the cluster must call this."""
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _stop(self) -> None:
        self.live.scheduler.stop()
        await self.live.bindings.stop()
        await self.live.stop_tasks()

    # -- objects ----------------------------------------------------------------------------------

    def add(self, *documents: Mapping[str, Any]) -> None:
        """Add or replace objects; the next `schedule` sees them."""
        for document in documents:
            self._store.put(dict(copy.deepcopy(document)))

    def remove(self, kind: str, name: str) -> None:
        """Delete an object: `remove("Node", "n1")`, `remove("Pod", "shop/web")`."""
        self._store.remove(kind, name if "/" in name else f"default/{name}", name)

    def documents(self) -> list[Document]:
        """Return all current objects of the cluster."""
        return copy.deepcopy(self._store.all())

    def pod(self, name: str) -> Document:
        """Return the pod `name` or `namespace/name`; KeyError if there is none."""
        return self._store.pods()[pod_key(name)]

    def node_of(self, name: str) -> str:
        """Return the node of a pod; empty if it has none."""
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def placed(self) -> dict[str, str]:
        """Return the node of every pod that has one, by `namespace/name`."""
        pods = self._store.pods().items()
        return {key: pod["spec"]["nodeName"] for key, pod in pods if pod["spec"].get("nodeName")}

    def why(self, name: str) -> str:
        """Return the message of a pending pod's condition; empty if there is none."""
        for condition in self.pod(name).get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition.get("message", ""))
        return ""

    def state(self, name: str) -> str:
        """Return the state: active, backoff, unschedulable, gated, waitingOnPermit or bound."""
        return str(self.explain(name)["state"])

    def explain(self, name: str) -> Document:
        """Return the report of a pod, as `/debug/explain` does; KeyError if it is unknown."""
        report = self.live.explain(pod_key(name))
        if report is None:
            raise KeyError(name)
        return dict(msgspec.json.decode(report))

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and note of a pod's events, in order."""
        return [
            (event["reason"], event["note"])
            for event in self._store.events
            if key_of({"metadata": event["regarding"]}) == pod_key(name)
        ]

    # -- scheduling -------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Run the scheduler until it is idle, without moving the clock."""
        self._loop.run_until_complete(self._rest())

    def advance(self, seconds: float) -> None:
        """Move the clock in steps, and run the scheduler after each step."""
        self.schedule()
        left_s = seconds
        while left_s > 0:
            step_s = min(left_s, _STEP_S)
            self.clock.move(step_s)
            left_s -= step_s
            self.schedule()

    def _note_idle(self) -> None:
        self._idle_count += 1

    async def _rest(self) -> None:
        self.live.inbox.put(lambda: None)
        before = self._idle_count
        quiet_turns = still_turns = 0
        last: tuple[int, ...] = ()
        for _ in range(_TURNS_MAX):
            await SystemClock().sleep(0)
            busy = self._busy()
            is_quiet = self._idle_count > before and not any(busy)
            quiet_turns = quiet_turns + 1 if is_quiet else 0
            # A task that was just woken is visible only after some turns.
            if quiet_turns == _QUIET_TURNS:
                return
            still_turns = still_turns + 1 if busy == last else 0
            last = busy
            if still_turns >= _STILL_TURNS and self.clock.next_s() is not None:
                return  # A task sleeps until the clock is moved.
        raise AssertionError(
            "the scheduler does not become idle: a plugin must wait with "
            "`await handle.clock.sleep(...)`, which a test ends with `cluster.advance(...)`"
        )

    def _busy(self) -> tuple[int, ...]:
        """Return the numbers of pending operations; all zero if the scheduler is idle."""
        live = self.live
        return (
            len(live.inbox),
            live.scheduler.outstanding.count,
            abs(len(live.bindings) - len(list(live.waiting_pods))),
            len(live.patches),
            live.events.pending_count,
        )


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers use the virtual clock; it must never block."""

    def __init__(self, clock: VirtualClock) -> None:
        self._virtual = clock
        super().__init__()

    def time(self) -> float:
        return self._virtual.monotonic_s()


class _Store:
    """The objects of the cluster; the transport of the scheduler's client."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._objects: dict[tuple[Resource, str], Document] = {}
        self._resources: dict[tuple[str, str], Resource] = {}
        self._live: LiveScheduler | None = None
        self._numbers = count(1)
        self.events: list[Document] = []

    def watch(self, live: LiveScheduler) -> None:
        """Send every change to a scheduler."""
        self._live = live
        self._resources = {
            (resource.api_version, resource.kind): resource for resource in live.resources
        }

    def all(self) -> list[Document]:
        """Return the objects."""
        return list(self._objects.values())

    def pods(self) -> dict[str, Document]:
        """Return the pods by key."""
        return {key: pod for (resource, key), pod in self._objects.items() if resource == PODS}

    def put(self, document: Document) -> None:
        """Create or replace an object."""
        version, kind = document.get("apiVersion", "v1"), document["kind"]
        resource = self._resources.get((version, kind))
        if resource is None:
            raise ValueError(f"the scheduler does not watch {version} {kind}")
        metadata = document.setdefault("metadata", {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        if resource == PODS:
            document["spec"].setdefault("schedulerName", DEFAULT_SCHEDULER)
        key = key_of(document)
        previous = self._objects.get((resource, key))
        old = {} if previous is None else previous["metadata"]
        metadata.setdefault("uid", old.get("uid") or f"uid-{next(self._numbers)}")
        metadata.setdefault(
            "creationTimestamp", old.get("creationTimestamp") or time_text(self._clock.now_s())
        )
        self._set(resource, key, document, "ADDED" if previous is None else "MODIFIED")

    def remove(self, kind: str, *keys: str) -> None:
        """Delete the object with one of the keys."""
        for resource, key in list(self._objects):
            if resource.kind == kind and key in keys:
                self._notify(resource, key, self._objects.pop((resource, key)), "DELETED")
                return
        raise KeyError(f"{kind} {keys[-1]}")

    def _set(self, resource: Resource, key: str, document: Document, event: str) -> None:
        document["metadata"]["resourceVersion"] = str(next(self._numbers))
        self._objects[resource, key] = document
        self._notify(resource, key, document, event)

    def _notify(self, resource: Resource, key: str, document: Document, event: str) -> None:
        assert self._live is not None
        kind = STRUCTS.get((resource.api_version, resource.kind))
        raw = msgspec.json.encode(document)
        obj = msgspec.json.decode(raw) if kind is None else decode_as(kind, raw)
        kept = raw if resource in (PODS, NODES) else b""
        uid = str(document["metadata"]["uid"])
        self._live.inbox.put(Change(resource, event, key, uid, obj, kept))

    # -- requests ---------------------------------------------------------------------------------

    async def send(self, request: Outgoing) -> Response:
        """Serve a request."""
        body: Any = msgspec.json.decode(request.body or b"null")
        path = urlsplit(request.target).path
        if path.endswith("/events"):
            self.events.append(body)
            return _response(201, body)
        target = self._target(path)
        if target is None:
            return _failure(404, "NotFound", f"{path} not found")
        resource, key, subresource = target
        obj = copy.deepcopy(self._objects[resource, key])
        method = request.method
        if method == "DELETE":
            self.remove(resource.kind, key)
            return _response(200, obj)
        if subresource == "binding":
            if obj["spec"].get("nodeName"):
                text = f"pod {obj['metadata']['name']} is already assigned to node"
                return _failure(409, "Conflict", text)
            obj["spec"]["nodeName"] = body["target"]["name"]
            obj.setdefault("status", {}).pop("nominatedNodeName", None)
            _set_condition(obj, {"type": "PodScheduled", "status": "True"})
        elif method == "PATCH":
            _merge(obj, body)
        elif method == "PUT":
            obj = body
        if method != "GET":
            self._set(resource, key, obj, "MODIFIED")
        return _response(201 if subresource == "binding" else 200, obj)

    def _target(self, path: str) -> tuple[Resource, str, str] | None:
        """Return the kind, key and subresource of a path; None if there is no such object."""
        for resource in self._resources.values():
            rest = path.removeprefix(resource.root)
            if rest == path:
                continue
            parts = rest.split("/")
            prefix = ""
            if parts[0] == "namespaces" and len(parts) > 2 and resource.namespaced:
                prefix, parts = f"{parts[1]}/", parts[2:]
            plural, name, subresource = (*parts, "", "")[:3]
            if plural == resource.plural and (resource, f"{prefix}{name}") in self._objects:
                return resource, f"{prefix}{name}", subresource
        return None

    async def close(self) -> None:
        """Nothing is open."""


def _response(status: int, document: Any) -> Response:
    headers = {"Content-Type": "application/json"}
    return WholeResponse(status, headers, msgspec.json.encode(document))


def _failure(code: int, reason: str, message: str) -> Response:
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return _response(code, {**status, "code": code, "reason": reason, "message": message})


def _merge(target: Document, patch: Mapping[str, Any]) -> None:
    """Apply a patch as far as schedulers send it: merged by name, conditions by type."""
    for field, value in patch.items():
        if field.startswith("$"):
            continue
        if field == "conditions":
            for condition in value:
                _set_condition({"status": target}, condition)
        elif value is None:
            target.pop(field, None)
        elif isinstance(value, Mapping):
            _merge(target.setdefault(field, {}), value)
        else:
            target[field] = value


def _set_condition(document: Document, condition: Mapping[str, Any]) -> None:
    status = document.setdefault("status", {})
    others = [other for other in status.get("conditions", []) if other["type"] != condition["type"]]
    status["conditions"] = [*others, dict(condition)]


def pod_key(name: str) -> str:
    """Return `namespace/name` of a pod; its namespace is `default` if none is given."""
    return name if "/" in name else f"default/{name}"
