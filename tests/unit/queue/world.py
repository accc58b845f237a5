"""A queue with a manual clock, scripted plugins and metrics.

Shared by the tests of the queue. Expected values follow upstream's rules.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.status import Status, error, unresolvable
from kubesched.kit.log import Log, make_log
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.queue.interface import ProfileQueueing, QueueSettings
from kubesched.queue.nominator import Nominator
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_pod

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
NODE_CONDITION = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_CONDITION)
CSI_ADD = ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)
START_S = 1_000_000.25


class Clock:
    """A clock that `advance` moves."""

    def __init__(self, now_s: float = START_S) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        return self.time_s

    def monotonic_s(self) -> float:
        return self.time_s

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("the queue never sleeps")


class Gates:
    """PreEnqueue plugins by name, each with the pods it gates; calls are recorded."""

    def __init__(self, *names: str) -> None:
        self.held: dict[str, set[str]] = {name: set() for name in names}
        self.failing: set[str] = set()
        self.runs: list[tuple[str, str]] = []

    def calls(self) -> dict[str, Callable[[PodInfo], Status | None]]:
        return {name: self._call(name) for name in self.held}

    def _call(self, name: str) -> Callable[[PodInfo], Status | None]:
        def call(pod: PodInfo) -> Status | None:
            self.runs.append((name, pod.name))
            if name in self.failing:
                return error("out of order")
            return unresolvable("not yet") if pod.name in self.held[name] else None

        return call


def helped_by(*names: str) -> Callable[[PodInfo, Any, Any], QueueingHint]:
    """Return a hint that is Queue for pods with these names."""
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
    """A queue with its clock, plugins, metrics and log."""

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
        self.nominated: dict[str, str] = {}
        self.pods: dict[str, PodInfo] = {}
        self.nominator = Nominator(
            nominate=lambda pod, node: self.nominated.__setitem__(pod.name, node),
            remove=lambda pod: self.nominated.__delitem__(pod.name),
            pod_of=self.pods.get,
            log=self.log,
        )
        sort = PrioritySort()
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

    # -- actions ----------------------------------------------------------------------------------

    def pod(self, name: str, **parts: Any) -> PodInfo:
        """Return a pod that the watch has shown."""
        pod = a_pod(name, **parts)
        self.pods[pod.key] = pod
        return pod

    def add(self, name: str, **parts: Any) -> PodInfo:
        """Add a pod."""
        pod = self.pod(name, **parts)
        self.queue.add(pod)
        return pod

    def pop(self) -> QueuedPodInfo:
        """Pop a pod; there must be one."""
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def fail(
        self, queued: QueuedPodInfo, *plugins: str, pending: Iterable[str] = ()
    ) -> QueuedPodInfo:
        """End an attempt: rejected by plugins, or with an error if there are none."""
        queued.unschedulable_plugins = set(plugins)
        queued.pending_plugins = set(pending)
        assert self.queue.add_unschedulable_if_not_present(queued)
        return queued

    def rejected(self, name: str, *plugins: str, **parts: Any) -> QueuedPodInfo:
        """Add a pod and reject its first attempt."""
        pending = parts.pop("pending", ())
        self.add(name, **parts)
        queued = self.pop()
        assert queued.pod.name == name, "add other pods later"
        return self.fail(queued, *(plugins or ("Fit",)), pending=pending)

    def happen(self, event: ClusterEvent, old: Any = None, new: Any = None, **more: Any) -> None:
        """Pass a cluster event to the queue."""
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, **more)

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        self.clock.time_s += seconds

    # -- observations -----------------------------------------------------------------------------

    def where(self, name: str, namespace: str = "default") -> str | None:
        """Return the state of a pod."""
        return self.queue.where(f"{namespace}/{name}")

    def drain(self) -> list[str]:
        """Pop all pods that are ready; return their names."""
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
