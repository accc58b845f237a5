"""Completion indexes as intervals, in upstream's notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.workloads.job_pods import Indexes

_SETS = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("text", "completions", "expected"),
    [
        pytest.param("", 10, (), id="nothing"),
        pytest.param("5", 10, ((5, 5),), id="one index"),
        pytest.param("1,3-5,9", 10, ((1, 1), (3, 5), (9, 9)), id="indexes and ranges"),
        pytest.param("1,2,4", 10, ((1, 2), (4, 4)), id="neighbors are joined"),
        pytest.param("0-3,4-6", 10, ((0, 6),), id="adjacent ranges are joined"),
        pytest.param("1,3-5,8-12", 10, ((1, 1), (3, 5), (8, 9)), id="cut where the Job ends"),
        pytest.param("1,20,30", 10, ((1, 1),), id="indexes beyond completions are skipped"),
        pytest.param("1,x,4-y,6", 10, ((1, 1), (6, 6)), id="invalid intervals are skipped"),
    ],
)
def test_parsing(text: str, completions: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert Indexes.parse(text, completions).intervals == expected


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([4], "4", id="one"),
        pytest.param([4, 5], "4,5", id="two neighbors are listed"),
        pytest.param([4, 5, 6], "4-6", id="three are a range"),
        pytest.param([0, 2, 3, 4, 7, 8], "0,2-4,7,8", id="mixed"),
    ],
)
def test_formatting(indexes: list[int], expected: str) -> None:
    assert str(Indexes.of(indexes)) == expected


def test_missing_indexes_start_with_the_lowest() -> None:
    assert list(Indexes.of([0, 1, 4]).missing(7)) == [2, 3, 5, 6]
    assert list(Indexes.of([5, 9]).missing(4)) == [0, 1, 2, 3]


@given(_SETS, _SETS)
def test_intervals_behave_like_sets(first_set: set[int], second_set: set[int]) -> None:
    mine, theirs = Indexes.of(first_set), Indexes.of(second_set)
    both = mine.merge(theirs)
    assert {index for index in range(42) if index in both} == first_set | second_set
    assert both.total == len(first_set | second_set)
    assert mine.overlap(theirs) == len(first_set & second_set)
    assert set(mine.missing(41)) == set(range(41)) - first_set
    assert Indexes.parse(str(both), 41) == both
    for (_, last), (first, _) in zip(both.intervals, both.intervals[1:], strict=False):
        assert first > last + 1
