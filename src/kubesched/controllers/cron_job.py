"""CronJobs: a Job at every time of a schedule.

Owns which Jobs are created and which of the ended ones are kept. Never looks at pods.
Upstream: pkg/controller/cronjob/cronjob_controllerv2.go
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    controller_ref,
    is_terminating,
    key_of,
    name_of,
    namespace_of,
    owner_of,
    seconds_of,
    time_text,
    uid_of,
    version_of,
)
from kubesched.client.errors import AlreadyExistsError, ApiError, NotFoundError, TransportError
from kubesched.client.resources import CRON_JOBS, JOBS
from kubesched.controllers.claiming import wake_parents
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.cron_schedule import (
    Schedule,
    ScheduleError,
    parse_schedule,
    zone_of,
)
from kubesched.controllers.cron_times import (
    MANY_MISSED,
    NeverDueError,
    job_name,
    most_recent,
    next_look_s,
)
from kubesched.controllers.job_pods import end_of
from kubesched.controllers.pod_control import NAMESPACE_TERMINATING, has_cause
from kubesched.kit.go_text import go_quote

_SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MORE: Final = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"


class CronJobController(Controller):
    """Runs CronJobs."""

    name: ClassVar[str] = "cronjob"
    component: ClassVar[str] = "cronjob-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._cron_jobs = self.informers.of(CRON_JOBS)
        self._jobs = self.informers.of(JOBS)
        self._cron_jobs.on_change(self._cron_job_changed)
        self._jobs.on_change(self._job_changed)

    def _cron_job_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            return
        if old is None or spelt_schedule(old["spec"]) == spelt_schedule(new["spec"]):
            self.queue.add(key_of(new))
            return
        # A new schedule begins with its next time, not with those that would have been.
        try:
            wait_s = next_look_s(
                new, self.clock.now_s(), parse_schedule(spelt_schedule(new["spec"]))
            )
        except ScheduleError:
            text = f"unparseable schedule for cronjob: {new['spec']['schedule']}"
            self.event(new, "Warning", "UnParseableCronJobSchedule", text)
            return
        if wait_s is not None:
            self.queue.add_after(key_of(new), wait_s)

    def _job_changed(self, old: Document | None, new: Document | None) -> None:
        wake_parents(self._cron_jobs, old, new, self.queue.add)

    async def sync(self, key: str) -> None:
        """Create the Job that is due, and remove ended ones beyond the limits."""
        found = self._cron_jobs.get(key)
        if found is None:
            return
        run = _Run(self, found)
        jobs = self._jobs.owned_by(uid_of(found))
        try:
            await run.clean_up(jobs)
            await run.work(jobs)
        finally:
            # What was found out and done is kept even if the next step failed.
            if run.is_changed:
                await self.api.update_status(CRON_JOBS, run.cron_job)
        if run.look_again_s is not None:
            self.queue.add_after(key, run.look_again_s)


class _Run:
    """One look at a CronJob."""

    def __init__(self, controller: CronJobController, cron_job: Document) -> None:
        self._controller = controller
        self._api = controller.api
        self._now_s = controller.clock.now_s()
        self.cron_job: Document = {
            **cron_job,
            "status": copy.deepcopy(cron_job.get("status") or {}),
        }
        self.is_changed = False
        self.look_again_s: float | None = None

    @property
    def _spec(self) -> Document:
        spec: Document = self.cron_job["spec"]
        return spec

    @property
    def _status(self) -> Document:
        status: Document = self.cron_job["status"]
        return status

    @property
    def _active(self) -> list[Document]:
        active: list[Document] = self._status.get("active") or []
        return active

    def _event(self, kind: str, reason: str, note: str) -> None:
        self._controller.event(self.cron_job, kind, reason, note)

    def _is_listed(self, uid: str) -> bool:
        return any(reference.get("uid") == uid for reference in self._active)

    def _unlist(self, uid: str) -> None:
        left = [reference for reference in self._active if reference.get("uid") != uid]
        if left:
            self._status["active"] = left
        else:
            self._status.pop("active", None)
        self.is_changed = True

    # -- ended Jobs -------------------------------------------------------------------------------

    async def clean_up(self, jobs: Iterable[Document]) -> None:
        """Delete the oldest ended Jobs beyond what is to be kept."""
        for end, field in (
            ("Complete", "successfulJobsHistoryLimit"),
            ("Failed", "failedJobsHistoryLimit"),
        ):
            limit = self._spec.get(field)
            ended = [job for job in jobs if end_of(job) == end and not is_terminating(job)]
            if limit is None or len(ended) <= limit:
                continue
            for job in sorted(ended, key=_age_order)[: len(ended) - limit]:
                await self._delete(job)

    async def _delete(self, job: Document) -> bool:
        try:
            await self._api.delete(JOBS, job, propagation="Background")
        except (ApiError, TransportError) as error:
            self._event("Warning", "FailedDelete", f"Deleted job: {error}")
            return False
        self._unlist(uid_of(job))
        self._event("Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")
        return True

    # -- the schedule -----------------------------------------------------------------------------

    async def work(self, jobs: list[Document]) -> None:
        """Take note of what became of Jobs, and create the one that is due.

        Parity: cronjob_controllerv2.go syncCronJob, v1.36.
        """
        self._note_jobs(jobs)
        await self._note_missing(jobs)
        if is_terminating(self.cron_job):
            return
        schedule = self._schedule()
        if schedule is None:
            return
        try:
            due = most_recent(self.cron_job, self._now_s, schedule, deadline=True)
        except NeverDueError as error:
            text = f"invalid schedule: {self._spec['schedule']} : {error}"
            self._event("Warning", "InvalidSchedule", text)
            return
        if due.at_s is not None:
            if due.missed > MANY_MISSED:
                text = (
                    "too many missed start times. Set or decrease "
                    ".spec.startingDeadlineSeconds or check clock skew"
                )
                self._event("Warning", "TooManyMissedTimes", text)
            if not self._may_not_start(due.at_s) and not await self._start(due.at_s):
                return
        self.look_again_s = next_look_s(self.cron_job, self._now_s, schedule)

    def _note_jobs(self, jobs: Iterable[Document]) -> None:
        for job in jobs:
            end, uid = end_of(job), uid_of(job)
            if not end and not self._is_listed(uid):
                text = "Saw a job that the controller did not create or forgot: "
                self._event("Warning", "UnexpectedJob", text + name_of(job))
            elif end and self._is_listed(uid):
                self._unlist(uid)
                text = f"Saw completed job: {name_of(job)}, condition: {end}"
                self._event("Normal", "SawCompletedJob", text)
            completed = (job.get("status") or {}).get("completionTime")
            last = self._status.get("lastSuccessfulTime")
            if end == "Complete" and completed and seconds_of(completed) > seconds_of(last):
                self._status["lastSuccessfulTime"] = completed
                self.is_changed = True

    async def _note_missing(self, jobs: Iterable[Document]) -> None:
        known = {uid_of(job) for job in jobs}
        for reference in list(self._active):
            if reference.get("uid") in known:
                continue
            name, namespace = reference["name"], namespace_of(self.cron_job)
            try:
                await self._api.get(JOBS, name, reference.get("namespace") or namespace)
            except NotFoundError:
                self._event("Normal", "MissingJob", f"Active job went missing: {name}")
                self._unlist(reference.get("uid", ""))

    def _schedule(self) -> Schedule | None:
        """Return the schedule; None if there is none to keep, or it cannot be read."""
        text, zone = self._spec["schedule"], self._spec.get("timeZone")
        if zone is not None and zone_of(zone) is None:
            why = f"invalid timeZone: {go_quote(zone)}: unknown time zone {zone}"
            self._event("Warning", "UnknownTimeZone", why)
            return None
        if self._spec.get("suspend"):
            return None
        if "TZ" in text:
            why = f"CRON_TZ or TZ used in schedule {go_quote(text)} is not officially supported"
            self._event("Warning", "UnsupportedSchedule", f"{why}, see {_MORE} for more details")
        try:
            return parse_schedule(spelt_schedule(self._spec))
        except ScheduleError as error:
            why = f"unparseable schedule: {go_quote(text)} : {error}"
            self._event("Warning", "UnparseableSchedule", why)
            return None

    def _may_not_start(self, at_s: float) -> bool:
        """Return whether the run that is due is too late, done already, or not allowed now."""
        late_s = self._spec.get("startingDeadlineSeconds")
        if late_s is not None and at_s + late_s < self._now_s:
            shown = datetime.fromtimestamp(at_s, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            self._event("Warning", "MissSchedule", f"Missed scheduled time to start a job: {shown}")
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

    async def _start(self, at_s: float) -> bool:
        """Create the Job of a run; return whether the schedule goes on."""
        if self._spec.get("concurrencyPolicy") == "Replace":
            await self._replace()
        wanted = self._job(at_s)
        try:
            job = await self._api.create(JOBS, wanted)
        except AlreadyExistsError:
            # We may have created it and failed to write so; or it is somebody else's.
            job = await self._api.get(JOBS, name_of(wanted), namespace_of(wanted))
            owner = owner_of(job)
            is_mine = owner is not None and owner["uid"] == uid_of(self.cron_job)
            if not is_mine or self._is_listed(uid_of(job)):
                return False
        except (ApiError, TransportError) as error:
            if not has_cause(error, NAMESPACE_TERMINATING):
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
        told = template.get("metadata") or {}
        zone = zone_of(self._spec.get("timeZone") or "") or UTC
        shown = datetime.fromtimestamp(at_s, zone).isoformat().replace("+00:00", "Z")
        metadata: Document = {
            "name": job_name(name_of(self.cron_job), at_s),
            "namespace": namespace_of(self.cron_job),
            "annotations": {**(told.get("annotations") or {}), _SCHEDULED_AT: shown},
            "ownerReferences": [controller_ref(self.cron_job)],
        }
        if told.get("labels"):
            metadata["labels"] = dict(told["labels"])
        return {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": metadata,
            "spec": copy.deepcopy(template["spec"]),
        }


class ReplaceError(Exception):
    """A Job that still runs could not be deleted to make room for the next."""


def spelt_schedule(spec: Document) -> str:
    """Return a schedule with its zone, if that is named and there is one."""
    text: str = spec["schedule"]
    zone = spec.get("timeZone")
    is_plain = zone is None or "TZ" in text or zone_of(zone) is None
    return text if is_plain else f"TZ={zone} {text}"


def _age_order(job: Document) -> tuple[bool, float, str]:
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
