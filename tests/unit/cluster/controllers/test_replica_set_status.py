"""Status of a ReplicaSet.

The cases are those of pkg/controller/replicaset/replica_set_utils_test.go, v1.36.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.controllers.replica_set.status import (
    next_availability_check_s,
    replica_set_status,
)

Document = dict[str, Any]

NOW_S = 1_767_225_600.0
NOW = "2026-01-01T00:00:00Z"
MINUTE_AGO = "2025-12-31T23:59:00Z"


def a_set(replicas: int = 2, *, min_ready_s: int = 0, status: Document | None = None) -> Document:
    return {
        "metadata": {"name": "web", "generation": 3},
        "spec": {
            "replicas": replicas,
            "minReadySeconds": min_ready_s,
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}},
        },
        "status": status or {"replicas": 0},
    }


def a_pod(*, ready_since: str | None = None, **labels: str) -> Document:
    conditions = []
    if ready_since is not None:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": ready_since})
    return {
        "metadata": {"name": "web-1", "labels": {"app": "web", **labels}},
        "status": {"conditions": conditions},
    }


def new_status(
    document: Document, *pods: Document, leaving: int | None = 0, failure: Exception | None = None
) -> Document:
    return replica_set_status(
        document, pods, terminating_count=leaving, failure=failure, now_s=NOW_S
    )


def test_pods_are_counted() -> None:
    pods = (
        a_pod(ready_since=NOW, tier="front", more="yes"),
        a_pod(ready_since=MINUTE_AGO),
        a_pod(tier="back"),
    )
    assert new_status(a_set(min_ready_s=30), *pods, leaving=4) == {
        "replicas": 3,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 4,
        "observedGeneration": 3,
    }


def test_zero_and_absent_counts_are_omitted() -> None:
    before = {"replicas": 3, "readyReplicas": 2, "terminatingReplicas": 1, "observedGeneration": 2}
    assert new_status(a_set(0, status=before), leaving=None) == {
        "replicas": 0,
        "observedGeneration": 3,
    }


@pytest.mark.parametrize(
    ("replicas", "reason"), [(2, "FailedCreate"), (0, "FailedDelete"), (1, None)]
)
def test_a_failure_is_a_condition(replicas: int, reason: str | None) -> None:
    status = new_status(a_set(replicas), a_pod(), failure=ValueError("no room"))
    (condition,) = status["conditions"]
    assert condition.pop("reason", None) == reason
    assert condition == {
        "type": "ReplicaFailure",
        "status": "True",
        "message": "no room",
        "lastTransitionTime": NOW,
    }


def test_a_failure_is_reported_once_and_ends() -> None:
    theirs = {"type": "StatusUpdate", "status": "True"}
    failed = {"type": "ReplicaFailure", "status": "True", "message": "the first"}
    document = a_set(status={"replicas": 0, "conditions": [failed, theirs]})
    assert new_status(document, failure=ValueError("again"))["conditions"] == [failed, theirs]
    assert new_status(document)["conditions"] == [theirs]


def test_the_next_check_is_when_the_first_ready_pod_becomes_available() -> None:
    pods = [a_pod(), a_pod(ready_since=MINUTE_AGO), a_pod(ready_since=NOW)]
    assert next_availability_check_s(pods, 90, NOW_S) == 30.0
    assert next_availability_check_s(pods, 60, NOW_S) == 60.0
    assert next_availability_check_s(pods[:2], 60, NOW_S) is None
