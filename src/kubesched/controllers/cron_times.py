"""Which run of a CronJob is due, and when to look again.

Owns missed runs and how many of them there are. Never reads a clock, never creates a Job.
Upstream: pkg/controller/cronjob/utils.go
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kubesched.client.cached.documents import Document, seconds_of
from kubesched.controllers.cron_schedule import Schedule

MANY_MISSED: Final = 100
# What clocks may differ by without a look that comes too early.
_MARGIN_S: Final = 0.1


class NeverDueError(ValueError):
    """A schedule that can be read names no day that there is."""


@dataclass(frozen=True, slots=True)
class Due:
    """What has become due since a CronJob last ran."""

    since_s: float
    """From when on runs were looked for."""
    at_s: float | None
    """The latest run that is due."""
    missed: int = 0
    """About how many are due; 0 also if it is one."""


def most_recent(cron_job: Document, now_s: float, schedule: Schedule, *, deadline: bool) -> Due:
    """Return the latest run that is due.

    Parity: utils.go mostRecentScheduleTime, v1.36.

    Args:
        cron_job: Whose runs.
        now_s: The time now.
        schedule: When it is to run.
        deadline: Whether runs that are too late to start are left out.
    """
    status, spec = cron_job.get("status") or {}, cron_job["spec"]
    created = cron_job["metadata"].get("creationTimestamp")
    since_s = seconds_of(status.get("lastScheduleTime") or created)
    late_s = spec.get("startingDeadlineSeconds")
    if deadline and late_s is not None:
        since_s = max(since_s, now_s - late_s)
    first_s = schedule.next_s(since_s)
    if first_s is not None and now_s < first_s:
        return Due(since_s, None)
    second_s = None if first_s is None else schedule.next_s(first_s)
    if first_s is None or second_s is None:
        raise NeverDueError("time difference between two schedules is less than 1 second")
    if now_s < second_s:
        return Due(since_s, first_s)
    # Times are not listed one by one: there may be decades of them.
    period_s = second_s - first_s
    missed = int(now_s - first_s) // int(period_s) + 1
    latest_s: float | None = None
    at_s = schedule.next_s(first_s + (missed - 2) * period_s)
    while at_s is not None and at_s <= now_s:
        latest_s = at_s
        at_s = schedule.next_s(at_s)
    return Due(since_s, latest_s, missed)


def next_look_s(cron_job: Document, now_s: float, schedule: Schedule) -> float | None:
    """Return in how many seconds the next run is due; None if never.

    Parity: utils.go nextScheduleTimeDuration, v1.36.
    """
    try:
        due = most_recent(cron_job, now_s, schedule, deadline=False)
    except NeverDueError:
        from_s = now_s
    else:
        from_s = due.at_s if due.at_s is not None else (now_s if due.missed else due.since_s)
    at_s = schedule.next_s(from_s)
    return None if at_s is None else at_s + _MARGIN_S - now_s


def job_name(name: str, at_s: float) -> str:
    """Return how the Job of a run is called: the same however often it is tried."""
    return f"{name}-{math.floor(at_s) // 60}"
