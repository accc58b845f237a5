"""Times and durations; expected values and texts are those of Go 1.26's time package."""

import pytest

from kubesched.golang.time import format_duration, parse_duration, parse_time

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0s"),
        (1, "1µs"),
        (1500, "1.5ms"),
        (1_000_000, "1s"),
        (61_500_000, "1m1.5s"),
        (3_600_000_000, "1h0m0s"),
        (-2_500_000, "-2.5s"),
    ],
)
def test_durations(micros: int, text: str) -> None:
    assert format_duration(micros * 1000) == text


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("0", 0, id="a bare zero needs no unit"),
        pytest.param("1h15m30.5s", 4530 * SECOND + 500_000_000, id="several units add up"),
        pytest.param("-1.5h", -5400 * SECOND, id="a sign covers the whole"),
        pytest.param("+4s", 4 * SECOND, id="a plus is allowed"),
        pytest.param(".5s", 500_000_000, id="digits before the point may be missing"),
        pytest.param("1.s", SECOND, id="digits after the point may be missing"),
        pytest.param("1\u00b5s", 1000, id="the micro sign"),
        pytest.param("1\u03bcs", 1000, id="the Greek letter mu"),
        pytest.param("9223372036854775807ns", (1 << 63) - 1, id="the longest duration"),
        pytest.param("-9223372036854775808ns", -(1 << 63), id="the shortest duration"),
        pytest.param("0.1ns", 0, id="less than a nanosecond is nothing"),
    ],
)
def test_durations_are_parsed_as_go_parses_them(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", 'time: invalid duration ""', id="nothing"),
        pytest.param("-", 'time: invalid duration "-"', id="only a sign"),
        pytest.param(".s", 'time: invalid duration ".s"', id="no digit at all"),
        pytest.param("5", 'time: missing unit in duration "5"', id="no unit"),
        pytest.param("1m1", 'time: missing unit in duration "1m1"', id="no unit at the end"),
        pytest.param("1d", 'time: unknown unit "d" in duration "1d"', id="days are not known"),
        pytest.param("1e3s", 'time: unknown unit "e" in duration "1e3s"', id="no exponents"),
        pytest.param(
            "9223372036854775808ns",
            'time: invalid duration "9223372036854775808ns"',
            id="longer than the maximum",
        ),
        pytest.param("1é", 'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"', id="bytes"),
    ],
)
def test_invalid_durations_have_gos_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="time: ") as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (3, "3ns"),
        (1500, "1.5\u00b5s"),
        (250_000_000, "250ms"),
        (600 * SECOND, "10m0s"),
        (3600 * SECOND, "1h0m0s"),
        (-3 * SECOND, "-3s"),
        ((1 << 63) - 1, "2562047h47m16.854775807s"),
    ],
)
def test_durations_are_formatted_as_go_formats_them(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        pytest.param("1970-01-01T00:00:00Z", (0, ""), id="the epoch"),
        pytest.param("1970-01-01T01:00:00.25+01:00", (0, "25"), id="a zone and a fraction"),
        pytest.param("1970-01-01T1:00:00Z", (3600, ""), id="one digit of the hour"),
        pytest.param("0000-03-01T00:00:00Z", (-62162035200, ""), id="the year zero"),
    ],
)
def test_times_are_parsed_as_go_parses_them(text: str, parsed: tuple[int, str]) -> None:
    assert parse_time(text) == parsed


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("noon", 'as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"'),
        ("2024-5-02", 'as "2006-01-02T15:04:05Z07:00": cannot parse "5-02" as "01"'),
        ("2024-05-02T08:00:00", 'as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2024-13-02", "month out of range"),
        ("2023-02-29T00:00:00Z", "day out of range"),
        ("2024-01-01T00:00:00+25:00", "time zone offset hour out of range"),
        ("2024-01-01T00:00:00Zé", r'extra text: "\xc3\xa9"'),
    ],
)
def test_invalid_times_have_gos_error(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="parsing time ") as caught:
        parse_time(text)
    assert str(caught.value).endswith(problem)
