"""Events that may help a pod that PodTopologySpread rejected."""

from typing import Any

import pytest

from kubesched.config.types import PodTopologySpreadArgs
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.plugins.pod_topology_spread.plugin import PodTopologySpread
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.plugins.growing_cluster import GrowingCluster, Wire, a_service, node, pod

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP
FAULTY = {"matchExpressions": [{"key": "app", "operator": "Near"}]}


def hard(key: str = "zone", **more: Any) -> Wire:
    wire = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {**wire, "labelSelector": {"matchLabels": {"app": "foo"}}, **more}


def incoming(*constraints: Wire, labels: dict[str, str] | None = None, **more: Any) -> PodInfo:
    own = {"app": "foo"} if labels is None else labels
    return pod("incoming", own, topologySpreadConstraints=list(constraints), **more)


def other(app: str = "foo", **more: Any) -> PodInfo:
    return pod("other", {"app": app}, **{"at": "n", **more})


def plugin(**args: Any) -> PodTopologySpread:
    return PodTopologySpread(PodTopologySpreadArgs(**args), GrowingCluster().handle)


def hint(index: int, incoming_pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    function = plugin().events_to_register()[index].hint
    assert function is not None
    return function(incoming_pod, old, new)


def test_the_events() -> None:
    pod_actions = (
        ActionType.ADD
        | ActionType.UPDATE_POD_LABEL
        | ActionType.UPDATE_POD_TOLERATION
        | ActionType.DELETE
    )
    node_actions = (
        ActionType.ADD
        | ActionType.DELETE
        | ActionType.UPDATE_NODE_LABEL
        | ActionType.UPDATE_NODE_TAINT
    )
    assert [registration.event for registration in plugin().events_to_register()] == [
        ClusterEvent(EventResource.POD, pod_actions),
        ClusterEvent(EventResource.NODE, node_actions),
    ]


TOLERANT = [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("incoming_pod", "old", "new", "expected"),
    [
        pytest.param(incoming(hard()), None, other(), QUEUE, id="a matching pod came"),
        pytest.param(incoming(hard()), None, other("bar"), SKIP, id="another pod came"),
        pytest.param(incoming(hard()), other(), None, QUEUE, id="a matching pod left"),
        pytest.param(incoming(hard()), other("bar"), None, SKIP, id="another pod left"),
        pytest.param(incoming(hard()), None, other(at=""), SKIP, id="a pod without a node came"),
        pytest.param(
            incoming(hard()), None, other(at="", nominated="n"), QUEUE, id="a nominated pod counts"
        ),
        pytest.param(
            incoming(hard()), None, other(namespace="x"), SKIP, id="a pod of another namespace"
        ),
        pytest.param(
            incoming(hard()), other("bar"), other("foo"), QUEUE, id="a pod matches from now on"
        ),
        pytest.param(
            incoming(hard()), other("foo"), other("bar"), QUEUE, id="a pod no longer matches"
        ),
        pytest.param(
            incoming(hard()), other("x"), other("y"), SKIP, id="a pod changed unrelated labels"
        ),
        pytest.param(incoming(hard()), other(), other(), SKIP, id="a pod kept its labels"),
        pytest.param(
            incoming(hard()),
            incoming(hard(), labels={}),
            incoming(hard()),
            QUEUE,
            id="the pod itself matches from now on",
        ),
        pytest.param(
            incoming(hard(nodeTaintsPolicy="Honor")),
            incoming(hard(nodeTaintsPolicy="Honor")),
            incoming(hard(nodeTaintsPolicy="Honor"), tolerations=TOLERANT),
            QUEUE,
            id="the pod itself tolerates more, and taints count",
        ),
        pytest.param(
            incoming(hard()),
            incoming(hard()),
            incoming(hard(), tolerations=TOLERANT),
            SKIP,
            id="the pod itself tolerates more, but taints do not count",
        ),
        pytest.param(
            incoming(hard(nodeTaintsPolicy="Honor")),
            other(),
            other(tolerations=TOLERANT),
            SKIP,
            id="another pod tolerates more",
        ),
        pytest.param(
            incoming(hard(labelSelector=FAULTY)), None, other("bar"), QUEUE, id="it does not parse"
        ),
    ],
)
def test_after_a_pod_changed(
    incoming_pod: PodInfo, old: PodInfo | None, new: PodInfo | None, expected: QueueingHint
) -> None:
    assert hint(0, incoming_pod, old, new) == expected


def tainted(labels: dict[str, str], **taint: str) -> NodeInfo:
    return node("n", labels, taints=[{"key": "k", "effect": "NoSchedule", **taint}])


ZONED = {"zone": "a", "host": "n"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, node("n", ZONED), QUEUE, id="a node with all keys came"),
        pytest.param(None, node("n", {"zone": "a"}), SKIP, id="a node without one of them came"),
        pytest.param(node("n", ZONED), None, QUEUE, id="a node with all keys went"),
        pytest.param(node("n", {"zone": "a"}), None, SKIP, id="a node without one of them went"),
        pytest.param(node("n", {"zone": "a"}), node("n", ZONED), QUEUE, id="a key came"),
        pytest.param(node("n", ZONED), node("n", {"zone": "a"}), QUEUE, id="a key went"),
        pytest.param(
            node("n", ZONED), node("n", {**ZONED, "zone": "b"}), QUEUE, id="a value changed"
        ),
        pytest.param(
            node("n", ZONED), node("n", {**ZONED, "x": "y"}), SKIP, id="another label changed"
        ),
        pytest.param(
            node("n", {"zone": "a"}),
            node("n", {"zone": "b"}),
            SKIP,
            id="a value changed on a node that lacks another key",
        ),
        pytest.param(node("n", ZONED), tainted(ZONED), QUEUE, id="a taint came"),
        pytest.param(tainted(ZONED), tainted(ZONED), SKIP, id="the taints are equal"),
        pytest.param(
            tainted(ZONED, timeAdded="2024-01-01T00:00:00Z"),
            tainted(ZONED, timeAdded="2024-01-01T00:00:01Z"),
            QUEUE,
            id="the time of a taint changed",
        ),
        pytest.param(
            node("n", {"zone": "a"}),
            tainted({"zone": "a"}),
            SKIP,
            id="a taint came to a node that lacks a key",
        ),
    ],
)
def test_after_a_node_changed(
    old: NodeInfo | None, new: NodeInfo | None, expected: QueueingHint
) -> None:
    assert hint(1, incoming(hard("zone"), hard("host")), old, new) == expected


def test_an_invalid_selector_requeues_the_pod_after_any_node_event() -> None:
    incoming_pod = incoming(hard(labelSelector=FAULTY))
    assert hint(1, incoming_pod, node("n", {}), node("n", {})) == QUEUE


def test_hints_read_the_services_of_the_handles_snapshot() -> None:
    cluster = GrowingCluster(a_service("front", {"app": "foo"}))
    args = PodTopologySpreadArgs(
        defaulting_type="List",
        default_constraints=incoming(hard(labelSelector=None)).shape.spread_constraints,
    )
    function = PodTopologySpread(args, cluster.handle).events_to_register()[0].hint
    assert function is not None
    assert function(incoming(), None, other("foo")) == QUEUE
    assert function(incoming(), None, other("bar")) == SKIP
