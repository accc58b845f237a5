"""The binding cycle: wait on Permit, PreBind, Bind and PostBind, and the pool that runs it.

Owns the order, the handling of a failure in each step, and how many bindings run at once. Cache and
queue change through the scheduler's inbox only: an attempt may be running while a binding waits.
Upstream: pkg/scheduler/schedule_one.go bindingCycle, handleBindingCycleError
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kubesched.cache.cache import Cache, CacheError
from kubesched.framework.cluster_event import ASSIGNED_POD_DELETE
from kubesched.framework.handle import ExtenderError
from kubesched.framework.runtime.adapters import binds_at_once
from kubesched.framework.runtime.bind_phase import permit_result
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.waiting_pods import (
    PodInPreBind,
    PodsInPreBind,
    WaitingPod,
    WaitingPodsMap,
)
from kubesched.framework.status import SUCCESS, Status, error
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.kit.tasks import Tasks
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.failure import Failed, FailureHandler, of_binding, of_wait
from kubesched.scheduler.parallel_calls import PreBindRun
from kubesched.scheduler.schedule_one import PODS_TO_ACTIVATE_KEY, AssumedPod
from kubesched.scheduler.status_patches import StatusPatches
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo

SHOWN_S_MAX: Final = 10.0
"""How long to wait for the watch to show a pod that an extender bound despite an error."""
SHOWN_CHECK_S: Final = 0.02


@dataclass(slots=True)
class Outstanding:
    """Counts the outstanding bindings, without those that are parked."""

    count: int = 0
    parked: int = 0
    """Bindings that wait for something else: a permit, volumes."""
    on_change: Callable[[], None] = field(default=lambda: None)
    on_park: Callable[[], None] = field(default=lambda: None)

    def begin(self) -> None:
        self.count += 1

    def end(self) -> None:
        self.count -= 1
        self.on_change()

    def park(self) -> None:
        """Count an outstanding binding as parked."""
        self.parked += 1
        self.on_park()
        self.end()

    def unpark(self) -> None:
        """Count a parked binding as outstanding again."""
        self.parked -= 1
        self.begin()


@dataclass(slots=True)
class BindingCycle:
    """Binds assumed pods."""

    cache: Cache
    queue: SchedulingQueue
    waiting_pods: WaitingPodsMap
    in_pre_bind: PodsInPreBind
    patches: StatusPatches
    failures: FailureHandler
    recorder_of: Callable[[str], Any]
    apply_later: Callable[[Callable[[], None]], None]
    """Calls a function between two attempts."""
    outstanding: Outstanding
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    nominates_for_expectation: bool = True
    node_of: Callable[[PodInfo], Awaitable[str]] | None = None
    """Reads a pod's node from the API server; empty if it has none, or on an error."""

    async def run(self, assumed: AssumedPod) -> None:
        """Bind an outstanding pod, or forget it."""
        running = self.metrics.goroutines.labels("binding")
        running.inc()
        try:
            failed = await self._bind(assumed)
        except Exception as problem:  # noqa: BLE001 - a plugin must not stop the loop
            failed = of_binding(error(f"{type(problem).__name__}: {problem}"))
        finally:
            # Also when canceled: the process ends, and its assumed pods with it.
            running.dec()
            self.outstanding.end()
        if failed is not None:
            self.apply_later(partial(self._failed, assumed, failed))
            return
        try:
            await self._bound(assumed)
        except Exception as problem:  # noqa: BLE001 - the pod is bound
            pod = assumed.pod
            ref = Ref(pod.namespace, pod.name)
            self.log.error(
                "Failed to finish a binding after the pod was bound", err=problem, pod=ref
            )

    async def _bind(self, assumed: AssumedPod) -> Failed | None:
        pod, profile, state = assumed.pod, assumed.profile, assumed.state
        node_name = assumed.node_name
        has_work = False
        if self.nominates_for_expectation:
            flight = profile.run_pre_bind_pre_flights(state, pod, node_name)
            if flight is not None and not flight.is_skip and not flight.is_success:
                return of_binding(flight)
            has_work = flight is None or flight.is_success
            if has_work or assumed.waiting is not None:
                self.patches.expect(pod, node_name)
        if assumed.waiting is not None:
            rejected = await self._wait_on_permit(assumed.waiting)
            if rejected is not None:
                return of_wait(rejected)
        self.queue.done(pod.uid)
        if has_work or not self.nominates_for_expectation:
            rejected = await self._pre_bind(assumed, has_work=has_work)
            if rejected is not None:
                return of_binding(rejected)
        elif profile.measuring is not None:
            profile.measuring.passed("PreBind")
        await self.patches.settle(pod.uid)
        status = await self._bound_by_extender(assumed) or await profile.run_bind_plugins(
            state, pod, node_name
        )
        if not status.is_success:
            self.log.info("Failed to bind pod", level=1, pod=Ref(pod.namespace, pod.name))
            return of_binding(status)
        self.patches.bound(pod.uid)
        return None

    async def _bound_by_extender(self, assumed: AssumedPod) -> Status | None:
        """Let the first extender that binds such pods bind it; None if Bind plugins have to."""
        # Parity: schedule_one.go extendersBinding, v1.36.
        for extender in assumed.binding_extenders:
            try:
                await extender.bind(assumed.pod, assumed.node_name)
            except ExtenderError as problem:
                if not extender.is_ignorable:
                    await self._until_shown(assumed.pod)
                    return error(str(problem))
                text = "Skipping extender in bind as it returned error and has ignorable flag set"
                self.log.info(text, extender=extender.name, err=str(problem))
            else:
                return SUCCESS
        return None

    async def _until_shown(self, pod: PodInfo) -> None:
        """If the pod is bound despite the error, wait until the watch shows it."""
        # Differs: upstream frees the node at once, so two pods may use the same resources until the
        # watch shows the first. The outcome of the attempt is the same.
        if self.node_of is None or not await self.node_of(pod):
            return
        end_s = self.clock.monotonic_s() + SHOWN_S_MAX
        while self.cache.is_assumed(pod) and self.clock.monotonic_s() < end_s:
            await self.clock.sleep(SHOWN_CHECK_S)

    async def _wait_on_permit(self, waiting: WaitingPod) -> Status | None:
        """Wait until all plugins allow the pod, one rejects it, or the timeout passes."""
        start_s, pod = self.clock.monotonic_s(), waiting.pod
        self.log.info("Pod waiting on permit", level=4, pod=Ref(pod.namespace, pod.name))
        settled: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

        def settle(status: Status) -> None:
            if not settled.done():
                settled.set_result(status)

        waiting.when_settled(settle)
        self.outstanding.park()
        try:
            while not settled.done():
                now_s = self.clock.monotonic_s()
                if waiting.next_deadline_s <= now_s:
                    waiting.expire(now_s)
                    continue
                left_s = waiting.next_deadline_s - now_s
                await asyncio.wait({settled}, timeout=None if left_s == math.inf else left_s)
        finally:
            self.waiting_pods.remove(pod.uid)
            self.outstanding.unpark()
        status = permit_result(settled.result(), pod, self.log)
        self.metrics.permit_wait_duration_seconds.labels(status.code.wire_name).observe(
            self.clock.monotonic_s() - start_s
        )
        return None if status.is_success else status

    async def _pre_bind(self, assumed: AssumedPod, *, has_work: bool) -> Status | None:
        """Run the PreBind plugins; a preemption of the pod may cancel them."""
        run = PreBindRun()
        entry = PodInPreBind(run.cancel)
        if has_work:
            self.in_pre_bind[assumed.pod.uid] = entry
        self.outstanding.park()
        try:
            status = await assumed.profile.run_pre_bind_plugins(
                assumed.state, assumed.pod, assumed.node_name, run
            )
            if status is None and not entry.mark_prebound():
                status = error(entry.message)
        finally:
            self.outstanding.unpark()
            self.in_pre_bind.pop(assumed.pod.uid, None)
        return status

    async def _bound(self, assumed: AssumedPod) -> None:
        """Record that the pod is bound: event, log, metrics, PostBind plugins."""
        pod, queued, metrics = assumed.pod, assumed.queued, self.metrics
        profile_name, now_s = assumed.profile.name, self.clock.monotonic_s()
        self.recorder_of(profile_name).event(
            pod,
            kind="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {pod.key} to {assumed.node_name}",
        )
        if self.log.verbosity >= 2:
            self.log.info(
                "Successfully bound pod to node",
                level=2,
                pod=Ref(pod.namespace, pod.name),
                node=assumed.node_name,
                evaluatedNodes=assumed.result.evaluated_node_count,
                feasibleNodes=assumed.result.feasible_node_count,
            )
        metrics.schedule_attempts_total.labels("scheduled", profile_name).inc()
        metrics.scheduling_attempt_duration_seconds.labels("scheduled", profile_name).observe(
            now_s - assumed.start_s
        )
        metrics.pod_scheduling_attempts.observe(queued.attempts)
        first_s = queued.initial_attempt_timestamp_s
        if first_s is not None:
            attempts = str(queued.attempts) if queued.attempts < 15 else "15+"
            metrics.pod_scheduling_sli_duration_seconds.labels(attempts).observe(
                self.clock.now_s() - first_s
            )
        if assumed.profile.plugin_names("postBind"):
            await assumed.profile.run_post_bind_plugins(assumed.state, pod, assumed.node_name)
        elif assumed.profile.measuring is not None:
            assumed.profile.measuring.passed("PostBind")
        activated = assumed.state.get(PODS_TO_ACTIVATE_KEY)
        if activated:
            self.queue.activate(activated.values())

    def _failed(self, assumed: AssumedPod, failed: Failed) -> None:
        """Forget the pod, requeue the pods that this may help, and handle the failure."""
        # Parity: schedule_one.go handleBindingCycleError, v1.36.
        pod = assumed.pod
        assumed.profile.run_reserve_plugins_unreserve(assumed.state, pod, assumed.node_name)
        forgotten = self._forget_assumed(pod, assumed.node_name)
        if forgotten is not None and not failed.rejected:
            self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, forgotten, None)
        self.failures.handle(assumed.queued, failed, assumed.start_s)
        if forgotten is not None and failed.rejected:
            self.queue.move_all_to_active_or_backoff_queue(
                ASSIGNED_POD_DELETE, forgotten, None, lambda other: other.uid != pod.uid
            )

    def _forget_assumed(self, pod: PodInfo, node_name: str) -> BoundPod | None:
        """Forget an assumed pod and return it; None if it was confirmed meanwhile."""
        # Parity: cache.go ForgetPod, v1.36: a pod that was deleted and so forgotten before is no
        # error, and its reserved resources are free only now.
        bound = self.cache.bound_pod(pod.uid)
        if bound is None:
            return BoundPod(pod, node_name, None)
        try:
            self.cache.forget_pod(pod)
        except CacheError as problem:
            ref = Ref(pod.namespace, pod.name)
            self.log.error("ForgetPod failed", err=problem, pod=ref)
            return None
        return bound


BINDERS_MAX: Final = 32
"""As many as the client sends at once: more would only wait there."""


class Binders:
    """A pool of tasks that run binding cycles.

    A task for every pod would cost as much as the binding itself. A binding that is parked makes
    room for another. Bindings by extenders and out-of-tree plugins have tasks of their own: they
    may take any time.
    Upstream: pkg/scheduler/schedule_one.go scheduleOnePod, where each binding has a goroutine
    """

    def __init__(self, cycle: BindingCycle, outstanding: Outstanding, tasks: Tasks) -> None:
        self._cycle = cycle
        self._outstanding = outstanding
        self._tasks = tasks
        self._queue: deque[AssumedPod] = deque()
        self._running = 0
        self._under_way: Counter[Profile] = Counter()
        outstanding.on_park = self._start_one

    def put(self, assumed: AssumedPod) -> None:
        """Queue a pod for its binding."""
        self._outstanding.begin()
        self._under_way[assumed.profile] += 1
        if assumed.binding_extenders or not self._binds_at_once(assumed.profile):
            self._tasks.start(self._run(assumed), name="binding")
            return
        self._queue.append(assumed)
        self._start_one()

    def is_used(self, profile: Profile) -> bool:
        """Return whether bindings with the plugins of a profile are queued or running."""
        return self._under_way[profile] > 0

    def forget(self, profile: Profile) -> None:
        """Forget a profile that is no longer used."""
        self._under_way.pop(profile, None)

    async def _run(self, assumed: AssumedPod) -> None:
        try:
            await self._cycle.run(assumed)
        finally:
            self._under_way[assumed.profile] -= 1

    @staticmethod
    def _binds_at_once(profile: Profile) -> bool:
        plugins = (profile.plugins[name] for name in profile.plugin_names("bind"))
        return all(map(binds_at_once, plugins))

    def _start_one(self) -> None:
        if self._queue and self._running - self._outstanding.parked < BINDERS_MAX:
            self._running += 1
            self._tasks.start(self._bind(), name="binding")

    async def _bind(self) -> None:
        """Bind queued pods until none is left, or enough other tasks run."""
        try:
            while self._queue and self._running - self._outstanding.parked <= BINDERS_MAX:
                await self._run(self._queue.popleft())
        except asyncio.CancelledError:
            # The process ends, and its assumed pods with it.
            while self._queue:
                self._under_way[self._queue.popleft().profile] -= 1
                self._outstanding.end()
            raise
        finally:
            self._running -= 1
