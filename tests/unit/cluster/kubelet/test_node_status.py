"""Node status patches."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.kubelet.node_status import (
    Endpoint,
    is_alive,
    lease_of,
    missing_labels,
    status_patch,
)
from kubesched.cluster.kubelet.settings import KubeletSettings
from tests.unit.cluster.kubelet.pod_world import NOW_S, Document

ENDPOINT = Endpoint("127.0.0.1", 10250)
TIME = "2027-01-15T08:00:00Z"


def a_node(**status: Any) -> Document:
    return {"metadata": {"name": "n1", "uid": "uid-1"}, "spec": {}, "status": status}


def patch_of(
    node: Document, before: Document | None = None, *, is_report: bool = False
) -> Document:
    return status_patch(
        node,
        ip="10.200.0.7",
        endpoint=ENDPOINT,
        now_s=NOW_S,
        settings=KubeletSettings(),
        before=before,
        is_report=is_report,
    )


def settled(**more: Any) -> Document:
    patch = patch_of(a_node())
    status = {**patch, "addresses": patch["addresses"][:-1], **more}
    return a_node(**status)


def test_an_empty_node_gets_all_fields() -> None:
    patch = patch_of(a_node())
    assert patch["addresses"][:2] == [
        {"type": "InternalIP", "address": "10.200.0.7"},
        {"type": "Hostname", "address": "127.0.0.1"},
    ]
    assert patch["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert patch["capacity"] == patch["allocatable"]
    assert patch["capacity"]["pods"] == "110"
    assert {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in patch["conditions"]
    } == {
        "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
        "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
        "PIDPressure": ("False", "KubeletHasSufficientPID"),
        "Ready": ("True", "KubeletReady"),
    }


def test_an_up_to_date_node_is_unchanged() -> None:
    assert patch_of(settled()) == {}


def test_a_report_updates_only_heartbeat_times() -> None:
    patch = patch_of(settled(), is_report=True)
    assert set(patch) == {"conditions"}
    assert patch["conditions"][-1] == {"type": "Ready", "lastHeartbeatTime": TIME}


@pytest.mark.parametrize(
    ("capacity", "allocatable", "before", "expected"),
    [
        pytest.param(
            {"cpu": "4", "x.y/gpu": "2"}, {"cpu": "3"}, {}, {"allocatable": {"x.y/gpu": "2"}},
            id="capacity becomes allocatable",
        ),
        pytest.param(
            {"cpu": "4"}, {"cpu": "3"}, {}, {}, id="reserved resources stay reserved",
        ),
        pytest.param(
            {}, {"cpu": "3", "x.y/gpu": "2"}, {}, {"capacity": {"cpu": "3", "x.y/gpu": "2"}},
            id="allocatable counts as capacity",
        ),
        pytest.param(
            {"cpu": "4"}, {"cpu": "4", "x.y/gpu": "2"}, {"x.y/gpu": "2"},
            {"allocatable": {"x.y/gpu": None}}, id="removed capacity is not allocatable",
        ),
        pytest.param(
            {"cpu": "4"}, {"cpu": "4", "memory": "1Gi"}, {"memory": "1Gi"},
            {"capacity": {"memory": "1Gi"}}, id="but memory does not go away",
        ),
    ],
)  # fmt: skip
def test_amounts(
    capacity: Document, allocatable: Document, before: Document, expected: Document
) -> None:
    node = settled(capacity=capacity, allocatable=allocatable)
    assert patch_of(node, {"status": {"capacity": before}}) == expected


@pytest.mark.parametrize(
    ("kind", "status", "is_put_right"),
    [
        ("Ready", "Unknown", True),
        ("Ready", "False", True),
        ("MemoryPressure", "Unknown", True),
        ("MemoryPressure", "True", False),
    ],
)
def test_pressure_conditions_stay_and_unknown_ones_are_replaced(
    kind: str, status: str, *, is_put_right: bool
) -> None:
    node = settled()
    for current in node["status"]["conditions"]:
        if current["type"] == kind:
            current["status"] = status
    changed = [condition["type"] for condition in patch_of(node).get("conditions", [])]
    assert changed == ([kind] if is_put_right else [])


def test_addresses_of_other_types_stay() -> None:
    other = {"type": "ExternalIP", "address": "203.0.113.5"}
    own = {"type": "InternalIP", "address": "192.0.2.9"}
    patch = patch_of(a_node(addresses=[other, own, {"type": "Hostname", "address": "n1"}]))
    assert patch["addresses"][:3] == [own, {"type": "Hostname", "address": "127.0.0.1"}, other]


def test_existing_labels_are_unchanged() -> None:
    node = a_node()
    node["metadata"]["labels"] = {"kubernetes.io/arch": "arm64"}
    assert missing_labels(node) == {
        "kubernetes.io/hostname": "n1",
        "kubernetes.io/os": "linux",
    }


@pytest.mark.parametrize(("value", "expected"), [("off", False), ("Off", False), ("on", True)])
def test_an_annotation_stops_a_kubelet(value: str, *, expected: bool) -> None:
    node = a_node()
    node["metadata"]["annotations"] = {"kubesched.dev/heartbeat": value}
    assert is_alive(node) is expected


def test_a_lease_is_owned_by_its_node() -> None:
    lease = lease_of(a_node(), NOW_S, 40)
    assert lease["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}
    ]
    assert lease["spec"] == {
        "holderIdentity": "n1",
        "leaseDurationSeconds": 40,
        "renewTime": "2027-01-15T08:00:00.000000Z",
    }


@pytest.mark.parametrize(
    ("nodes", "speed", "expected_s"),
    [
        pytest.param(3, 1.0, 10.0, id="as often as a real one"),
        pytest.param(250, 1.0, 25.0, id="more seldom for many"),
        pytest.param(5000, 1.0, 30.0, id="often enough to be alive"),
        pytest.param(3, 20.0, 0.5, id="faster with a higher speed"),
    ],
)
def test_heartbeats(nodes: int, speed: float, expected_s: float) -> None:
    assert KubeletSettings(speed=speed).heartbeat_every_s(nodes) == expected_s
