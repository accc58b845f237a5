"""How many copies of pod templates fit, where, and what stops the next one.

Owns the turn of templates and the count per node. Copies are placed one by one, each attempt a real
one; nobody is evicted for a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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

    @property
    def count(self) -> int:
        """Return how many copies fit."""
        return self.by_node.total()

    @property
    def is_done(self) -> bool:
        """Return whether nothing more is to be tried."""
        return self.stop is not None or self.count == self.wanted


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
        pod = self._copy(number, fit)
        refusal = self.world.why_not_queued(pod)
        if refusal is not None:
            fit.stop = Stop(refusal.verdict, refusal.message)
            return
        outcome = self.world.attempt(pod, make_room=False)
        if outcome.verdict is Verdict.PLACED:
            fit.by_node[outcome.node] += 1
        else:
            fit.stop = self._stop(pod, outcome)

    def _copy(self, number: int, fit: Fit) -> PodInfo:
        pod, claims = fit.template.copy(fit.next_index)
        while self.world.has_pod(pod.key):
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


def _first_index(template: Template) -> int:
    # A pod's copies are numbered as people count; a workload's as its controller does.
    return 1 if template.workload is None else 0
