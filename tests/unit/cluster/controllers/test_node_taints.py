"""Taints from node conditions; other taints stay."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.controllers.node_lifecycle.taints import (
    missing_beta_labels,
    no_execute_key,
    no_execute_taints,
    ready_status_of,
    updated_taints,
)

Document = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def a_node(*conditions: str, taints: list[Document] | None = None, **spec: Any) -> Document:
    """Return a node with conditions such as `Ready=False`."""
    return {
        "metadata": {"name": "n1"},
        "spec": {**({"taints": taints} if taints else {}), **spec},
        "status": {
            "conditions": [
                {"type": condition.split("=")[0], "status": condition.split("=")[1]}
                for condition in conditions
            ]
        },
    }


def texts(taints: list[Document] | None) -> list[str] | None:
    """Return taints as kubectl shows them, without the prefix of those we make."""
    if taints is None:
        return None
    return [
        f"{taint['key'].removeprefix('node.kubernetes.io/')}:{taint['effect']}" for taint in taints
    ]


def taint(key: str, effect: str) -> Document:
    return {"key": key, "effect": effect}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["Ready=True"], None),
        ([], None),
        (["Ready=False"], ["not-ready:NoSchedule"]),
        (["Ready=Unknown"], ["unreachable:NoSchedule"]),
        (["Ready=True", "MemoryPressure=True"], ["memory-pressure:NoSchedule"]),
        (["Ready=True", "DiskPressure=True"], ["disk-pressure:NoSchedule"]),
        (["Ready=True", "PIDPressure=True"], ["pid-pressure:NoSchedule"]),
        (["Ready=True", "NetworkUnavailable=True"], ["network-unavailable:NoSchedule"]),
        (["Ready=True", "MemoryPressure=Unknown", "DiskPressure=False"], None),
        (["Ready=False", "PIDPressure=True"], ["not-ready:NoSchedule", "pid-pressure:NoSchedule"]),
    ],
)
def test_conditions_make_taints(conditions: list[str], expected: list[str] | None) -> None:
    assert texts(updated_taints(a_node(*conditions), None, NOW)) == expected


def test_a_cordoned_node_has_a_taint_with_a_time() -> None:
    assert updated_taints(a_node("Ready=True", unschedulable=True), None, NOW) == [
        {
            "key": "node.kubernetes.io/unschedulable",
            "effect": "NoSchedule",
            "timeAdded": NOW,
        }
    ]


def test_outdated_taints_are_removed_and_others_stay() -> None:
    theirs = [
        taint("team", "NoSchedule"),
        taint("node.kubernetes.io/out-of-service", "NoExecute"),
        taint("node.kubernetes.io/not-ready", "PreferNoSchedule"),
    ]
    ours = [
        taint("node.kubernetes.io/not-ready", "NoSchedule"),
        taint("node.kubernetes.io/unschedulable", "NoSchedule"),
        taint("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    node = a_node("Ready=True", taints=[ours[0], *theirs, *ours[1:]])
    assert updated_taints(node, None, NOW) == theirs
    assert updated_taints(a_node("Ready=True", taints=theirs), None, NOW) is None


def test_unreachable_and_not_ready_exclude_each_other() -> None:
    node = a_node(
        "Ready=False",
        taints=[
            taint("node.kubernetes.io/unreachable", "NoSchedule"),
            taint("node.kubernetes.io/unreachable", "NoExecute"),
        ],
    )
    changed = updated_taints(node, no_execute_key(ready_status_of(node)), NOW)
    assert texts(changed) == ["not-ready:NoSchedule", "not-ready:NoExecute"]


def test_an_existing_taint_keeps_its_time() -> None:
    old = {**taint("node.kubernetes.io/unreachable", "NoSchedule"), "timeAdded": "earlier"}
    node = a_node("Ready=Unknown", taints=[old])
    changed = updated_taints(node, "node.kubernetes.io/unreachable", NOW)
    assert changed is not None
    assert [changed_taint["timeAdded"] for changed_taint in changed] == ["earlier", NOW]


def test_only_no_execute_taints_evict_pods() -> None:
    node = a_node(taints=[taint("a", "NoSchedule"), taint("b", "NoExecute")])
    assert no_execute_taints(node) == [taint("b", "NoExecute")]


def test_beta_labels_follow_the_stable_ones() -> None:
    node = a_node()
    assert missing_beta_labels(node) == {}
    node["metadata"]["labels"] = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/arch": "amd64",
    }
    assert missing_beta_labels(node) == {
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "arm64",
    }
