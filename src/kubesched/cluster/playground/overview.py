"""Live overview of a cluster: nodes and their load, pending pods with reasons, decisions.

Updated by informers. Never prints: the command does. It shows what the API server has, so that it
works with any scheduler.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kubesched.api.decode import decode_as
from kubesched.api.documents import Document, condition_of, key_of, name_of
from kubesched.api.pod import Pod
from kubesched.api.quantity import parse_quantity
from kubesched.api.resource_requests import pod_requests
from kubesched.client.resources import NODES, PODS
from kubesched.cluster.launch.components import HEARTBEAT
from kubesched.kit.clock import Clock

if TYPE_CHECKING:
    from kubesched.cluster.informers.informer import Informers

DEFAULT_SCHEDULER: Final = "default-scheduler"
_DECISIONS_MAX: Final = 200
_UNSERVED_AFTER_S: Final = 3.0
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_TERMINAL_PHASES: Final = ("Succeeded", "Failed")


@dataclass(slots=True)
class NodeState:
    """A node; amounts are the requests of its pods."""

    name: str
    zone: str = ""
    is_ready: bool = False
    is_cordoned: bool = False
    is_schedulable: bool = False
    """Whether it is ready and no longer tainted not-ready."""
    has_kubelet: bool = True
    """Whether its kubelet is not switched off."""
    taint_count: int = 0
    is_known: bool = False
    """Whether the Node exists; pods may be bound to a deleted one."""
    cpu_milli: int = 0
    cpu_milli_max: int = 0
    memory_bytes: int = 0
    memory_bytes_max: int = 0
    pod_count: int = 0
    pod_count_max: int = 0

    @property
    def status(self) -> str:
        """Return the status as `kubectl get nodes` prints it."""
        word = "Ready" if self.is_ready else "NotReady"
        return f"{word},SchedulingDisabled" if self.is_cordoned else word


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that is not bound."""

    key: str
    since_s: float
    scheduler: str
    reason: str = ""
    """Message of the scheduler; empty if there is none yet."""
    is_gated: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """A binding, or a reason for not binding."""

    at_s: float
    key: str
    node: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Load:
    """Resources of a node that a pod requests."""

    node: str
    cpu_milli: int
    memory_bytes: int


@dataclass(slots=True)
class PodCounts:
    """Number of pods by stage."""

    running: int = 0
    starting: int = 0
    """Bound, but not running yet."""
    stopping: int = 0
    finished: int = 0


@dataclass(slots=True)
class Overview:
    """The displayed state of the cluster."""

    clock: Clock
    served: Collection[str] = (DEFAULT_SCHEDULER,)
    """Scheduler names that our scheduler serves."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    pending: dict[str, PendingPod] = field(default_factory=dict)
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=_DECISIONS_MAX))
    bound_count: int = 0
    """Number of pods bound since the start."""
    on_decision: Callable[[Decision], None] = lambda _decision: None
    version: int = 0
    """Incremented on each change."""
    _loads: dict[str, _Load] = field(default_factory=dict)
    _stages: dict[str, str] = field(default_factory=dict)
    _served_elsewhere: dict[str, None] = field(default_factory=dict)
    _reported: dict[str, None] = field(default_factory=dict)
    _is_recording: bool = False

    def watch(self, informers: Informers) -> None:
        """Update the overview from informers."""
        informers.of(NODES).on_change(self._node_changed)
        informers.of(PODS).on_change(self._pod_changed)

    def start_recording(self) -> None:
        """Record decisions from now on."""
        self._is_recording = True

    @property
    def shown_nodes(self) -> list[NodeState]:
        """Return the existing nodes in natural order."""
        previous = [node for node in self.nodes.values() if node.is_known]
        return sorted(previous, key=lambda node: _natural_order(node.name))

    def counts(self) -> PodCounts:
        """Return the number of pods by stage."""
        counts = PodCounts()
        for stage in self._stages.values():
            setattr(counts, stage, getattr(counts, stage) + 1)
        return counts

    def take_unserved(self) -> dict[str, list[PendingPod]]:
        """Return pods whose scheduler does not seem to run, by scheduler, each once."""
        now_s = self.clock.monotonic_s()
        found: dict[str, list[PendingPod]] = {}
        for pod in self.pending.values():
            if pod.key in self._reported or pod.is_gated or self.is_served(pod):
                continue
            if now_s - pod.since_s >= _UNSERVED_AFTER_S:
                self._reported[pod.key] = None
                found.setdefault(pod.scheduler, []).append(pod)
        return found

    def is_served(self, pod: PendingPod) -> bool:
        """Return whether some scheduler seems to handle a pending pod."""
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
        allocatable = status.get("allocatable") or status.get("capacity") or {}
        ready = condition_of(new, "Ready")
        annotations = new["metadata"].get("annotations") or {}
        node.is_known = True
        node.has_kubelet = annotations.get(HEARTBEAT) != "off"
        node.zone = (new["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone", "")
        node.is_ready = ready is not None and ready.get("status") == "True"
        node.is_cordoned = bool(spec.get("unschedulable"))
        taints = spec.get("taints") or ()
        node.taint_count = len(taints)
        node.is_schedulable = node.is_ready and all(taint["key"] != _NOT_READY for taint in taints)
        node.cpu_milli_max = parse_quantity(allocatable.get("cpu", 0)).milli_value()
        node.memory_bytes_max = parse_quantity(allocatable.get("memory", 0)).value()
        node.pod_count_max = parse_quantity(allocatable.get("pods", 0)).value()

    def _node(self, name: str) -> NodeState:
        return self.nodes.setdefault(name, NodeState(name))

    # -- pods -------------------------------------------------------------------------------------

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        self.version += 1
        key = key_of(new or old or {})
        if new is None:
            self._update_load(key, None)
            self._stages.pop(key, None)
            self.pending.pop(key, None)
            self._reported.pop(key, None)
            return
        spec, phase = new["spec"], new.get("status", {}).get("phase", "Pending")
        node = spec.get("nodeName", "")
        self._update_load(key, None if phase in _TERMINAL_PHASES or not node else new)
        if not node:
            self._pod_pending(key, new)
            return
        self.pending.pop(key, None)
        self._reported.pop(key, None)
        self._stages[key] = _stage(new, phase)
        if old is None or not old["spec"].get("nodeName"):
            self._pod_bound(key, new, node)

    def _update_load(self, key: str, pod: Document | None) -> None:
        """Add a pod's requests to its node, or remove them if it is None."""
        previous = self._loads.get(key)
        if previous is not None and (pod is None or pod["spec"].get("nodeName") != previous.node):
            node = self._node(previous.node)
            node.cpu_milli -= previous.cpu_milli
            node.memory_bytes -= previous.memory_bytes
            node.pod_count -= 1
            del self._loads[key]
        if pod is None or key in self._loads:
            return
        load = self._loads[key] = _load(pod)
        node = self._node(load.node)
        node.cpu_milli += load.cpu_milli
        node.memory_bytes += load.memory_bytes
        node.pod_count += 1

    def _pod_pending(self, key: str, pod: Document) -> None:
        spec = pod["spec"]
        previous = self.pending.get(key)
        scheduled = condition_of(pod, "PodScheduled") or {}
        is_gated = scheduled.get("reason") == "SchedulingGated"
        reason = "" if is_gated else str(scheduled.get("message", ""))
        now_s = self.clock.monotonic_s()
        scheduler = str(spec.get("schedulerName", DEFAULT_SCHEDULER))
        if reason:
            self._served_elsewhere[scheduler] = None
        self.pending[key] = PendingPod(
            key, now_s if previous is None else previous.since_s, scheduler, reason, is_gated
        )
        if reason and (previous is None or previous.reason != reason):
            self._add_decision(Decision(self.clock.now_s(), key, reason=reason))

    def _pod_bound(self, key: str, pod: Document, node: str) -> None:
        # Pods created with a node name, such as mirror pods, were not scheduled.
        if not self._is_recording or condition_of(pod, "PodScheduled") is None:
            return
        self._served_elsewhere[str(pod["spec"].get("schedulerName", DEFAULT_SCHEDULER))] = None
        self.bound_count += 1
        self._add_decision(Decision(self.clock.now_s(), key, node=node))

    def _add_decision(self, decision: Decision) -> None:
        if self._is_recording:
            self.decisions.append(decision)
            self.on_decision(decision)


def _stage(pod: Document, phase: str) -> str:
    if phase in _TERMINAL_PHASES:
        return "finished"
    if pod["metadata"].get("deletionTimestamp"):
        return "stopping"
    return "running" if phase == "Running" else "starting"


def _load(pod: Document) -> _Load:
    requests = pod_requests(decode_as(Pod, {"spec": pod["spec"], "metadata": pod["metadata"]}))
    cpu, memory = requests.get("cpu"), requests.get("memory")
    return _Load(
        str(pod["spec"]["nodeName"]),
        0 if cpu is None else cpu.milli_value(),
        0 if memory is None else memory.value(),
    )


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key that puts node-2 before node-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]
