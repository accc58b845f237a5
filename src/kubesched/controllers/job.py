"""Jobs: pods that run until enough of them have succeeded.

Owns which pods a Job creates and deletes, and the writing of its status. What the pods amount to is
job_state's, how each is counted once is job_tracking's.
Upstream: pkg/controller/job/job_controller.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    is_ready,
    is_terminating,
    key_of,
    selector_of,
    time_text,
    uid_of,
)
from kubesched.client.errors import ApiError, NotFoundError, TransportError
from kubesched.client.resources import JOBS, PODS
from kubesched.controllers.claiming import claimed, index_orphans, wake_parents
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.job_backoff import Backoff, finished_s, remaining_s
from kubesched.controllers.job_pods import (
    NO_INDEX,
    TRACKING_FINALIZER,
    absolute_failure_count,
    active_pods_for_removal,
    end_of,
    has_backoff_per_index,
    has_finalizer,
    is_indexed,
    is_managed_elsewhere,
    is_suspended,
    new_pod,
)
from kubesched.controllers.job_state import (
    COMPLETE,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    JobState,
    count_of,
    set_count,
)
from kubesched.controllers.job_tracking import count_released, enact_end, plan_tracking
from kubesched.controllers.pod_control import (
    NAMESPACE_TERMINATING,
    DeletePodError,
    create_pod,
    delete_pod,
    has_cause,
)
from kubesched.controllers.slow_start import slow_start_batch

# Pods tend to change together; upstream gathers what happens within a second.
_BATCH_S: Final = 0.1
_PODS_PER_SYNC_MAX: Final = 500
_FAILURES: Final = (ApiError, TransportError, DeletePodError)
RELEASE: Final = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}}
"""The patch that lets go of a pod."""


class JobController(Controller):
    """Runs Jobs."""

    name: ClassVar[str] = "job"
    component: ClassVar[str] = "job-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
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
            self._wake_later(key_of(new))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        wake_parents(self._jobs, old, new, self._wake_later)

    def _wake_later(self, key: str) -> None:
        self.queue.add_after(key, _BATCH_S)

    async def sync(self, key: str) -> None:
        """Bring a Job a step closer to its end."""
        job = self._jobs.get(key)
        if job is None or end_of(job) or is_managed_elsewhere(job):
            return
        if job["spec"].get("completionMode") not in (None, "NonIndexed", "Indexed"):
            text = "Skipped Job sync because completion mode is unknown"
            self.event(job, "Warning", "UnknownCompletionMode", text)
            return
        pods = await claimed(
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
            active, error = await self._stop(state)
            is_changed = False
        else:
            active, error, is_changed = await self._go_on(state)
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

    async def _stop(self, state: JobState) -> tuple[int, Exception | None]:
        """Delete what still runs of a Job that is to end; return how much is left."""
        active = len(state.active_pods)
        deleted, error = await self._delete(state, state.active_pods)
        if deleted != active:
            # It cannot be said to have ended while pods of it are left.
            state.finished = None
        return active - deleted, error

    async def _go_on(self, state: JobState) -> tuple[int, Exception | None, bool]:
        """Have as many pods as should run, and see whether that was all."""
        active, error = len(state.active_pods), None
        is_managed = not is_terminating(state.job)
        if is_managed:
            active, error = await self._manage(state)
        if state.is_complete(active):
            text = "Reached expected number of succeeded pods"
            state.finished = state.condition(SUCCESS_CRITERIA_MET, "CompletionsReached", text)
            return active, error, False
        return active, error, is_managed and self._note_suspension(state)

    async def _manage(self, state: JobState) -> tuple[int, Exception | None]:
        """Create or delete pods, never both at once; return how many run then.

        Parity: job_controller.go manageJob, v1.36.
        """
        active = len(state.active_pods)
        if is_suspended(state.job):
            extra = active_pods_for_removal(state.job, state.active_pods, active)
        else:
            too_many = max(0, active - state.wanted_active)
            extra = active_pods_for_removal(state.job, state.active_pods, too_many)
            extra = extra[:_PODS_PER_SYNC_MAX]
        if extra or is_suspended(state.job):
            deleted, error = await self._delete(state, extra, releases=True)
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
        """Return for which indexes pods can be created now; come back later for the others."""
        now_s, speed = state.now_s, self.parts.settings.speed
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
            soonest_s = min(wait_s for wait_s in waits.values() if wait_s > 0)
            self.queue.add_after(key_of(state.job), max(soonest_s, _BATCH_S))
        return ready

    async def _create(
        self, state: JobState, indexes: Sequence[int]
    ) -> tuple[int, Exception | None]:
        left = iter(indexes)
        created = 0

        async def create() -> None:
            nonlocal created
            index = next(left)
            pod = new_pod(state.job, index, state.delayed.get(index))
            try:
                await create_pod(self, pod, state.job)
            except ApiError as error:
                # Nothing can be created in a namespace that is going away.
                if not has_cause(error, NAMESPACE_TERMINATING):
                    raise
            created += 1

        try:
            await slow_start_batch(len(indexes), create)
        except _FAILURES as error:
            return created, error
        return created, None

    async def _delete(
        self, state: JobState, pods: Sequence[Document], *, releases: bool = False
    ) -> tuple[int, Exception | None]:
        """Delete pods, let go of them before if they need not be counted; return how many."""

        async def delete(pod: Document) -> None:
            if releases:
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
            await self.api.patch(PODS, pod, RELEASE)
        except NotFoundError:
            # A pod that is gone needs no finalizer removed.
            return

    # -- status -----------------------------------------------------------------------------------

    def _note_suspension(self, state: JobState) -> bool:
        """Say that the Job is suspended, or is no more; return whether that is new."""
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
        # The deadline counts from when the Job was last resumed.
        state.status["startTime"] = time_text(state.now_s)
        return True

    async def _track(self, state: JobState, *, needs_flush: bool) -> None:
        """Write the status, let go of pods that ended, and write what they came to.

        Parity: job_controller.go flushUncountedAndRemoveFinalizers, v1.36.
        """
        plan = plan_tracking(state, needs_flush=needs_flush)
        if plan.needs_flush:
            await self._write(state)
            self._backoffs[key_of(state.job)] = state.backoff
        released = await asyncio.gather(*map(self._release, plan.released), return_exceptions=True)
        for pod, outcome in zip(plan.released, released, strict=True):
            if outcome is None:
                plan.held.pop(uid_of(pod), None)
        needs_flush = count_released(state, plan.held)
        error = _first_error(released)
        is_over = error is None and not plan.is_full and enact_end(state)
        if needs_flush or is_over:
            await self._write(state)
        if error is not None:
            raise error
        if is_over:
            self._tell_end(state)

    async def _write(self, state: JobState) -> None:
        status = dict(state.status)
        listed = status["uncountedTerminatedPods"]
        status["uncountedTerminatedPods"] = {name: uids for name, uids in listed.items() if uids}
        state.take_job(await self.api.update_status(JOBS, {**state.job, "status": status}))

    def _tell_end(self, state: JobState) -> None:
        end = state.finished
        assert end is not None
        if end["type"] != COMPLETE:
            self.event(state.job, "Warning", end["reason"], end["message"])
            return
        needed = state.completions
        if needed is not None and count_of(state.status, "succeeded") > needed:
            text = "Too many succeeded pods running after completion count reached"
            self.event(state.job, "Warning", "TooManySucceededPods", text)
        self.event(state.job, "Normal", "Completed", "Job completed")


def _wait_s(replaced: Document | None, now_s: float, speed: float) -> float:
    """Return how long an index waits before its pod is replaced."""
    if replaced is None:
        return 0.0
    return remaining_s(absolute_failure_count(replaced) + 1, finished_s(replaced), now_s, speed)


def _first_error(outcomes: Sequence[object]) -> Exception | None:
    """Return what went wrong first; what is no failure of a request is raised here."""
    found: Exception | None = None
    for outcome in outcomes:
        if isinstance(outcome, _FAILURES):
            found = found or outcome
        elif isinstance(outcome, BaseException):
            raise outcome
    return found
