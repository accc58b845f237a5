"""Schedule times of CronJobs: which run is due, how many were missed, when to sync next.

Pure functions of time.
Upstream: pkg/controller/cronjob/utils.go
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kubesched.api.documents import Document, seconds_of
from kubesched.cluster.cron import Schedule

TOO_MANY_MISSED: Final = 100
# Tolerated clock skew.
_MARGIN_S: Final = 0.1


class NeverDueError(ValueError):
    """A valid schedule that matches no date."""


@dataclass(frozen=True, slots=True)
class DueRun:
    """The runs due since a CronJob last ran."""

    since_s: float
    """Start of the period considered."""
    at_s: float | None
    """The latest run that is due."""
    missed: int = 0
    """Approximate number of due runs; 0 also if exactly one is due."""


def most_recent_schedule(
    cron_job: Document, now_s: float, schedule: Schedule, *, apply_deadline: bool
) -> DueRun:
    """Return the latest run that is due.

    Parity: utils.go mostRecentScheduleTime, v1.36.

    Args:
        cron_job: The CronJob.
        now_s: The current time.
        schedule: Its parsed schedule.
        apply_deadline: Whether to ignore runs past startingDeadlineSeconds.
    """
    status, spec = cron_job.get("status") or {}, cron_job["spec"]
    created = cron_job["metadata"].get("creationTimestamp")
    since_s = seconds_of(status.get("lastScheduleTime") or created)
    deadline_s = spec.get("startingDeadlineSeconds")
    if apply_deadline and deadline_s is not None:
        since_s = max(since_s, now_s - deadline_s)
    first_s = schedule.next_s(since_s)
    if first_s is not None and now_s < first_s:
        return DueRun(since_s, None)
    second_s = None if first_s is None else schedule.next_s(first_s)
    if first_s is None or second_s is None:
        raise NeverDueError("time difference between two schedules is less than 1 second")
    if now_s < second_s:
        return DueRun(since_s, first_s)
    # Times are not enumerated: there may be decades of them.
    period_s = second_s - first_s
    missed = int(now_s - first_s) // int(period_s) + 1
    latest_s: float | None = None
    at_s = schedule.next_s(first_s + (missed - 2) * period_s)
    while at_s is not None and at_s <= now_s:
        latest_s = at_s
        at_s = schedule.next_s(at_s)
    return DueRun(since_s, latest_s, missed)


def next_schedule_wait_s(cron_job: Document, now_s: float, schedule: Schedule) -> float | None:
    """Return the seconds until the next run is due; None if never.

    Parity: utils.go nextScheduleTimeDuration, v1.36.
    """
    try:
        due = most_recent_schedule(cron_job, now_s, schedule, apply_deadline=False)
    except NeverDueError:
        start_s = now_s
    else:
        start_s = due.at_s if due.at_s is not None else (now_s if due.missed else due.since_s)
    at_s = schedule.next_s(start_s)
    return None if at_s is None else at_s + _MARGIN_S - now_s


def job_name(name: str, at_s: float) -> str:
    """Return the deterministic name of a run's Job."""
    return f"{name}-{math.floor(at_s) // 60}"
