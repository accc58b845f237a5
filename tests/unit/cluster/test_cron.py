"""Next time of cron schedules, in their time zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubesched.cluster.cron import ScheduleError, parse_schedule

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def _next(schedule: str, after: str) -> str:
    at_s = parse_schedule(schedule).next_s(datetime.fromisoformat(after).timestamp())
    return "" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime(_FORMAT)


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        pytest.param("* * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z", id="minutes"),
        pytest.param("* * * * *", "2026-03-01T10:00:59Z", "2026-03-01T10:01:00Z", id="seconds"),
        pytest.param("*/15 * * * *", "2026-03-01T10:46:00Z", "2026-03-01T11:00:00Z", id="steps"),
        pytest.param(
            "20-35/15 * * * *", "2026-03-01T10:21:00Z", "2026-03-01T10:35:00Z", id="range"
        ),
        pytest.param(
            "5/30 * * * *", "2026-03-01T10:06:00Z", "2026-03-01T10:35:00Z", id="from 5 on"
        ),
        pytest.param("0 9,17 * * *", "2026-03-01T10:00:00Z", "2026-03-01T17:00:00Z", id="lists"),
        pytest.param("0 0 * feb MON", "2026-03-01T00:00:00Z", "2027-02-01T00:00:00Z", id="names"),
        pytest.param("0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z", id="leap day"),
        pytest.param("59 23 31 2 *", "2026-03-01T00:00:00Z", "", id="a day that never comes"),
        pytest.param(
            "0 0 13 * FRI", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z", id="either day will do"
        ),
        pytest.param(
            "0 0 */2 * FRI", "2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z", id="a step is no star"
        ),
        pytest.param(
            "0 0 * * SUN", "2026-03-02T00:00:00Z", "2026-03-08T00:00:00Z", id="days of the week"
        ),
        pytest.param("@hourly", "2026-03-01T10:20:00Z", "2026-03-01T11:00:00Z", id="@hourly"),
        pytest.param("@weekly", "2026-03-02T10:20:00Z", "2026-03-08T00:00:00Z", id="@weekly"),
        pytest.param("@yearly", "2026-03-02T10:20:00Z", "2027-01-01T00:00:00Z", id="@yearly"),
        pytest.param("@every 90s", "2026-03-01T10:00:10Z", "2026-03-01T10:01:40Z", id="@every"),
        pytest.param("@every 10ms", "2026-03-01T10:00:10Z", "2026-03-01T10:00:11Z", id="too often"),
        pytest.param(
            "TZ=America/New_York 30 12 * * *",
            "2026-03-01T00:00:00Z",
            "2026-03-01T17:30:00Z",
            id="a zone",
        ),
        pytest.param(
            "TZ=Asia/Kolkata 0 0 * * *",
            "2026-03-01T00:00:00Z",
            "2026-03-01T18:30:00Z",
            id="a zone with half an hour",
        ),
        # 2026-03-08 has no 02:30 in New York, 2026-11-01 has 01:30 twice.
        pytest.param(
            "TZ=America/New_York 30 2 * * *",
            "2026-03-07T12:00:00Z",
            "2026-03-09T06:30:00Z",
            id="an hour that the clock jumps over",
        ),
        pytest.param(
            "TZ=America/New_York 30 1 * * *",
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:30:00Z",
            id="an hour that comes twice",
        ),
        pytest.param(
            "TZ=America/New_York 0 0 * * *",
            "2026-03-08T12:00:00Z",
            "2026-03-09T04:00:00Z",
            id="midnight after the clock changed",
        ),
    ],
)
def test_next_time(schedule: str, after: str, expected: str) -> None:
    assert _next(schedule, after) == expected


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("9-5 * * * *", "beginning of range (9) beyond end of range (5): 9-5"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
    ],
)
def test_invalid_schedules(schedule: str, message: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        parse_schedule(schedule)
    assert str(raised.value) == message
