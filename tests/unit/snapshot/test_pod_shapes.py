"""Pods of one template share one compiled shape."""

import weakref
from typing import Any

import pytest

from kubesched.snapshot.pod_info import PodShapes
from tests.unit.builders import a_pod, a_wire_pod

TOKEN: dict[str, Any] = {"projected": {"sources": []}}
TEMPLATE: dict[str, Any] = {"requests": {"cpu": "1"}, "labels": {"app": "web"}}


def shares_shape(first: dict[str, Any], second: dict[str, Any]) -> bool:
    shapes = PodShapes()
    first_pod = shapes.pod_info(a_wire_pod("one", **first))
    second_pod = shapes.pod_info(a_wire_pod("other", **second))
    assert len(shapes) == (1 if first_pod.shape is second_pod.shape else 2)
    return first_pod.shape is second_pod.shape


def claim(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(TEMPLATE, TEMPLATE, id="the same content"),
        pytest.param(
            {"volumes": [{"name": "kube-api-access-x7x2k", **TOKEN}]},
            {"volumes": [{"name": "kube-api-access-9qpzt", **TOKEN}]},
            id="the service account's volume has a random name",
        ),
        pytest.param(
            {"volumes": [{"name": "a", **claim("data")}]},
            {"volumes": [{"name": "b", **claim("data")}]},
            id="a claim under another volume name",
        ),
        pytest.param(
            {"labels": {"pod-index": "1"}}, {"labels": {"pod-index": "2"}}, id="different labels"
        ),
        pytest.param({"priority": 1}, {"priority": 2}, id="priority is the pod's own"),
        pytest.param({"nodeName": "n1"}, {"nodeName": "n2"}, id="the node is the pod's own"),
        pytest.param(
            {"status": {"startTime": "2024-05-01T00:00:00Z"}},
            {"status": {"startTime": "2024-05-02T00:00:00Z"}},
            id="times are the pod's own",
        ),
    ],
)
def test_pods_with_equal_fields_for_rules_share_a_shape(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert shares_shape(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, id="requests"),
        pytest.param({"namespace": "a"}, {"namespace": "b"}, id="namespace"),
        pytest.param({"image": "app:1"}, {"image": "app:2"}, id="image"),
        pytest.param({}, {"nodeSelector": {"disk": "ssd"}}, id="node selector"),
        pytest.param({}, {"schedulerName": "other"}, id="scheduler name"),
        pytest.param({}, {"preemptionPolicy": "Never"}, id="preemption policy"),
        pytest.param({}, {"tolerations": [{"operator": "Exists"}]}, id="tolerations"),
        pytest.param(
            {"volumes": [{"name": "a", **claim("data-0")}]},
            {"volumes": [{"name": "a", **claim("data-1")}]},
            id="the claim",
        ),
        pytest.param(
            {"volumes": [{"name": "a", "ephemeral": {}}]},
            {"volumes": [{"name": "b", "ephemeral": {}}]},
            id="the name of an ephemeral volume, part of the claim's name",
        ),
        pytest.param({}, {"overhead": {"cpu": "1m"}}, id="overhead"),
        pytest.param(
            {},
            {
                "status": {
                    "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
                }
            },
            id="a resize in progress",
        ),
    ],
)
def test_pods_with_different_fields_for_rules_have_different_shapes(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert not shares_shape(first, second)


def naming(node: str, **term: Any) -> dict[str, Any]:
    """Return the affinity that names a node, as pods of DaemonSets have it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields, **term}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {**TEMPLATE, "affinity": affinity}


def test_pods_with_different_named_nodes_share_the_base_shape() -> None:
    shapes = PodShapes()
    first = shapes.pod_info(a_wire_pod("one", **naming("n1"))).shape
    second = shapes.pod_info(a_wire_pod("other", **naming("n2"))).shape
    assert (first.named_node, second.named_node) == ("n1", "n2")
    assert first.base is second.base is shapes.pod_info(a_wire_pod("plain", **TEMPLATE)).shape
    assert first.base.required_node_affinity is None
    assert first.required_node_affinity != second.required_node_affinity
    assert first.requests is second.requests
    assert shapes.pod_info(a_wire_pod("again", **naming("n1"))).shape is first


def test_a_shape_with_a_named_node_is_dropped_with_its_last_pod() -> None:
    shapes = PodShapes()
    pod = shapes.pod_info(a_wire_pod("one", **naming("n1")))
    dropped = weakref.ref(pod.shape)
    del pod
    assert dropped() is None
    assert len(shapes) == 1


def test_a_changed_shape_is_not_shared() -> None:
    shape = PodShapes().pod_info(a_wire_pod("one", **naming("n1"))).shape
    changed = shape.changed(host_ports=())
    assert (changed.named_node, changed.base) == ("", changed)
    assert changed.required_node_affinity is shape.required_node_affinity


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(TEMPLATE, id="no affinity"),
        pytest.param(naming(""), id="no name"),
        pytest.param(
            naming("n1", matchExpressions=[{"key": "a", "operator": "Exists"}]), id="labels too"
        ),
    ],
)
def test_affinity_other_than_one_name_has_no_named_node(parts: dict[str, Any]) -> None:
    shape = PodShapes().pod_info(a_wire_pod("one", **parts)).shape
    assert (shape.named_node, shape.base) == ("", shape)


def test_host_ports_of_containers_and_sidecars_count_but_not_of_init_containers() -> None:
    def container(name: str, port: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"name": name, "ports": [port], **more}

    pod = a_pod(
        containers=[
            container("a", {"containerPort": 80, "hostPort": 8080}),
            container("b", {"containerPort": 81}),
        ],
        initContainers=[
            container("s", {"hostPort": 53, "protocol": "UDP"}, restartPolicy="Always"),
            container("i", {"hostPort": 9, "hostIP": "10.0.0.1"}),
        ],
    )
    ports = [(p.ip, p.protocol, p.port) for p in pod.shape.host_ports]
    assert ports == [("0.0.0.0", "TCP", 8080), ("0.0.0.0", "UDP", 53)]


def test_missing_fields_have_upstreams_defaults() -> None:
    pod = a_pod()
    assert pod.priority == 0
    assert pod.scheduler_name == "default-scheduler"
    assert pod.shape.preemption_policy == "PreemptLowerPriority"
    assert pod.start_s is None
    assert pod.controller is None


def test_the_object_is_decoded_at_its_first_use() -> None:
    wire = a_wire_pod(requests={"cpu": "1"}, terminationGracePeriodSeconds=7)
    raw = a_pod(requests={"cpu": "1"}, terminationGracePeriodSeconds=7).raw
    pod = PodShapes().pod_info(wire, raw)
    assert pod.raw is raw
    assert pod.spec.termination_grace_period_seconds == 7


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        pytest.param({"status": "True", "reason": "PreemptionByScheduler"}, True, id="ours"),
        pytest.param({"status": "True", "reason": "EvictionByEvictionAPI"}, False, id="drained"),
        pytest.param({"status": "False", "reason": "PreemptionByScheduler"}, False, id="false"),
    ],
)
def test_a_pod_evicted_by_a_scheduler_is_a_disruption_target(
    condition: dict[str, str], expected: bool
) -> None:
    status = {"conditions": [{"type": "DisruptionTarget", **condition}]}
    assert a_pod(status=status).disruption_target is expected
