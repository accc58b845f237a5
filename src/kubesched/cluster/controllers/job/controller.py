"""Jobs: run pods to completion.

Owns the creation and deletion of a Job's pods, the writes of its status, and the release of pods
whose Job is gone. `kubesched.workloads.job` evaluates pods, `tracking` accounts for them.
Upstream: pkg/controller/job/job_controller.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from kubesched.api.documents import (
    Document,
    is_ready,
    is_terminating,
    key_of,
    namespace_of,
    owner_of,
    selector_of,
    uid_of,
)
from kubesched.api.times import time_text
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import JOBS, PODS
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating
from kubesched.cluster.controllers.controller_refs import (
    claim_children,
    enqueue_parents,
    index_orphans,
)
from kubesched.cluster.controllers.job.pods import active_pods_for_removal, new_pod
from kubesched.cluster.controllers.job.tracking import (
    COMPLETE,
    SUSPENDED,
    count_released,
    enact_finish,
    plan_tracking,
    set_count,
)
from kubesched.cluster.controllers.pod_control import (
    DeletePodError,
    create_pod,
    delete_pod,
    slow_start_batch,
)
from kubesched.workloads.job import SUCCESS_CRITERIA_MET, Backoff, JobState, count_of, finished_s
from kubesched.workloads.job_pods import (
    NO_INDEX,
    TRACKING_FINALIZER,
    absolute_failure_count,
    end_of,
    has_backoff_per_index,
    has_finalizer,
    is_indexed,
    is_managed_elsewhere,
    is_suspended,
)

# Batches pod changes; upstream batches for a second.
_BATCH_S: Final = 0.1
_PODS_PER_SYNC_MAX: Final = 500
_REQUEST_ERRORS: Final = (ApiError, TransportError, DeletePodError)
RELEASE_PATCH: Final = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
"""Removes the tracking finalizer of a pod."""


class JobController(Controller):
    """Reconciles Jobs."""

    name: ClassVar[str] = "job"
    component: ClassVar[str] = "job-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = self.informers.of(JOBS)
        self._pods = self.informers.of(PODS)
        self._backoffs: dict[str, Backoff] = {}
        index_orphans(self._pods)
        self._jobs.on_change(self._job_changed)
        self._pods.on_change(self._pod_changed)

    def _job_changed(self, old: Document | None, new: Document | None) -> None:
        job = new or old
        assert job is not None
        if new is None or end_of(new):
            self._backoffs.pop(key_of(job), None)
        elif old is None or old["metadata"].get("generation") != new["metadata"].get("generation"):
            self.queue.add(key_of(new))
        else:
            self._enqueue_batched(key_of(new))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        enqueue_parents(self._jobs, self._enqueue_batched, old, new)

    def _enqueue_batched(self, key: str) -> None:
        self.queue.add_after(key, _BATCH_S)

    async def sync(self, key: str) -> None:
        """Reconcile one Job."""
        job = self._jobs.get(key)
        if job is None or end_of(job) or is_managed_elsewhere(job):
            return
        if job["spec"].get("completionMode") not in (None, "NonIndexed", "Indexed"):
            text = "Skipped Job sync because completion mode is unknown"
            self.event(job, "Warning", "UnknownCompletionMode", text)
            return
        pods = await claim_children(
            self.api,
            PODS,
            job,
            JOBS,
            selector_of(job["spec"]["selector"]),
            finalizers=(TRACKING_FINALIZER,),
        )
        state = JobState(job, pods, self._backoffs.get(key, Backoff()), self.clock.now_s())
        state.evaluate()
        if state.resync_s is not None:
            self.queue.add_after(key, state.resync_s)
        if state.finished is not None:
            active, error = await self._delete_active(state)
            is_changed = False
        else:
            active, error, is_changed = await self._continue(state)
        status = state.status
        is_changed |= active != count_of(status, "active")
        is_changed |= (state.ready, state.terminating) != (
            status.get("ready"),
            status.get("terminating"),
        )
        set_count(status, "active", active)
        status["ready"], status["terminating"] = state.ready, state.terminating
        await self._track(state, needs_flush=is_changed)
        if error is not None:
            raise error

    # -- pods -------------------------------------------------------------------------------------

    async def _delete_active(self, state: JobState) -> tuple[int, Exception | None]:
        """Delete the active pods of a finished Job; return how many remain, and an error."""
        active = len(state.active_pods)
        deleted, error = await self._delete(state, state.active_pods)
        if deleted != active:
            # The Job has not finished while pods remain.
            state.finished = None
        return active - deleted, error

    async def _continue(self, state: JobState) -> tuple[int, Exception | None, bool]:
        """Create or delete pods as needed, and check whether the Job is complete."""
        active, error = len(state.active_pods), None
        is_managed = not is_terminating(state.job)
        if is_managed:
            active, error = await self._manage(state)
        if state.is_complete(active):
            text = "Reached expected number of succeeded pods"
            state.finished = state.condition(SUCCESS_CRITERIA_MET, "CompletionsReached", text)
            return active, error, False
        return active, error, is_managed and self._set_suspended_condition(state)

    async def _manage(self, state: JobState) -> tuple[int, Exception | None]:
        """Create or delete pods, never both in one sync; return how many are active.

        Parity: job_controller.go manageJob, v1.36.
        """
        active = len(state.active_pods)
        if is_suspended(state.job):
            surplus = active_pods_for_removal(state.job, state.active_pods, active)
        else:
            too_many = max(0, active - state.desired_active)
            surplus = active_pods_for_removal(state.job, state.active_pods, too_many)
            surplus = surplus[:_PODS_PER_SYNC_MAX]
        if surplus or is_suspended(state.job):
            deleted, error = await self._delete(state, surplus, release_first=True)
            return active - deleted, error
        missing = min(state.missing, _PODS_PER_SYNC_MAX)
        if missing <= 0:
            return active, None
        indexes = self._indexes_to_create(state, missing)
        if not indexes:
            return active, None
        created, create_error = await self._create(state, indexes)
        return active + created, create_error

    def _indexes_to_create(self, state: JobState, count: int) -> list[int]:
        """Return the indexes to create pods for now; enqueue the Job for those in backoff."""
        now_s, speed = state.now_s, self.context.settings.speed
        if not has_backoff_per_index(state.job):
            wait_s = state.backoff.remaining_s(now_s, speed)
            if wait_s > 0:
                self.queue.add_after(key_of(state.job), max(wait_s, _BATCH_S))
                return []
        if not is_indexed(state.job):
            return [NO_INDEX] * count
        indexes = state.pending_indexes(count)
        if not has_backoff_per_index(state.job):
            return indexes
        waits = {index: _wait_s(state.delayed.get(index), now_s, speed) for index in indexes}
        ready = [index for index in indexes if waits[index] <= 0]
        if indexes and len(ready) < len(indexes):
            min_wait_s = min(wait_s for wait_s in waits.values() if wait_s > 0)
            self.queue.add_after(key_of(state.job), max(min_wait_s, _BATCH_S))
        return ready

    async def _create(
        self, state: JobState, indexes: Sequence[int]
    ) -> tuple[int, Exception | None]:
        remaining_indexes = iter(indexes)
        created = 0

        async def create() -> None:
            nonlocal created
            index = next(remaining_indexes)
            pod = new_pod(state.job, index, state.delayed.get(index))
            try:
                await create_pod(self, pod, state.job)
            except ApiError as error:
                # Nothing can be created in a terminating namespace.
                if not is_namespace_terminating(error):
                    raise
            created += 1

        try:
            await slow_start_batch(len(indexes), create)
        except _REQUEST_ERRORS as error:
            return created, error
        return created, None

    async def _delete(
        self, state: JobState, pods: Sequence[Document], *, release_first: bool = False
    ) -> tuple[int, Exception | None]:
        """Delete pods; with `release_first` they are not counted. Return how many."""

        async def delete(pod: Document) -> None:
            if release_first:
                await self._release(pod)
            await delete_pod(self, pod, state.job)

        outcomes = await asyncio.gather(*map(delete, pods), return_exceptions=True)
        error = _first_error(outcomes)
        deleted = [pod for pod, outcome in zip(pods, outcomes, strict=True) if outcome is None]
        state.terminating += len(deleted)
        state.ready -= sum(map(is_ready, deleted))
        return len(deleted), error

    async def _release(self, pod: Document) -> None:
        if not has_finalizer(pod):
            return
        try:
            await self.api.patch(PODS, pod, RELEASE_PATCH)
        except NotFoundError:
            # The pod is gone.
            return

    # -- status -----------------------------------------------------------------------------------

    def _set_suspended_condition(self, state: JobState) -> bool:
        """Set the Suspended condition; return whether it changed."""
        if is_suspended(state.job):
            suspended = state.condition(SUSPENDED, "JobSuspended", "Job suspended")
            if not state.set_condition(suspended):
                return False
            self.event(state.job, "Normal", "Suspended", "Job suspended")
            state.status.pop("startTime", None)
            return True
        resumed = state.condition(SUSPENDED, "JobResumed", "Job resumed", status="False")
        if not state.set_condition(resumed):
            return False
        self.event(state.job, "Normal", "Resumed", "Job resumed")
        # activeDeadlineSeconds counts from the last resumption.
        state.status["startTime"] = time_text(state.now_s)
        return True

    async def _track(self, state: JobState, *, needs_flush: bool) -> None:
        """Write the status, release finished pods, and count them.

        Parity: job_controller.go flushUncountedAndRemoveFinalizers, v1.36.
        """
        plan = plan_tracking(state, needs_flush=needs_flush)
        if plan.needs_flush:
            await self._write(state)
            self._backoffs[key_of(state.job)] = state.backoff
        outcomes = await asyncio.gather(
            *map(self._release, plan.to_release), return_exceptions=True
        )
        for pod, outcome in zip(plan.to_release, outcomes, strict=True):
            if outcome is None:
                plan.tracked.pop(uid_of(pod), None)
        needs_flush = count_released(state, plan.tracked)
        error = _first_error(outcomes)
        is_finished = error is None and not plan.is_full and enact_finish(state)
        if needs_flush or is_finished:
            await self._write(state)
        if error is not None:
            raise error
        if is_finished:
            self._record_finish(state)

    async def _write(self, state: JobState) -> None:
        status = dict(state.status)
        uncounted = status["uncountedTerminatedPods"]
        status["uncountedTerminatedPods"] = {name: uids for name, uids in uncounted.items() if uids}
        state.take_job(await self.api.update_status(JOBS, {**state.job, "status": status}))

    def _record_finish(self, state: JobState) -> None:
        finish = state.finished
        assert finish is not None
        if finish["type"] != COMPLETE:
            self.event(state.job, "Warning", finish["reason"], finish["message"])
            return
        needed = state.completions
        if needed is not None and count_of(state.status, "succeeded") > needed:
            text = "Too many succeeded pods running after completion count reached"
            self.event(state.job, "Warning", "TooManySucceededPods", text)
        self.event(state.job, "Normal", "Completed", "Job completed")


def _wait_s(replaced: Document | None, now_s: float, speed: float) -> float:
    """Return the remaining backoff of an index."""
    if replaced is None:
        return 0.0
    backoff = Backoff(absolute_failure_count(replaced) + 1, finished_s(replaced))
    return backoff.remaining_s(now_s, speed)


def _first_error(outcomes: Sequence[object]) -> Exception | None:
    """Return the first request error; raise any other exception."""
    first: Exception | None = None
    for outcome in outcomes:
        if isinstance(outcome, _REQUEST_ERRORS):
            first = first or outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return first


class JobOrphanController(Controller):
    """Removes the tracking finalizer of pods that no Job will count."""

    name: ClassVar[str] = "job-orphan-pod"
    component: ClassVar[str] = "job-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = self.informers.of(JOBS)
        self._pods = self.informers.of(PODS)
        self._jobs.on_change(self._job_changed)
        self._pods.on_change(self._pod_changed)

    def _job_changed(self, old: Document | None, new: Document | None) -> None:
        job = new or old
        assert job is not None
        if new is None or end_of(new):
            for pod in self._pods.owned_by(uid_of(job)):
                self._enqueue_if_orphan(pod)

    def _pod_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None:
            self._enqueue_if_orphan(new)

    def _enqueue_if_orphan(self, pod: Document) -> None:
        if has_finalizer(pod) and self._is_orphan(pod):
            self.queue.add(key_of(pod))

    def _is_orphan(self, pod: Document) -> bool:
        """Return whether no Job will count a pod.

        Parity: job_controller.go handleSingleOrphanPod, v1.36.
        """
        owner = owner_of(pod)
        if owner is None:
            return True
        if (owner.get("kind"), owner.get("apiVersion")) != (JOBS.kind, JOBS.api_version):
            return False
        job = self._jobs.get(f"{namespace_of(pod)}/{owner['name']}")
        if job is None or uid_of(job) != owner["uid"]:
            return True
        return bool(end_of(job)) and not is_managed_elsewhere(job)

    async def sync(self, key: str) -> None:
        """Remove the tracking finalizer of an orphan pod."""
        pod = self._pods.get(key)
        if pod is None or not has_finalizer(pod) or not self._is_orphan(pod):
            return
        try:
            await self.api.patch(PODS, pod, RELEASE_PATCH)
        except NotFoundError:
            # The pod is gone.
            return
