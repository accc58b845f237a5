"""The cluster events of an update of a pod or a node."""

from typing import Any

import pytest

from kubesched.framework.object_changes import (
    node_scheduling_property_changes,
    pod_scheduling_property_changes,
)
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_node, a_pod

TOLERATION = {"key": "a", "operator": "Exists"}
CLAIMS = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "made"}]}
EXTENDED = {"extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": "made"}}


def pod_labels(old: Any, new: Any) -> list[str]:
    return [event.label for event in pod_scheduling_property_changes(old, new)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {}, ["UnschedulablePodUpdate"], id="no relevant property"),
        pytest.param(
            {"labels": {"a": "1"}},
            {"labels": {"a": "2"}},
            ["UnschedulablePodUpdatePodLabel"],
            id="a label",
        ),
        pytest.param(
            {"requests": {"cpu": "2"}},
            {"requests": {"cpu": "1"}},
            ["UnschedulablePodUpdatePodScaleDown"],
            id="a smaller request",
        ),
        pytest.param(
            {"requests": {"cpu": "1", "memory": "0"}},
            {"requests": {"cpu": "1"}},
            ["UnschedulablePodUpdatePodScaleDown"],
            id="a removed request, even of zero",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "2", "memory": "1Gi"}},
            ["UnschedulablePodUpdate"],
            id="larger requests",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}]},
            {},
            ["UnschedulablePodUpdatePodSchedulingGatesEliminated"],
            id="the last gate",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}, {"name": "b"}]},
            {"schedulingGates": [{"name": "b"}]},
            ["UnschedulablePodUpdate"],
            id="one of two gates",
        ),
        pytest.param(
            {},
            {"tolerations": [TOLERATION]},
            ["UnschedulablePodUpdatePodToleration"],
            id="a toleration",
        ),
        pytest.param(
            {"tolerations": [TOLERATION]},
            {"tolerations": [{**TOLERATION, "key": "b"}]},
            ["UnschedulablePodUpdate"],
            id="another toleration in its place",
        ),
        pytest.param(
            {},
            {"status": CLAIMS},
            ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
            id="a generated claim",
        ),
        pytest.param(
            {"status": EXTENDED},
            {},
            ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
            id="a removed claim of extended resources",
        ),
        pytest.param(
            {"status": CLAIMS}, {"status": CLAIMS}, ["UnschedulablePodUpdate"], id="the same claims"
        ),
        pytest.param(
            {"schedulingGates": [{"name": "a"}], "requests": {"cpu": "2"}},
            {"tolerations": [TOLERATION], "labels": {"a": "1"}, "status": CLAIMS},
            [
                "UnschedulablePodUpdatePodLabel",
                "UnschedulablePodUpdatePodScaleDown",
                "UnschedulablePodUpdatePodSchedulingGatesEliminated",
                "UnschedulablePodUpdatePodToleration",
                "UnschedulablePodUpdatePodGeneratedResourceClaim",
            ],
            id="all properties, in upstream's order",
        ),
    ],
)
def test_the_events_of_a_pending_pods_update(
    old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    assert pod_labels(a_pod(**old), a_pod(**new)) == expected


def bound(pod: PodInfo) -> BoundPod:
    return BoundPod(pod, pod.node_name, None)


def test_a_bound_pod_is_compared_by_its_kept_properties() -> None:
    old = bound(a_pod(nodeName="n", labels={"a": "1"}, requests={"cpu": "2"}))
    new = a_pod(nodeName="n", labels={"a": "2"}, requests={"cpu": "1"}, status=CLAIMS)
    assert pod_labels(old, new) == [
        "AssignedPodUpdatePodLabel",
        "AssignedPodUpdatePodScaleDown",
    ]
    assert pod_labels(
        old, bound(a_pod(nodeName="n", labels={"a": "1"}, requests={"cpu": "2"}))
    ) == ["AssignedPodUpdate"]


def test_resources_released_by_a_resize_count() -> None:
    def resized(cpu: str) -> PodInfo:
        resources = {"requests": {"cpu": cpu}}
        container = {"name": "main", "resources": resources, "allocatedResources": {"cpu": cpu}}
        return a_pod(nodeName="n", requests={"cpu": "1"}, status={"containerStatuses": [container]})

    assert pod_labels(resized("3"), resized("2")) == ["AssignedPodUpdatePodScaleDown"]


def node_labels(old: NodeInfo, new: NodeInfo) -> list[str]:
    return [event.label for event in node_scheduling_property_changes(old, new)]


def condition(status: str, beat: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": beat}]}


def taint(**more: str) -> dict[str, Any]:
    return {"taints": [{"key": "a", "effect": "NoSchedule", **more}]}


ROOM = {"cpu": "4", "pods": "10"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param(
            {"status": condition("True")},
            {"status": condition("True", "2026-01-01T00:05:00Z")},
            [],
            id="a heartbeat",
        ),
        pytest.param({"unschedulable": True}, {}, ["NodeUpdateNodeTaint"], id="uncordoned"),
        pytest.param({}, {"unschedulable": True}, [], id="cordoned"),
        pytest.param(
            {"unschedulable": True, **taint()},
            {},
            ["NodeUpdateNodeTaint", "NodeUpdateNodeTaint"],
            id="uncordoned and a taint gone",
        ),
        pytest.param(
            {"allocatable": ROOM},
            {"allocatable": {**ROOM, "cpu": "5"}},
            ["NodeUpdateNodeAllocatable"],
            id="more cpu",
        ),
        pytest.param(
            {"allocatable": ROOM},
            {"allocatable": {**ROOM, "cpu": "4000m"}},
            [],
            id="the same amount in other units",
        ),
        pytest.param(
            {"allocatable": ROOM},
            {"allocatable": {**ROOM, "pods": "9"}},
            ["NodeUpdateNodeAllocatable"],
            id="fewer pods",
        ),
        pytest.param(
            {"allocatable": ROOM},
            {"allocatable": {**ROOM, "example.com/gpu": "0"}},
            ["NodeUpdateNodeAllocatable"],
            id="a resource with amount zero",
        ),
        pytest.param({}, {"labels": {"a": "1"}}, ["NodeUpdateNodeLabel"], id="a label"),
        pytest.param({}, taint(), ["NodeUpdateNodeTaint"], id="a taint"),
        pytest.param(
            taint(timeAdded="2026-01-01T00:00:00Z"),
            taint(timeAdded="2026-01-01T00:00:01Z"),
            ["NodeUpdateNodeTaint"],
            id="the time of a taint",
        ),
        pytest.param(
            {"status": condition("True")},
            {"status": condition("False")},
            ["NodeUpdateNodeCondition"],
            id="a condition",
        ),
        pytest.param(
            {},
            {"metadata": {"annotations": {"a": "1"}}},
            ["NodeUpdateNodeAnnotation"],
            id="an annotation",
        ),
        pytest.param(
            {},
            {"status": {"declaredFeatures": ["A"]}},
            ["NodeUpdateNodeDeclaredFeature"],
            id="a feature",
        ),
        pytest.param(
            {"labels": {"a": "1"}, "allocatable": ROOM},
            {"allocatable": {"cpu": "8"}, **taint(), "status": condition("True")},
            [
                "NodeUpdateNodeAllocatable",
                "NodeUpdateNodeLabel",
                "NodeUpdateNodeTaint",
                "NodeUpdateNodeCondition",
            ],
            id="several, in upstream's order",
        ),
    ],
)
def test_the_events_of_a_nodes_update(
    old: dict[str, Any], new: dict[str, Any], expected: list[str]
) -> None:
    assert node_labels(a_node(**old), a_node(**new)) == expected
