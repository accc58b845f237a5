"""Parsing of quantities. Expectations: apimachinery pkg/api/resource/quantity_test.go, v0.36."""

import re
from fractions import Fraction

import pytest

from kubesched.api.quantity import (
    FORMAT_WRONG,
    NUMERIC_WRONG,
    SUFFIX_WRONG,
    Quantity,
    parse_quantity,
)


def exactly(text: str) -> str:
    return f"^{re.escape(text)}$"


def number(quantity: Quantity) -> Fraction:
    return quantity.unscaled * Fraction(10) ** quantity.exponent


@pytest.mark.parametrize(
    ("text", "expected", "form"),
    [
        pytest.param("0", Fraction(0), "DecimalSI", id="zero"),
        pytest.param("0Gi", Fraction(0), "BinarySI", id="zero of a binary suffix"),
        pytest.param("100m", Fraction(1, 10), "DecimalSI", id="milli"),
        pytest.param("5n", Fraction(5, 10**9), "DecimalSI", id="nano"),
        pytest.param("4u", Fraction(4, 10**6), "DecimalSI", id="micro"),
        pytest.param("0.1u", Fraction(1, 10**7), "DecimalSI", id="a part of a micro"),
        pytest.param("8k", Fraction(8000), "DecimalSI", id="kilo is lower case"),
        pytest.param("1E", Fraction(10**18), "DecimalSI", id="E alone is exa"),
        pytest.param("5E3", Fraction(5000), "DecimalExponent", id="E and digits are an exponent"),
        pytest.param("12e6", Fraction(12_000_000), "DecimalExponent", id="exponent"),
        pytest.param("1.3E+6", Fraction(1_300_000), "DecimalExponent", id="exponent with a plus"),
        pytest.param("1E-3", Fraction(1, 1000), "DecimalExponent", id="negative exponent"),
        pytest.param("1e4294967299", Fraction(1000), "DecimalExponent", id="exponent of 32 bits"),
        pytest.param("1Ki", Fraction(1024), "BinarySI", id="kibi"),
        pytest.param("100Ti", Fraction(100 * 2**40), "BinarySI", id="tebi, past the short form"),
        pytest.param("3Ei", Fraction(3 * 2**60), "BinarySI", id="exbi"),
        pytest.param("1.5Gi", Fraction(3 * 2**29), "BinarySI", id="a fraction of a binary suffix"),
        pytest.param("100.035Ki", Fraction(10243584, 100), "BinarySI", id="not whole bytes"),
        pytest.param("10.035M", Fraction(10_035_000), "DecimalSI", id="decimal point and suffix"),
        pytest.param(".5", Fraction(1, 2), "DecimalSI", id="nothing before the point"),
        pytest.param("5.", Fraction(5), "DecimalSI", id="nothing after the point"),
        pytest.param("1.G", Fraction(10**9), "DecimalSI", id="a point before the suffix"),
        pytest.param("+7", Fraction(7), "DecimalSI", id="explicit plus"),
        pytest.param("-7Mi", Fraction(-7 * 2**20), "BinarySI", id="negative"),
        pytest.param("007", Fraction(7), "DecimalSI", id="leading zeros"),
        pytest.param("3.001n", Fraction(4, 10**9), "DecimalSI", id="finer than nano rounds up"),
        pytest.param("-3.001n", Fraction(-4, 10**9), "DecimalSI", id="and away from zero"),
        pytest.param("0.5e-9", Fraction(1, 10**9), "DecimalExponent", id="half a nano is one"),
        pytest.param(
            "1e-999999", Fraction(1, 10**9), "DecimalExponent", id="so is next to nothing"
        ),
        pytest.param(
            "0.000000000001Ki", Fraction(2, 10**9), "DecimalSI", id="tiny binary is decimal"
        ),
        pytest.param("9Ei", Fraction(2**63 - 1), "BinarySI", id="binary is capped"),
        pytest.param("-9Ei", Fraction(1 - 2**63), "BinarySI", id="binary is capped below as well"),
        pytest.param("12E", Fraction(12 * 10**18), "DecimalSI", id="decimal is not capped"),
        pytest.param("+", Fraction(0), "DecimalSI", id="a sign alone is zero, as upstream"),
        pytest.param("m", Fraction(0), "DecimalSI", id="a suffix alone is zero, as upstream"),
        pytest.param(" 1 ", Fraction(1), "DecimalSI", id="blanks around are cut from wire texts"),
    ],
)
def test_text_is_parsed(text: str, expected: Fraction, form: str) -> None:
    quantity = Quantity.parse(text)
    assert number(quantity) == expected
    assert quantity.format == form


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", FORMAT_WRONG, id="nothing"),
        pytest.param("aoeu", FORMAT_WRONG, id="a word"),
        pytest.param("1.1.M", FORMAT_WRONG, id="two points"),
        pytest.param("0.1am", FORMAT_WRONG, id="letters that start no suffix"),
        pytest.param("1e5m", FORMAT_WRONG, id="a suffix after an exponent"),
        pytest.param("1 0", FORMAT_WRONG, id="a blank inside"),
        pytest.param("١", FORMAT_WRONG, id="digits of another script"),
        pytest.param("nan", FORMAT_WRONG, id="nan"),
        pytest.param("0.1mi", SUFFIX_WRONG, id="unknown suffix"),
        pytest.param("1K", SUFFIX_WRONG, id="kilo in upper case"),
        pytest.param("1e", SUFFIX_WRONG, id="an exponent without digits"),
        pytest.param("-3.01e-", SUFFIX_WRONG, id="an exponent that is a sign"),
        pytest.param("5+3", SUFFIX_WRONG, id="a sum"),
        pytest.param("1e99999999999999999999", SUFFIX_WRONG, id="exponent past 64 bits"),
        pytest.param("Pi", NUMERIC_WRONG, id="a large binary suffix alone"),
        pytest.param("9" * 5000, NUMERIC_WRONG, id="more digits than anyone reads"),
    ],
)
def test_invalid_text_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=exactly(problem)):
        Quantity.parse(text)


@pytest.mark.parametrize(
    ("wire", "value", "milli"),
    [
        pytest.param(2, 2, 2000, id="a JSON integer"),
        pytest.param(0.25, 1, 250, id="a JSON fraction"),
        pytest.param(1e22, 0, 0, id="a JSON float beyond 64 bits, read by its exponent"),
        pytest.param("2", 2, 2000, id="a JSON string"),
    ],
)
def test_numbers_are_quantities(wire: str | float, value: int, milli: int) -> None:
    assert parse_quantity(wire).value() == value
    assert parse_quantity(wire).milli_value() == milli


@pytest.mark.parametrize("wire", [True, float("nan"), float("inf")], ids=str)
def test_other_python_values_are_rejected(wire: float) -> None:
    with pytest.raises(ValueError, match=exactly(FORMAT_WRONG)):
        parse_quantity(wire)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1024Mi", "1Gi"), ("307200Ki", "300Mi"), ("1025024Mi", "1001Gi"), ("5000m", "5"),
        ("0.5", "500m"), ("1000M", "1G"), ("0.001T", "1G"), ("1000u", "1m"), ("1.08", "1080m"),
        ("1080000000n", "1080m"), (".001e12", "1e9"), ("0.001e0", "1e-3"), ("1000e-12", "1e-9"),
        ("00", "0"), ("0Ki", "0"), ("1Ki", "1Ki"), ("8Ki", "8Ki"), ("0.5Ki", "512"),
        ("100.035Ki", "102435840m"), ("-2048Ki", "-2Mi"), ("1.5Gi", "1536Mi"),
        ("9Ei", "9223372036854775807"),
    ],
)  # fmt: skip
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", ["+5", "1.500", "12E3", "1025Ki", "01Ki", "100m", "1G"])
def test_text_is_kept_where_upstream_keeps_it(text: str) -> None:
    assert str(Quantity.parse(text)) == text


def test_an_unnamed_decimal_suffix_is_dropped_as_upstream() -> None:
    assert str(Quantity.parse("1000E")) == "1"
