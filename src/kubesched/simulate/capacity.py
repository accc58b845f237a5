"""Capacity: how many copies of pod templates fit, on which nodes, and why the next does not.

Owns the round-robin order of templates and the counts per node. Copies are placed one by one by
real attempts; nothing is preempted for a copy. A DaemonSet gets one copy on each node that lacks
one; a copy that does not fit does not stop the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubesched.explanation.decision import decide
from kubesched.framework.status import Status
from kubesched.manifests.scenario import Template
from kubesched.simulate.utilization import Usage, usage_of
from kubesched.simulate.world import AttemptResult, ResultKind, World
from kubesched.snapshot.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the next copy of a template does not fit."""

    kind: ResultKind
    message: str
    """The message of the event."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    by_node: Mapping[str, Status] = field(default_factory=dict)
    """The verdict on each node; empty if PreFilter rejected the pod."""
    evictable: tuple[str, ...] = ()
    """The pods whose preemption would make one more copy fit."""
    evict_from: str = ""


@dataclass(slots=True)
class Fit:
    """The number of copies of one template that fit."""

    template: Template
    desired: int | None
    by_node: Counter[str] = field(default_factory=Counter)
    stop: Stop | None = None
    """None if all desired copies fit."""
    next_index: int = field(init=False)

    def __post_init__(self) -> None:
        # Copies of a pod are numbered from 1, those of a workload as its controller numbers them.
        workload = self.template.workload
        self.next_index = 1 if workload is None else workload.spec.ordinals.start
        targets = self.template.targets
        if targets is not None:
            lacking = len(targets.lacking)
            self.desired = lacking if self.desired is None else min(self.desired, lacking)

    @property
    def count(self) -> int:
        return self.by_node.total()

    @property
    def is_done(self) -> bool:
        """Return whether no more copies have to be tried."""
        targets = self.template.targets
        if targets is not None and self.next_index >= len(targets.lacking):
            return True
        return (self.stop is not None and targets is None) or self.count == self.desired


class Capacity:
    """A capacity run: exhaust `steps()`, then read the result."""

    def __init__(self, world: World, templates: Sequence[Template], count: int | None) -> None:
        self.world = world
        self.fits = [Fit(template, count) for template in templates]
        self.before: Usage = usage_of(world.view)
        self.after: Usage = self.before
        self._like: dict[int, PodInfo] = {}

    def steps(self) -> Iterator[int]:
        """Place copies in round-robin order until none fits; yield after each attempt."""
        done = 0
        while any(not fit.is_done for fit in self.fits):
            for number, fit in enumerate(self.fits):
                if not fit.is_done:
                    self._step(number, fit)
                    done += 1
                    yield done
        self.after = usage_of(self.world.view)

    @property
    def count(self) -> int:
        return sum(fit.count for fit in self.fits)

    def _step(self, number: int, fit: Fit) -> None:
        targets = fit.template.targets
        stop = self._try(self._copy(number, fit), fit)
        if targets is None:
            fit.stop = stop
            return
        if stop is not None:
            fit.stop = _at_target(fit.stop, stop, targets.lacking[fit.next_index])
        fit.next_index += 1

    def _try(self, pod: PodInfo, fit: Fit) -> Stop | None:
        """Place a copy; return what stops it."""
        rejection = self.world.why_not_queued(pod)
        if rejection is not None:
            return Stop(rejection.kind, rejection.message)
        outcome = self.world.attempt(pod, preempts=False)
        if outcome.kind is not ResultKind.PLACED:
            return self._stop(pod, outcome)
        fit.by_node[outcome.node] += 1
        return None

    def _copy(self, number: int, fit: Fit) -> PodInfo:
        pod, claims = fit.template.copy(fit.next_index)
        while self.world.has_pod(pod.key) and fit.template.targets is None:
            fit.next_index += 1
            pod, claims = fit.template.copy(fit.next_index)
        for claim in claims:
            self.world.add_claim(claim)
        like = self._like.get(number) if fit.template.is_uniform else None
        info = self.world.add_pod(pod, like=like)
        self._like[number] = info
        return info

    def _stop(self, pod: PodInfo, outcome: AttemptResult) -> Stop:
        if outcome.diagnosis is None:
            return Stop(outcome.kind, outcome.message, outcome.reasons)
        profile = self.world.built.profiles[pod.scheduler_name]
        view = self.world.view
        self.world.built.handles[profile.name].view = view
        decision = decide(profile, view, pod)
        plan = decision.preemption
        victims = () if plan is None or plan.victims is None else plan.victims.pods
        return Stop(
            outcome.kind,
            decision.message_after_post_filter or outcome.message,
            outcome.reasons,
            decision.rejected,
            tuple(victim.key for victim in victims),
            "" if plan is None else plan.nominated_node_name,
        )


def _at_target(earlier: Stop | None, stop: Stop, node: str) -> Stop:
    """Return why copies of a DaemonSet do not fit: only the verdict on each one's node counts."""
    status = stop.by_node.get(node)
    by_node = {} if status is None else {node: status}
    reasons = Counter(status.reasons if status is not None else dict.fromkeys(stop.reasons, 1))
    if earlier is None:
        return replace(stop, reasons=reasons, by_node=by_node)
    return replace(
        earlier,
        reasons=Counter(earlier.reasons) + reasons,
        by_node={**earlier.by_node, **by_node},
    )
