"""The status of a Deployment during a rollout.

The cases are those of pkg/controller/deployment/{progress,sync}_test.go and
util/deployment_util_test.go, v1.36.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.controllers.deployment.status import (
    deployment_status,
    history_limit,
    is_complete,
    is_progressing,
    is_timed_out,
    new_condition,
    next_progress_check_s,
    paused_status,
    progress_deadline_s,
    rollout_status,
    with_condition,
    without_condition,
)
from tests.unit.cluster.controllers.deployment_world import (
    NOW_S,
    Document,
    a_deployment,
    a_replica_set,
)

NOW = "2026-01-01T00:00:00Z"
BEFORE = "2025-12-31T23:50:00Z"


def progressing(reason: str, status: str = "True", at: str = BEFORE) -> Document:
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "message": "before",
        "lastUpdateTime": at,
        "lastTransitionTime": at,
    }


def counts(updated: int, total: int, available: int, generation: int = 1) -> Document:
    return {
        "updatedReplicas": updated,
        "replicas": total,
        "readyReplicas": available,
        "availableReplicas": available,
        "observedGeneration": generation,
    }


def one_condition(status: Document, type_: str) -> Document:
    conditions: list[Document] = status["conditions"]
    (found,) = (condition for condition in conditions if condition["type"] == type_)
    return found


def a_set(name: str, replicas: int, ready: int, **more: Any) -> Document:
    reported = {
        "replicas": replicas,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": 1,
        "terminatingReplicas": 0,
        **more,
    }
    return a_replica_set(name, replicas, status=reported)


def test_the_counts_are_those_of_its_replica_sets() -> None:
    old = a_set("old", 8, 8, terminatingReplicas=2)
    new = a_set("new", 5, 1, readyReplicas=3)
    deployment = a_deployment(10, surge="25%", unavailable="25%")
    status = deployment_status(deployment, [old, new], new, NOW_S)
    conditions = status.pop("conditions")
    assert status == {
        "observedGeneration": 1,
        "replicas": 13,
        "updatedReplicas": 5,
        "readyReplicas": 11,
        "availableReplicas": 9,
        "unavailableReplicas": 4,
        "terminatingReplicas": 2,
    }
    assert conditions == [
        {
            "type": "Available",
            "status": "True",
            "lastUpdateTime": NOW,
            "lastTransitionTime": NOW,
            "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability.",
        }
    ]


def test_too_few_available_pods_are_reported() -> None:
    new = a_set("new", 10, 7)
    deployment = a_deployment(10, surge="25%", unavailable="25%")
    condition = one_condition(deployment_status(deployment, [new], new, NOW_S), "Available")
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.",
    )


def test_unreported_terminating_counts_are_omitted() -> None:
    never_synced = a_replica_set("new", 1)
    assert deployment_status(a_deployment(1), [never_synced], None, NOW_S)[
        "terminatingReplicas"
    ] == (0)
    silent = a_replica_set("old", 1, status={"observedGeneration": 1})
    assert "terminatingReplicas" not in deployment_status(a_deployment(1), [silent], None, NOW_S)


def test_collisions_and_foreign_conditions_are_kept() -> None:
    theirs = {"type": "StatusUpdate", "status": "True", "reason": "E2E"}
    deployment = a_deployment(0, status={"collisionCount": 2, "conditions": [theirs]})
    status = deployment_status(deployment, [], None, NOW_S)
    assert status["collisionCount"] == 2
    assert status["conditions"][0] == theirs


@pytest.mark.parametrize(
    ("desired", "status", "expected"),
    [
        pytest.param(5, counts(5, 5, 5), True, id="all new and available"),
        pytest.param(5, counts(5, 5, 4), False, id="one is not available"),
        pytest.param(5, counts(4, 5, 5), False, id="one is old"),
        pytest.param(5, counts(5, 6, 5), False, id="one too many"),
        pytest.param(5, counts(5, 5, 5, generation=0), False, id="not of this generation"),
        pytest.param(0, {"observedGeneration": 1}, True, id="none desired, none there"),
    ],
)
def test_when_a_rollout_is_complete(desired: int, status: Document, expected: bool) -> None:
    assert is_complete(a_deployment(desired), status) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(counts(6, 10, 4), counts(6, 10, 4), False, id="nothing moved"),
        pytest.param(counts(4, 10, 4), counts(6, 10, 4), True, id="more new pods"),
        pytest.param(counts(4, 10, 4), counts(4, 8, 4), True, id="fewer old pods"),
        pytest.param(counts(7, 10, 8), counts(7, 10, 9), True, id="more available"),
        pytest.param(counts(7, 8, 8), counts(7, 10, 8), False, id="more old pods"),
        pytest.param(counts(3, 6, 8), counts(1, 3, 5), True, id="new and old ones go"),
        pytest.param(counts(6, 6, 6), counts(4, 4, 4), False, id="new ones go"),
    ],
)
def test_progress_of_a_rollout(before: Document, after: Document, expected: bool) -> None:
    assert is_progressing(a_deployment(10, status=before), after) is expected


@pytest.mark.parametrize(
    ("reason", "deadline_s", "updated", "expected"),
    [
        pytest.param("ReplicaSetUpdated", 599, BEFORE, True, id="not within the deadline"),
        pytest.param("ReplicaSetUpdated", 600, BEFORE, False, id="at the deadline"),
        pytest.param("ReplicaSetUpdated", None, BEFORE, False, id="no deadline"),
        pytest.param("ReplicaSetUpdated", 2**31 - 1, BEFORE, False, id="for ever"),
        pytest.param("NewReplicaSetAvailable", 10, BEFORE, False, id="it was complete"),
        pytest.param("ProgressDeadlineExceeded", 900, NOW, True, id="it was already"),
    ],
)
def test_when_a_rollout_has_timed_out(
    reason: str, deadline_s: int | None, updated: str, expected: bool
) -> None:
    deployment = a_deployment(3, progressDeadlineSeconds=deadline_s)
    status = {"conditions": [progressing(reason, at=updated)]}
    assert is_timed_out(deployment, status, NOW_S) is expected
    assert not is_timed_out(deployment, {}, NOW_S)


def rolled(before: Document, new: Document | None, **spec: Any) -> Document:
    deployment = a_deployment(3, status=before, **{"progressDeadlineSeconds": 60, **spec})
    return rollout_status(deployment, [] if new is None else [new], new, NOW_S)


def test_a_complete_rollout_is_reported_once() -> None:
    before = {**counts(3, 3, 2), "conditions": [progressing("ReplicaSetUpdated")]}
    status = rolled(before, a_set("web-1", 3, 3))
    condition = one_condition(status, "Progressing")
    assert condition == {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetAvailable",
        "message": 'ReplicaSet "web-1" has successfully progressed.',
        "lastUpdateTime": NOW,
        "lastTransitionTime": BEFORE,
    }
    again = rolled({**counts(3, 3, 3), "conditions": [condition]}, a_set("web-1", 3, 2))
    assert one_condition(again, "Progressing") == condition


def test_progress_is_reported_with_its_time() -> None:
    before = {**counts(3, 3, 1), "conditions": [progressing("ReplicaSetUpdated")]}
    condition = one_condition(rolled(before, a_set("web-1", 3, 2)), "Progressing")
    assert condition["message"] == 'ReplicaSet "web-1" is progressing.'
    assert (condition["lastUpdateTime"], condition["lastTransitionTime"]) == (NOW, BEFORE)
    stuck = {**counts(3, 3, 1), "conditions": [progressing("X", status="False")]}
    condition = one_condition(rolled(stuck, a_set("web-1", 3, 2)), "Progressing")
    assert (condition["lastUpdateTime"], condition["lastTransitionTime"]) == (NOW, NOW)


def test_a_rollout_that_does_not_move_times_out() -> None:
    before = {**counts(3, 3, 1), "conditions": [progressing("ReplicaSetUpdated")]}
    condition = one_condition(rolled(before, a_set("web-1", 3, 1)), "Progressing")
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "ProgressDeadlineExceeded",
        'ReplicaSet "web-1" has timed out progressing.',
    )
    waiting = rolled(before, a_set("web-1", 3, 1), progressDeadlineSeconds=601)
    assert one_condition(waiting, "Progressing") == progressing("ReplicaSetUpdated")


def test_without_a_deadline_no_progress_is_reported() -> None:
    before = {**counts(3, 3, 1), "conditions": [progressing("ReplicaSetUpdated")]}
    status = rolled(before, a_set("web-1", 3, 2), progressDeadlineSeconds=None)
    assert [condition["type"] for condition in status["conditions"]] == ["Available"]


def test_without_a_new_replica_set_the_deployment_is_named() -> None:
    before = {"conditions": [progressing("NewReplicaSetCreated", at=NOW)]}
    status = rollout_status(
        a_deployment(0, progressDeadlineSeconds=60, status=before), [], None, NOW_S
    )
    reported = one_condition(status, "Progressing")["message"]
    assert reported == 'Deployment "web" has successfully progressed.'


def test_failures_of_the_new_replica_set_come_first() -> None:
    def failed(name: str) -> Document:
        reported = {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": name,
            "lastTransitionTime": BEFORE,
        }
        return a_set(name, 3, 0, conditions=[reported])

    deployment = a_deployment(3)
    old, new = failed("old"), failed("new")
    status = rollout_status(deployment, [old, new], new, NOW_S)
    assert one_condition(status, "ReplicaFailure") == {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "new",
        "lastTransitionTime": BEFORE,
        "lastUpdateTime": BEFORE,
    }
    healthy = a_set("new", 3, 3)
    status = rollout_status(deployment, [old, healthy], healthy, NOW_S)
    assert one_condition(status, "ReplicaFailure")["message"] == "old"
    deployment["status"] = status
    status = rollout_status(deployment, [healthy], healthy, NOW_S)
    assert [condition["type"] for condition in status["conditions"]] == ["Available"]


def test_a_pause_restarts_the_deadline() -> None:
    before = {"conditions": [progressing("ReplicaSetUpdated")]}
    paused = a_deployment(3, progressDeadlineSeconds=60, paused=True, status=before)
    status = paused_status(paused, NOW_S)
    assert status is not None
    condition = one_condition(status, "Progressing")
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "Unknown",
        "DeploymentPaused",
        "Deployment is paused",
    )
    assert paused_status({**paused, "status": status}, NOW_S) is None
    resumed = a_deployment(3, progressDeadlineSeconds=60, status=status)
    status = paused_status(resumed, NOW_S)
    assert status is not None
    condition = one_condition(status, "Progressing")
    assert (condition["reason"], condition["message"]) == (
        "DeploymentResumed",
        "Deployment is resumed",
    )
    assert paused_status({**resumed, "status": status}, NOW_S) is None


def test_a_timed_out_rollout_stays_so_when_paused() -> None:
    before = {"conditions": [progressing("ProgressDeadlineExceeded", "False")]}
    paused = a_deployment(3, progressDeadlineSeconds=60, paused=True, status=before)
    assert paused_status(paused, NOW_S) is None
    assert paused_status(a_deployment(3, paused=True), NOW_S) is None


@pytest.mark.parametrize(
    ("reason", "deadline_s", "expected"),
    [
        ("ReplicaSetUpdated", 900, 300.0),
        ("ReplicaSetUpdated", 100, 0.0),
        ("ReplicaSetUpdated", None, None),
        ("ProgressDeadlineExceeded", 900, None),
    ],
)
def test_a_rollout_is_checked_at_its_deadline(
    reason: str, deadline_s: int | None, expected: float | None
) -> None:
    deployment = a_deployment(
        3, progressDeadlineSeconds=deadline_s, status={"conditions": [progressing(reason)]}
    )
    assert next_progress_check_s(deployment, NOW_S) == expected


def test_a_complete_rollout_has_no_deadline() -> None:
    status = {**counts(3, 3, 3), "conditions": [progressing("NewReplicaSetAvailable")]}
    deployment = a_deployment(3, progressDeadlineSeconds=900, status=status)
    assert next_progress_check_s(deployment, NOW_S) is None


def test_an_equal_condition_is_unchanged() -> None:
    known = progressing("ReplicaSetUpdated")
    status = {"conditions": [known]}
    equal = new_condition("Progressing", "True", "ReplicaSetUpdated", "now", NOW_S)
    assert with_condition(status, equal) is status
    other = new_condition("Progressing", "True", "NewReplicaSetAvailable", "now", NOW_S)
    (changed,) = with_condition(status, other)["conditions"]
    assert (changed["lastUpdateTime"], changed["lastTransitionTime"]) == (NOW, BEFORE)
    turned = new_condition("Progressing", "False", "ProgressDeadlineExceeded", "now", NOW_S)
    (changed,) = with_condition(status, turned)["conditions"]
    assert changed["lastTransitionTime"] == NOW
    assert without_condition(status, "Progressing") == {}


def test_the_int32_maximum_means_no_limit() -> None:
    limits = a_deployment(1, progressDeadlineSeconds=2**31 - 1, revisionHistoryLimit=2**31 - 1)
    assert progress_deadline_s(limits) is None
    assert history_limit(limits) is None
    assert history_limit(a_deployment(1, revisionHistoryLimit=0)) == 0
