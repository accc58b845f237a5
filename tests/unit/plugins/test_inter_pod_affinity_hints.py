"""Events that may help a pod that InterPodAffinity rejected."""

from typing import Any

import pytest

from kubesched.config.types import InterPodAffinityArgs
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.plugins.growing_cluster import GrowingCluster, Wire, node, pod

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.QUEUE_SKIP
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FAULTY = {"matchExpressions": [{"key": "app", "operator": "Near"}]}


def term(key: str = "zone", **more: Any) -> Wire:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "foo"}}, **more}


def near(*terms: Wire) -> PodInfo:
    return pod("incoming", {"app": "foo"}, affinity={"podAffinity": {REQUIRED: list(terms)}})


def far(*terms: Wire) -> PodInfo:
    return pod("incoming", {"app": "foo"}, affinity={"podAntiAffinity": {REQUIRED: list(terms)}})


def other(app: str = "foo", **more: Any) -> PodInfo:
    return pod("other", {"app": app}, **{"at": "n", **more})


def hint(index: int, incoming_pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    plugin = InterPodAffinity(InterPodAffinityArgs(), GrowingCluster().handle)
    function = plugin.events_to_register()[index].hint
    assert function is not None
    return function(incoming_pod, old, new)


def test_the_events() -> None:
    plugin = InterPodAffinity(InterPodAffinityArgs(), GrowingCluster().handle)
    pod_actions = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
    node_actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    assert [registration.event for registration in plugin.events_to_register()] == [
        ClusterEvent(EventResource.POD, pod_actions),
        ClusterEvent(EventResource.NODE, node_actions),
    ]


@pytest.mark.parametrize(
    ("incoming_pod", "old", "new", "expected"),
    [
        pytest.param(
            near(term()), near(term()), near(term()), QUEUE, id="the pod's own labels changed"
        ),
        pytest.param(near(term()), None, other(at=""), SKIP, id="a pod without a node came"),
        pytest.param(
            near(term()), None, other(at="", nominated="n"), QUEUE, id="a nominated pod counts"
        ),
        pytest.param(near(term()), None, other(), QUEUE, id="a pod came that matches the affinity"),
        pytest.param(near(term()), None, other("bar"), SKIP, id="a pod came that does not match"),
        pytest.param(
            near(term(), term(labelSelector={"matchLabels": {"x": "y"}})),
            None,
            other(),
            SKIP,
            id="a pod came that matches one term of two",
        ),
        pytest.param(far(term()), None, other(), SKIP, id="a pod came, there is no affinity"),
        pytest.param(
            near(term()), other("bar"), other("foo"), QUEUE, id="a pod changed and matches now"
        ),
        pytest.param(
            near(term()), other("foo"), other("bar"), SKIP, id="a pod changed and no longer matches"
        ),
        pytest.param(
            far(term()), other("foo"), other("bar"), QUEUE, id="a pod changed and is harmless now"
        ),
        pytest.param(
            far(term()), other("bar"), other("foo"), SKIP, id="a pod changed and conflicts now"
        ),
        pytest.param(
            near(term()), other("bar", at=""), other("foo"), SKIP, id="the old pod had no node"
        ),
        pytest.param(far(term()), other(), None, QUEUE, id="a conflicting pod left"),
        pytest.param(far(term()), other("bar"), None, SKIP, id="a harmless pod left"),
        pytest.param(near(term()), other(), None, SKIP, id="a matching pod left"),
        pytest.param(
            pod("incoming", {"app": "foo"}),
            other("bar", affinity={"podAntiAffinity": {REQUIRED: [term()]}}),
            None,
            QUEUE,
            id="a pod left that kept this one away",
        ),
        pytest.param(
            pod("incoming", {"app": "foo"}),
            other("bar", namespace="x", affinity={"podAntiAffinity": {REQUIRED: [term()]}}),
            None,
            SKIP,
            id="a pod left whose terms mean another namespace",
        ),
        pytest.param(
            near(term(labelSelector=FAULTY)), None, other("bar"), QUEUE, id="own terms do not parse"
        ),
        pytest.param(
            far(term(labelSelector=FAULTY)), None, other("bar"), QUEUE, id="nor do own anti-terms"
        ),
        pytest.param(
            near(term()),
            other("bar", affinity={"podAntiAffinity": {REQUIRED: [term(labelSelector=FAULTY)]}}),
            None,
            QUEUE,
            id="nor do those of the pod that left",
        ),
    ],
)
def test_after_a_pod_changed(
    incoming_pod: PodInfo, old: PodInfo | None, new: PodInfo | None, expected: QueueingHint
) -> None:
    assert hint(0, incoming_pod, old, new) == expected


@pytest.mark.parametrize(
    ("incoming_pod", "old", "new", "expected"),
    [
        pytest.param(near(term()), None, {"zone": "a"}, QUEUE, id="a node with the key came"),
        pytest.param(near(term()), None, {"x": "a"}, SKIP, id="a node without the key came"),
        pytest.param(near(term()), {}, {"zone": "a"}, QUEUE, id="the key came"),
        pytest.param(near(term()), {"zone": "a"}, {"zone": "b"}, QUEUE, id="the value changed"),
        pytest.param(near(term()), {"zone": "a"}, {}, SKIP, id="the key went"),
        pytest.param(near(term()), {"zone": "a"}, {"zone": "a"}, SKIP, id="nothing changed"),
        pytest.param(far(term()), None, {}, QUEUE, id="anti-affinity: any new node"),
        pytest.param(far(term()), {"zone": "a"}, {}, QUEUE, id="anti-affinity: the key went"),
        pytest.param(
            far(term()), {"zone": "a"}, {"zone": "b"}, QUEUE, id="anti-affinity: the value changed"
        ),
        pytest.param(far(term()), {}, {"zone": "a"}, SKIP, id="anti-affinity: the key came"),
        pytest.param(pod("incoming"), None, {"zone": "a"}, SKIP, id="no terms at all"),
        pytest.param(near(term(labelSelector=FAULTY)), {}, {}, QUEUE, id="own terms do not parse"),
        pytest.param(far(term(labelSelector=FAULTY)), {}, {}, QUEUE, id="nor do own anti-terms"),
    ],
)
def test_after_a_node_changed(
    incoming_pod: PodInfo,
    old: dict[str, str] | None,
    new: dict[str, str],
    expected: QueueingHint,
) -> None:
    before = None if old is None else node("n", old)
    assert hint(1, incoming_pod, before, node("n", new)) == expected
