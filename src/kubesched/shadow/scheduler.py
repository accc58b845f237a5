"""Comparison of another scheduler's decisions with those of kubesched, in the right order.

Owns the order in which the other scheduler's decisions are assumed. They become visible as bindings
and conditions, with a delay and not always in order; each one is tested at several recent states of
the cluster before it counts as a difference. Never writes to the API server.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from kubesched.api.pod import Pod
from kubesched.attempt.request import Search
from kubesched.cache.cache import Cache
from kubesched.client.resources import PODS
from kubesched.client.watch.changes import Change
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.runtime.profile import Profile
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.scheduler.eventhandlers import EventHandlers
from kubesched.scheduler.scheduler import IDLE_S_MAX, Scheduler
from kubesched.shadow.verdict import ComparedDecision, TheirDecision, compare, failed
from kubesched.snapshot.pod_info import PodInfo

HOLD_S: Final = 0.5
"""How long an outcome waits for others that may have been decided earlier."""
LOOK_AHEAD: Final = 128
"""Number of changes that are searched for other outcomes."""
TRIED_MAX: Final = 16
"""Number of outcomes that are tried as the next before one counts as different."""
PENDING_MAX: Final = 2000
"""Number of pending pods that are searched for earlier ones."""
BACK_S: Final = 2.0
STEPS_MAX: Final = 16
"""How far to roll back for a state at which both agree, in time and in pods."""

Entry: TypeAlias = Change | Callable[[], None]


class QueuedChange(NamedTuple):
    """A change that is not applied yet."""

    at_s: float
    entry: Entry


class Step(NamedTuple):
    """A pod that was added to or removed from a node."""

    at_s: float
    pod: PodInfo
    was_added: bool


class UndecidedPod(NamedTuple):
    """A pod without an outcome so far."""

    number: int
    """The arrival number."""
    order: Any

    def precedes(self, other: UndecidedPod | None) -> bool:
        """Return whether it must be decided before another undecided pod.

        A later pod may have arrived after the decision, regardless of its priority.
        """
        return other is not None and self.number < other.number and not other.order < self.order


class Candidate(NamedTuple):
    """An outcome that may be the next, and the position of its change."""

    place: int
    outcome: TheirDecision


class RecentSteps:
    """Recent additions and removals of pods, which can be rolled back temporarily.

    The cluster changes between a decision and its binding: changes that the other scheduler had not
    seen yet may already be applied here.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._steps: deque[Step] = deque(maxlen=STEPS_MAX)

    def note(self, change: Change, *, was_bound: bool, now_s: float) -> None:
        """Record the effect of a change on a node, if any."""
        is_bound = self._cache.bound_pod(change.uid) is not None
        pod = change.object
        if was_bound != is_bound and isinstance(pod, Pod) and pod.spec.node_name:
            self._steps.append(Step(now_s, self._cache.pod_info(pod), was_added=is_bound))

    def rollbacks(self, now_s: float) -> Generator[None]:
        """Roll back step by step; the current state is restored afterwards.

        First all steps, then only removals, only additions, and each step alone: changes need not
        become visible in the order of the decisions.
        """
        recent = [step for step in reversed(self._steps) if now_s - step.at_s <= BACK_S]
        yield from self._back(recent)
        yield from self._back([step for step in recent if not step.was_added])
        yield from self._back([step for step in recent if step.was_added])
        for step in recent[1:]:
            yield from self._back([step])

    def _back(self, steps: list[Step]) -> Generator[None]:
        undone: list[Step] = []
        try:
            for step in steps:
                self._set(step, bound=not step.was_added)
                undone.append(step)
                yield
        finally:
            for step in reversed(undone):
                self._set(step, bound=step.was_added)

    def _set(self, step: Step, *, bound: bool) -> None:
        if bound:
            self._cache.add_pod(step.pod)
        else:
            self._cache.remove_pod(step.pod)


@dataclass(slots=True)
class Shadow:
    """Applies changes in an order in which the other scheduler may have decided."""

    handlers: EventHandlers
    cache: Cache
    profiles: Mapping[str, Profile]
    search: Search
    """The node sampling of the other scheduler."""
    order: Callable[[QueuedPodInfo], Any]
    """The sort key of the queue."""
    report: Callable[[ComparedDecision], None]
    clock: Clock
    log: Log
    _changes: deque[QueuedChange] = field(default_factory=deque)
    _undecided: dict[str, UndecidedPod] = field(default_factory=dict)
    """Pods without an outcome so far, by key, in order of arrival."""
    _arrival_count: int = 0
    _rejected: dict[str, str] = field(default_factory=dict)
    """The last rejection messages of pods, by uid."""
    _tried: dict[str, ComparedDecision] = field(default_factory=dict)
    """Verdicts at the current state, by uid."""
    recent_steps: RecentSteps = field(init=False)
    wakes_at_s: float = math.inf
    """When to call `step` again if no change arrives."""

    def __post_init__(self) -> None:
        self.recent_steps = RecentSteps(self.cache)

    @property
    def waiting_count(self) -> int:
        """Return the number of pods without an outcome so far."""
        return len(self._undecided)

    def put(self, entry: Entry) -> None:
        """Queue a change."""
        self._changes.append(QueuedChange(self.clock.monotonic_s(), entry))

    def step(self, *, compares: bool, is_ending: bool = False) -> bool:
        """Apply one change; return False if there is none or it has to wait.

        Args:
            compares: whether outcomes are compared, that is, the initial state is complete.
            is_ending: whether no more changes will arrive, so that nothing is waited for.
        """
        self.wakes_at_s = math.inf
        if not self._changes:
            return False
        first = self._changes[0]
        wakes_at_s = first.at_s + HOLD_S
        is_late = is_ending or self.clock.monotonic_s() >= wakes_at_s
        outcome = self._outcome(first.entry) if compares else None
        if outcome is not None:
            is_done = self._settle(outcome, is_late=is_late)
        elif compares and _is_eviction(first.entry):
            is_done = self._settle_before(is_late=is_late)
        else:
            self._take(0)
            is_done = True
        if not is_done:
            self.wakes_at_s = wakes_at_s
        return is_done

    # -- outcomes ---------------------------------------------------------------------------------

    def _outcome(self, entry: Entry) -> TheirDecision | None:
        """Return the decision of the other scheduler that a change shows, if any."""
        if not isinstance(entry, Change) or entry.resource != PODS or entry.type == "DELETED":
            return None
        pod, pending = entry.object, self.handlers.pods.get(entry.key)
        if pending is None or pending.uid != entry.uid:
            return None
        if pending.scheduler_name not in self.profiles:
            return None
        assert isinstance(pod, Pod)
        if pod.spec.node_name:
            return TheirDecision(pending, pod.spec.node_name)
        message = rejection_of(pod)
        if message is None or message == self._rejected.get(pending.uid):
            return None
        return TheirDecision(pending, "", message)

    def _settle(self, first: TheirDecision, *, is_late: bool) -> bool:
        """Apply the outcome that was decided next; return False to wait for others."""
        candidates = self._candidates()
        if self._is_overtaking(first, candidates, is_late=is_late):
            return False
        if self._accept_agreeing(candidates):
            return True
        if is_late:
            # The first one: all earlier changes have been applied.
            self.report(self._verdict_before(first))
            self._take(0)
        return is_late

    def _verdict_before(self, outcome: TheirDecision) -> ComparedDecision:
        """Return the verdict, at a recent state if the decisions agree there."""
        verdict = self._verdict(outcome)
        if verdict.agrees or len(self._changes) > LOOK_AHEAD:  # Too far behind to roll back.
            return verdict
        with closing(self.recent_steps.rollbacks(self.clock.monotonic_s())) as rollbacks:
            for _ in rollbacks:
                before = self._compare(outcome)
                if before.agrees:
                    return before
        return verdict

    def _settle_before(self, *, is_late: bool) -> bool:
        """Record the rejection for which a pod is evicted; it may appear after the eviction."""
        rejections = (each for each in self._candidates() if not each.outcome.node_name)
        if self._accept_agreeing(rejections):
            return True
        if is_late:
            self._take(0)
        return is_late

    def _accept_agreeing(self, candidates: Iterable[Candidate]) -> bool:
        """Apply the first outcome with which we agree; return whether there is one."""
        for candidate in candidates:
            verdict = self._verdict(candidate.outcome)
            if verdict.agrees:
                self.report(verdict)
                self._take(candidate.place)
                return True
        return False

    def _candidates(self) -> list[Candidate]:
        """Return the visible outcomes in order of arrival, earlier decisions moved forward."""
        ordered: list[Candidate] = []
        for candidate in islice(self._outcomes(), TRIED_MAX):
            undecided = self._undecided.get(candidate.outcome.pod.key)
            at = len(ordered)
            if undecided is not None:
                others = (self._undecided.get(other.outcome.pod.key) for other in ordered)
                at = next((n for n, other in enumerate(others) if undecided.precedes(other)), at)
            ordered.insert(at, candidate)
        return ordered

    def _outcomes(self) -> Iterator[Candidate]:
        """Yield the first change of each pod if it is an outcome."""
        keys: set[str] = set()
        for place in range(min(len(self._changes), LOOK_AHEAD)):
            entry = self._changes[place].entry
            if not isinstance(entry, Change) or entry.resource != PODS or entry.key in keys:
                continue
            keys.add(entry.key)
            outcome = self._outcome(entry)
            if outcome is not None:
                yield Candidate(place, outcome)

    def _is_overtaking(
        self, outcome: TheirDecision, candidates: list[Candidate], *, is_late: bool
    ) -> bool:
        """Return whether an earlier decision may still become visible."""
        mine = self._undecided.get(outcome.pod.key)
        if mine is None:
            return False
        visible = {candidate.outcome.pod.key for candidate in candidates}
        earlier = [
            key
            for key, undecided in islice(self._undecided.items(), PENDING_MAX)
            if key not in visible and undecided.precedes(mine)
        ]
        if earlier and not is_late:
            return True
        for key in earlier:
            del self._undecided[key]  # Not waited for again.
        return False

    def _verdict(self, outcome: TheirDecision) -> ComparedDecision:
        """Return the verdict at the current state."""
        uid = outcome.pod.uid
        if uid not in self._tried:
            self._tried[uid] = self._compare(outcome)
        return self._tried[uid]

    def _compare(self, outcome: TheirDecision) -> ComparedDecision:
        profile = self.profiles[outcome.pod.scheduler_name]
        try:
            return compare(profile, self.cache.snapshot(), outcome, self.search)
        except Exception as problem:  # noqa: BLE001 - a plugin error must not stop the loop
            return failed(profile, outcome, problem)

    # -- applying changes -------------------------------------------------------------------------

    def _take(self, place: int) -> None:
        """Apply the change at a position."""
        entry = self._changes[place].entry
        del self._changes[place]
        self._tried.clear()
        try:
            if not isinstance(entry, Change):
                entry()
                return
            was_bound = self.cache.bound_pod(entry.uid) is not None
            self.handlers.apply(entry)
        except Exception as problem:  # noqa: BLE001 - one bad object must not stop the loop
            name = entry.key if isinstance(entry, Change) else "a task's end"
            self.log.error("Error applying a change", err=problem, object=name)
        else:
            if entry.resource == PODS:
                self.recent_steps.note(entry, was_bound=was_bound, now_s=self.clock.monotonic_s())
                self._follow(entry)

    def _follow(self, change: Change) -> None:
        """Update whether a pod is without an outcome."""
        key, queue = change.key, self.handlers.queue
        pending = self.handlers.pods.get(key)
        if pending is None or pending.uid != change.uid:
            self._rejected.pop(change.uid, None)
        elif (
            isinstance(change.object, Pod) and (message := rejection_of(change.object)) is not None
        ):
            self._rejected[change.uid] = message
        queued = None if pending is None else queue.get(key)
        is_undecided = pending is not None and pending.uid not in self._rejected
        if queued is None or not is_undecided or queue.is_gated(key):
            self._undecided.pop(key, None)
        elif key not in self._undecided:
            self._arrival_count += 1
            self._undecided[key] = UndecidedPod(self._arrival_count, self.order(queued))


def rejection_of(pod: Pod) -> str | None:
    """Return the message of an Unschedulable condition; None if there is none."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message if condition.reason == "Unschedulable" else None
    return None


def _is_eviction(entry: Entry) -> bool:
    """Return whether a change is a preemption by a scheduler."""
    pod = entry.object if isinstance(entry, Change) and entry.resource == PODS else None
    return (
        isinstance(entry, Change)
        and isinstance(pod, Pod)
        and (entry.type == "DELETED" or pod.metadata.deletion_timestamp is not None)
        and any(each.reason == "PreemptionByScheduler" for each in pod.status.conditions)
    )


@dataclass(slots=True)
class ShadowLoop(Scheduler):
    """The loop of a shadow scheduler."""

    shadow: Shadow = field(kw_only=True)

    async def _work(self) -> bool:
        """Work for one time slice; return whether there is more to do."""
        while self.clock.monotonic_s() < self._slice_end_s:
            if self.inbox:
                self.shadow.put(self.inbox.take())
            elif not self.shadow.step(compares=self.is_scheduling):
                return False
        return True

    async def _rest(self) -> None:
        """Wait for something to do."""
        left_s = self.shadow.wakes_at_s - self.clock.monotonic_s()
        try:
            async with asyncio.timeout(max(min(left_s, IDLE_S_MAX), 0.001)):
                await self._wake.wait()
        except TimeoutError:
            return

    def finish(self) -> None:
        """Compare what was received, without waiting for more."""
        while self.inbox:
            self.shadow.put(self.inbox.take())
        while self.shadow.step(compares=self.is_scheduling, is_ending=True):
            pass
