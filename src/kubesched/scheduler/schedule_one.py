"""One attempt of one pod, from the queue to an assumed place.

Owns the order: find a node, or make room; assume, reserve, ask for permission. What waits for the
API server is `binding_cycle`'s, what follows from a failure is `failure`'s.
Upstream: pkg/scheduler/schedule_one.go scheduleOnePod, schedulingCycle, prepareForBindingCycle
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.cache.cache import Cache, CacheError
from kubesched.engine.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.engine.explanation import Attempt
from kubesched.engine.schedule_pod import ResultT, schedule_pod, schedule_without_extenders
from kubesched.engine.search import ScheduleResult, Search
from kubesched.extender.asking import Extenders, GivenUpError
from kubesched.extender.http_extender import HTTPExtender
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Victims
from kubesched.framework.profile import Profile
from kubesched.framework.status import Code, Status, error
from kubesched.framework.waiting_pods import WaitingPod, WaitingPodsMap
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.failure import (
    LEAVE,
    Failed,
    FailureHandler,
    of_fit_error,
    of_no_nodes,
    of_status,
)

PODS_TO_ACTIVATE_KEY: Final = "kubernetes.io/pods-to-activate"
"""Under which plugins leave pods, by key, that are to be tried again at once."""
SLOW_ATTEMPT_S: Final = 0.1


@dataclass(slots=True)
class Attempted:
    """A pod with a place that nobody outside knows of yet."""

    queued: QueuedPodInfo
    profile: Profile
    state: CycleState
    node_name: str
    evaluated_count: int
    feasible_count: int
    extenders: Extenders | None
    """Those that were asked, and may bind; None for none."""
    start_s: float
    waiting: WaitingPod | None
    """There if permit plugins hold the pod."""

    @property
    def pod(self) -> PodInfo:
        """Return the pod."""
        return self.queued.pod

    @property
    def binding_extenders(self) -> Sequence[HTTPExtender]:
        """Return the extenders that bind such a pod, in the order in which they are asked."""
        if self.extenders is None:
            return ()
        return [one for one in self.extenders if one.is_binder and one.is_interested(self.pod)]


class _NotPlacedError(Exception):
    """Carries why an attempt ended."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


@dataclass(slots=True)
class SchedulingCycle:
    """Finds places for pods, one at a time."""

    profiles: Mapping[str, Profile]
    cache: Cache
    queue: SchedulingQueue
    search: Search
    failures: FailureHandler
    preempt: Callable[[str, str, PodInfo, Victims], Awaitable[Status | None] | None]
    """Evicts a plan's victims, by the profile's and the plugin's name; if that is to be waited for,
    it returns something to await, and that an error if it failed."""
    waiting_pods: WaitingPodsMap
    recorder_of: Callable[[str], Any]
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    on_decided: Callable[[QueuedPodInfo, Attempt], None] | None = None
    """Is told every outcome while the columns still stand."""
    extenders: Extenders | None = None
    """Who else is asked; None for nobody."""

    def go_by(self, extenders: Extenders) -> None:
        """Ask these extenders from the next pod on."""
        self.extenders = extenders if len(extenders) else None
        self.search.extender_count = len(extenders)
        self.search.has_extender_filters = extenders.has_filters
        self.search.has_extender_prioritizers = extenders.has_prioritizers

    def give_up(self) -> None:
        """End an attempt that waits for extenders; its pod goes back as if it had not begun."""
        if self.extenders is not None:
            self.extenders.give_up()

    async def run(self, queued: QueuedPodInfo) -> Attempted | None:
        """Try a pod; return it with its place, or None if it has none and is dealt with."""
        pod, log = queued.pod, self.log
        if log.verbosity >= 4:
            ref = Ref(pod.namespace, pod.name)
            log.info("About to try and schedule pod", level=4, pod=ref)
        profile = self.profiles.get(pod.scheduler_name)
        if profile is None:
            problem = f'profile not found for scheduler name "{pod.scheduler_name}"'
            log.error("Error occurred", err=problem, pod=Ref(pod.namespace, pod.name))
            self.queue.done(pod.uid)
            return None
        if self._is_skipped(pod):
            self.queue.done(pod.uid)
            return None
        if log.verbosity >= 3:
            ref = Ref(pod.namespace, pod.name)
            log.info("Attempting to schedule pod", level=3, pod=ref)
        start_s = self.clock.monotonic_s()
        try:
            return await self._place(queued, profile, start_s)
        except _NotPlacedError as ended:
            self.failures.handle(queued, ended.failed, start_s)
        except GivenUpError:
            # Whoever leads by now tells what becomes of the pod.
            self.failures.put_back(queued)
        except Exception as problem:  # noqa: BLE001 - no fault of a plugin may stop the loop
            if self.cache.is_assumed(pod):
                self.cache.forget_pod(pod)
            failed = Failed(f"{type(problem).__name__}: {problem}", rejected=False)
            self.failures.handle(queued, failed, start_s)
        return None

    def _is_skipped(self, pod: PodInfo) -> bool:
        # Parity: schedule_one.go skipPodSchedule, v1.36.
        if pod.terminating:
            self.recorder_of(pod.scheduler_name).event(
                pod,
                kind="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                note=f"skip schedule deleting pod: {pod.key}",
            )
            self.log.info("Skip schedule deleting pod", level=3, pod=Ref(pod.namespace, pod.name))
            return True
        return self.cache.is_assumed(pod)

    async def _place(self, queued: QueuedPodInfo, profile: Profile, start_s: float) -> Attempted:
        pod, state = queued.pod, CycleState()
        if profile.measuring is not None:
            profile.measuring.sample(state)
        extenders = self.extenders  # Others may be in force by the time the pod is permitted.
        result = await self._decide(queued, profile, state, start_s)
        node_name = result.suggested_host
        activated: dict[str, PodInfo] = {}
        state.write(PODS_TO_ACTIVATE_KEY, activated)
        self._assume_and_reserve(profile, state, pod, node_name)
        waiting = None
        if profile.plugin_names("permit"):
            waiting = await self._permit(profile, state, pod, node_name)
        elif profile.measuring is not None:
            profile.measuring.passed("Permit")
        if activated:
            self.queue.activate(activated.values())
            activated.clear()
        return Attempted(
            queued=queued,
            profile=profile,
            state=state,
            node_name=node_name,
            evaluated_count=result.evaluated_node_count,
            feasible_count=result.feasible_node_count,
            extenders=extenders,
            start_s=start_s,
            waiting=waiting,
        )

    async def _permit(
        self, profile: Profile, state: CycleState, pod: PodInfo, node_name: str
    ) -> WaitingPod | None:
        """Ask for permission; return the pod as one that waits, if it has to."""
        permit = await profile.run_permit_plugins(state, pod, node_name)
        if permit.status.is_success:
            return None
        if permit.status.code is Code.WAIT:
            return self.waiting_pods.add(pod, permit.wait_s, self.clock.monotonic_s())
        self._give_back(profile, state, pod, node_name)
        raise _NotPlacedError(of_status(permit.status))

    async def _decide(
        self, queued: QueuedPodInfo, profile: Profile, state: CycleState, start_s: float
    ) -> ScheduleResult:
        """Choose a node; if none fits, try to make room and tell why."""
        pod, view = queued.pod, self.cache.snapshot()
        one = Attempt(profile, view, pod, state)
        try:
            if self.extenders is None:
                result = schedule_without_extenders(profile, view, state, pod, self.search)
            else:
                attempt = schedule_pod(profile, view, state, pod, self.search)
                result = await self._chosen(self.extenders, attempt)
        except FitError as failure:
            one.failure = failure
            failed = await self._make_room(one, failure)
        except NoNodesError as failure:
            one.failure = failure
            failed = of_no_nodes(failure)
        except SchedulingError as failure:
            ref = Ref(pod.namespace, pod.name)
            self.log.error("Error selecting node for pod", err=failure, pod=ref)
            one.failure = failure
            failed = Failed(str(failure), rejected=False)
        else:
            one.result = result
            self._decided(queued, one, start_s)
            return result
        one.message = failed.message
        self._decided(queued, one, start_s)
        raise _NotPlacedError(failed)

    async def _chosen(self, extenders: Extenders, attempt: ResultT) -> ScheduleResult:
        """Have an attempt come to a result, asking extenders."""
        try:
            question = next(attempt)
        except StopIteration as done:
            result: ScheduleResult = done.value
            return result
        return await extenders.drive(attempt, question)

    def _decided(self, queued: QueuedPodInfo, one: Attempt, start_s: float) -> None:
        pod = one.pod
        taken_s = self.clock.monotonic_s() - start_s
        self.metrics.scheduling_algorithm_duration_seconds.observe(taken_s)
        if taken_s > SLOW_ATTEMPT_S:
            # Differs: upstream writes a trace with its steps here; phases are not told apart.
            self.log.info(
                "Slow scheduling attempt",
                pod=Ref(pod.namespace, pod.name),
                milliseconds=round(taken_s * 1000),
            )
        if self.on_decided is not None:
            try:
                self.on_decided(queued, one)
            except Exception as problem:  # noqa: BLE001 - who only looks on may not spoil a decision
                ref = Ref(pod.namespace, pod.name)
                self.log.error("Error taking down a decision", err=problem, pod=ref)

    async def _make_room(self, one: Attempt, failure: FitError) -> Failed:
        # Parity: schedule_one.go schedulingAlgorithm, v1.36.
        profile, state, pod = one.profile, one.state, one.pod
        if not profile.has_post_filter_plugins:
            message = "No PostFilter plugins are registered, so no preemption will be performed"
            self.log.info(message, level=3)
            return of_fit_error(failure, "")
        statuses = failure.diagnosis.node_to_status
        making_room = profile.run_post_filter_plugins_live(state, pod, statuses)
        extenders = self.extenders
        plan, status = await (making_room if extenders is None else extenders.waited(making_room))
        if status.is_success and plan is not None and plan.victims is not None:
            told = self.preempt(profile.name, status.plugin, pod, plan.victims)
            problem = await told if told is not None else None
            if problem is not None:
                plan, status = None, problem
        failure.diagnosis.post_filter_message = status.message
        if status.is_success and plan is not None and plan.nominated_node_name:
            one.plan = plan
        self._say_post_filter(pod, status)
        return of_fit_error(failure, LEAVE if plan is None else plan.nominated_node_name)

    def _say_post_filter(self, pod: PodInfo, status: Status) -> None:
        message = "Status after running PostFilter plugins for pod"
        ref = Ref(pod.namespace, pod.name)
        if status.code is Code.ERROR:
            self.log.error(message, pod=ref, status=status.message)
        elif self.log.verbosity >= 5:
            self.log.info(message, level=5, pod=ref, status=status.message)

    def _assume_and_reserve(
        self, profile: Profile, state: CycleState, pod: PodInfo, node_name: str
    ) -> None:
        self.queue.nominator.delete_nominated_pod(pod)
        try:
            self.cache.assume_pod(pod, node_name)
        except CacheError as problem:
            self.log.error("Scheduler cache AssumePod failed", err=problem)
            raise _NotPlacedError(of_status(error(str(problem)))) from None
        refused = profile.run_reserve_plugins_reserve(state, pod, node_name)
        if refused is not None:
            self._give_back(profile, state, pod, node_name)
            raise _NotPlacedError(of_status(refused))

    def _give_back(self, profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> None:
        profile.run_reserve_plugins_unreserve(state, pod, node_name)
        if self.cache.is_assumed(pod):
            self.cache.forget_pod(pod)
