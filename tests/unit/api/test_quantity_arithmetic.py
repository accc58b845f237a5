"""Rounding, capping, sums and order of quantities.

Expected int64 answers were taken from apimachinery's Quantity.Value and MilliValue, v0.36.
"""

from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.quantity import Quantity, parse_quantity

INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        pytest.param("1", 1, 1000, id="whole"),
        pytest.param("1n", 1, 1, id="a trace counts as one"),
        pytest.param("100m", 1, 100, id="milli is exact, units round up"),
        pytest.param("1.0001", 2, 1001, id="rounded up at both scales"),
        pytest.param("-1.5", -2, -1500, id="away from zero when negative"),
        pytest.param("-1.0001Ki", -1023, -1024101, id="big negative numbers go one up, not down"),
        pytest.param("1.5Gi", 1610612736, 1610612736000, id="exact binary fraction"),
        pytest.param("9Ei", INT64_MAX, -1000, id="capped, and wrapped in milli"),
        pytest.param("9E", 9 * 10**18, 0, id="thousandths of exa overflow to zero"),
        pytest.param("10E", 0, 0, id="ten exa overflow to zero"),
        pytest.param(
            "9223372036854775", 9223372036854775, 9223372036854775000, id="last that fits"
        ),
        pytest.param(
            "9223372036854776", 9223372036854776, -9223372036854775616, id="one more wraps in milli"
        ),
        pytest.param(
            "9223372036854775808", -(2**63), 0, id="a decimal past int64 wraps, it is not capped"
        ),
        pytest.param("1e9999", 0, 0, id="an absurd exponent"),
        pytest.param("0e9999", 0, 0, id="an absurd exponent of zero"),
    ],
)
def test_int64_values(text: str, value: int, milli: int) -> None:
    assert parse_quantity(text).value() == value
    assert parse_quantity(text).milli_value() == milli


def test_sums_are_exact_before_rounding() -> None:
    total = Quantity.parse("500u") + Quantity.parse("400u")
    assert str(total) == "900u"
    assert total.milli_value() == 1


@pytest.mark.parametrize(
    ("left", "right", "total", "difference"),
    [
        pytest.param("1Gi", "512Mi", "1536Mi", "512Mi", id="the first operand gives the form"),
        pytest.param("0", "1Ki", "1Ki", "-1Ki", id="unless it is zero"),
        pytest.param("1Ki", "1", "1025", "1023", id="binary form falls back to digits"),
        pytest.param("1k", "1Ki", "2024", "-24", id="decimal form"),
        pytest.param("1e3", "500m", "1000500e-3", "999500e-3", id="exponent form"),
        pytest.param(
            "9223372036854775807",
            "1",
            "9223372036854775808",
            "9223372036854775806",
            id="past int64",
        ),
    ],
)
def test_sum_and_difference(left: str, right: str, total: str, difference: str) -> None:
    assert str(Quantity.parse(left) + Quantity.parse(right)) == total
    assert str(Quantity.parse(left) - Quantity.parse(right)) == difference


def test_equal_numbers_are_equal_in_any_notation() -> None:
    same = [Quantity.parse(text) for text in ("1", "1000m", "1.0", "1e0", "1000000000n")]
    assert len(set(same)) == 1
    assert Quantity.parse("1Ki") == Quantity.parse("1024")
    assert Quantity.parse("1Ki") != Quantity.parse("1k")
    assert Quantity.parse("1") != 1


def test_order_sign_and_negation() -> None:
    texts = ["-1Gi", "-1G", "-1n", "0", "1n", "1m", "1", "1k", "1Ki", "1E", "1Ei"]
    ordered = [Quantity.parse(text) for text in texts]
    assert sorted(ordered, key=lambda quantity: -quantity) == ordered[::-1]
    assert [quantity.sign() for quantity in ordered] == [-1, -1, -1, 0, 1, 1, 1, 1, 1, 1, 1]
    assert [quantity.is_zero() for quantity in ordered].count(True) == 1
    assert -Quantity.parse("1Gi") == Quantity.parse("-1Gi")


def test_a_quantity_is_immutable() -> None:
    with pytest.raises(AttributeError):
        Quantity.parse("1").unscaled = 2


SMALL = st.builds(
    "{}{}.{}{}".format,
    st.sampled_from(["", "-"]),
    st.integers(0, 10**9),
    st.integers(0, 999),
    st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "u"]),
)
FACTORS = {
    "": "1", "m": "1e-3", "u": "1e-6", "k": "1e3", "M": "1e6",
    "Ki": "1024", "Mi": "1048576", "Gi": "1073741824",
}  # fmt: skip
EXACT = Context(prec=100)


def as_decimal(text: str) -> Decimal:
    digits = text.rstrip("umkKMGi")
    return EXACT.multiply(Decimal(digits), Decimal(FACTORS[text[len(digits) :]]))


@given(left=SMALL, right=SMALL)
def test_sums_and_order_agree_with_decimal_arithmetic(left: str, right: str) -> None:
    first, second = Quantity.parse(left), Quantity.parse(right)
    total = first + second
    exact = EXACT.add(as_decimal(left), as_decimal(right))
    assert EXACT.scaleb(Decimal(total.unscaled), total.exponent) == exact
    assert (first < second) == (as_decimal(left) < as_decimal(right))
    assert (first == second) == (as_decimal(left) == as_decimal(right))


@given(text=SMALL)
def test_canonical_text_has_the_same_value(text: str) -> None:
    quantity = Quantity.parse(text)
    assert Quantity.parse(str(quantity)) == quantity
