"""A whole run: every waiting pod tried in queue order until nothing moves.

Owns the loop and its record: who was placed, who was left, who had to go. An attempt and what
follows from it are `world`'s. Never invents an event that the cluster did not cause.
Upstream: pkg/scheduler/schedule_one.go ScheduleOne, handleSchedulingFailure
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kubesched.model.pod_info import PodInfo
from kubesched.sim.queue import Queue, QueuedPod
from kubesched.sim.usage import Usage
from kubesched.sim.world import Evicted, Outcome, Verdict, World

# A pod whose room is taken from it again and again must not evict for ever.
ROOMS_MADE_MAX = 10


@dataclass(frozen=True, slots=True)
class Placement:
    """A pod that found its node."""

    pod: str
    uid: str
    node: str
    priority: int
    attempts: int
    after_preemption: bool


@dataclass(frozen=True, slots=True)
class Leftover:
    """A pod that did not."""

    pod: str
    uid: str
    priority: int
    outcome: Outcome
    nominated_node: str = ""


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that had to go; `recreated_as` is empty if nobody makes it anew."""

    pod: str
    uid: str
    priority: int
    recreated_as: str = ""
    recreated_uid: str = ""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Room made for one pod on one node."""

    pod: str
    priority: int
    node: str
    victims: tuple[Victim, ...]
    pdb_violation_count: int


@dataclass(slots=True)
class Simulation:
    """A run over a world: take `steps()` to its end, then read."""

    world: World
    left: list[Leftover] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    attempts: int = 0
    pending: int = 0
    """How many pods waited at the start."""
    before: Usage = field(init=False)
    after: Usage = field(init=False)
    _queue: Queue = field(init=False)
    _placed: dict[str, Placement] = field(default_factory=dict)
    _known: dict[Any, tuple[int, Outcome]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        built = self.world.built
        self._queue = Queue(next(iter(built.profiles.values())).less)
        self.pending = len(self.world.pending)
        self.before = self.after = self.world.usage()

    def run(self) -> Simulation:
        """Run to the end; return this."""
        for _ in self.steps():
            pass
        return self

    def steps(self) -> Iterator[int]:
        """Try pods one by one until nothing moves; yield after each attempt."""
        for pod in self.world.pending:
            self._enqueue(pod)
        while (queued := self._queue.pop(self.world.version)) is not None:
            self._try(queued)
            self.attempts += 1
            yield self.attempts
        for queued in self._queue.left():
            assert queued.outcome is not None
            self.left.append(_left(queued.pod, queued.outcome))
        self.after = self.world.usage()

    @property
    def placements(self) -> list[Placement]:
        """Return the pods that found a node and kept it, in the order in which they did."""
        return list(self._placed.values())

    @property
    def evicted(self) -> list[Victim]:
        """Return all that had to go."""
        return [victim for one in self.preemptions for victim in one.victims]

    def _enqueue(self, pod: PodInfo) -> None:
        refusal = self.world.why_not_queued(pod)
        if refusal is None:
            self._queue.add(pod)
        else:
            self.left.append(_left(pod, refusal))

    def _try(self, queued: QueuedPod) -> None:
        pod, version = queued.pod, self.world.version
        signature = _signature(pod)
        known = self._known.get(signature)
        is_known = known is not None and known[0] == version
        outcome = known[1] if known is not None and is_known else self.world.attempt(pod)
        queued.attempts += 1
        if outcome.verdict is Verdict.PLACED:
            self._placed[pod.uid] = Placement(
                pod.key,
                pod.uid,
                outcome.node,
                pod.priority,
                queued.attempts,
                after_preemption=queued.rooms_made > 0,
            )
            return
        queued.outcome = outcome
        if self._follow(queued, outcome):
            self._queue.again(queued)
            return
        if self.world.version == version and not self.world.has_own_plugins:
            self._known[signature] = (version, outcome)
        queued.tried_at = self.world.version
        self._queue.put_aside(queued)

    def _follow(self, queued: QueuedPod, outcome: Outcome) -> bool:
        """Do what a plan says; return whether the pod is worth trying at once."""
        plan = outcome.plan
        if plan is None:
            return False
        if not plan.nominated_node_name:
            queued.pod = self.world.promise(queued.pod, "")
            return False
        if queued.rooms_made >= ROOMS_MADE_MAX:
            return False
        queued.rooms_made += 1
        if plan.victims is None:
            queued.pod = self.world.promise(queued.pod, plan.nominated_node_name)
            return True
        room = self.world.make_room(queued.pod, plan.victims)
        queued.pod = room.pod
        for pod in room.released:
            self._queue.replace(pod)
        made = Preemption(
            room.pod.key,
            room.pod.priority,
            plan.nominated_node_name,
            tuple(_victim(one) for one in room.evicted),
            room.pdb_violation_count,
        )
        self.preemptions.append(made)
        for one in room.evicted:
            self._placed.pop(one.pod.uid, None)
            if one.successor is not None:
                self._enqueue(one.successor)
        return True


def _left(pod: PodInfo, outcome: Outcome) -> Leftover:
    return Leftover(pod.key, pod.uid, pod.priority, outcome, pod.nominated_node_name)


def _victim(evicted: Evicted) -> Victim:
    pod, successor = evicted.pod, evicted.successor
    if successor is None:
        return Victim(pod.key, pod.uid, pod.priority)
    return Victim(pod.key, pod.uid, pod.priority, successor.key, successor.uid)


def _signature(pod: PodInfo) -> Any:
    """Return what tells pods apart to the plugins of kube-scheduler."""
    own = any(volume.ephemeral is not None for volume in pod.shape.volumes)
    return (
        pod.shape,
        tuple(sorted(pod.labels.items())),
        pod.owners,
        pod.priority,
        pod.nominated_node_name,
        pod.uid if own or pod.shape.has_resource_claims else "",
    )
