"""The scheduler alone, on a clock that a test moves: no sockets, no threads, no waiting.

Owns a cluster in memory that answers as an API server would to what a scheduler writes: bindings,
conditions, deletions, events. Cache, queue and plugins are the running scheduler's own. There are
no controllers and no kubelets: pods that were evicted are gone at once, and nothing is defaulted
but the scheduler's name.

    def test_big_pods_wait(cluster):
        cluster.add(a_node("small", capacity={"cpu": "1"}), a_pod("big", requests={"cpu": "2"}))
        cluster.schedule()
        assert cluster.why("big") == "0/1 nodes are available: 1 Insufficient cpu. ..."
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from kubesched.app.live import LiveScheduler, LiveSettings, Outside
from kubesched.app.outside_plugins import GivenPlugins, registry_given
from kubesched.client.auth import ClusterAccess, FixedCredential
from kubesched.client.change import Change
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.rest import Client
from kubesched.client.transport import Answer, Outgoing
from kubesched.config.load import load_config_object
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.model.metrics import SchedulerMetrics
from kubesched.objects.decode import KINDS, decode_as
from kubesched.objects.times import time_text
from kubesched.testing.builders import Document
from kubesched.testing.virtual_clock import VirtualClock

DEFAULT_SCHEDULER: Final = "default-scheduler"
_TURNS_MAX: Final = 100_000
_QUIET_TURNS: Final = 10
_STILL_TURNS: Final = 500
"""After so many turns without any progress, whoever is busy waits for the clock."""
_STEP_S: Final = 0.5


class Cluster:
    """Nodes, pods and a scheduler."""

    def __init__(
        self,
        *,
        plugins: GivenPlugins = (),
        args: Mapping[str, Mapping[str, Any]] | None = None,
        config: Mapping[str, Any] | None = None,
        log: Log | None = None,
        seed: int = 0,
    ) -> None:
        """Make an empty cluster.

        Args:
            plugins: Classes, factories, or a mapping by name; enabled at every point they extend.
            args: What stands under `pluginConfig`, by the name of the plugin.
            config: Fields of the scheduler's configuration; `profiles` replaces the one there is.
            log: Where the scheduler's lines go.
            seed: Decides between nodes that are equally good.
        """
        self.clock = VirtualClock()
        self.metrics = SchedulerMetrics()
        self._store = _Store(self.clock)
        self._idle_count = 0
        registry = registry_given(plugins)
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
        plugin_config = [{"name": name, "args": given} for name, given in (args or {}).items()]
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
        outside = Outside(client, self.clock, log, self.metrics)
        self._loop = _VirtualLoop(self.clock)
        try:
            self.live = self._loop.run_until_complete(self._started(settings, outside))
        except BaseException:  # A configuration that is refused leaves nothing open.
            self._loop.close()
            raise

    async def _started(self, settings: LiveSettings, outside: Outside) -> LiveScheduler:
        # In the loop: a plugin may start tasks while it is made.
        live = LiveScheduler(settings, outside)
        live.scheduler.on_idle = self._note_idle
        self._store.watch(live)
        live.tasks.start(live.scheduler.run(), name="scheduler")
        live.tasks.start(live.events.run(), name="events")
        live.start_scheduling()
        return live

    def close(self) -> None:
        """End the scheduler; whoever made the cluster does this."""
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _stop(self) -> None:
        self.live.scheduler.stop()
        await self.live.bindings.stop()
        await self.live.stop_tasks()

    # -- what is in it ----------------------------------------------------------------------------

    def add(self, *documents: Mapping[str, Any]) -> None:
        """Put objects into the cluster, or others in their place; `schedule` sees them."""
        for document in documents:
            self._store.put(dict(copy.deepcopy(document)))

    def remove(self, kind: str, name: str) -> None:
        """Take an object out: `remove("Node", "n1")`, `remove("Pod", "shop/web")`."""
        self._store.remove(kind, name if "/" in name else f"default/{name}", name)

    def documents(self) -> list[Document]:
        """Return everything that is in the cluster, as it is now."""
        return copy.deepcopy(self._store.all())

    def pod(self, name: str) -> Document:
        """Return `name` or `namespace/name` as it is; KeyError if it is not."""
        return self._store.pods()[_key(name)]

    def node_of(self, name: str) -> str:
        """Return the node of a pod; empty if it has none."""
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def placed(self) -> dict[str, str]:
        """Return the node of every pod that has one, by `namespace/name`."""
        pods = self._store.pods().items()
        return {key: pod["spec"]["nodeName"] for key, pod in pods if pod["spec"].get("nodeName")}

    def why(self, name: str) -> str:
        """Return why a pod waits, as its condition says; empty if nothing was said."""
        for condition in self.pod(name).get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition.get("message", ""))
        return ""

    def state(self, name: str) -> str:
        """Return where a pod is: active, backoff, unschedulable, gated, waitingOnPermit, bound."""
        return str(self.explain(name)["state"])

    def explain(self, name: str) -> Document:
        """Return all there is to say of a pod, as `/debug/explain` does; KeyError if unknown."""
        told = self.live.explain(_key(name))
        if told is None:
            raise KeyError(name)
        return dict(msgspec.json.decode(told))

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and text of the events about a pod, in order."""
        return [
            (event["reason"], event["note"])
            for event in self._store.events
            if _key_of(event["regarding"]) == _key(name)
        ]

    # -- what happens -----------------------------------------------------------------------------

    def schedule(self) -> None:
        """Let everything happen that needs no time to pass."""
        self._loop.run_until_complete(self._rest())

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due on the way."""
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
        self.live.inbox.put(_nothing)
        before = self._idle_count
        quiet_turns = still_turns = 0
        last: tuple[int, ...] = ()
        for _ in range(_TURNS_MAX):
            await SystemClock().sleep(0)
            busy = self._busy()
            is_quiet = self._idle_count > before and not any(busy)
            quiet_turns = quiet_turns + 1 if is_quiet else 0
            # Whoever has just been woken is not seen before some turns have passed.
            if quiet_turns == _QUIET_TURNS:
                return
            still_turns = still_turns + 1 if busy == last else 0
            last = busy
            if still_turns >= _STILL_TURNS and self.clock.next_s() is not None:
                return  # Somebody sleeps until the clock is moved.
        raise AssertionError(
            "the scheduler does not come to rest: a plugin that waits does so with "
            "`await handle.clock.sleep(...)`, which a test ends with `cluster.advance(...)`"
        )

    def _busy(self) -> tuple[int, ...]:
        """Return how much is under way, of each sort; all zero when it is at rest."""
        live = self.live
        return (
            len(live.inbox),
            live.scheduler.outstanding.count,
            abs(len(live.bindings) - len(list(live.waiting_pods))),
            len(live.patches),
            live.events.pending_count,
        )


class _VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose timers go by the virtual clock; it must always have something to do."""

    def __init__(self, clock: VirtualClock) -> None:
        self._virtual = clock
        super().__init__()

    def time(self) -> float:
        return self._virtual.monotonic_s()


class _Store:
    """The objects, and what an API server answers: it is what the scheduler's client sends to."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._objects: dict[tuple[Resource, str], Document] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._live: LiveScheduler | None = None
        self._number = 0
        self.events: list[Document] = []

    def watch(self, live: LiveScheduler) -> None:
        """Have a scheduler told of every change."""
        self._live = live
        self._kinds = {(one.api_version, one.kind): one for one in live.resources}

    def all(self) -> list[Document]:
        """Return the objects."""
        return list(self._objects.values())

    def pods(self) -> dict[str, Document]:
        """Return the pods by key."""
        return {key: one for (kind, key), one in self._objects.items() if kind == PODS}

    def put(self, document: Document) -> None:
        """Put an object in, as if it had been created or replaced."""
        version, kind = document.get("apiVersion", "v1"), document["kind"]
        resource = self._kinds.get((version, kind))
        if resource is None:
            raise ValueError(f"the scheduler does not look at {version} {kind}")
        metadata = document.setdefault("metadata", {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        if resource == PODS:
            document["spec"].setdefault("schedulerName", DEFAULT_SCHEDULER)
        key = _key_of(metadata)
        known = self._objects.get((resource, key))
        old = {} if known is None else known["metadata"]
        metadata.setdefault("uid", old.get("uid") or f"uid-{self._next()}")
        metadata.setdefault(
            "creationTimestamp", old.get("creationTimestamp") or time_text(self._clock.now_s())
        )
        self._changed(resource, key, document, "ADDED" if known is None else "MODIFIED")

    def remove(self, kind: str, *keys: str) -> None:
        """Take an object out."""
        for resource, key in list(self._objects):
            if resource.kind == kind and key in keys:
                self._tell(resource, key, self._objects.pop((resource, key)), "DELETED")
                return
        raise KeyError(f"{kind} {keys[-1]}")

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _changed(self, resource: Resource, key: str, document: Document, how: str) -> None:
        document["metadata"]["resourceVersion"] = str(self._next())
        self._objects[resource, key] = document
        self._tell(resource, key, document, how)

    def _tell(self, resource: Resource, key: str, document: Document, how: str) -> None:
        assert self._live is not None
        kind = KINDS.get((resource.api_version, resource.kind))
        raw = msgspec.json.encode(document)
        shown = msgspec.json.decode(raw) if kind is None else decode_as(kind, raw)
        kept = raw if resource in (PODS, NODES) else b""
        uid = str(document["metadata"]["uid"])
        self._live.inbox.put(Change(resource, how, key, uid, shown, kept))

    # -- what is sent -----------------------------------------------------------------------------

    async def send(self, request: Outgoing) -> Answer:
        """Do what a request asks."""
        body: Any = msgspec.json.decode(request.body or b"null")
        path = urlsplit(request.target).path
        if path.endswith("/events"):
            self.events.append(body)
            return _Answer(201, body)
        resource, key, below = self._asked(path)
        known = None if resource is None else self._objects.get((resource, key))
        if resource is None or known is None:
            return _Answer(404, _status(404, "NotFound", f"{path} is not there"))
        return self._answered(request.method, resource, key, below, copy.deepcopy(known), body)

    def _answered(
        self,
        method: str,
        resource: Resource,
        key: str,
        below: str,
        known: Document,
        body: Any,
    ) -> Answer:
        if method == "DELETE":
            self.remove(resource.kind, key)
            return _Answer(200, known)
        if below == "binding":
            if known["spec"].get("nodeName"):
                text = f"pod {known['metadata']['name']} is already assigned to node"
                return _Answer(409, _status(409, "Conflict", text))
            known["spec"]["nodeName"] = body["target"]["name"]
            known.setdefault("status", {}).pop("nominatedNodeName", None)
            _set_condition(known, {"type": "PodScheduled", "status": "True"})
        elif method == "PATCH":
            _merge(known, body)
        elif method == "PUT":
            known = body
        if method != "GET":
            self._changed(resource, key, known, "MODIFIED")
        return _Answer(201 if below == "binding" else 200, known)

    def _asked(self, path: str) -> tuple[Resource | None, str, str]:
        """Return kind, key and subresource of a path."""
        for resource in self._kinds.values():
            rest = path.removeprefix(resource.root)
            if rest == path:
                continue
            parts = rest.split("/")
            namespace = ""
            if parts[0] == "namespaces" and len(parts) > 2 and resource.namespaced:
                namespace, parts = parts[1], parts[2:]
            if parts[0] == resource.plural and len(parts) > 1:
                key = f"{namespace}/{parts[1]}" if namespace else parts[1]
                return resource, key, parts[2] if len(parts) > 2 else ""
        return None, "", ""

    async def close(self) -> None:
        """Nothing is open."""


class _Answer:
    """An answer that is there whole."""

    def __init__(self, status: int, document: Any) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"Content-Type": "application/json"}
        self._body = msgspec.json.encode(document)

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    def close(self) -> None:
        return None


def _status(code: int, reason: str, message: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def _merge(known: Document, patch: Mapping[str, Any]) -> None:
    """Apply a patch as far as schedulers send it: merged by name, conditions by type."""
    for field, value in patch.items():
        if field.startswith("$"):
            continue
        if field == "conditions":
            for condition in value:
                _set_condition({"status": known}, condition)
        elif value is None:
            known.pop(field, None)
        elif isinstance(value, Mapping):
            inner = known.setdefault(field, {})
            _merge(inner, value)
        else:
            known[field] = value


def _set_condition(document: Document, condition: Mapping[str, Any]) -> None:
    status = document.setdefault("status", {})
    others = [one for one in status.get("conditions", []) if one["type"] != condition["type"]]
    status["conditions"] = [*others, dict(condition)]


def _key(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _key_of(metadata: Mapping[str, Any]) -> str:
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _nothing() -> None:
    return None
