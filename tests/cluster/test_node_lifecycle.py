"""Cordoned, tainted, unhealthy and unreachable nodes, and their pods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kubesched.cluster.playground.in_process import Playground, playground
from tests.cluster.conftest import World

Document = dict[str, Any]

_PREFIX = "node.kubernetes.io/"
_HEARTBEAT = "kubesched.dev/heartbeat"
_TIME = "2026-01-01T00:00:00Z"
_LATER = "2026-01-01T00:00:01Z"


# -- nodes of a test's own ------------------------------------------------------------------------


def _node(name: str, *, is_dead: bool = False, ready: str = "True") -> Document:
    """Return a node; a dead one has no kubelet and only these conditions."""
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Test",
        "message": "set by a test",
        "lastHeartbeatTime": _TIME,
        "lastTransitionTime": _TIME,
    }
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "10Gi"}
    status: Document = {"capacity": amounts, "allocatable": amounts}
    if is_dead:
        status["conditions"] = [condition]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_HEARTBEAT: "off" if is_dead else "on"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        # Only this test puts pods here.
        "spec": {"taints": [{"key": "test", "effect": "NoSchedule"}]},
        "status": status,
    }


class _Nodes:
    """Reads and changes nodes on the API server."""

    def __init__(self, cluster: Playground) -> None:
        self._cluster = cluster

    def get(self, name: str) -> Document:
        found: Document = self._cluster.api.get(f"/api/v1/nodes/{name}").must(200).json
        return found

    def taints(self, name: str) -> set[str]:
        """Return the taints of the test in kubectl's form, without their prefix."""
        taints = self.get(name)["spec"].get("taints") or []
        names = [f"{taint['key']}:{taint['effect']}" for taint in taints]
        return {one.removeprefix(_PREFIX) for one in names if one.startswith(_PREFIX)}

    def ready(self, name: str) -> str:
        conditions = self.get(name)["status"].get("conditions") or []
        return next(
            (condition["status"] for condition in conditions if condition["type"] == "Ready"), ""
        )

    def patch(self, name: str, body: Document) -> None:
        self._cluster.api.patch(f"/api/v1/nodes/{name}", body, MERGE_PATCH).must(200)

    def say(self, name: str, type_: str, status: str) -> None:
        """Set a condition of a node, as its kubelet would."""
        condition = {"type": type_, "status": status, "lastHeartbeatTime": _LATER}
        body = {"status": {"conditions": [condition]}}
        path = f"/api/v1/nodes/{name}/status"
        self._cluster.api.patch(path, body, STRATEGIC_MERGE_PATCH).must(200)

    @contextmanager
    def create(self, document: Document) -> Iterator[str]:
        name = document["metadata"]["name"]
        self._cluster.api.post("/api/v1/nodes", document).must(201)
        try:
            yield name
        finally:
            self._cluster.api.delete(f"/api/v1/nodes/{name}").must(200, 404)


@pytest.fixture
def nodes(world: World) -> _Nodes:
    return _Nodes(world.cluster)


@pytest.fixture
def node(world: World, nodes: _Nodes) -> Iterator[str]:
    """Return a node with a kubelet, ready."""
    with nodes.create(_node(f"live-{world.namespace}")) as name:
        world.until(lambda: nodes.ready(name) == "True", f"{name} is ready")
        world.until(lambda: not nodes.taints(name), f"{name} has no taints of ours")
        yield name


@pytest.fixture
def dead_node(world: World, nodes: _Nodes) -> Iterator[str]:
    """Return a ready node without a kubelet: its pods do not change."""
    with nodes.create(_node(f"dead-{world.namespace}", is_dead=True)) as name:
        world.until(lambda: not nodes.taints(name), f"{name} has no taints of ours")
        yield name


def _pod(name: str, node: str, *tolerations: Document) -> Document:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.9"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [container], "tolerations": list(tolerations)},
    }


def _exists(key: str = "", seconds: int | None = None) -> Document:
    found: Document = {"operator": "Exists", "effect": "NoExecute"}
    if key:
        found["key"] = key
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


def _is_going(world: World, name: str) -> bool:
    pod = world.get(world.path("pods", name))
    return not pod or "deletionTimestamp" in pod["metadata"]


def _condition(pod: Document, type_: str) -> Document:
    conditions = pod.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == type_), {})


# -- taints of nodes ------------------------------------------------------------------------------


@pytest.mark.programs
def test_a_cordoned_node_is_tainted_until_it_is_uncordoned(
    world: World, nodes: _Nodes, node: str
) -> None:
    world.kubectl("cordon", node)
    world.until(lambda: nodes.taints(node) == {"unschedulable:NoSchedule"}, "it is tainted")
    taints = nodes.get(node)["spec"]["taints"]
    assert {"key": "test", "effect": "NoSchedule"} in taints, "the test's own taint stays"
    assert all(taint.get("timeAdded") for taint in taints if taint["key"] != "test")
    assert "Ready,SchedulingDisabled" in world.kubectl("get", "node", node)
    world.kubectl("uncordon", node)
    world.until(lambda: not nodes.taints(node), "it is not tainted any more")


def test_conditions_of_a_node_become_taints(world: World, nodes: _Nodes, dead_node: str) -> None:
    nodes.say(dead_node, "MemoryPressure", "True")
    nodes.say(dead_node, "DiskPressure", "True")
    expected = {"memory-pressure:NoSchedule", "disk-pressure:NoSchedule"}
    world.until(lambda: nodes.taints(dead_node) == expected, "pressure is a taint")
    nodes.say(dead_node, "MemoryPressure", "False")
    nodes.say(dead_node, "DiskPressure", "Unknown")
    world.until(lambda: not nodes.taints(dead_node), "the taints go with their conditions")


def test_a_node_that_is_not_ready_takes_and_keeps_no_pods(
    world: World, nodes: _Nodes, dead_node: str
) -> None:
    nodes.say(dead_node, "Ready", "False")
    expected = {"not-ready:NoSchedule", "not-ready:NoExecute"}
    world.until(lambda: nodes.taints(dead_node) == expected, "it has the taints of an unready node")
    nodes.say(dead_node, "Ready", "True")
    world.until(lambda: not nodes.taints(dead_node), "the taints are gone")


def test_beta_labels_are_maintained(world: World, nodes: _Nodes, dead_node: str) -> None:
    def labels() -> Document:
        found: Document = nodes.get(dead_node)["metadata"]["labels"]
        return found

    world.until(lambda: labels().get("beta.kubernetes.io/os") == "linux", "the old name is there")
    nodes.patch(dead_node, {"metadata": {"labels": {"beta.kubernetes.io/os": "plan9"}}})
    world.until(lambda: labels().get("beta.kubernetes.io/os") == "linux", "the new name wins")


def test_a_node_is_registered_with_an_event(world: World, node: str) -> None:
    def notes() -> list[str]:
        events = world.items("/api/v1/namespaces/default/events")
        return [
            event["message"]
            for event in events
            if event["involvedObject"] | {"kind": "Node", "name": node} == event["involvedObject"]
            and event["reason"] == "RegisteredNode"
        ]

    world.until(notes, "there is an event")
    assert notes() == [f"Node {node} event: Registered Node {node} in Controller"]


# -- pods of tainted nodes ------------------------------------------------------------------------


@pytest.mark.programs
def test_pods_are_evicted_unless_they_tolerate_the_taint(world: World, dead_node: str) -> None:
    world.create(
        _pod("goes", dead_node),
        _pod("stays", dead_node, _exists("maintenance")),
        _pod("tolerates-all", dead_node, _exists()),
        _pod("goes-later", dead_node, _exists("maintenance", 1)),
    )
    world.kubectl("taint", "nodes", dead_node, "maintenance=now:NoExecute")
    world.until(lambda: _is_going(world, "goes"), "the pod that does not tolerate it goes")
    world.until(lambda: _is_going(world, "goes-later"), "the other goes after its time")
    assert not _is_going(world, "stays")
    assert not _is_going(world, "tolerates-all")
    target = _condition(world.get(world.path("pods", "goes")), "DisruptionTarget")
    assert (target["status"], target["reason"], target["message"]) == (
        "True",
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )
    world.until(lambda: "TaintManagerEviction" in world.reasons("goes"), "it has an event")


@pytest.mark.programs
def test_other_taints_leave_running_pods_alone(world: World, nodes: _Nodes, dead_node: str) -> None:
    world.create(_pod("first", dead_node))
    world.kubectl("taint", "nodes", dead_node, "a=b:NoSchedule", "c=d:PreferNoSchedule")
    world.create(_pod("second", dead_node))
    world.kubectl("taint", "nodes", dead_node, "e=f:NoExecute")
    world.create(_pod("third", dead_node, _exists("e")))
    world.until(lambda: _is_going(world, "first") and _is_going(world, "second"), "two are going")
    assert not _is_going(world, "third")


@pytest.mark.programs
def test_a_taint_removed_in_time_evicts_no_pod(world: World, dead_node: str) -> None:
    world.create(_pod("lucky", dead_node, _exists("maintenance", 3600)))
    world.kubectl("taint", "nodes", dead_node, "maintenance=now:NoExecute")
    world.create(_pod("marker", dead_node))
    world.until(lambda: _is_going(world, "marker"), "the taint is known")
    world.kubectl("taint", "nodes", dead_node, "maintenance-")
    world.until(lambda: "TaintManagerEviction" in world.reasons("lucky"), "it has an event")
    notes = [
        one["message"]
        for one in world.items(world.path("events"))
        if one["involvedObject"]["name"] == "lucky"
    ]
    assert f"Cancelling deletion of Pod {world.namespace}/lucky" in notes
    assert not _is_going(world, "lucky")


@pytest.mark.programs
def test_a_pod_bound_to_a_tainted_node_is_evicted(world: World, node: str) -> None:
    world.kubectl("taint", "nodes", node, "maintenance=now:NoExecute")
    world.create(_pod("late", node))
    world.until(lambda: not world.get(world.path("pods", "late")), "it is gone")


@pytest.mark.programs
def test_drain_moves_pods_to_other_nodes(world: World) -> None:
    labels = {"app": "web"}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.9"}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )
    path = world.path("deployments", "web", group="apps/v1")

    def is_up() -> bool:
        return bool(world.get(path).get("status", {}).get("availableReplicas") == 3)

    world.until(is_up, "three pods are available")
    drained = world.pods("app=web")[0]["spec"]["nodeName"]
    try:
        output = world.kubectl("drain", drained, "--pod-selector=app=web", "--timeout=60s")
        assert f"node/{drained} drained" in output

        def have_moved() -> bool:
            places = [pod["spec"].get("nodeName") for pod in world.pods("app=web")]
            return is_up() and len(places) == 3 and drained not in places

        world.until(have_moved, "all three are elsewhere")
    finally:
        world.kubectl("uncordon", drained)


# -- nodes without heartbeats ---------------------------------------------------------------------


@contextmanager
def _impatient(request: pytest.FixtureRequest, controllers: str) -> Iterator[Playground]:
    """Run a cluster with the shortest grace period that its kubelets' heartbeats allow."""
    own = controllers == "own"
    with playground(
        nodes=3,
        scheduler=False,
        speed=20.0 if own else 1.0,
        node_grace_s=2.5 if own else 12.0,
        server=request.config.getoption("--server"),
        controllers="own" if own else "real",
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def impatient(request: pytest.FixtureRequest) -> Iterator[Playground]:
    with _impatient(request, request.config.getoption("--controllers")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def our_impatient(request: pytest.FixtureRequest) -> Iterator[Playground]:
    """Return a cluster with our kubelets: KWOK cannot stop the heartbeats of a node."""
    if request.config.getoption("--controllers") == "own":
        yield request.getfixturevalue("impatient")
        return
    with _impatient(request, "own") as cluster:
        yield cluster


def _put_pods(cluster: Playground, node: str) -> None:
    """Put two pods on a node without a kubelet, as if one had started them."""
    unreachable = f"{_PREFIX}unreachable"
    pods = (_pod("stays", node, _exists()), _pod("goes", node, _exists(unreachable, 1)))
    cluster.create(*pods)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for pod in pods:
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
        cluster.api.patch(path, {"status": status}, MERGE_PATCH).must(200)


def _ready_of(cluster: Playground, pod: str) -> str:
    return str(_condition(cluster.pod(f"default/{pod}"), "Ready").get("status"))


@pytest.mark.programs
def test_a_silent_node_is_unknown_and_loses_its_pods(impatient: Playground) -> None:
    nodes = _Nodes(impatient)
    with nodes.create(_node("silent", is_dead=True)) as name:
        _put_pods(impatient, name)
        impatient.until(lambda: nodes.ready(name) == "Unknown", "it is Unknown")
        ready = _condition(nodes.get(name), "Ready")
        assert ready["reason"] == "NodeStatusUnknown"
        assert ready["message"] == "Kubelet stopped posting node status."
        assert "NotReady" in impatient.kubectl("get", "node", name)
        expected = {"unreachable:NoSchedule", "unreachable:NoExecute"}
        impatient.until(lambda: nodes.taints(name) == expected, "it has the taints of a lost node")
        impatient.until(lambda: _ready_of(impatient, "stays") == "False", "nor are its pods ready")
        impatient.until(
            lambda: "deletionTimestamp" in impatient.pod("default/goes")["metadata"],
            "the pod that waits no longer goes",
        )
        assert "deletionTimestamp" not in impatient.pod("default/stays")["metadata"]
        assert all(nodes.ready(other) == "True" for other in impatient.nodes)
        assert not any(nodes.taints(other) for other in impatient.nodes)
        nodes.say(name, "Ready", "True")
        impatient.until(lambda: not nodes.taints(name), "the taints go when it is back")
        for pod in ("goes", "stays"):
            path = f"/api/v1/namespaces/default/pods/{pod}"
            now = {"gracePeriodSeconds": 0}
            impatient.api.delete(path, now).must(200)


@pytest.mark.programs
def test_the_heartbeat_annotation_stops_and_resumes_a_node(our_impatient: Playground) -> None:
    cluster, nodes = our_impatient, _Nodes(our_impatient)
    with nodes.create(_node("mortal")) as name:
        cluster.until(lambda: nodes.ready(name) == "True", "it is ready")
        cluster.create(
            _pod("stays", name, _exists()), _pod("goes", name, _exists(f"{_PREFIX}unreachable", 1))
        )
        for pod in ("stays", "goes"):
            cluster.until_running(f"default/{pod}")
        cluster.kubectl("annotate", "node", name, f"{_HEARTBEAT}=off", "--overwrite")
        cluster.until(lambda: nodes.ready(name) == "Unknown", "it is Unknown")
        cluster.until(lambda: _ready_of(cluster, "stays") == "False", "its pods are not ready")
        cluster.until(
            lambda: "deletionTimestamp" in cluster.pod("default/goes")["metadata"],
            "the pod is marked for deletion, and stays Terminating",
        )
        cluster.kubectl("annotate", "node", name, f"{_HEARTBEAT}-")
        cluster.until(lambda: nodes.ready(name) == "True", "its kubelet is back")
        cluster.until(lambda: not nodes.taints(name), "its taints are gone")
        cluster.until(lambda: not cluster.pod("default/goes"), "the kubelet ends what has to go")
        cluster.until(lambda: _ready_of(cluster, "stays") == "True", "what stayed is ready again")
        cluster.api.delete("/api/v1/namespaces/default/pods/stays").must(200)


def test_a_node_without_any_heartbeat_becomes_unknown(impatient: Playground) -> None:
    nodes = _Nodes(impatient)
    document = _node("mute", is_dead=True)
    del document["status"]["conditions"]
    with nodes.create(document) as name:
        impatient.until(lambda: nodes.ready(name) == "Unknown", "it is unknown", 50.0)
        conditions = {
            condition["type"]: condition["reason"]
            for condition in nodes.get(name)["status"]["conditions"]
        }
        never = "NodeStatusNeverUpdated"
        assert conditions == dict.fromkeys(
            ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), never
        )
