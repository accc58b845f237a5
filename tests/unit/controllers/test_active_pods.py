"""Which pods go first when there are too many.

The rules are those that pkg/controller/controller_utils.go has above ActivePodsWithRanks, v1.36.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.controllers.active_pods import deletion_cost, pods_to_delete

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
    """Return which pod goes, and check that their order does not matter."""
    names = {
        pods_to_delete(order, related, 1, now_s=NOW_S)[0]["metadata"]["name"]
        for order in (pods, pods[::-1])
    }
    assert len(names) == 1
    return str(names.pop())


@pytest.mark.parametrize(
    "goes",
    [
        pytest.param({"node": ""}, id="one without a node"),
        pytest.param({"phase": "Pending"}, id="one that does not run"),
        pytest.param({"phase": "Unknown"}, id="one of which nothing is known"),
        pytest.param({"ready_since": None}, id="one that is not ready"),
        pytest.param({"cost": "-5"}, id="one that costs less"),
        pytest.param({"ready_since": HOUR_AGO}, id="one that became ready later"),
        pytest.param({"restarts": 1}, id="one that restarted"),
        pytest.param({"sidecar_restarts": 1}, id="one whose sidecar restarted"),
        pytest.param({"created": HOUR_AGO}, id="a younger one"),
        pytest.param({"created": None}, id="one without an age"),
    ],
)
def test_it_goes_before_an_old_ready_pod(goes: dict[str, Any]) -> None:
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
def test_an_earlier_rule_decides(goes: dict[str, Any], stays: dict[str, Any]) -> None:
    assert first_of(a_pod("stays", **stays), a_pod("goes", **goes)) == "goes"


def test_pods_on_crowded_nodes_go_first() -> None:
    crowded, alone = a_pod("crowded", node="n1"), a_pod("alone", node="n2", restarts=3)
    # A pod that is being deleted crowds nobody.
    leaving = a_pod("leaving", node="n2")
    leaving["metadata"]["deletionTimestamp"] = DAY_AGO
    related = (crowded, alone, a_pod("sibling", node="n1"), leaving)
    assert first_of(crowded, alone, related=related) == "crowded"


def test_ages_of_one_magnitude_are_told_apart_by_uid() -> None:
    # 20 and 23 hours are the same power of two in nanoseconds.
    elder = a_pod("elder", ready_since="2025-12-31T01:00:00Z", uid="a")
    younger = a_pod("younger", ready_since="2025-12-31T04:00:00Z", uid="b")
    assert first_of(elder, younger) == "elder"


def test_all_go_where_all_are_too_many() -> None:
    pods = [a_pod("b"), a_pod("a", node="")]
    assert pods_to_delete(pods, (), 2, now_s=NOW_S) == pods


def test_as_many_go_as_are_too_many() -> None:
    pods = [a_pod("ready"), a_pod("pending", phase="Pending"), a_pod("waiting", node="")]
    gone = pods_to_delete(pods, (), 2, now_s=NOW_S)
    assert [pod["metadata"]["name"] for pod in gone] == ["waiting", "pending"]


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
def test_a_cost_that_is_wrong_is_none(text: str, expected: int) -> None:
    assert deletion_cost({"controller.kubernetes.io/pod-deletion-cost": text}) == expected
    assert deletion_cost(None) == 0
