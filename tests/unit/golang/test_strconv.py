"""Quoted text and floats; expected texts are those of Go 1.26's strconv and encoding/json."""

import pytest

from kubesched.golang.strconv import float32, go_float, go_quote, go_quote_ascii, json_float


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
def test_json_floats(value: float, text: str) -> None:
    assert json_float(value) == text


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
def test_json_floats_use_exponents_only_for_extreme_values(value: float, text: str) -> None:
    assert json_float(value) == text


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


def test_a_float32_has_the_fewest_digits_that_identify_it() -> None:
    assert float32(33.333333) == 33.333332
    assert float32(0.1) == 0.1
    with pytest.raises(OverflowError):
        float32(1e39)
