"""Status of PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.times import time_text
from kubesched.cluster.controllers.disruption.status import disrupted_pods, failed_status
from kubesched.workloads.disruption import healthy_count, new_status, scaled
from tests.unit.cluster.controllers.job_documents import NOW_S, a_job_pod

_OLD = "2026-01-01T00:00:00Z"


def _budget(status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": "pdb", "generation": 3}, "spec": {}, "status": status or {}}


def _status(
    budget: dict[str, Any], healthy: int, desired: int, expected: int = 5
) -> dict[str, Any] | None:
    return new_status(
        budget, healthy=healthy, desired=desired, expected=expected, disrupted={}, now_s=NOW_S
    )


@pytest.mark.parametrize(
    ("healthy", "desired", "expected", "allowed", "reason"),
    [
        pytest.param(5, 3, 5, 2, "SufficientPods", id="more than needed"),
        pytest.param(3, 3, 5, 0, "InsufficientPods", id="just enough"),
        pytest.param(1, 3, 5, 0, "InsufficientPods", id="too few"),
        pytest.param(2, 0, 0, 0, "InsufficientPods", id="none expected: no disruption allowed"),
    ],
)
def test_status(healthy: int, desired: int, expected: int, allowed: int, reason: str) -> None:
    status = _status(_budget(), healthy, desired, expected)
    assert status == {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "DisruptionAllowed",
                "status": "True" if allowed else "False",
                "reason": reason,
                "message": "",
                "observedGeneration": 3,
                "lastTransitionTime": time_text(NOW_S),
            }
        ],
    }


def test_an_unchanged_status_is_not_written() -> None:
    status = _status(_budget(), 5, 3)
    assert _status(_budget(status), 5, 3) is None
    assert _status(_budget(status), 5, 4) is not None
    older = {**_budget(status), "metadata": {"name": "pdb", "generation": 4}}
    assert _status(older, 5, 3) is not None


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    old = {"type": "DisruptionAllowed", "status": "True", "lastTransitionTime": _OLD}
    other = {"type": "Mine", "status": "True"}
    budget = _budget({"conditions": [old, other]})
    allowed = _status(budget, 5, 3)
    assert allowed is not None
    assert [condition["type"] for condition in allowed["conditions"]] == [
        "DisruptionAllowed",
        "Mine",
    ]
    assert allowed["conditions"][0]["lastTransitionTime"] == _OLD
    rejected = _status(budget, 3, 3)
    assert rejected is not None
    assert rejected["conditions"][0]["lastTransitionTime"] == time_text(NOW_S)


def test_an_invalid_budget_allows_no_disruption() -> None:
    budget = _budget({"disruptionsAllowed": 2, "observedGeneration": 2, "desiredHealthy": 1})
    status = failed_status(budget, "found no controllers", NOW_S)
    assert status["disruptionsAllowed"] == 0
    assert (status["desiredHealthy"], status["currentHealthy"]) == (1, 0)
    condition = status["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "SyncFailed")
    assert condition["message"] == "found no controllers"
    assert condition["observedGeneration"] == 2


@pytest.mark.parametrize(
    ("value", "total", "expected"),
    [(3, 10, 3), ("50%", 10, 5), ("50%", 7, 4), ("0%", 7, 0), ("1%", 7, 1), ("100%", 3, 3)],
)
def test_percentages_round_up(value: int | str, total: int, expected: int) -> None:
    assert scaled(value, total) == expected


def test_an_invalid_percentage_is_rejected() -> None:
    with pytest.raises(ValueError, match="string is not a percentage"):
        scaled("half", 3)


def test_pods_under_eviction_are_not_healthy() -> None:
    pods = [a_job_pod(name, is_ready=True) for name in ("stays", "goes", "overdue")]
    pods.append(a_job_pod("leaves", is_ready=True, is_deleted=True))
    pods.append(a_job_pod("unready"))
    listed = {
        "goes": time_text(NOW_S - 60),
        "leaves": time_text(NOW_S - 60),
        "overdue": time_text(NOW_S - 121),
        "gone": time_text(NOW_S - 1),
    }
    found = disrupted_pods(_budget({"disruptedPods": listed}), pods, NOW_S)
    assert found.awaited == {"goes": time_text(NOW_S - 60)}
    assert [pod["metadata"]["name"] for pod in found.overdue] == ["overdue"]
    assert found.recheck_s == NOW_S + 60
    assert healthy_count(pods, found.awaited, NOW_S) == 2
