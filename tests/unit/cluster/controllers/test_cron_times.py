"""Due runs of CronJobs and the time of the next sync."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.documents import seconds_of
from kubesched.api.times import time_text
from kubesched.cluster.controllers.cron_job.times import (
    DueRun,
    NeverDueError,
    job_name,
    most_recent_schedule,
    next_schedule_wait_s,
)
from kubesched.cluster.cron import parse_schedule

_CREATED = "2026-03-01T10:00:30Z"


def _cron_job(*, last: str = "", deadline_s: int | None = None) -> dict[str, Any]:
    spec = {} if deadline_s is None else {"startingDeadlineSeconds": deadline_s}
    status = {"lastScheduleTime": last} if last else {}
    return {"metadata": {"creationTimestamp": _CREATED}, "spec": spec, "status": status}


def _due(schedule: str, now: str, **cron_job: Any) -> tuple[str, int]:
    due = most_recent_schedule(
        _cron_job(**cron_job), seconds_of(now), parse_schedule(schedule), apply_deadline=True
    )
    return "" if due.at_s is None else time_text(due.at_s), due.missed


@pytest.mark.parametrize(
    ("now", "options", "expected"),
    [
        pytest.param("2026-03-01T10:04:00Z", {}, ("", 0), id="not yet"),
        pytest.param("2026-03-01T10:05:00Z", {}, ("2026-03-01T10:05:00Z", 0), id="now"),
        pytest.param("2026-03-01T10:09:59Z", {}, ("2026-03-01T10:05:00Z", 0), id="late"),
        pytest.param("2026-03-01T10:16:00Z", {}, ("2026-03-01T10:15:00Z", 3), id="only the latest"),
        pytest.param(
            "2026-03-01T10:16:00Z",
            {"last": "2026-03-01T10:15:00Z"},
            ("", 0),
            id="the latest has been",
        ),
        pytest.param(
            "2026-03-01T10:16:00Z", {"deadline_s": 30}, ("", 0), id="too late for all of them"
        ),
        pytest.param(
            "2026-03-01T10:16:00Z",
            {"deadline_s": 90},
            ("2026-03-01T10:15:00Z", 0),
            id="early enough for one",
        ),
        pytest.param(
            "2026-03-02T10:00:00Z", {}, ("2026-03-02T10:00:00Z", 288), id="very many missed"
        ),
    ],
)
def test_due(now: str, options: dict[str, Any], expected: tuple[str, int]) -> None:
    assert _due("*/5 * * * *", now, **options) == expected


def test_irregular_schedules() -> None:
    # Weekdays at 6:30, 10:30 and 14:30; the first two are four hours apart, and others are not.
    schedule = "30 6-16/4 * * 1-5"
    assert _due(schedule, "2026-03-04T07:00:00Z")[0] == "2026-03-04T06:30:00Z"
    # Upstream guesses from the first two where to look, and finds nothing on a weekend.
    assert _due(schedule, "2026-03-08T12:00:00Z") == ("", 38)
    look_s = next_schedule_wait_s(
        _cron_job(), seconds_of("2026-03-08T12:00:00Z"), parse_schedule(schedule)
    )
    assert look_s == pytest.approx(18.5 * 3600 + 0.1)


def test_a_date_that_does_not_exist() -> None:
    with pytest.raises(NeverDueError, match="time difference between two schedules is less than"):
        _due("59 23 31 2 *", "2026-03-01T10:04:00Z")
    schedule = parse_schedule("59 23 31 2 *")
    assert next_schedule_wait_s(_cron_job(), seconds_of("2026-03-01T10:04:00Z"), schedule) is None


def test_the_next_sync_is_just_after_the_next_time() -> None:
    schedule = parse_schedule("*/5 * * * *")
    for now, expected in (("2026-03-01T10:04:00Z", 60.1), ("2026-03-01T10:16:00Z", 240.1)):
        found = next_schedule_wait_s(_cron_job(), seconds_of(now), schedule)
        assert found == pytest.approx(expected)


def test_a_run_has_a_deterministic_name() -> None:
    assert job_name("hello", seconds_of("2026-03-01T10:05:00Z")) == "hello-29539325"
    assert DueRun(0.0, None) == DueRun(0.0, None, 0)
