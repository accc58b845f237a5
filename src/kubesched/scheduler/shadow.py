"""Beside another scheduler: what it decides is decided again, and compared.

Owns in which order its decisions are taken to have been made. They show as bindings and conditions,
some time after they were made, and not always in that order; for each one a moment is looked for at
which both schedulers agree, before it counts as a difference. Never writes to the API server: there
is nothing here that could.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from kubesched.cache.cache import Cache
from kubesched.client.change import Change
from kubesched.client.resources import PODS
from kubesched.engine.search import Search
from kubesched.framework.profile import Profile
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.objects.pod import Pod
from kubesched.scheduler.eventhandlers import EventHandlers
from kubesched.scheduler.scheduler import IDLE_S_MAX, Scheduler
from kubesched.scheduler.shadow_verdict import Outcome, Verdict, compare, failed

HOLD_S: Final = 0.5
"""How long an outcome waits for others that may have been decided before it."""
LOOK_AHEAD: Final = 128
"""Among so many changes others are looked for."""
TRIED_MAX: Final = 16
"""So many outcomes are tried as the next, before one of them counts as different."""
PENDING_MAX: Final = 2000
"""Among so many pods that wait the ones are looked for that must be earlier."""
BACK_S: Final = 2.0
STEPS_MAX: Final = 16
"""How far to go back for a moment at which both agree, in time and in pods."""

Entry: TypeAlias = Change | Callable[[], None]


class Seen(NamedTuple):
    """A change that is not taken over yet."""

    at_s: float
    entry: Entry


class Step(NamedTuple):
    """A pod that came to a node or left one."""

    at_s: float
    pod: PodInfo
    came: bool


class Fresh(NamedTuple):
    """A pod that waits for its first outcome."""

    number: int
    """In the order in which pods came."""
    order: Any

    def precedes(self, other: Fresh | None) -> bool:
        """Return whether it must be tried before another that is fresh.

        One that came later may have come too late, however important it is.
        """
        return other is not None and self.number < other.number and not other.order < self.order


class Candidate(NamedTuple):
    """An outcome that may be the next, and where its change waits."""

    place: int
    outcome: Outcome


class Past:
    """The pods that came to nodes and left them in the last moments, to be taken back for a look.

    Between a decision and its binding the cluster goes on; what the other scheduler cannot have
    seen yet may have been taken over here.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._steps: deque[Step] = deque(maxlen=STEPS_MAX)

    def note(self, change: Change, *, was_bound: bool, now_s: float) -> None:
        """Keep what a change did to a node, if it did something."""
        is_bound = self._cache.bound_pod(change.uid) is not None
        pod = change.object
        if was_bound != is_bound and isinstance(pod, Pod) and pod.spec.node_name:
            self._steps.append(Step(now_s, self._cache.pod_info(pod), came=is_bound))

    def moments(self, now_s: float) -> Generator[None]:
        """Go back step by step, as far as is kept; everything is as it was afterwards.

        Once with every step, then with only those who left, with only those who came, and with each
        one alone: what is decided one after the other need not show so.
        """
        recent = [step for step in reversed(self._steps) if now_s - step.at_s <= BACK_S]
        yield from self._back(recent)
        yield from self._back([step for step in recent if not step.came])
        yield from self._back([step for step in recent if step.came])
        for step in recent[1:]:
            yield from self._back([step])

    def _back(self, steps: list[Step]) -> Generator[None]:
        gone: list[Step] = []
        try:
            for step in steps:
                self._set(step, bound=not step.came)
                gone.append(step)
                yield
        finally:
            for step in reversed(gone):
                self._set(step, bound=step.came)

    def _set(self, step: Step, *, bound: bool) -> None:
        if bound:
            self._cache.add_pod(step.pod)
        else:
            self._cache.remove_pod(step.pod)


@dataclass(slots=True)
class Shadow:
    """Takes changes over in an order in which the other scheduler may have decided."""

    handlers: EventHandlers
    cache: Cache
    profiles: Mapping[str, Profile]
    search: Search
    """How far the other scheduler looks."""
    order: Callable[[QueuedPodInfo], Any]
    """By what pods are tried."""
    told: Callable[[Verdict], None]
    clock: Clock
    log: Log
    _seen: deque[Seen] = field(default_factory=deque)
    _fresh: dict[str, Fresh] = field(default_factory=dict)
    """Pods that wait for their first outcome, by key, in the order in which they came."""
    _came: int = 0
    _refused: dict[str, str] = field(default_factory=dict)
    """What was last said of pods that were refused, by uid."""
    _tried: dict[str, Verdict] = field(default_factory=dict)
    """Verdicts as things stand, by uid."""
    past: Past = field(init=False)
    wakes_at_s: float = math.inf
    """When `step` can do more, though nothing has come."""

    def __post_init__(self) -> None:
        self.past = Past(self.cache)

    @property
    def waiting_count(self) -> int:
        """Return how many pods the other scheduler has said nothing of yet."""
        return len(self._fresh)

    def put(self, entry: Entry) -> None:
        """Have a change taken over, in its turn."""
        self._seen.append(Seen(self.clock.monotonic_s(), entry))

    def step(self, *, compares: bool, is_ending: bool = False) -> bool:
        """Take over one change; return False if there is none, or if it has to wait.

        Args:
            compares: whether outcomes are compared: everything there was at the start is known.
            is_ending: whether nothing further will come, so that nothing is waited for.
        """
        self.wakes_at_s = math.inf
        if not self._seen:
            return False
        first = self._seen[0]
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

    def _outcome(self, entry: Entry) -> Outcome | None:
        """Return what the other scheduler decided, if the change shows that."""
        if not isinstance(entry, Change) or entry.resource != PODS or entry.type == "DELETED":
            return None
        pod, known = entry.object, self.handlers.pods.get(entry.key)
        if known is None or known.uid != entry.uid or known.scheduler_name not in self.profiles:
            return None
        assert isinstance(pod, Pod)
        if pod.spec.node_name:
            return Outcome(known, pod.spec.node_name)
        message = refusal_of(pod)
        if message is None or message == self._refused.get(known.uid):
            return None
        return Outcome(known, "", message)

    def _settle(self, first: Outcome, *, is_late: bool) -> bool:
        """Take over the outcome that was decided next; False if others have to be waited for."""
        candidates = self._candidates()
        if self._is_overtaking(first, candidates, is_late=is_late):
            return False
        for candidate in candidates:
            verdict = self._verdict(candidate.outcome)
            if verdict.agrees:
                self._accept(candidate, verdict)
                return True
        if not is_late:
            return False
        # Whoever stands first: all that came before it has been taken over.
        self._accept(Candidate(0, first), self._verdict_before(first))
        return True

    def _verdict_before(self, outcome: Outcome) -> Verdict:
        """Return how decisions compare, a moment ago if that is where they agree."""
        verdict = self._verdict(outcome)
        if verdict.agrees or len(self._seen) > LOOK_AHEAD:  # Or there is no time to look around.
            return verdict
        with closing(self.past.moments(self.clock.monotonic_s())) as moments:
            for _ in moments:
                before = self._compare(outcome)
                if before.agrees:
                    return before
        return verdict

    def _settle_before(self, *, is_late: bool) -> bool:
        """Take over the refusal that a pod is evicted for; it may show after the eviction."""
        refusals = (one for one in self._candidates() if not one.outcome.node_name)
        for candidate in refusals:
            verdict = self._verdict(candidate.outcome)
            if verdict.agrees:
                self._accept(candidate, verdict)
                return True
        if is_late:
            self._take(0)
        return is_late

    def _candidates(self) -> list[Candidate]:
        """Return the outcomes that are there, as they came but for who must have been earlier."""
        ordered: list[Candidate] = []
        for candidate in islice(self._outcomes(), TRIED_MAX):
            fresh = self._fresh.get(candidate.outcome.pod.key)
            at = len(ordered)
            if fresh is not None:
                others = (self._fresh.get(one.outcome.pod.key) for one in ordered)
                at = next((n for n, one in enumerate(others) if fresh.precedes(one)), at)
            ordered.insert(at, candidate)
        return ordered

    def _outcomes(self) -> Iterator[Candidate]:
        """Yield the first change of each pod, where it is an outcome."""
        met: set[str] = set()
        for place in range(min(len(self._seen), LOOK_AHEAD)):
            entry = self._seen[place].entry
            if not isinstance(entry, Change) or entry.resource != PODS or entry.key in met:
                continue
            met.add(entry.key)
            outcome = self._outcome(entry)
            if outcome is not None:
                yield Candidate(place, outcome)

    def _is_overtaking(
        self, outcome: Outcome, candidates: list[Candidate], *, is_late: bool
    ) -> bool:
        """Return whether a pod must have been decided before, and may show yet."""
        mine = self._fresh.get(outcome.pod.key)
        if mine is None:
            return False
        there = {candidate.outcome.pod.key for candidate in candidates}
        earlier = [
            key
            for key, one in islice(self._fresh.items(), PENDING_MAX)
            if key not in there and one.precedes(mine)
        ]
        if earlier and not is_late:
            return True
        for key in earlier:
            del self._fresh[key]  # Who takes so long is not waited for again.
        return False

    def _verdict(self, outcome: Outcome) -> Verdict:
        """Return how decisions compare as things stand."""
        uid = outcome.pod.uid
        found = self._tried.get(uid)
        if found is None:
            found = self._tried[uid] = self._compare(outcome)
        return found

    def _compare(self, outcome: Outcome) -> Verdict:
        profile = self.profiles[outcome.pod.scheduler_name]
        try:
            return compare(profile, self.cache.snapshot(), outcome, self.search)
        except Exception as problem:  # noqa: BLE001 - no fault of a plugin may stop the loop
            return failed(profile, outcome, problem)

    def _accept(self, candidate: Candidate, verdict: Verdict) -> None:
        self.told(verdict)
        self._take(candidate.place)

    # -- taking over ------------------------------------------------------------------------------

    def _take(self, place: int) -> None:
        """Take over the change at a place."""
        entry = self._seen[place].entry
        del self._seen[place]
        self._tried.clear()
        try:
            if not isinstance(entry, Change):
                entry()
                return
            was_bound = self.cache.bound_pod(entry.uid) is not None
            self.handlers.apply(entry)
        except Exception as problem:  # noqa: BLE001 - one bad object must not stop the loop
            what = entry.key if isinstance(entry, Change) else "a task's end"
            self.log.error("Error applying a change", err=problem, object=what)
        else:
            if entry.resource == PODS:
                self.past.note(entry, was_bound=was_bound, now_s=self.clock.monotonic_s())
                self._follow(entry)

    def _follow(self, change: Change) -> None:
        """Note whether a pod waits for its first outcome."""
        key, queue = change.key, self.handlers.queue
        known = self.handlers.pods.get(key)
        if known is None or known.uid != change.uid:
            self._refused.pop(change.uid, None)
        elif isinstance(change.object, Pod) and (message := refusal_of(change.object)) is not None:
            self._refused[change.uid] = message
        queued = None if known is None else queue.get(key)
        is_fresh = queued is not None and known is not None and known.uid not in self._refused
        if queued is None or not is_fresh or queue.is_gated(key):
            self._fresh.pop(key, None)
        elif key not in self._fresh:
            self._came += 1
            self._fresh[key] = Fresh(self._came, self.order(queued))


def refusal_of(pod: Pod) -> str | None:
    """Return why the pod was found to fit nowhere, None if nobody says so."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message if condition.reason == "Unschedulable" else None
    return None


def _is_eviction(entry: Entry) -> bool:
    """Return whether a pod goes because a scheduler wants its place."""
    pod = entry.object if isinstance(entry, Change) and entry.resource == PODS else None
    return (
        isinstance(entry, Change)
        and isinstance(pod, Pod)
        and (entry.type == "DELETED" or pod.metadata.deletion_timestamp is not None)
        and any(one.reason == "PreemptionByScheduler" for one in pod.status.conditions)
    )


@dataclass(slots=True)
class ShadowLoop(Scheduler):
    """The loop of a scheduler that only looks on."""

    shadow: Shadow = field(kw_only=True)

    async def _work(self) -> bool:
        """Work for one slice; return whether there is more to do."""
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
        """Compare what has come, without waiting for more."""
        while self.inbox:
            self.shadow.put(self.inbox.take())
        while self.shadow.step(compares=self.is_scheduling, is_ending=True):
            pass
