"""How many copies of pod templates fit, where, and what stops the next one.

Owns the turn of templates and the count per node. Copies are placed one by one, each attempt a real
one; nobody is evicted for a copy. A DaemonSet wants one copy on each node that lacks it: one that
does not fit there stops no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubesched.engine.decide import Decision, decide
from kubesched.framework.status import Status
from kubesched.model.pod_info import PodInfo
from kubesched.sim.scenario import Template
from kubesched.sim.usage import Usage
from kubesched.sim.world import Outcome, Verdict, World


@dataclass(frozen=True, slots=True)
class Stop:
    """What stops the next copy of a template."""

    verdict: Verdict
    message: str
    """The event's text."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    by_node: Mapping[str, Status] = field(default_factory=dict)
    """The verdict on each node; empty if the pod was refused as a whole."""
    evictable: tuple[str, ...] = ()
    """The pods whose eviction would let one more copy in."""
    evict_from: str = ""


@dataclass(slots=True)
class Fit:
    """How often one template fits."""

    template: Template
    wanted: int | None
    by_node: Counter[str] = field(default_factory=Counter)
    stop: Stop | None = None
    """None as long as nothing stops it: all wanted copies fit."""
    next_index: int = 0

    def __post_init__(self) -> None:
        targets = self.template.targets
        if targets is not None:
            lacking = len(targets.lacking)
            self.wanted = lacking if self.wanted is None else min(self.wanted, lacking)

    @property
    def count(self) -> int:
        """Return how many copies fit."""
        return self.by_node.total()

    @property
    def is_done(self) -> bool:
        """Return whether nothing more is to be tried."""
        targets = self.template.targets
        if targets is not None and self.next_index >= len(targets.lacking):
            return True
        return (self.stop is not None and targets is None) or self.count == self.wanted


class Capacity:
    """Copies placed in turn: take `steps()` to its end, then read."""

    def __init__(self, world: World, templates: Sequence[Template], count: int | None) -> None:
        self.world = world
        self.fits = [Fit(one, count, next_index=_first_index(one)) for one in templates]
        self.before: Usage = world.usage()
        self.after: Usage = self.before
        self._like: dict[int, PodInfo] = {}

    def run(self) -> Capacity:
        """Run to the end; return this."""
        for _ in self.steps():
            pass
        return self

    def steps(self) -> Iterator[int]:
        """Place one copy of each template in turn until none fits; yield after each attempt."""
        done = 0
        while any(not fit.is_done for fit in self.fits):
            for number, fit in enumerate(self.fits):
                if not fit.is_done:
                    self._step(number, fit)
                    done += 1
                    yield done
        self.after = self.world.usage()

    @property
    def count(self) -> int:
        """Return how many copies fit in all."""
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
        refusal = self.world.why_not_queued(pod)
        if refusal is not None:
            return Stop(refusal.verdict, refusal.message)
        outcome = self.world.attempt(pod, make_room=False)
        if outcome.verdict is not Verdict.PLACED:
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

    def _stop(self, pod: PodInfo, outcome: Outcome) -> Stop:
        if outcome.diagnosis is None:
            return Stop(outcome.verdict, outcome.message, outcome.reasons)
        profile = self.world.built.profiles[pod.scheduler_name]
        view = self.world.built.handles[profile.name].view = self.world.view
        decision: Decision = decide(profile, view, pod)
        plan = decision.preemption
        victims = () if plan is None or plan.victims is None else plan.victims.pods
        return Stop(
            outcome.verdict,
            decision.message_after_post_filter or outcome.message,
            outcome.reasons,
            decision.rejected,
            tuple(victim.key for victim in victims),
            "" if plan is None else plan.nominated_node_name,
        )


def _at_target(earlier: Stop | None, stop: Stop, node: str) -> Stop:
    """Return what stops the copies of a DaemonSet: each one's node counts, and no other."""
    found = stop.by_node.get(node)
    by_node = {} if found is None else {node: found}
    reasons = Counter(found.reasons if found is not None else dict.fromkeys(stop.reasons, 1))
    if earlier is None:
        return replace(stop, reasons=reasons, by_node=by_node)
    return replace(
        earlier,
        reasons=Counter(earlier.reasons) + reasons,
        by_node={**earlier.by_node, **by_node},
    )


def _first_index(template: Template) -> int:
    # A pod's copies are numbered as people count; a workload's as its controller does.
    return 1 if template.workload is None else template.workload.spec.ordinals.start
