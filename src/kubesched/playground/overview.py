"""What there is to see of a cluster: nodes and what is on them, who waits and why, decisions.

Owns these figures, kept up with every change. Never prints: the command line does, on a terminal or
line by line. What is seen is what the API server has, so that it holds for any scheduler.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kubesched.client.cached.documents import Document, condition_of, key_of, name_of
from kubesched.client.resources import NODES, PODS
from kubesched.kit.clock import Clock
from kubesched.model.resources import pod_requests
from kubesched.objects.decode import decode_as
from kubesched.objects.pod import Pod
from kubesched.objects.quantity import quantity_milli_value, quantity_value
from kubesched.testing.companions import HEARTBEAT

if TYPE_CHECKING:
    from kubesched.client.cached.informers import Informers

DEFAULT_SCHEDULER: Final = "default-scheduler"
_DECISIONS_MAX: Final = 200
_UNSERVED_S: Final = 3.0
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_OVER: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class NodeState:
    """One node; amounts are what its pods request."""

    name: str
    zone: str = ""
    is_ready: bool = False
    is_cordoned: bool = False
    is_open: bool = False
    """Whether it is ready, and no taint is left from before it was."""
    is_alive: bool = True
    """Whether its kubelet is not told to be dead."""
    taint_count: int = 0
    is_known: bool = False
    """Whether there is a Node; pods may be bound to one that is gone."""
    cpu_milli: int = 0
    cpu_milli_max: int = 0
    memory_bytes: int = 0
    memory_bytes_max: int = 0
    pod_count: int = 0
    pod_count_max: int = 0

    @property
    def status(self) -> str:
        """Return the word that `kubectl get nodes` has for it."""
        word = "Ready" if self.is_ready else "NotReady"
        return f"{word},SchedulingDisabled" if self.is_cordoned else word


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod without a node."""

    key: str
    since_s: float
    scheduler: str
    reason: str = ""
    """Why it waits, in the scheduler's words; empty while nobody has said anything."""
    is_gated: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a pod: a node, or a reason to wait."""

    at_s: float
    key: str
    node: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Load:
    """What one pod takes of a node."""

    node: str
    cpu_milli: int
    memory_bytes: int


@dataclass(slots=True)
class Counts:
    """How many pods are where in their lives."""

    running: int = 0
    starting: int = 0
    """On a node, and not running yet."""
    ending: int = 0
    over: int = 0


@dataclass(slots=True)
class Overview:
    """The cluster as it is shown."""

    clock: Clock
    served: Collection[str] = (DEFAULT_SCHEDULER,)
    """The scheduler names that our own scheduler serves."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=_DECISIONS_MAX))
    bound_count: int = 0
    """How many pods were given a node since it began to look."""
    on_decision: Callable[[Decision], None] = lambda _decision: None
    version: int = 0
    """Moves with every change."""
    _loads: dict[str, _Load] = field(default_factory=dict)
    _stages: dict[str, str] = field(default_factory=dict)
    _served_elsewhere: dict[str, None] = field(default_factory=dict)
    _named: dict[str, None] = field(default_factory=dict)
    _is_live: bool = False

    def watch(self, informers: Informers) -> None:
        """Keep up with a cluster from now on."""
        informers.of(NODES).on_change(self._node_changed)
        informers.of(PODS).on_change(self._pod_changed)

    def go_live(self) -> None:
        """Tell of decisions from now on: what was there before is not news."""
        self._is_live = True

    @property
    def shown_nodes(self) -> list[NodeState]:
        """Return the nodes there are, by name as people count."""
        known = [node for node in self.nodes.values() if node.is_known]
        return sorted(known, key=lambda node: _natural(node.name))

    def counts(self) -> Counts:
        """Return how many pods are where in their lives."""
        counts = Counts()
        for stage in self._stages.values():
            setattr(counts, stage, getattr(counts, stage) + 1)
        return counts

    def unserved(self) -> dict[str, list[Waiting]]:
        """Return pods whose scheduler nobody seems to run, by its name, each of them once."""
        now_s = self.clock.monotonic_s()
        found: dict[str, list[Waiting]] = {}
        for pod in self.waiting.values():
            if pod.key in self._named or pod.is_gated or self.is_served(pod):
                continue
            if now_s - pod.since_s >= _UNSERVED_S:
                self._named[pod.key] = None
                found.setdefault(pod.scheduler, []).append(pod)
        return found

    def is_served(self, pod: Waiting) -> bool:
        """Return whether somebody takes care of a waiting pod, as far as can be seen."""
        name = pod.scheduler
        return bool(pod.reason) or name in self.served or name in self._served_elsewhere

    # -- nodes ------------------------------------------------------------------------------------

    def _node_changed(self, old: Document | None, new: Document | None) -> None:
        self.version += 1
        if new is None:
            assert old is not None
            self._node(name_of(old)).is_known = False
            return
        node = self._node(name_of(new))
        spec, status = new.get("spec", {}), new.get("status", {})
        room = status.get("allocatable") or status.get("capacity") or {}
        ready = condition_of(new, "Ready")
        annotations = new["metadata"].get("annotations") or {}
        node.is_known = True
        node.is_alive = annotations.get(HEARTBEAT) != "off"
        node.zone = (new["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone", "")
        node.is_ready = ready is not None and ready.get("status") == "True"
        node.is_cordoned = bool(spec.get("unschedulable"))
        taints = spec.get("taints") or ()
        node.taint_count = len(taints)
        node.is_open = node.is_ready and all(one["key"] != _NOT_READY for one in taints)
        node.cpu_milli_max = quantity_milli_value(room.get("cpu", 0))
        node.memory_bytes_max = quantity_value(room.get("memory", 0))
        node.pod_count_max = quantity_value(room.get("pods", 0))

    def _node(self, name: str) -> NodeState:
        return self.nodes.setdefault(name, NodeState(name))

    # -- pods -------------------------------------------------------------------------------------

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        self.version += 1
        key = key_of(new or old or {})
        if new is None:
            self._take(key, None)
            self._stages.pop(key, None)
            self.waiting.pop(key, None)
            self._named.pop(key, None)
            return
        spec, phase = new["spec"], new.get("status", {}).get("phase", "Pending")
        node = spec.get("nodeName", "")
        self._take(key, None if phase in _OVER or not node else new)
        if not node:
            self._wait(key, new)
            return
        self.waiting.pop(key, None)
        self._named.pop(key, None)
        self._stages[key] = _stage(new, phase)
        if old is None or not old["spec"].get("nodeName"):
            self._bound(key, new, node)

    def _take(self, key: str, pod: Document | None) -> None:
        """Count what a pod takes of its node; nothing if it is None."""
        known = self._loads.get(key)
        if known is not None and (pod is None or pod["spec"].get("nodeName") != known.node):
            node = self._node(known.node)
            node.cpu_milli -= known.cpu_milli
            node.memory_bytes -= known.memory_bytes
            node.pod_count -= 1
            del self._loads[key]
        if pod is None or key in self._loads:
            return
        load = self._loads[key] = _load(pod)
        node = self._node(load.node)
        node.cpu_milli += load.cpu_milli
        node.memory_bytes += load.memory_bytes
        node.pod_count += 1

    def _wait(self, key: str, pod: Document) -> None:
        spec = pod["spec"]
        known = self.waiting.get(key)
        scheduled = condition_of(pod, "PodScheduled") or {}
        is_gated = scheduled.get("reason") == "SchedulingGated"
        reason = "" if is_gated else str(scheduled.get("message", ""))
        now_s = self.clock.monotonic_s()
        scheduler = str(spec.get("schedulerName", DEFAULT_SCHEDULER))
        if reason:
            self._served_elsewhere[scheduler] = None
        self.waiting[key] = Waiting(
            key, now_s if known is None else known.since_s, scheduler, reason, is_gated
        )
        if reason and (known is None or known.reason != reason):
            self._decided(Decision(self.clock.now_s(), key, reason=reason))

    def _bound(self, key: str, pod: Document, node: str) -> None:
        # Those that are made with a node, as mirror pods are, were given it by nobody.
        if not self._is_live or condition_of(pod, "PodScheduled") is None:
            return
        self._served_elsewhere[str(pod["spec"].get("schedulerName", DEFAULT_SCHEDULER))] = None
        self.bound_count += 1
        self._decided(Decision(self.clock.now_s(), key, node=node))

    def _decided(self, decision: Decision) -> None:
        if self._is_live:
            self.decisions.append(decision)
            self.on_decision(decision)


def _stage(pod: Document, phase: str) -> str:
    if phase in _OVER:
        return "over"
    if pod["metadata"].get("deletionTimestamp"):
        return "ending"
    return "running" if phase == "Running" else "starting"


def _load(pod: Document) -> _Load:
    requests = pod_requests(decode_as(Pod, {"spec": pod["spec"], "metadata": pod["metadata"]}))
    cpu, memory = requests.get("cpu"), requests.get("memory")
    return _Load(
        str(pod["spec"]["nodeName"]),
        0 if cpu is None else cpu.milli_value(),
        0 if memory is None else memory.value(),
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts node-2 before node-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]
