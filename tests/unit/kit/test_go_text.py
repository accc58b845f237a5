"""Values as Go writes them."""

from datetime import timedelta

import msgspec
import pytest

from kubesched.kit.go_text import go_duration, go_float, go_json, go_quote, go_quote_ascii


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("\a\b\f\n\r\t\v\x00\x7f", '"\\a\\b\\f\\n\\r\\t\\v\\x00\\x7f"'),
        ("é∑😀", '"é∑😀"'),
        ("\u00a0\u200b\U000e0001", '"\\u00a0\\u200b\\U000e0001"'),
    ],
)
def test_quoted(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_quoted_bytes() -> None:
    assert go_quote_ascii("é\x01".encode() + b"\xff") == '"\\u00e9\\x01\\xff"'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.25e-10, "1.25e-10"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert go_float(value) == text


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
    assert go_duration(timedelta(microseconds=micros)) == text


class Point(msgspec.Struct):
    y: int
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"b": 1, "a": [None, True]}, '{"a":[null,true],"b":1}', id="a map in order"),
        pytest.param(Point(2, 1), '{"y":2,"x":1}', id="a struct as it is declared"),
        pytest.param("<a&b>", '"\\u003ca\\u0026b\\u003e"', id="nothing that HTML would read"),
        pytest.param(timedelta(seconds=1), "1000000000", id="a duration in nanoseconds"),
        pytest.param(ValueError("no"), '"no"', id="an error by its text"),
        pytest.param(object, "\"<class 'object'>\"".replace("<", "\\u003c").replace(">", "\\u003e"),
                     id="anything else by its text"),
    ],
)  # fmt: skip
def test_json(value: object, text: str) -> None:
    assert go_json(value) == text


def test_json_for_people_who_do_not_read_html() -> None:
    assert go_json(["<a>"], escape_html=False) == '["<a>"]'
