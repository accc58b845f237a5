"""Comparing configuration files: values, places and texts."""

from typing import Any

import pytest

from conformance.fuzz.config_files import FileVerdict, acceptable, names, rates, same_value


@pytest.mark.parametrize(
    ("ours", "theirs", "equal"),
    [
        pytest.param({"a": [1, {"b": 50.0}]}, {"a": [1, {"b": 50}]}, True, id="50 and 50.0"),
        pytest.param({"a": "50"}, {"a": 50}, False, id="a string is not a number"),
        pytest.param({"a": 1}, {"a": True}, False, id="a boolean is not a number"),
        pytest.param({"a": None}, {}, False, id="an absent field is not null"),
        pytest.param([1, 2], [2, 1], False, id="order of lists"),
        pytest.param([1], [1, 2], False, id="length of lists"),
    ],
)
def test_values(ours: Any, theirs: Any, equal: bool) -> None:
    assert same_value(ours, theirs) is equal


def test_indexes_may_be_filled_in() -> None:
    assert names("profiles[1].plugins.score: bad", "profiles.plugins.score")
    assert not names("profiles[1].plugins: bad", "profiles.plugins.score")


def verdict(stage: str, ours: str | None, error: str | None = None, **more: Any) -> FileVerdict:
    expected = {"stage": stage, "error": error, "effective": {"a": 1}, **more}
    return FileVerdict({"id": "x", "text": ""}, expected, {"a": 1}, ours)


def test_rates_count_good_and_faulty_files_apart() -> None:
    verdicts = [
        verdict("ok", None),
        verdict("decode", "boom", "boom"),
        verdict("decode", "parallelism.x: other", "parallelism.x: text"),
        verdict("build", None, "text"),
        verdict("build", "two", "one", acceptable=["one", "two"]),
    ]
    assert rates(verdicts) == {
        "effective": (1, 1),
        "reported": (3, 4),
        "paths": (4, 4),
        "exact": (2, 4),
    }


def test_one_wrong_effective_configuration_fails_a_run() -> None:
    counts = {"effective": (999, 1000), "reported": (9, 9), "paths": (9, 9), "exact": (9, 9)}
    assert not acceptable(counts)
    assert acceptable({**counts, "effective": (1000, 1000)})
    assert not acceptable({**counts, "effective": (1000, 1000), "exact": (6, 9)})
