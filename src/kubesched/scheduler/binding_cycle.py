"""The waiting half of an attempt: permission, what precedes a binding, the binding, its end.

Owns the order and what a failure of each step means. State of cache and queue changes through the
scheduler's inbox only, since an attempt may be under way while a binding waits.
Upstream: pkg/scheduler/schedule_one.go bindingCycle, handleBindingCycleError
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.cache.cache import Cache, CacheError
from kubesched.columns.pod_columns import BoundPod
from kubesched.framework.bind_phase import permit_result
from kubesched.framework.handle import ExtenderError
from kubesched.framework.status import SUCCESS, Status, error
from kubesched.framework.waiting_pods import PodsInPreBind, WaitingPod, WaitingPodsMap
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.cluster_event import ASSIGNED_POD_DELETE
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_info import PodInfo
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.failure import Failed, FailureHandler, of_binding, of_wait
from kubesched.scheduler.pre_bind_run import PreBindRun
from kubesched.scheduler.schedule_one import PODS_TO_ACTIVATE_KEY, Attempted
from kubesched.scheduler.status_patches import StatusPatches

SHOWN_S_MAX: Final = 10.0
"""How long a pod that is bound, unknown to us, may take to come over the watch."""
SHOWN_CHECK_S: Final = 0.02


@dataclass(slots=True)
class Outstanding:
    """How many bindings are on their way to the API server; those that wait do not count."""

    count: int = 0
    parked: int = 0
    """How many wait for something else: a permit, volumes."""
    on_change: Callable[[], None] = field(default=lambda: None)
    on_park: Callable[[], None] = field(default=lambda: None)

    def begin(self) -> None:
        """Count a binding."""
        self.count += 1

    def end(self) -> None:
        """Count it no more."""
        self.count -= 1
        self.on_change()

    def park(self) -> None:
        """Count a binding among those that wait."""
        self.parked += 1
        self.on_park()
        self.end()

    def unpark(self) -> None:
        """Count it among those on their way again."""
        self.parked -= 1
        self.begin()


@dataclass(slots=True)
class BindingCycle:
    """Binds pods that have a place."""

    cache: Cache
    queue: SchedulingQueue
    waiting_pods: WaitingPodsMap
    in_pre_bind: PodsInPreBind
    patches: StatusPatches
    failures: FailureHandler
    recorder_of: Callable[[str], Any]
    apply_later: Callable[[Callable[[], None]], None]
    """Has something done between two attempts."""
    outstanding: Outstanding
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    nominates_for_expectation: bool = True
    node_of: Callable[[PodInfo], Awaitable[str]] | None = None
    """Asks the API server which node a pod has; empty for none, or if it cannot be said."""

    async def run(self, attempted: Attempted) -> None:
        """Bind a pod that counts as outstanding, or take back its place."""
        running = self.metrics.goroutines.labels("binding")
        running.inc()
        try:
            failed = await self._bind(attempted)
        except Exception as problem:  # noqa: BLE001 - no fault of a plugin may stop the loop
            failed = of_binding(error(f"{type(problem).__name__}: {problem}"))
        finally:
            # Cancelled: the process ends, and what was assumed ends with it.
            running.dec()
            self.outstanding.end()
        if failed is not None:
            why = failed
            self.apply_later(lambda: self._failed(attempted, why))
            return
        try:
            await self._bound(attempted)
        except Exception as problem:  # noqa: BLE001 - the pod is bound, whatever is made of it
            pod = attempted.pod
            ref = Ref(pod.namespace, pod.name)
            self.log.error("Error after a pod was bound", err=problem, pod=ref)

    async def _bind(self, one: Attempted) -> Failed | None:
        pod, profile, state, node_name = one.pod, one.profile, one.state, one.node_name
        has_work = False
        if self.nominates_for_expectation:
            flight = profile.run_pre_bind_pre_flights(state, pod, node_name)
            if flight is not None and not flight.is_skip and not flight.is_success:
                return of_binding(flight)
            has_work = flight is None or flight.is_success
            if has_work or one.waiting is not None:
                self.patches.expect(pod, node_name)
        if one.waiting is not None:
            refused = await self._wait_on_permit(one.waiting)
            if refused is not None:
                return of_wait(refused)
        self.queue.done(pod.uid)
        if has_work or not self.nominates_for_expectation:
            refused = await self._pre_bind(one, has_work=has_work)
            if refused is not None:
                return of_binding(refused)
        elif profile.measuring is not None:
            profile.measuring.passed("PreBind")
        await self.patches.settle(pod.uid)
        status = await self._bound_by_extender(one) or await profile.run_bind_plugins(
            state, pod, node_name
        )
        if not status.is_success:
            self.log.info("Failed to bind pod", level=1, pod=Ref(pod.namespace, pod.name))
            return of_binding(status)
        self.patches.bound(pod.uid)
        return None

    async def _bound_by_extender(self, one: Attempted) -> Status | None:
        """Have the first extender that binds such pods bind it; None if it is for the plugins."""
        # Parity: schedule_one.go extendersBinding, v1.36.
        for extender in one.binding_extenders:
            try:
                await extender.bind(one.pod, one.node_name)
            except ExtenderError as problem:
                if not extender.is_ignorable:
                    await self._until_shown(one.pod)
                    return error(str(problem))
                text = "Skipping extender in bind as it returned error and has ignorable flag set"
                self.log.info(text, extender=extender.name, err=str(problem))
            else:
                return SUCCESS
        return None

    async def _until_shown(self, pod: PodInfo) -> None:
        """If a pod was bound all the same, wait until the watch shows it."""
        # Differs: upstream gives the place away at once, and for as long as the watch takes there
        # may be two pods in it. What becomes of the attempt is the same.
        if self.node_of is None or not await self.node_of(pod):
            return
        end_s = self.clock.monotonic_s() + SHOWN_S_MAX
        while self.cache.is_assumed(pod) and self.clock.monotonic_s() < end_s:
            await self.clock.sleep(SHOWN_CHECK_S)

    async def _wait_on_permit(self, waiting: WaitingPod) -> Status | None:
        """Wait until every plugin allows the pod, one refuses it, or time is up."""
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

    async def _pre_bind(self, one: Attempted, *, has_work: bool) -> Status | None:
        """Run what must precede the binding; whoever preempts the pod may end it."""
        run = PreBindRun()
        entry = self.in_pre_bind.add(one.pod.uid, run.cancel) if has_work else None
        self.outstanding.park()
        try:
            status = await one.profile.run_pre_bind_plugins(one.state, one.pod, one.node_name, run)
            if status is None and entry is not None and not entry.mark_prebound():
                status = error(entry.message)
        finally:
            self.outstanding.unpark()
            self.in_pre_bind.remove(one.pod.uid)
        return status

    async def _bound(self, one: Attempted) -> None:
        """Tell everybody that the pod is bound."""
        pod, queued, metrics = one.pod, one.queued, self.metrics
        profile_name, now_s = one.profile.name, self.clock.monotonic_s()
        self.recorder_of(profile_name).event(
            pod,
            kind="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {pod.key} to {one.node_name}",
        )
        if self.log.verbosity >= 2:
            self.log.info(
                "Successfully bound pod to node",
                level=2,
                pod=Ref(pod.namespace, pod.name),
                node=one.node_name,
                evaluatedNodes=one.evaluated_count,
                feasibleNodes=one.feasible_count,
            )
        metrics.schedule_attempts_total.labels("scheduled", profile_name).inc()
        metrics.scheduling_attempt_duration_seconds.labels("scheduled", profile_name).observe(
            now_s - one.start_s
        )
        metrics.pod_scheduling_attempts.observe(queued.attempts)
        first_s = queued.initial_attempt_timestamp_s
        if first_s is not None:
            attempts = str(queued.attempts) if queued.attempts < 15 else "15+"
            metrics.pod_scheduling_sli_duration_seconds.labels(attempts).observe(
                self.clock.now_s() - first_s
            )
        if one.profile.plugin_names("postBind"):
            await one.profile.run_post_bind_plugins(one.state, pod, one.node_name)
        elif one.profile.measuring is not None:
            one.profile.measuring.passed("PostBind")
        activated = one.state.get(PODS_TO_ACTIVATE_KEY)
        if activated:
            self.queue.activate(activated.values())

    def _failed(self, one: Attempted, failed: Failed) -> None:
        """Take back the pod's place, wake whom that may help, and put the pod back."""
        # Parity: schedule_one.go handleBindingCycleError, v1.36.
        pod = one.pod
        one.profile.run_reserve_plugins_unreserve(one.state, pod, one.node_name)
        given_back = self._given_back(pod, one.node_name)
        if given_back is not None and not failed.rejected:
            self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, given_back, None)
        self.failures.handle(one.queued, failed, one.start_s)
        if given_back is not None and failed.rejected:
            self.queue.move_all_to_active_or_backoff_queue(
                ASSIGNED_POD_DELETE, given_back, None, lambda other: other.uid != pod.uid
            )

    def _given_back(self, pod: PodInfo, node_name: str) -> BoundPod | None:
        """Forget an assumed pod and return it; None if it counts on a node for good by now."""
        # Parity: cache.go ForgetPod, v1.36: one that was forgotten before, as it was deleted, is no
        # error, and what it had reserved is free only now.
        assumed = self.cache.bound_pod(pod.uid)
        if assumed is None:
            return BoundPod(pod, node_name, None)
        try:
            self.cache.forget_pod(pod)
        except CacheError as problem:
            ref = Ref(pod.namespace, pod.name)
            self.log.error("ForgetPod failed", err=problem, pod=ref)
            return None
        return assumed
