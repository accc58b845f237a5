"""A simulation: all pending pods are scheduled in queue order until nothing changes.

Owns the queue, the loop and the record of placed, unschedulable and preempted pods. `world` makes
the attempts and applies their effects.
Upstream: pkg/scheduler/schedule_one.go ScheduleOne, handleSchedulingFailure,
pkg/scheduler/backend/queue/scheduling_queue.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kubesched.kit.heap import KeyedHeap, order_by_less
from kubesched.simulate.utilization import Usage, usage_of
from kubesched.simulate.world import AttemptResult, Preemption, ResultKind, Victim, World
from kubesched.snapshot.pod_info import PodInfo

Less = Callable[["QueuedPod", "QueuedPod"], bool]


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pending pod, as a queue sort plugin compares it."""

    pod: PodInfo
    timestamp_s: float = 0.0
    """The arrival in the queue; a simulation counts arrivals instead of seconds."""
    attempts: int = 0
    preemptions: int = 0
    """Number of preemptions made for the pod."""
    tried_at: int = -1
    """The world's version at the last attempt."""
    outcome: AttemptResult | None = None


class Queue:
    """Active pods, and unschedulable pods that wait for a change of the cluster."""

    def __init__(self, less: Less) -> None:
        self._active: KeyedHeap[QueuedPod] = KeyedHeap(order_by_less(less))
        self._unschedulable: dict[str, QueuedPod] = {}
        self._arrivals = 0

    def add(self, queued: QueuedPod) -> None:
        """Add a pod for an attempt, behind its equals."""
        self._arrivals += 1
        queued.timestamp_s = float(self._arrivals)
        self._active.add_or_update(queued.pod.uid, queued)

    def put_aside(self, queued: QueuedPod) -> None:
        """Keep an unschedulable pod until the cluster changes."""
        self._unschedulable[queued.pod.uid] = queued

    def pop(self, version: int) -> QueuedPod | None:
        """Return the next pod to try; None if no attempt could have a new outcome.

        Args:
            version: the world's version; unschedulable pods are retried once it has changed.
        """
        if not self._active:
            for queued in [*self._unschedulable.values()]:
                if queued.tried_at != version:
                    self.add(self._unschedulable.pop(queued.pod.uid))
        return self._active.pop()

    def replace(self, pod: PodInfo) -> None:
        queued = self._active.get(pod.uid) or self._unschedulable.get(pod.uid)
        if queued is not None:
            queued.pod = pod

    def left(self) -> list[QueuedPod]:
        """Return the unschedulable pods in order of arrival."""
        return sorted(self._unschedulable.values(), key=lambda queued: queued.timestamp_s)


# A pod that loses its nominated node again and again must not preempt forever.
PREEMPTIONS_MAX = 10


@dataclass(frozen=True, slots=True)
class Placement:
    """A placed pod."""

    pod: PodInfo
    node: str
    attempts: int
    after_preemption: bool


@dataclass(frozen=True, slots=True)
class Leftover:
    """A pod that was not placed."""

    pod: PodInfo
    outcome: AttemptResult


@dataclass(slots=True)
class Simulation:
    """One simulation of a world: exhaust `steps()`, then read the result."""

    world: World
    left: list[Leftover] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    attempts: int = 0
    pending: int = 0
    """Number of pending pods at the start."""
    before: Usage = field(init=False)
    after: Usage = field(init=False)
    _queue: Queue = field(init=False)
    _placed: dict[str, Placement] = field(default_factory=dict)
    _rejections: dict[Any, tuple[int, AttemptResult]] = field(default_factory=dict)
    """The outcome of the last rejected pod of each signature, and the world's version then."""

    def __post_init__(self) -> None:
        self._queue = Queue(next(iter(self.world.built.profiles.values())).less)
        self.pending = len(self.world.pending)
        self.before = self.after = usage_of(self.world.view)

    def run(self) -> Simulation:
        """Run to the end; return this."""
        for _ in self.steps():
            pass
        return self

    def steps(self) -> Iterator[int]:
        """Schedule pods one by one until nothing changes; yield after each attempt."""
        for pod in self.world.pending:
            self._enqueue(pod)
        while (queued := self._queue.pop(self.world.version)) is not None:
            self._try(queued)
            self.attempts += 1
            yield self.attempts
        for queued in self._queue.left():
            assert queued.outcome is not None
            self.left.append(Leftover(queued.pod, queued.outcome))
        self.after = usage_of(self.world.view)

    @property
    def placements(self) -> list[Placement]:
        """Return the placed pods that were not preempted later, in order of placement."""
        return list(self._placed.values())

    @property
    def evicted(self) -> list[Victim]:
        return [victim for preemption in self.preemptions for victim in preemption.victims]

    @property
    def recreated_count(self) -> int:
        return sum(victim.successor is not None for victim in self.evicted)

    def left_by_message(self) -> list[tuple[AttemptResult, list[str]]]:
        """Return the names of pods that were not placed, by result and message; most first."""
        groups: dict[tuple[str, str], tuple[AttemptResult, list[str]]] = {}
        for leftover in self.left:
            outcome = leftover.outcome
            key = (outcome.kind.value, outcome.message)
            groups.setdefault(key, (outcome, []))[1].append(leftover.pod.key)
        ordered = sorted(groups.items(), key=lambda group: (-len(group[1][1]), group[0]))
        return [group for _, group in ordered]

    def _enqueue(self, pod: PodInfo) -> None:
        rejection = self.world.why_not_queued(pod)
        if rejection is None:
            self._queue.add(QueuedPod(pod))
        else:
            self.left.append(Leftover(pod, rejection))

    def _try(self, queued: QueuedPod) -> None:
        pod, version = queued.pod, self.world.version
        signature = _signature(pod)
        rejected_at, outcome = self._rejections.get(signature, (-1, None))
        if outcome is None or rejected_at != version:
            outcome = self.world.attempt(pod)
        queued.attempts += 1
        if outcome.kind is ResultKind.PLACED:
            after_preemption = queued.preemptions > 0
            placement = Placement(pod, outcome.node, queued.attempts, after_preemption)
            self._placed[pod.uid] = placement
            return
        queued.outcome = outcome
        if self._apply_plan(queued, outcome):
            self._queue.add(queued)
            return
        if self.world.version == version and not self.world.has_own_plugins:
            self._rejections[signature] = (version, outcome)
        queued.tried_at = self.world.version
        self._queue.put_aside(queued)

    def _apply_plan(self, queued: QueuedPod, outcome: AttemptResult) -> bool:
        """Apply the preemption plan; return whether to retry the pod immediately."""
        plan = outcome.plan
        if plan is None:
            return False
        if not plan.nominated_node_name:
            queued.pod = self.world.nominate(queued.pod, "")
            return False
        if queued.preemptions >= PREEMPTIONS_MAX:
            return False
        queued.preemptions += 1
        if plan.victims is None:
            queued.pod = self.world.nominate(queued.pod, plan.nominated_node_name)
            return True
        preemption = self.world.preempt(queued.pod, plan.victims)
        self.preemptions.append(preemption)
        queued.pod = preemption.pod
        for pod in preemption.released:
            self._queue.replace(pod)
        for victim in preemption.victims:
            self._placed.pop(victim.pod.uid, None)
            if victim.successor is not None:
                self._enqueue(victim.successor)
        return True


def _signature(pod: PodInfo) -> Any:
    """Return the fields by which in-tree plugins distinguish pods."""
    has_own_claims = any(volume.ephemeral is not None for volume in pod.shape.volumes)
    return (
        pod.shape,
        tuple(sorted(pod.labels.items())),
        pod.owners,
        pod.priority,
        pod.nominated_node_name,
        pod.uid if has_own_claims or pod.shape.has_resource_claims else "",
    )
