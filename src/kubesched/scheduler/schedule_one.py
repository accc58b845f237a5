"""The scheduling cycle: one attempt for one pod, from the queue to an assumed node.

Owns the order: find a node, or preempt; then assume, reserve and permit. `binding_cycle` runs the
steps that wait for the API server, `failure` handles failures.
Upstream: pkg/scheduler/schedule_one.go scheduleOnePod, schedulingCycle, prepareForBindingCycle
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.attempt.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.attempt.request import ScheduleResult, Search
from kubesched.attempt.schedule_pod import PodScheduling, run_without_extenders, schedule_pod
from kubesched.cache.cache import Cache, CacheError
from kubesched.explanation.attempt_record import AttemptRecord
from kubesched.extender.client.extenders import AbandonedError, Extenders
from kubesched.extender.client.http_extender import HTTPExtender
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import Victims
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.waiting_pods import WaitingPod, WaitingPodsMap
from kubesched.framework.status import Code, Status, error
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.failure import (
    CLEAR,
    LEAVE,
    Failed,
    FailureHandler,
    of_fit_error,
    of_no_nodes,
    of_status,
)
from kubesched.snapshot.pod_info import PodInfo

PODS_TO_ACTIVATE_KEY: Final = "kubernetes.io/pods-to-activate"
"""CycleState key under which plugins put pods, by key, that are to be activated."""
SLOW_ATTEMPT_S: Final = 0.1


@dataclass(slots=True)
class AssumedPod:
    """A pod that is assumed on a node and not bound yet."""

    queued: QueuedPodInfo
    profile: Profile
    state: CycleState
    result: ScheduleResult
    extenders: Extenders | None
    """The extenders of the attempt, which may bind the pod; None for none."""
    start_s: float
    waiting: WaitingPod | None
    """Set if Permit plugins make the pod wait."""

    @property
    def pod(self) -> PodInfo:
        return self.queued.pod

    @property
    def node_name(self) -> str:
        return self.result.suggested_host

    @property
    def binding_extenders(self) -> Sequence[HTTPExtender]:
        """Return the extenders that bind this pod, in configuration order."""
        if self.extenders is None:
            return ()
        return [ext for ext in self.extenders if ext.is_binder and ext.is_interested(self.pod)]


class _NotPlacedError(Exception):
    """Ends an attempt with its failure."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


@dataclass(slots=True)
class SchedulingCycle:
    """Finds a node for one pod at a time."""

    profiles: Mapping[str, Profile]
    cache: Cache
    queue: SchedulingQueue
    search: Search
    failures: FailureHandler
    preempt: Callable[[str, str, PodInfo, Victims], Awaitable[Status | None] | None]
    """Evicts victims for a profile and a PostFilter plugin. Where the eviction is synchronous, it
    returns an awaitable that yields an error, or None."""
    waiting_pods: WaitingPodsMap
    recorder_of: Callable[[str], Any]
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    on_decided: Callable[[QueuedPodInfo, AttemptRecord], None] | None = None
    """Called with every outcome before the cache changes again."""
    extenders: Extenders | None = None
    """The configured extenders; None for none."""

    def use_extenders(self, extenders: Extenders) -> None:
        """Use these extenders for the next pods."""
        self.extenders = extenders if len(extenders) else None
        self.search.extender_count = len(extenders)
        self.search.has_extender_filters = extenders.has_filters
        self.search.has_extender_prioritizers = extenders.has_prioritizers

    def give_up(self) -> None:
        """Cancel an attempt that waits for extenders; its pod is requeued."""
        if self.extenders is not None:
            self.extenders.give_up()

    async def run(self, queued: QueuedPodInfo) -> AssumedPod | None:
        """Try a pod; return it with its node, or None after its failure was handled."""
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
        except AbandonedError:
            # The new leader decides about the pod.
            self.failures.put_back(queued)
        except Exception as problem:  # noqa: BLE001 - a plugin must not stop the loop
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

    async def _place(self, queued: QueuedPodInfo, profile: Profile, start_s: float) -> AssumedPod:
        pod, state = queued.pod, CycleState()
        if profile.measuring is not None:
            profile.measuring.sample(state)
        extenders = self.extenders  # A reload may replace them before the pod is permitted.
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
        return AssumedPod(queued, profile, state, result, extenders, start_s, waiting)

    async def _permit(
        self, profile: Profile, state: CycleState, pod: PodInfo, node_name: str
    ) -> WaitingPod | None:
        """Run the Permit plugins; return the waiting pod if they make it wait."""
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
        """Choose a node; if none fits, run the PostFilter plugins and raise the failure."""
        pod, view = queued.pod, self.cache.snapshot()
        attempt = AttemptRecord(profile, view, pod, state)
        try:
            running = schedule_pod(profile, view, state, pod, self.search)
            if self.extenders is None:
                result = run_without_extenders(running)
            else:
                result = await self._call_extenders(self.extenders, running)
        except (FitError, SchedulingError) as failure:
            attempt.failure = failure
            if isinstance(failure, FitError):
                failed = await self._post_filter(attempt, failure)
            elif isinstance(failure, NoNodesError):
                failed = of_no_nodes(failure)
            else:
                ref = Ref(pod.namespace, pod.name)
                self.log.error("Error selecting node for pod", err=failure, pod=ref)
                failed = Failed(str(failure), rejected=False)
            attempt.message = failed.message
            self._decided(queued, attempt, start_s)
            raise _NotPlacedError(failed) from None
        attempt.result = result
        self._decided(queued, attempt, start_s)
        return result

    async def _call_extenders(self, extenders: Extenders, running: PodScheduling) -> ScheduleResult:
        """Run an attempt to its result, calling extenders where it needs them."""
        try:
            request = next(running)
        except StopIteration as done:
            result: ScheduleResult = done.value
            return result
        return await extenders.drive(running, request)

    def _decided(self, queued: QueuedPodInfo, attempt: AttemptRecord, start_s: float) -> None:
        pod = attempt.pod
        taken_s = self.clock.monotonic_s() - start_s
        self.metrics.scheduling_algorithm_duration_seconds.observe(taken_s)
        if taken_s > SLOW_ATTEMPT_S:
            # Differs: upstream logs a trace with its steps here; we do not time single phases.
            self.log.info(
                "Slow scheduling attempt",
                pod=Ref(pod.namespace, pod.name),
                milliseconds=round(taken_s * 1000),
            )
        if self.on_decided is not None:
            try:
                self.on_decided(queued, attempt)
            except Exception as problem:  # noqa: BLE001 - an observer must not fail a decision
                ref = Ref(pod.namespace, pod.name)
                self.log.error("Failed to record a decision", err=problem, pod=ref)

    async def _post_filter(self, attempt: AttemptRecord, failure: FitError) -> Failed:
        # Parity: schedule_one.go schedulingAlgorithm, v1.36.
        profile, state, pod = attempt.profile, attempt.state, attempt.pod
        if not profile.has_post_filter_plugins:
            message = "No PostFilter plugins are registered, so no preemption will be performed"
            self.log.info(message, level=3)
            return of_fit_error(failure, CLEAR)
        statuses = failure.diagnosis.node_to_status
        running = profile.run_post_filter_plugins_live(state, pod, statuses)
        extenders = self.extenders
        plan, status = await (running if extenders is None else extenders.wait_for(running))
        if status.is_success and plan is not None and plan.victims is not None:
            eviction = self.preempt(profile.name, status.plugin, pod, plan.victims)
            problem = await eviction if eviction is not None else None
            if problem is not None:
                plan, status = None, problem
        failure.diagnosis.post_filter_message = status.message
        if status.is_success and plan is not None and plan.nominated_node_name:
            attempt.plan = plan
        message = "Status after running PostFilter plugins for pod"
        ref = Ref(pod.namespace, pod.name)
        if status.code is Code.ERROR:
            self.log.error(message, pod=ref, status=status.message)
        elif self.log.verbosity >= 5:
            self.log.info(message, level=5, pod=ref, status=status.message)
        return of_fit_error(failure, LEAVE if plan is None else plan.nominated_node_name)

    def _assume_and_reserve(
        self, profile: Profile, state: CycleState, pod: PodInfo, node_name: str
    ) -> None:
        self.queue.nominator.delete_nominated_pod(pod)
        try:
            self.cache.assume_pod(pod, node_name)
        except CacheError as problem:
            self.log.error("Scheduler cache AssumePod failed", err=problem)
            raise _NotPlacedError(of_status(error(str(problem)))) from None
        rejected = profile.run_reserve_plugins_reserve(state, pod, node_name)
        if rejected is not None:
            self._give_back(profile, state, pod, node_name)
            raise _NotPlacedError(of_status(rejected))

    def _give_back(self, profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> None:
        profile.run_reserve_plugins_unreserve(state, pod, node_name)
        if self.cache.is_assumed(pod):
            self.cache.forget_pod(pod)
