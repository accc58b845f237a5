"""A queue with a clock that stands still, plugins that do as they are told, and counted metrics.

Owns the stand-ins of the tests beside it. Expected values are upstream's rules, written out.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status, error, unresolvable
from kubesched.kit.log import Log, make_log
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.queue.interface import ProfileQueueing, QueueSettings
from kubesched.queue.nominator import Nominator
from kubesched.queue.scheduling_queue import SchedulingQueue
from tests.unit.builders import a_pod

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
NODE_CONDITION = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_CONDITION)
CSI_ADD = ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)
START_S = 1_000_000.25


class Clock:
    """Moves when it is told to."""

    def __init__(self, now_s: float = START_S) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("the queue never sleeps")


class Gates:
    """PreEnqueue plugins by name, each with the pods it holds back; every call is noted."""

    def __init__(self, *names: str) -> None:
        self.held: dict[str, set[str]] = {name: set() for name in names}
        self.failing: set[str] = set()
        self.asked: list[tuple[str, str]] = []

    def calls(self) -> dict[str, Callable[[PodInfo], Status | None]]:
        return {name: self._call(name) for name in self.held}

    def _call(self, name: str) -> Callable[[PodInfo], Status | None]:
        def call(pod: PodInfo) -> Status | None:
            self.asked.append((name, pod.name))
            if name in self.failing:
                return error("out of order")
            return unresolvable("not yet") if pod.name in self.held[name] else None

        return call


def helped_by(*names: str) -> Callable[[PodInfo, Any, Any], QueueingHint]:
    """Return a hint that says Queue for pods of these names."""
    return lambda pod, _old, _new: QUEUE if pod.name in names else SKIP


def always(_pod: PodInfo, _old: Any, _new: Any) -> QueueingHint:
    return QUEUE


def never(_pod: PodInfo, _old: Any, _new: Any) -> QueueingHint:
    return SKIP


DEFAULT_REGISTRATIONS: Mapping[str, Sequence[EventRegistration]] = {
    "Fit": [EventRegistration(NODE_ADD), EventRegistration(NODE_TAINT, never)],
    "Gate": [EventRegistration(CSI_ADD)],
}


class World:
    """A queue and all that stands around it."""

    def __init__(
        self,
        registrations: Mapping[str, Sequence[EventRegistration]] = DEFAULT_REGISTRATIONS,
        *,
        gates: Gates | None = None,
        verbosity: int = 0,
        by_less: bool = False,
        **settings: Any,
    ) -> None:
        self.clock = Clock()
        self.gates = gates or Gates("Gate")
        self.metrics = SchedulerMetrics()
        self.lines = io.StringIO()
        self.log: Log = make_log(self.lines, verbosity=verbosity, clock=self.clock, buffer_bytes=0)
        self.promised: dict[str, str] = {}
        self.known: dict[str, PodInfo] = {}
        self.nominator = Nominator(
            nominate=lambda pod, node: self.promised.__setitem__(pod.name, node),
            remove=lambda pod: self.promised.__delitem__(pod.name),
            pod_of=self.known.get,
            log=self.log,
        )
        sort = PrioritySort(None, None)  # type: ignore[arg-type]  # it asks its handle for nothing
        profile = ProfileQueueing(self.gates.calls(), registrations)
        self.queue = SchedulingQueue(
            {"default-scheduler": profile},
            less=sort.less,
            key=None if by_less else sort.sort_key,
            settings=QueueSettings(**settings),
            clock=self.clock,
            metrics=self.metrics,
            log=self.log,
            nominator=self.nominator,
        )
        self.ready_count = 0
        self.queue.on_ready = self._count_ready

    def _count_ready(self) -> None:
        self.ready_count += 1

    # -- what tests do ----------------------------------------------------------------------------

    def pod(self, name: str, **parts: Any) -> PodInfo:
        """Return a pod that the watch knows."""
        pod = a_pod(name, **parts)
        self.known[pod.key] = pod
        return pod

    def add(self, name: str, **parts: Any) -> PodInfo:
        """Add a pod."""
        pod = self.pod(name, **parts)
        self.queue.add(pod)
        return pod

    def pop(self) -> QueuedPodInfo:
        """Pop a pod that must be there."""
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def fail(
        self, queued: QueuedPodInfo, *plugins: str, pending: Iterable[str] = ()
    ) -> QueuedPodInfo:
        """End an attempt: refused by plugins, or with an error if there are none."""
        queued.clear_rejector_plugins()
        queued.unschedulable_plugins = set(plugins)
        queued.pending_plugins = set(pending)
        assert self.queue.add_unschedulable_if_not_present(queued)
        return queued

    def refused(self, name: str, *plugins: str, **parts: Any) -> QueuedPodInfo:
        """Add a pod and have its first attempt refused."""
        pending = parts.pop("pending", ())
        self.add(name, **parts)
        queued = self.pop()
        assert queued.pod.name == name, "add other pods later"
        return self.fail(queued, *(plugins or ("Fit",)), pending=pending)

    def happen(self, event: ClusterEvent, old: Any = None, new: Any = None, **more: Any) -> None:
        """Let something happen in the cluster."""
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, **more)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.time_s += seconds

    # -- what tests see ---------------------------------------------------------------------------

    def where(self, name: str, namespace: str = "default") -> str | None:
        """Return the part of the queue a pod is in."""
        return self.queue.where(f"{namespace}/{name}")

    def drain(self) -> list[str]:
        """Pop all that can be popped; return the names."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.name)
            self.queue.done(queued.pod.uid)
        return names

    def value(self, metric: str, *labels: str) -> float:
        """Return a counter or gauge."""
        value: float = getattr(self.metrics, metric).labels(*labels).value
        return value

    def messages(self) -> list[str]:
        """Return the log lines without their headers."""
        return [line.split("] ", 1)[1] for line in self.lines.getvalue().splitlines()]
