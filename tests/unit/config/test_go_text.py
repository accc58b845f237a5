"""Go's way of writing and reading durations, floats and JSON.

Expected texts are those of Go 1.26's time, strconv and encoding/json packages.
"""

import pytest

from kubesched.config.gotext import (
    float32,
    format_duration,
    format_float64,
    go_float,
    go_json,
    parse_duration,
)

SECOND = 1_000_000_000


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
def test_durations_are_read_as_go_reads_them(text: str, nanoseconds: int) -> None:
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
            id="one more than the longest",
        ),
        pytest.param("1é", 'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"', id="bytes"),
    ],
)
def test_refused_durations_are_named_as_go_names_them(text: str, message: str) -> None:
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
def test_durations_are_written_as_go_writes_them(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (-12.5, "-12.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-7"),
        (1e-6, "0.000001"),
        (-0.0, "-0"),
    ],
)
def test_json_floats_use_exponents_only_far_out(value: float, text: str) -> None:
    assert format_float64(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (18446744073709551616.0, "1.8446744e+19"),
        (1e6, "1e+06"),
        (100000.0, "100000"),
        (1e-5, "1e-05"),
        (1e300, "+Inf"),
    ],
)
def test_float_keys_are_written_in_single_precision(value: float, text: str) -> None:
    assert go_float(value, single=True) == text


def test_a_float32_is_spelled_with_the_fewest_digits_that_mean_it() -> None:
    assert float32(33.333333) == 33.333332
    assert float32(0.1) == 0.1
    with pytest.raises(OverflowError):
        float32(1e39)


def test_json_escapes_what_html_would_read() -> None:
    assert go_json({"a": ["<b>", None, True, 1.5]}) == '{"a":["\\u003cb\\u003e",null,true,1.5]}'
