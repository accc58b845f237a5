"""Pods of one template share one compiled shape."""

import weakref
from typing import Any

import pytest

from kubesched.model.pod_info import PodShapes
from tests.unit.builders import a_pod, a_wire_pod

TOKEN: dict[str, Any] = {"projected": {"sources": []}}
TEMPLATE: dict[str, Any] = {"requests": {"cpu": "1"}, "labels": {"app": "web"}}


def shares_shape(first: dict[str, Any], second: dict[str, Any]) -> bool:
    shapes = PodShapes()
    one = shapes.pod_info(a_wire_pod("one", **first))
    other = shapes.pod_info(a_wire_pod("other", **second))
    assert len(shapes) == (1 if one.shape is other.shape else 2)
    return one.shape is other.shape


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
            {"labels": {"pod-index": "1"}}, {"labels": {"pod-index": "2"}}, id="labels of its own"
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
def test_pods_that_no_rule_tells_apart_share_a_shape(
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
            id="the name of an ephemeral volume, of which the claim's name is made",
        ),
        pytest.param({}, {"overhead": {"cpu": "1m"}}, id="overhead"),
        pytest.param(
            {},
            {
                "status": {
                    "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
                }
            },
            id="a resize under way",
        ),
    ],
)
def test_pods_that_a_rule_tells_apart_do_not(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert not shares_shape(first, second)


def naming(node: str, **term: Any) -> dict[str, Any]:
    """Return what sends a pod to a node by name, as DaemonSets do."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields, **term}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {**TEMPLATE, "affinity": affinity}


def test_pods_that_name_different_nodes_share_all_else() -> None:
    shapes = PodShapes()
    one = shapes.pod_info(a_wire_pod("one", **naming("n1"))).shape
    other = shapes.pod_info(a_wire_pod("other", **naming("n2"))).shape
    assert (one.named_node, other.named_node) == ("n1", "n2")
    assert one.base is other.base is shapes.pod_info(a_wire_pod("plain", **TEMPLATE)).shape
    assert one.base.required_node_affinity is None
    assert one.required_node_affinity != other.required_node_affinity
    assert one.requests is other.requests
    assert shapes.pod_info(a_wire_pod("again", **naming("n1"))).shape is one


def test_a_shape_that_names_a_node_goes_with_the_last_pod() -> None:
    shapes = PodShapes()
    pod = shapes.pod_info(a_wire_pod("one", **naming("n1")))
    gone = weakref.ref(pod.shape)
    del pod
    assert gone() is None
    assert len(shapes) == 1


def test_a_changed_shape_is_nobody_elses() -> None:
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
def test_who_asks_for_more_than_a_name_names_no_node(parts: dict[str, Any]) -> None:
    shape = PodShapes().pod_info(a_wire_pod("one", **parts)).shape
    assert (shape.named_node, shape.base) == ("", shape)


def test_host_ports_of_containers_and_sidecars_count_and_those_of_init_containers_do_not() -> None:
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
    found = [(p.ip, p.protocol, p.port) for p in pod.shape.host_ports]
    assert found == [("0.0.0.0", "TCP", 8080), ("0.0.0.0", "UDP", 53)]


def test_missing_parts_have_upstreams_defaults() -> None:
    pod = a_pod()
    assert pod.priority == 0
    assert pod.scheduler_name == "default-scheduler"
    assert pod.shape.preemption_policy == "PreemptLowerPriority"
    assert pod.start_s is None
    assert pod.controller is None


def test_the_whole_object_is_decoded_from_its_bytes_when_asked_for() -> None:
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


CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "a"}}
OTHER_CLAIM = {"name": "files", "persistentVolumeClaim": {"claimName": "b"}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"memory": "1Gi"}}, id="requests"),
        pytest.param({"labels": {"a": "b"}}, {}, id="labels, which are of no shape"),
        pytest.param({"volumes": [CLAIM]}, {"volumes": [OTHER_CLAIM]}, id="names of claims"),
    ],
)
def test_shapes_of_one_family(one: Any, other: Any) -> None:
    shapes = PodShapes()
    first, second = (shapes.shape_of(a_wire_pod(**parts)) for parts in (one, other))
    assert first.family is second.family


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"namespace": "other"}, id="namespace"),
        pytest.param({"image": "other:1"}, id="image"),
        pytest.param({"nodeSelector": {"a": "b"}}, id="node selector"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, id="tolerations"),
        pytest.param({"volumes": [CLAIM]}, id="a claim"),
        pytest.param({"preemptionPolicy": "Never"}, id="preemption policy"),
        pytest.param({"schedulerName": "other"}, id="scheduler name"),
        pytest.param(
            {"initContainers": [{"name": "first", "image": "app:1"}]}, id="an init container"
        ),
    ],
)
def test_shapes_of_another_family(parts: Any) -> None:
    shapes = PodShapes()
    plain, other = shapes.shape_of(a_wire_pod()), shapes.shape_of(a_wire_pod(**parts))
    assert plain.family is not other.family
