"""CronJobs: creates a Job for every scheduled time.

Owns the creation of Jobs and the deletion of finished ones above the history limits. Never reads
pods.
Upstream: pkg/controller/cronjob/cronjob_controllerv2.go
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final

from kubesched.api.documents import (
    Document,
    controller_ref,
    is_terminating,
    key_of,
    name_of,
    namespace_of,
    owner_of,
    seconds_of,
    uid_of,
    version_of,
)
from kubesched.api.times import time_text
from kubesched.client.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kubesched.client.resources import CRON_JOBS, JOBS
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating
from kubesched.cluster.controllers.controller_refs import enqueue_parents
from kubesched.cluster.controllers.cron_job.times import (
    TOO_MANY_MISSED,
    NeverDueError,
    job_name,
    most_recent_schedule,
    next_schedule_wait_s,
)
from kubesched.cluster.cron import Schedule, ScheduleError, parse_schedule, zone_of
from kubesched.golang.strconv import go_quote
from kubesched.workloads.job_pods import end_of

_SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_DOCUMENTATION_URL: Final = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"


class CronJobController(Controller):
    """Reconciles CronJobs."""

    name: ClassVar[str] = "cronjob"
    component: ClassVar[str] = "cronjob-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._cron_jobs = self.informers.of(CRON_JOBS)
        self._jobs = self.informers.of(JOBS)
        self._cron_jobs.on_change(self._cron_job_changed)
        self._jobs.on_change(partial(enqueue_parents, self._cron_jobs, self.queue.add))

    def _cron_job_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            return
        if old is None or schedule_with_zone(old["spec"]) == schedule_with_zone(new["spec"]):
            self.queue.add(key_of(new))
            return
        # A new schedule starts with its next time; times that it would have had before are skipped.
        try:
            wait_s = next_schedule_wait_s(
                new, self.clock.now_s(), parse_schedule(schedule_with_zone(new["spec"]))
            )
        except ScheduleError:
            text = f"unparseable schedule for cronjob: {new['spec']['schedule']}"
            self.event(new, "Warning", "UnParseableCronJobSchedule", text)
            return
        if wait_s is not None:
            self.queue.add_after(key_of(new), wait_s)

    async def sync(self, key: str) -> None:
        """Create the Job that is due, and delete finished Jobs above the limits."""
        found = self._cron_jobs.get(key)
        if found is None:
            return
        sync_run = _CronJobSync(self, found)
        jobs = self._jobs.owned_by(uid_of(found))
        try:
            await sync_run.clean_up(jobs)
            await sync_run.create_due_job(jobs)
        finally:
            # Changes are written even if a later step failed.
            if sync_run.is_changed:
                await self.api.update_status(CRON_JOBS, sync_run.cron_job)
        if sync_run.requeue_s is not None:
            self.queue.add_after(key, sync_run.requeue_s)


class _CronJobSync:
    """One sync of a CronJob."""

    def __init__(self, controller: CronJobController, cron_job: Document) -> None:
        self._controller = controller
        self._api = controller.api
        self._now_s = controller.clock.now_s()
        self._spec: Document = cron_job["spec"]
        self._status: Document = copy.deepcopy(cron_job.get("status") or {})
        self.cron_job: Document = {**cron_job, "status": self._status}
        self.is_changed = False
        self.requeue_s: float | None = None

    @property
    def _active(self) -> list[Document]:
        active: list[Document] = self._status.get("active") or []
        return active

    def _event(self, kind: str, reason: str, note: str) -> None:
        self._controller.event(self.cron_job, kind, reason, note)

    def _is_active(self, uid: str) -> bool:
        return any(reference.get("uid") == uid for reference in self._active)

    def _remove_active(self, uid: str) -> None:
        remaining = [reference for reference in self._active if reference.get("uid") != uid]
        if remaining:
            self._status["active"] = remaining
        else:
            self._status.pop("active", None)
        self.is_changed = True

    # -- history ----------------------------------------------------------------------------------

    async def clean_up(self, jobs: Iterable[Document]) -> None:
        """Delete the oldest finished Jobs above the history limits."""
        for end, field in (
            ("Complete", "successfulJobsHistoryLimit"),
            ("Failed", "failedJobsHistoryLimit"),
        ):
            limit = self._spec.get(field)
            ended = [job for job in jobs if end_of(job) == end and not is_terminating(job)]
            if limit is None or len(ended) <= limit:
                continue
            for job in sorted(ended, key=_start_order)[: len(ended) - limit]:
                await self._delete(job)

    async def _delete(self, job: Document) -> bool:
        try:
            await self._api.delete(JOBS, job, propagation="Background")
        except (ApiError, TransportError) as error:
            self._event("Warning", "FailedDelete", f"Deleted job: {error}")
            return False
        self._remove_active(uid_of(job))
        self._event("Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")
        return True

    # -- the schedule -----------------------------------------------------------------------------

    async def create_due_job(self, jobs: list[Document]) -> None:
        """Update the list of active Jobs, and create the Job that is due.

        Parity: cronjob_controllerv2.go syncCronJob, v1.36.
        """
        self._record_job_states(jobs)
        await self._remove_missing_jobs(jobs)
        if is_terminating(self.cron_job):
            return
        schedule = self._schedule()
        if schedule is None:
            return
        try:
            due = most_recent_schedule(self.cron_job, self._now_s, schedule, apply_deadline=True)
        except NeverDueError as error:
            text = f"invalid schedule: {self._spec['schedule']} : {error}"
            self._event("Warning", "InvalidSchedule", text)
            return
        if due.at_s is not None:
            if due.missed > TOO_MANY_MISSED:
                text = (
                    "too many missed start times. Set or decrease "
                    ".spec.startingDeadlineSeconds or check clock skew"
                )
                self._event("Warning", "TooManyMissedTimes", text)
            if not self._must_skip(due.at_s) and not await self._create_job(due.at_s):
                return
        self.requeue_s = next_schedule_wait_s(self.cron_job, self._now_s, schedule)

    def _record_job_states(self, jobs: Iterable[Document]) -> None:
        for job in jobs:
            end, uid = end_of(job), uid_of(job)
            if not end and not self._is_active(uid):
                text = "Saw a job that the controller did not create or forgot: "
                self._event("Warning", "UnexpectedJob", text + name_of(job))
            elif end and self._is_active(uid):
                self._remove_active(uid)
                text = f"Saw completed job: {name_of(job)}, condition: {end}"
                self._event("Normal", "SawCompletedJob", text)
            completed = (job.get("status") or {}).get("completionTime")
            last = self._status.get("lastSuccessfulTime")
            if end == "Complete" and completed and seconds_of(completed) > seconds_of(last):
                self._status["lastSuccessfulTime"] = completed
                self.is_changed = True

    async def _remove_missing_jobs(self, jobs: Iterable[Document]) -> None:
        known = {uid_of(job) for job in jobs}
        for reference in list(self._active):
            if reference.get("uid") in known:
                continue
            name, namespace = reference["name"], namespace_of(self.cron_job)
            try:
                await self._api.get(JOBS, name, reference.get("namespace") or namespace)
            except NotFoundError:
                self._event("Normal", "MissingJob", f"Active job went missing: {name}")
                self._remove_active(reference.get("uid", ""))

    def _schedule(self) -> Schedule | None:
        """Return the schedule; None if it is suspended or cannot be parsed."""
        text, zone = self._spec["schedule"], self._spec.get("timeZone")
        if zone is not None and zone_of(zone) is None:
            message = f"invalid timeZone: {go_quote(zone)}: unknown time zone {zone}"
            self._event("Warning", "UnknownTimeZone", message)
            return None
        if self._spec.get("suspend"):
            return None
        if "TZ" in text:
            message = f"CRON_TZ or TZ used in schedule {go_quote(text)} is not officially supported"
            self._event(
                "Warning",
                "UnsupportedSchedule",
                f"{message}, see {_DOCUMENTATION_URL} for more details",
            )
        try:
            return parse_schedule(schedule_with_zone(self._spec))
        except ScheduleError as error:
            message = f"unparseable schedule: {go_quote(text)} : {error}"
            self._event("Warning", "UnparseableSchedule", message)
            return None

    def _must_skip(self, at_s: float) -> bool:
        """Return whether the due run is too late, exists already or is not allowed now."""
        deadline_s = self._spec.get("startingDeadlineSeconds")
        if deadline_s is not None and at_s + deadline_s < self._now_s:
            formatted = datetime.fromtimestamp(at_s, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            self._event(
                "Warning", "MissSchedule", f"Missed scheduled time to start a job: {formatted}"
            )
            return True
        name = job_name(name_of(self.cron_job), at_s)
        is_listed = any(reference.get("name") == name for reference in self._active)
        last = self._status.get("lastScheduleTime")
        if is_listed or (last and seconds_of(last) == at_s):
            return True
        if self._spec.get("concurrencyPolicy") == "Forbid" and self._active:
            text = (
                "Not starting job because prior execution is running and concurrency policy is "
                "Forbid"
            )
            self._event("Normal", "JobAlreadyActive", text)
            return True
        return False

    async def _create_job(self, at_s: float) -> bool:
        """Create the Job of a run; return whether the sync continues."""
        if self._spec.get("concurrencyPolicy") == "Replace":
            await self._replace()
        job_to_create = self._job(at_s)
        try:
            job = await self._api.create(JOBS, job_to_create)
        except AlreadyExistsError:
            # Either we created it and failed to update the status, or it has another owner.
            job = await self._api.get(JOBS, name_of(job_to_create), namespace_of(job_to_create))
            owner = owner_of(job)
            is_mine = owner is not None and owner["uid"] == uid_of(self.cron_job)
            if not is_mine or self._is_active(uid_of(job)):
                return False
        except (ApiError, TransportError) as error:
            if not is_namespace_terminating(error):
                self._event("Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        else:
            self._event("Normal", "SuccessfulCreate", f"Created job {name_of(job)}")
        self._status["active"] = [*self._active, _reference(job)]
        self._status["lastScheduleTime"] = time_text(at_s)
        self.is_changed = True
        return True

    async def _replace(self) -> None:
        for reference in list(self._active):
            name = reference["name"]
            try:
                job = await self._api.get(JOBS, name, namespace_of(self.cron_job))
            except (ApiError, TransportError) as error:
                self._event("Warning", "FailedGet", f"Get job: {error}")
                raise
            if not await self._delete(job):
                raise ReplaceError(f"could not replace job {key_of(job)}")

    def _job(self, at_s: float) -> Document:
        template: dict[str, Any] = self._spec["jobTemplate"]
        template_metadata = template.get("metadata") or {}
        zone = zone_of(self._spec.get("timeZone") or "") or UTC
        formatted = datetime.fromtimestamp(at_s, zone).isoformat().replace("+00:00", "Z")
        metadata: Document = {
            "name": job_name(name_of(self.cron_job), at_s),
            "namespace": namespace_of(self.cron_job),
            "annotations": {
                **(template_metadata.get("annotations") or {}),
                _SCHEDULED_AT: formatted,
            },
            "ownerReferences": [controller_ref(self.cron_job)],
        }
        if template_metadata.get("labels"):
            metadata["labels"] = dict(template_metadata["labels"])
        return {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": metadata,
            "spec": copy.deepcopy(template["spec"]),
        }


class ReplaceError(Exception):
    """An active Job could not be deleted to be replaced."""


def schedule_with_zone(spec: Document) -> str:
    """Return the schedule with a TZ prefix if timeZone names a known zone."""
    text: str = spec["schedule"]
    zone = spec.get("timeZone")
    is_plain = zone is None or "TZ" in text or zone_of(zone) is None
    return text if is_plain else f"TZ={zone} {text}"


def _start_order(job: Document) -> tuple[bool, float, str]:
    started = (job.get("status") or {}).get("startTime")
    return (not started, seconds_of(started), name_of(job))


def _reference(job: Document) -> Document:
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": name_of(job),
        "namespace": namespace_of(job),
        "uid": uid_of(job),
        "resourceVersion": version_of(job),
    }
