"""Explanations of small clusters; kube-scheduler made the decision of the worked cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.running import SAMPLE_CLUSTER, Run, kubesched

# As a user writes it: no namespaces, no uids, requests partly as limits, priorities by class.
WORKED = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: -10
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {kubernetes.io/hostname: n2, topology.kubernetes.io/zone: b}}
spec: {taints: [{key: spot, effect: PreferNoSchedule}]}
status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: n3, labels: {kubernetes.io/hostname: n3, topology.kubernetes.io/zone: a}}
status: {allocatable: {cpu: 1, memory: 2Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: n4, labels: {kubernetes.io/hostname: n4, topology.kubernetes.io/zone: b}}
spec: {taints: [{key: dedicated, value: db, effect: NoSchedule}]}
status: {allocatable: {cpu: 8, memory: 16Gi, pods: 110}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec:
  nodeName: n1
  containers:
    - {name: c, image: "nginx:1.25", resources: {requests: {cpu: 500m, memory: 512Mi}}}
status: {phase: Running, startTime: 2024-05-02T08:00:00Z}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, labels: {app: web}}
spec:
  nodeName: n3
  priorityClassName: low
  containers:
    - {name: c, image: "nginx:1.25", resources: {limits: {cpu: 600m, memory: 256Mi}}}
status: {phase: Running, startTime: 2024-05-02T08:00:00Z}
---
apiVersion: v1
kind: Pod
metadata: {name: web-3, labels: {app: web}}
spec: &spec
  priorityClassName: high
  containers:
    - {name: c, image: "nginx:1.25", resources: {requests: {cpu: 1, memory: 1Gi}}}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 50
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {app: web}}
"""
WEB_3 = {
    "profile": "default-scheduler",
    "feasible": ["n1", "n2"],
    "rejected": {
        "n3": {
            "plugin": "NodeResourcesFit",
            "code": "Unschedulable",
            "reasons": ["Insufficient cpu"],
        },
        "n4": {
            "plugin": "TaintToleration",
            "code": "UnschedulableAndUnresolvable",
            "reasons": ["node(s) had untolerated taint(s)"],
        },
    },
    "preFilterRejected": None,
    "scores": {
        "n1": {
            "DynamicResources": 0,
            "ImageLocality": 0,
            "InterPodAffinity": 0,
            "NodeResourcesBalancedAllocation": 72,
            "NodeResourcesFit": 71,
            "TaintToleration": 300,
            "total": 443,
        },
        "n2": {
            "DynamicResources": 0,
            "ImageLocality": 0,
            "InterPodAffinity": 200,
            "NodeResourcesBalancedAllocation": 71,
            "NodeResourcesFit": 81,
            "TaintToleration": 0,
            "total": 352,
        },
    },
    "best": ["n1"],
    "message": None,
    "messageAfterPostFilter": None,
    "preemption": None,
    "error": None,
}
WEB_3_TEXT = """\
default/web-3 goes to n1: the highest total of 2 fitting nodes, 443; next is n2 with 352.
Profile: default-scheduler
Event: Scheduled: Successfully assigned default/web-3 to n1
Ahead of n2 by 91 points: TaintToleration +300, InterPodAffinity -200,
  NodeResourcesFit -10, NodeResourcesBalancedAllocation +1

Fitting nodes (2 of 4) with weighted scores, best first:
                                                      Node
                                Node             Resources
                    Taint  Resources  InterPod    Balanced
  node  total  Toleration        Fit  Affinity  Allocation
  n1      443         300         71         0          72
  n2      352           0         81       200          71
0 on every node: DynamicResources, ImageLocality

Rejected nodes (2 of 4):
  1  NodeResourcesFit: Insufficient cpu
       n3
  1  TaintToleration: node(s) had untolerated taint(s)
       n4
"""
NOWHERE = (
    "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
    "2 node(s) didn't match Pod's node affinity/selector."
)


@pytest.fixture
def worked(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(WORKED)
    return str(file)


@pytest.fixture
def picky(tmp_path: Path) -> str:
    """Return the cluster with a pod that selects the full node."""
    file = tmp_path / "picky.yaml"
    selector = "  nodeSelector: {kubernetes.io/hostname: n3}\n"
    file.write_text(WORKED.replace("name: web-3", "name: web-4") + selector)
    return str(file)


def cluster_of(*nodes: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()) -> bytes:
    items = [{"apiVersion": "v1", "kind": "Node"} | node for node in nodes]
    items += [{"apiVersion": "v1", "kind": "Pod"} | pod for pod in pods]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def a_node(name: str, **spec: Any) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def a_pod(name: str = "p", *, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": status or {},
    }


def first_line(ran: Run) -> str:
    assert ran.status == 0, ran.err
    return ran.out.splitlines()[0]


def test_the_decision_as_json_is_kube_schedulers(worked: str) -> None:
    ran = kubesched("explain", "-f", worked, "web-3", "-o", "decision")
    assert (ran.status, ran.err) == (0, "")
    assert ran.json == WEB_3


def test_the_rejection_as_json_is_kube_schedulers(picky: str) -> None:
    decision = kubesched("explain", "-f", picky, "web-4", "-o", "decision").json
    assert decision["feasible"] == []
    assert decision["rejected"]["n1"]["plugin"] == "NodeAffinity"
    assert decision["message"] == decision["messageAfterPostFilter"] == NOWHERE
    assert decision["preemption"] == {"nominatedNode": "n3", "victims": ["default/web-2"]}


def test_the_outcome_comes_first_then_profile_scores_and_rejections(worked: str) -> None:
    ran = kubesched("explain", "-f", worked, "web-3")
    assert ran.out == WEB_3_TEXT


def test_a_rejection_shows_the_event_and_the_victims(picky: str) -> None:
    ran = kubesched("explain", "-f", picky, "web-4")
    lines = ran.out.splitlines()
    assert lines[0] == (
        "default/web-4 fits on none of 4 nodes; evicting 1 pod from n3 would make room."
    )
    assert f"Event: FailedScheduling: {NOWHERE}" in lines
    at = lines.index("Preemption: nominated to n3")
    assert lines[at + 1] == "  victim default/web-2, priority -10"
    (at,) = [number for number, line in enumerate(lines) if "NodeAffinity: node(s)" in line]
    assert lines[at].startswith("  2  NodeAffinity: node(s) didn't match Pod's node affinity")
    assert lines[at + 2].strip() == "n1, n2"
    at = lines.index("Changes that would make the pod fit:")
    assert lines[at + 1 :] == [
        "  fits on 2 nodes without the node selector kubernetes.io/hostname=n3: n1, n2",
        "  lacks 600m cpu on n3",
    ]


def test_combined_changes_are_reported_instead_of_plugins() -> None:
    node = a_node("a", unschedulable=True, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    cluster = cluster_of(node, pods=(a_pod(nodeSelector={"disk": "ssd"}),))
    lines = kubesched("explain", "-f", "-", stdin=cluster).out.splitlines()
    at = lines.index("Changes that would make the pod fit:")
    assert " ".join(line.strip() for line in lines[at + 1 :]) == (
        "fits on a once uncordoned, with a toleration of gpu:NoSchedule and "
        "without the node selector disk=ssd"
    )
    shown = kubesched("explain", "-f", "-", "-o", "json", stdin=cluster).json["changes"]
    assert [(change["kind"], [part["kind"] for part in change["parts"]]) for change in shown] == [
        ("fields", ["uncordon", "toleration", "node-selector"]),
        ("plugins", []),
    ]


def test_the_only_node_that_fits() -> None:
    cluster = cluster_of(a_node("a"), a_node("b", unschedulable=True), pods=(a_pod(),))
    ran = kubesched("explain", "-f", "-", stdin=cluster)
    assert first_line(ran) == (
        "default/p goes to a: the only one of 2 nodes that fits, so nothing was scored."
    )
    assert "weighted scores" not in ran.out


def test_the_only_node_of_the_cluster() -> None:
    ran = kubesched("explain", "-f", "-", stdin=cluster_of(a_node("a"), pods=(a_pod(),)))
    assert first_line(ran) == "default/p goes to a: the only node of the cluster, and it fits."


def test_tied_nodes_are_named() -> None:
    cluster = cluster_of(a_node("a"), a_node("b"), pods=(a_pod(),))
    shown = first_line(kubesched("explain", "-f", "-", stdin=cluster))
    decision = kubesched("explain", "-f", "-", "-o", "decision", stdin=cluster).json
    assert decision["best"] == ["a", "b"]
    assert "shared with" in shown
    assert shown.endswith("any of them may be chosen.")


def test_a_nominated_node_is_evaluated_alone() -> None:
    pod = a_pod(status={"nominatedNodeName": "b"})
    cluster = cluster_of(a_node("a"), a_node("b"), pods=(pod,))
    assert first_line(kubesched("explain", "-f", "-", stdin=cluster)) == (
        "default/p goes to b: it was nominated there and still fits, "
        "so no other node was evaluated."
    )


def test_a_rejection_without_victims() -> None:
    cluster = cluster_of(a_node("a", unschedulable=True), pods=(a_pod(),))
    ran = kubesched("explain", "-f", "-", stdin=cluster)
    assert first_line(ran) == "default/p does not fit on the only node."
    assert "\nPreemption: " not in ran.out


def test_a_cluster_without_nodes() -> None:
    ran = kubesched("explain", "-f", "-", stdin=cluster_of(pods=(a_pod(),)))
    assert first_line(ran) == "default/p cannot be placed: the cluster has no nodes."
    assert "Event: FailedScheduling: no nodes available to schedule pods" in ran.out


def test_a_pod_rejected_as_a_whole() -> None:
    pod = a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}])
    ran = kubesched("explain", "-f", "-", stdin=cluster_of(a_node("a"), pods=(pod,)))
    assert first_line(ran) == "default/p does not fit on the only node."
    rejection = [
        line for line in ran.out.splitlines() if line.startswith("Rejected on all nodes by ")
    ]
    assert len(rejection) == 1
    assert rejection[0].endswith('persistentvolumeclaim "gone" not found')


def test_long_lists_are_truncated_in_text_only() -> None:
    nodes = [a_node(f"n{number:02}") for number in range(25)]
    nodes += [a_node(f"c{number:02}", unschedulable=True) for number in range(12)]
    cluster = cluster_of(*nodes, pods=(a_pod(),))
    ran = kubesched("explain", "-f", "-", stdin=cluster)
    assert "and 15 more (--top 0 shows all)" in ran.out
    assert "c08, c09 and 2 more" in ran.out
    decision = kubesched("explain", "-f", "-", "-o", "decision", stdin=cluster).json
    assert len(decision["feasible"]) == 25
    assert len(decision["rejected"]) == 12


def test_the_sample_cluster_reads_without_a_note() -> None:
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "default/trainer-0")
    assert (ran.status, ran.err) == (0, "")
    assert first_line(ran) == (
        "default/trainer-0 fits on none of 6 nodes; evicting 1 pod from c2-gpu would make room."
    )


def test_skipped_objects_are_reported_in_a_note(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
    ran = kubesched("explain", "-f", SAMPLE_CLUSTER, "-f", str(file), "web-7")
    assert ran.status == 0
    assert ran.err == "note: skipped: 1 ConfigMap\n"


def test_many_victims_and_budgets_are_counted() -> None:
    def a_pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
        resources = {"requests": {"cpu": cpu}}
        containers = [{"name": "c", "image": "i", "resources": resources}]
        labels = {"app": "all", "own": name}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": containers, **spec},
        }

    def a_budget(name: str, **labels: str) -> dict[str, Any]:
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": 0},
        }

    allocatable = {"cpu": "120", "pods": "500"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"allocatable": allocatable},
    }
    names = [f"v{number:03}" for number in range(120)]
    items = [
        node,
        *(a_pod(name, "1", nodeName="a") for name in names),
        a_budget("all", app="all"),
        *(a_budget(f"own-{name}", own=name) for name in names),
        a_pod("new", "120", priority=9),
    ]
    cluster = {"apiVersion": "v1", "kind": "List", "items": items}
    text = kubesched("explain", "-f", "-", "new", stdin=json.dumps(cluster).encode()).out
    preemption = " ".join(text.partition("Preemption:")[2].partition("Rejected nodes")[0].split())
    assert (
        "and 20 more victims budget default/all allows 0 disruptions: covers "
        "default/v000, default/v001, default/v002, default/v003 and 116 more budget " in preemption
    )
    assert preemption.endswith("and 111 more budgets 120 victims violate a PodDisruptionBudget")
