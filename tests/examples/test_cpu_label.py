"""examples/cpu-label: the walkthrough, and calls of pre_score."""

from __future__ import annotations

import pytest

from kubesched.cluster.launch.http import MERGE_PATCH
from kubesched.cluster.playground.in_process import Playground
from kubesched.testing import a_node, a_pod
from tests.examples.folders import CPU_LABEL, FORMS, Document, Form, messages

REJECTED = (
    "0/4 nodes are available: 1 Node: k8s, 1 Node: node1, 1 node(s) had untolerated taint(s), "
    "1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/4 nodes are "
    "available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for "
    "scheduling."
)


def events(cluster: Playground, reason: str) -> list[Document]:
    found = cluster.api.get("/apis/events.k8s.io/v1/namespaces/default/events").must(200).json
    return [one for one in found["items"] if one["reason"] == reason]


def times(event: Document) -> int:
    """Return the count of an event."""
    return int((event.get("series") or {"count": 1})["count"])


def are_nodes_settled(cluster: Playground) -> bool:
    """Return whether kubelets and controllers have updated the nodes."""
    found = cluster.api.get("/api/v1/nodes").must(200).json["items"]
    ready = {
        one["metadata"]["name"]: condition["status"]
        for one in found
        for condition in one.get("status", {}).get("conditions", ())
        if condition["type"] == "Ready"
    }
    taints = {
        (one["metadata"]["name"], taint["key"], taint["effect"])
        for one in found
        for taint in one["spec"].get("taints", ())
    }
    return ready == {"k8s": "True", "node1": "True", "node2": "Unknown", "node3": "True"} and (
        taints
        == {
            ("node2", "node.kubernetes.io/unreachable", "NoSchedule"),
            ("node2", "node.kubernetes.io/unreachable", "NoExecute"),
            ("node3", "node.kubernetes.io/unschedulable", "NoSchedule"),
        }
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.timeout(120)
def test_the_walkthrough(form: Form) -> None:
    with CPU_LABEL.running(form) as cluster:
        cluster.create(*CPU_LABEL.documents("nodes.yaml"))
        cluster.until(lambda: are_nodes_settled(cluster), "the nodes are what they shall be")
        cluster.create(*CPU_LABEL.documents("app.yaml"))
        cluster.until(
            lambda: sum(map(times, events(cluster, "FailedScheduling"))) >= 2,
            "the pod is rejected twice",
        )
        assert {event["note"] for event in events(cluster, "FailedScheduling")} == {REJECTED}
        (pod,) = cluster.api.get("/api/v1/namespaces/default/pods").must(200).json["items"]
        assert pod["status"]["phase"] == "Pending"

        label = {"metadata": {"labels": {"cpu": "true"}}}
        cluster.api.patch("/api/v1/nodes/node1", label, MERGE_PATCH).must(200)
        name = pod["metadata"]["name"]
        assert cluster.until_bound(name) == "node1"
        cluster.until(lambda: events(cluster, "Scheduled"), "the binding is reported")
        (scheduled,) = events(cluster, "Scheduled")
        assert scheduled["note"] == f"Successfully assigned default/{name} to node1"
        cluster.until_running(name)


def test_a_rejected_pod_is_tried_twice_immediately() -> None:
    with CPU_LABEL.in_memory() as (cluster, _):
        # Without kubelets and controllers: the scheduler's own status patch is all that happens.
        cluster.add(a_node("k8s"), a_node("node1"), a_pod("web", scheduler="sample-scheduler"))
        cluster.schedule()
        assert cluster.why("web").startswith("0/2 nodes are available: 1 Node: k8s, 1 Node: node1.")
        assert cluster.explain("web")["attempts"] == 2
        cluster.advance(60)
        assert cluster.explain("web")["attempts"] == 2


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("scheduler.yaml", []),
        ("multi-point.yaml", ['pod="default/web" nodes=["a","b"]']),
    ],
)
def test_pre_score_is_called_where_it_is_enabled(file: str, expected: list[str]) -> None:
    with CPU_LABEL.in_memory(file) as (cluster, log):
        cluster.add(
            a_node("a", labels={"cpu": "true"}),
            a_node("b", labels={"cpu": "true"}),
            a_node("c", labels={"cpu": "false"}),
            a_pod("web", scheduler="sample-scheduler"),
        )
        cluster.schedule()
        assert cluster.node_of("web") in {"a", "b"}
        assert messages(log, "Nodes to score") == expected
