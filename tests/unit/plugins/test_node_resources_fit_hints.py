"""Events that may make room for a pod that NodeResourcesFit rejected."""

from typing import Any

import pytest

from kubesched.config.types import NodeResourcesFitArgs
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.plugins.node_resources.fit import NodeResourcesFit
from tests.unit.plugins.builders import a_node, a_pod, made

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP
GPU = "example.com/gpu"
PENDING = a_pod(requests={"cpu": "2", GPU: "1"})
POD_EVENT, NODE_EVENT, CLASS_EVENT = made(
    NodeResourcesFit, NodeResourcesFitArgs()
).events_to_register()


def test_events_are_upstreams() -> None:
    assert POD_EVENT.event.action == ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
    assert NODE_EVENT.event.action == ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
    assert CLASS_EVENT.event.resource == EventResource.DEVICE_CLASS


def other(cpu: str = "2", memory: str = "1Gi", **spec: Any) -> Any:
    return a_pod("other", requests={"cpu": cpu, "memory": memory}, **spec)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(other(nodeName="n"), None, QUEUE, id="a placed pod went"),
        pytest.param(
            other(status={"nominatedNodeName": "n"}), None, QUEUE, id="a nominated one went"
        ),
        pytest.param(other(), None, SKIP, id="a waiting one went"),
        pytest.param(PENDING, PENDING, QUEUE, id="the pod itself shrank"),
        pytest.param(
            other(nodeName="n"), other("1", nodeName="n"), QUEUE, id="another gave cpu back"
        ),
        pytest.param(
            other(nodeName="n"),
            other(memory="1Mi", nodeName="n"),
            SKIP,
            id="it gave back another resource",
        ),
        pytest.param(other(), other("1"), SKIP, id="a waiting one shrank"),
    ],
)
def test_hint_after_a_pod_event(old: Any, new: Any, expected: Any) -> None:
    assert POD_EVENT.hint(PENDING, old, new) is expected


def sized(cpu: str = "2", gpus: str = "1", pods: str = "10") -> Any:
    return a_node(allocatable={"cpu": cpu, GPU: gpus, "pods": pods})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, sized(), QUEUE, id="a node of the size came"),
        pytest.param(None, sized("1"), SKIP, id="one too small came"),
        pytest.param(None, sized(pods="0"), SKIP, id="one that takes no pods came"),
        pytest.param(sized(), sized("3"), QUEUE, id="cpu grew"),
        pytest.param(sized(gpus="0"), sized(), QUEUE, id="an extended resource grew"),
        pytest.param(sized(pods="1"), sized(), QUEUE, id="it takes more pods"),
        pytest.param(sized(), sized(), SKIP, id="nothing grew"),
        pytest.param(sized("1"), sized("3", gpus="0"), SKIP, id="it grew, and is still too small"),
        pytest.param(sized("5"), sized("3"), SKIP, id="it shrank"),
    ],
)
def test_hint_after_a_node_change(old: Any, new: Any, expected: Any) -> None:
    assert NODE_EVENT.hint(PENDING, old, new) is expected


def test_a_node_that_grew_in_something_else_does_not_help() -> None:
    def node(memory: str) -> Any:
        return a_node(allocatable={"cpu": "2", GPU: "1", "memory": memory, "pods": "9"})

    assert NODE_EVENT.hint(PENDING, node("1Gi"), node("2Gi")) is SKIP


def device_class(name: str, resource: str | None) -> dict[str, Any]:
    spec = {} if resource is None else {"extendedResourceName": resource}
    return {"metadata": {"name": name}, "spec": spec}


IMPLICIT = a_pod(requests={"deviceclass.resource.kubernetes.io/fast": "1"})


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(PENDING, None, device_class("c", GPU), QUEUE, id="a class for it came"),
        pytest.param(PENDING, None, device_class("c", None), SKIP, id="a class for nothing came"),
        pytest.param(PENDING, None, device_class("c", "a/b"), SKIP, id="a class for another came"),
        pytest.param(
            PENDING,
            device_class("c", None),
            device_class("c", GPU),
            QUEUE,
            id="it provides the resource now",
        ),
        pytest.param(
            PENDING, device_class("c", GPU), device_class("c", GPU), SKIP, id="it did so before"
        ),
        pytest.param(IMPLICIT, None, device_class("fast", None), QUEUE, id="by the class's name"),
        pytest.param(
            IMPLICIT,
            device_class("fast", "a/b"),
            device_class("fast", None),
            SKIP,
            id="not on update",
        ),
    ],
)
def test_hint_after_a_device_class_event(pod: Any, old: Any, new: Any, expected: Any) -> None:
    assert CLASS_EVENT.hint(pod, old, new) is expected
