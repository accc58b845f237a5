"""Comparing decisions: equal ones, and differences."""

import copy
from typing import Any

import pytest

from conformance.fuzz.compare import Difference, differences

PLACED: dict[str, Any] = {
    "profile": "default-scheduler",
    "feasible": ["n1", "n2"],
    "rejected": {"n3": {"plugin": "Fit", "code": "Unschedulable", "reasons": ["a", "b"]}},
    "preFilterRejected": None,
    "scores": {"n1": {"Fit": 3, "total": 3}, "n2": {"Fit": 3, "total": 3}},
    "best": ["n1", "n2"],
    "message": None,
    "messageAfterPostFilter": None,
    "preemption": None,
    "error": None,
}
ONE = {"nominatedNode": "n1", "victims": ["d/a", "d/b"]}
OTHER = {"nominatedNode": "n2", "victims": ["d/c"]}


def changed(**fields: Any) -> dict[str, Any]:
    return {**copy.deepcopy(PLACED), **fields}


def fields_of(expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    return [difference.field for difference in differences(expected, actual)]


@pytest.mark.parametrize(
    "actual",
    [
        pytest.param(changed(), id="the same decision"),
        pytest.param(changed(feasible=["n2", "n1"], best=["n2", "n1"]), id="order of nodes"),
        pytest.param(
            changed(
                rejected={
                    "n3": {
                        "plugin": "Fit",
                        "code": "Unschedulable",
                        "reasons": ["b", "a"],
                    }
                }
            ),
            id="order of reasons",
        ),
        pytest.param(
            changed(scores={"n1": {"Fit": 3, "total": 3, "I": 0}, "n2": {"Fit": 3, "total": 3}}),
            id="a score of zero that is not listed",
        ),
    ],
)
def test_equal(actual: dict[str, Any]) -> None:
    assert differences(PLACED, actual) == []


@pytest.mark.parametrize(
    ("field", "actual"),
    [
        pytest.param("profile", changed(profile="other"), id="profile"),
        pytest.param("feasible", changed(feasible=["n1"]), id="a node too few"),
        pytest.param("feasible", changed(feasible=["n1", "n1", "n2"]), id="a node twice"),
        pytest.param("rejected", changed(rejected={}), id="a rejection missing"),
        pytest.param(
            "scores",
            changed(scores={"n1": {"Fit": 4, "total": 3}, "n2": {"Fit": 3, "total": 3}}),
            id="one score",
        ),
        pytest.param("scores", changed(scores={"n1": {"Fit": 3, "total": 3}}), id="a node less"),
        pytest.param("best", changed(best=["n1"]), id="best"),
        pytest.param("message", changed(message=""), id="an empty text is not null"),
        pytest.param("preemption", changed(preemption=ONE), id="preemption out of nothing"),
        pytest.param("error", changed(error="x"), id="error"),
    ],
)
def test_different(field: str, actual: dict[str, Any]) -> None:
    assert set(fields_of(PLACED, actual)) == {field}


def test_a_reason_given_twice_is_another_multiset() -> None:
    actual = changed()
    actual["rejected"]["n3"]["reasons"] = ["a", "a", "b"]
    assert fields_of(PLACED, actual) == ["rejected"]


def test_code_matters() -> None:
    actual = changed()
    actual["rejected"]["n3"]["code"] = "UnschedulableAndUnresolvable"
    found = differences(PLACED, actual)
    assert found == [
        Difference("rejected", "n3", PLACED["rejected"]["n3"], actual["rejected"]["n3"])
    ]


def test_an_absent_field_is_a_difference() -> None:
    actual = changed()
    del actual["error"]
    assert fields_of(PLACED, actual) == ["error"]


def test_an_unknown_field_is_a_difference() -> None:
    assert fields_of(PLACED, changed(extra=1)) == ["decision"]


@pytest.mark.parametrize(
    ("expected", "actual", "agrees"),
    [
        pytest.param(ONE, {"nominatedNode": "n1", "victims": ["d/b", "d/a"]}, True, id="any order"),
        pytest.param(ONE, {"nominatedNode": "n1", "victims": ["d/a"]}, False, id="a victim less"),
        pytest.param(ONE, OTHER, False, id="another node"),
        pytest.param(ONE, None, False, id="none found"),
        pytest.param({"acceptable": [ONE, OTHER]}, OTHER, True, id="one of the open outcomes"),
        pytest.param({"acceptable": [ONE, OTHER]}, {"acceptable": [OTHER, ONE]}, True, id="all"),
        pytest.param(ONE, {"acceptable": [ONE, OTHER]}, False, id="one answered outcome is not"),
        pytest.param(ONE, {"acceptable": []}, False, id="no outcome"),
    ],
)
def test_preemption(expected: Any, actual: Any, agrees: bool) -> None:
    found = fields_of(changed(preemption=expected), changed(preemption=actual))
    assert found == ([] if agrees else ["preemption"])
