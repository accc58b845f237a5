"""Parsing of RFC 3339 times."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.times import parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0, id="the epoch"),
        pytest.param("2024-05-02T08:00:00Z", 1714636800, id="a usual time"),
        pytest.param("2024-02-29T00:00:00+01:30", 1709159400, id="ahead of Greenwich, leap day"),
        pytest.param("2024-02-29T00:00:00-01:30", 1709170200, id="behind Greenwich"),
        pytest.param("1970-01-01T00:00:00.25Z", 0.25, id="a fraction"),
        pytest.param("1970-01-01T00:00:01,5Z", 1.5, id="a fraction after a comma, as Go reads it"),
        pytest.param("0001-01-01T00:00:00Z", -62135596800, id="Go's zero time"),
        pytest.param("0000-03-01T00:00:00Z", -62162035200, id="the year zero"),
    ],
)
def test_time_is_parsed(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2024-05-02", "2024-05-02 08:00:00Z", "2024-05-02T08:00:00", "20240502T080000Z",
        "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2023-02-29T00:00:00Z",
        "2024-04-31T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:60Z", "2024-01-01T00:00:00+25:00", "2024-01-01T00:00:00.Z",
        "٢٠٢٤-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time "):
        parse_time(text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_agrees_with_the_standard_library(moment: datetime) -> None:
    text = moment.isoformat().replace("+00:00", "Z")
    assert parse_time(text) == pytest.approx(moment.timestamp(), abs=1e-5)
