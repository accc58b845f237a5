"""Deletion order of surplus pods.

The rules are those that pkg/controller/controller_utils.go has above ActivePodsWithRanks, v1.36.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.controllers.controller_pods import deletion_cost, pods_to_delete

Document = dict[str, Any]

NOW_S = 1_767_225_600.0
HOUR_AGO = "2025-12-31T23:00:00Z"
DAY_AGO = "2025-12-31T00:00:00Z"


def a_pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready_since: str | None = DAY_AGO,
    created: str | None = DAY_AGO,
    restarts: int = 0,
    sidecar_restarts: int = 0,
    cost: str = "",
    uid: str = "",
) -> Document:
    conditions = []
    if ready_since is not None:
        conditions.append({"type": "Ready", "status": "True", "lastTransitionTime": ready_since})
    metadata: Document = {"name": name, "uid": uid or name}
    if created is not None:
        metadata["creationTimestamp"] = created
    if cost:
        metadata["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": cost}
    return {
        "metadata": metadata,
        "spec": {
            **({"nodeName": node} if node else {}),
            "initContainers": [
                {"name": "setup"},
                {"name": "proxy", "restartPolicy": "Always"},
            ],
        },
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
            "initContainerStatuses": [
                {"name": "setup", "restartCount": 99},
                {"name": "proxy", "restartCount": sidecar_restarts},
            ],
        },
    }


def first_of(*pods: Document, related: tuple[Document, ...] = ()) -> str:
    """Return the deleted pod; fail if the order of the pods matters."""
    names = {
        pods_to_delete(order, related, 1, now_s=NOW_S)[0]["metadata"]["name"]
        for order in (pods, pods[::-1])
    }
    assert len(names) == 1
    return str(names.pop())


@pytest.mark.parametrize(
    "goes",
    [
        pytest.param({"node": ""}, id="no node"),
        pytest.param({"phase": "Pending"}, id="not running"),
        pytest.param({"phase": "Unknown"}, id="unknown phase"),
        pytest.param({"ready_since": None}, id="not ready"),
        pytest.param({"cost": "-5"}, id="lower deletion cost"),
        pytest.param({"ready_since": HOUR_AGO}, id="ready later"),
        pytest.param({"restarts": 1}, id="restarted"),
        pytest.param({"sidecar_restarts": 1}, id="restarted sidecar"),
        pytest.param({"created": HOUR_AGO}, id="younger"),
        pytest.param({"created": None}, id="no age"),
    ],
)
def test_pods_deleted_before_an_old_ready_pod(goes: dict[str, Any]) -> None:
    assert first_of(a_pod("stays"), a_pod("goes", **goes)) == "goes"


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        ({"node": "", "phase": "Running"}, {"phase": "Pending"}),
        ({"phase": "Pending", "cost": "9"}, {"ready_since": None, "cost": "0"}),
        ({"ready_since": None, "cost": "9"}, {"cost": "1"}),
        ({"cost": "1"}, {"cost": "2", "restarts": 5}),
        ({"ready_since": HOUR_AGO}, {"restarts": 5}),
        ({"restarts": 2}, {"restarts": 1, "sidecar_restarts": 7}),
        ({"restarts": 1}, {"created": HOUR_AGO}),
    ],
)
def test_an_earlier_criterion_decides(goes: dict[str, Any], stays: dict[str, Any]) -> None:
    assert first_of(a_pod("stays", **stays), a_pod("goes", **goes)) == "goes"


def test_pods_on_crowded_nodes_are_deleted_first() -> None:
    crowded, alone = a_pod("crowded", node="n1"), a_pod("alone", node="n2", restarts=3)
    # A pod that is being deleted does not crowd its node.
    leaving = a_pod("leaving", node="n2")
    leaving["metadata"]["deletionTimestamp"] = DAY_AGO
    related = (crowded, alone, a_pod("sibling", node="n1"), leaving)
    assert first_of(crowded, alone, related=related) == "crowded"


def test_ages_of_the_same_magnitude_are_ordered_by_uid() -> None:
    # 20 and 23 hours are the same power of two in nanoseconds.
    elder = a_pod("elder", ready_since="2025-12-31T01:00:00Z", uid="a")
    younger = a_pod("younger", ready_since="2025-12-31T04:00:00Z", uid="b")
    assert first_of(elder, younger) == "elder"


def test_all_pods_are_deleted_if_all_are_surplus() -> None:
    pods = [a_pod("b"), a_pod("a", node="")]
    assert pods_to_delete(pods, (), 2, now_s=NOW_S) == pods


def test_only_surplus_pods_are_deleted() -> None:
    pods = [a_pod("ready"), a_pod("pending", phase="Pending"), a_pod("waiting", node="")]
    deleted = pods_to_delete(pods, (), 2, now_s=NOW_S)
    assert [pod["metadata"]["name"] for pod in deleted] == ["waiting", "pending"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", 10),
        ("-7", -7),
        ("0", 0),
        ("", 0),
        ("+7", 0),
        ("007", 0),
        ("-0", 0),
        ("ten", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
    ],
)
def test_an_invalid_deletion_cost_is_zero(text: str, expected: int) -> None:
    assert deletion_cost({"controller.kubernetes.io/pod-deletion-cost": text}) == expected
    assert deletion_cost(None) == 0
