"""Binding pods; the rejections are those of a v1.36.4 server."""

from typing import Any

import pytest

from tests.unit.cluster.apiserver.kinds.cluster import Cluster, a_pod

PODS = "/api/v1/namespaces/default/pods"
BINDINGS = "/api/v1/namespaces/default/bindings"


def a_binding(name: str, node: str = "n", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    labels = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "x": "y"}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "labels": labels}}
    made.make("/api/v1/nodes", node)
    made.make(PODS, a_pod())
    return made


def test_binding_sets_node_condition_and_metadata(cluster: Cluster) -> None:
    binding = a_binding("p", annotations={"a": "b"}, labels={"l": "m"})
    reply = cluster.request("POST", f"{PODS}/p/binding", binding)
    pod = cluster.request("GET", f"{PODS}/p").body

    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert pod["spec"]["nodeName"] == "n"
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert pod["metadata"]["labels"] == {
        "app": "p",
        "l": "m",
        "topology.kubernetes.io/zone": "z",
        "topology.kubernetes.io/region": "r",
    }
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert pod["metadata"]["generation"] == 1


@pytest.mark.parametrize("url", [f"{PODS}/p/binding", BINDINGS])
def test_second_binding_conflicts(cluster: Cluster, url: str) -> None:
    cluster.make(url, a_binding("p"))

    reply = cluster.request("POST", url, a_binding("p", "other"))

    assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    assert reply.body["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )
    assert reply.body["details"] == {"name": "p", "kind": "pods/binding"}


def test_dry_run_binds_nothing(cluster: Cluster) -> None:
    cluster.make(f"{PODS}/p/binding?dryRun=All", a_binding("p"))

    assert "nodeName" not in cluster.request("GET", f"{PODS}/p").body["spec"]


def test_gated_pod_is_not_bound(cluster: Cluster) -> None:
    cluster.make(PODS, a_pod("gated", schedulingGates=[{"name": "g"}]))

    reply = cluster.request("POST", f"{PODS}/gated/binding", a_binding("gated"))

    assert reply.body["message"] == (
        'Operation cannot be fulfilled on pods/binding "gated": '
        "pod gated has non-empty .spec.schedulingGates"
    )


def test_terminating_pod_is_not_bound(cluster: Cluster) -> None:
    cluster.make(f"{PODS}/p/binding", a_binding("p"))
    cluster.request("DELETE", f"{PODS}/p")

    reply = cluster.request("POST", f"{PODS}/p/binding", a_binding("p"))

    assert reply.body["message"].endswith("pod p is being deleted, cannot be assigned to a host")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        pytest.param(
            a_binding("other"),
            400,
            "name in URL does not match name in Binding object",
            id="names differ",
        ),
        pytest.param(
            {**a_binding("p"), "target": {}}, 500, "target.name: Required value", id="no target"
        ),
        pytest.param(
            {**a_binding("p"), "target": {"kind": "Pod"}},
            500,
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", '
            "target.name: Required value]",
            id="not a node",
        ),
    ],
)
def test_wrong_binding_is_rejected(
    cluster: Cluster, body: dict[str, Any], code: int, message: str
) -> None:
    reply = cluster.request("POST", f"{PODS}/p/binding", body)

    assert (reply.code, reply.body["message"]) == (code, message)


def test_uid_is_a_precondition(cluster: Cluster) -> None:
    reply = cluster.request("POST", f"{PODS}/p/binding", a_binding("p", uid="other"))

    uid = cluster.request("GET", f"{PODS}/p").body["metadata"]["uid"]
    assert reply.code == 409
    assert reply.body["message"] == (
        'Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, '
        "Key: /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: other, UID in object meta: {uid}"
    )


def test_absent_pod_is_not_found(cluster: Cluster) -> None:
    reply = cluster.request("POST", BINDINGS, a_binding("nope"))

    assert (reply.code, reply.body["message"]) == (404, 'pods "nope" not found')
