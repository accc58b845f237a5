"""DaemonSets: one pod on each matching node."""

from typing import Any

import pytest

from kubesched.api.pod import Pod
from kubesched.manifests.scenario import ExplainError
from tests.unit.simulate.small_clusters import (
    Document,
    capacity_of,
    left,
    node,
    places,
    pod,
    scenario,
    simulated,
    workload,
)


def agent(cpu: str = "1", *, labels: dict[str, str] | None = None, **spec: Any) -> Document:
    document = workload("DaemonSet", "agent", cpu)
    document["spec"]["template"]["spec"] |= spec
    document["spec"]["template"]["metadata"]["labels"] |= labels or {}
    return document


def taint(key: str, effect: str = "NoSchedule") -> list[Document]:
    return [{"key": key, "effect": effect}]


def made(*documents: Document) -> list[str]:
    objects = scenario(*documents).with_missing_pods().objects
    return [obj.metadata.name for obj in objects if isinstance(obj, Pod)]


def test_every_node_gets_one_pod_bound_to_it() -> None:
    run = simulated(node("a", "2"), node("b", "8"), node("c", "8"), agent())
    assert places(run) == {"agent-a": "a", "agent-b": "b", "agent-c": "c"}


def test_a_pod_that_does_not_fit_on_its_node_stays_pending() -> None:
    run = simulated(node("small", "1"), node("large", "8"), agent("2"))
    assert places(run) == {"agent-large": "large"}
    assert left(run) == {"agent-small": "Unschedulable"}


@pytest.mark.parametrize(
    ("spec", "nodes"),
    [
        pytest.param({}, ["agent-plain"], id="tainted nodes are ignored"),
        pytest.param(
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            ["agent-plain", "agent-gpu"],
            id="unless the taint is tolerated",
        ),
        pytest.param({"nodeSelector": {"kubernetes.io/hostname": "x"}}, [], id="selected nodes"),
        pytest.param({"nodeName": "plain"}, ["agent-plain"], id="one by name"),
        pytest.param(
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {
                                            "key": "kubernetes.io/hostname",
                                            "operator": "NotIn",
                                            "values": ["plain"],
                                        }
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            [],
            id="affine nodes",
        ),
    ],
)
def test_excluded_nodes_get_no_pod(spec: Document, nodes: list[str]) -> None:
    assert made(node("plain"), node("gpu", taints=taint("gpu")), agent(**spec)) == nodes


@pytest.mark.parametrize(
    ("key", "effect", "host_network", "gets_one"),
    [
        pytest.param("node.kubernetes.io/not-ready", "NoExecute", False, True, id="not ready"),
        pytest.param("node.kubernetes.io/unschedulable", "NoSchedule", False, True, id="cordoned"),
        pytest.param("node.kubernetes.io/disk-pressure", "NoSchedule", False, True, id="full"),
        pytest.param(
            "node.kubernetes.io/network-unavailable", "NoSchedule", False, False, id="no network"
        ),
        pytest.param(
            "node.kubernetes.io/network-unavailable", "NoSchedule", True, True, id="needs none"
        ),
    ],
)
def test_daemon_pods_run_on_nodes_with_problems(
    key: str, effect: str, host_network: bool, gets_one: bool
) -> None:
    run = simulated(node("n", taints=taint(key, effect)), agent(hostNetwork=host_network))
    assert places(run) == ({"agent-n": "n"} if gets_one else {})


def test_a_cordoned_node_gets_its_pod() -> None:
    run = simulated(node("n", unschedulable=True), agent(), pod("other"))
    assert places(run) == {"agent-n": "n"}


def test_nodes_with_a_pod_get_no_second_pod() -> None:
    waiting = pod("agent-y", owner="DaemonSet/agent")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    waiting["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
        }
    }
    running = pod("agent-x", on="a", owner="DaemonSet/agent")
    names = made(node("a"), node("b"), node("c"), agent(), running, waiting)
    assert names == ["agent-c", "agent-x", "agent-y"]


def test_a_terminated_pod_is_replaced_under_another_name() -> None:
    failed = pod("agent-a", on="a", owner="DaemonSet/agent", status={"phase": "Failed"})
    assert made(node("a"), agent(), failed) == ["agent-a-new", "agent-a"]


def test_pods_have_owner_and_revision() -> None:
    objects = scenario(node("a"), agent()).with_missing_pods().objects
    (created,) = (obj for obj in objects if isinstance(obj, Pod))
    owner = created.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.controller) == ("DaemonSet", "agent", True)
    assert created.metadata.labels["app"] == "agent"
    assert created.metadata.labels["controller-revision-hash"]


def test_excluded_nodes_are_reported() -> None:
    read = scenario(node("a"), node("gpu", taints=taint("gpu")), agent()).with_missing_pods()
    assert read.notes == (
        "pods created: 1 of DaemonSet default/agent",
        "nodes excluded: 1 by DaemonSet default/agent",
    )


def test_a_daemon_pod_preempts_only_on_its_node() -> None:
    run = simulated(
        node("a", "1"),
        node("b", "1"),
        pod("low", on="a"),
        agent(priorityClassName="system-node-critical"),
    )
    assert places(run) == {"agent-a": "a", "agent-b": "b"}
    assert [victim.pod.key for victim in run.evicted] == ["default/low"]


def test_capacity_counts_nodes_without_a_pod() -> None:
    cluster = [
        node("a"),
        node("b", "1"),
        node("c", "1"),
        node("d"),
        node("gpu", taints=taint("gpu")),
        pod("agent-x", on="d", owner="DaemonSet/agent"),
    ]
    (fit,) = capacity_of(cluster, agent("2")).fits
    assert (fit.count, fit.desired, dict(fit.by_node)) == (1, 3, {"a": 1})
    assert fit.stop is not None
    assert dict(fit.stop.reasons) == {"Insufficient cpu": 2}
    assert list(fit.stop.by_node) == ["b", "c"]
    (few,) = capacity_of([node("a"), node("b"), node("c")], agent(), count=2).fits
    assert (few.count, few.desired, few.stop) == (2, 2, None)


def test_an_unschedulable_daemon_pod_does_not_stop_other_templates() -> None:
    run = capacity_of([node("a", "1"), node("b", "3")], agent("2"), workload("Deployment", "web"))
    assert [fit.count for fit in run.fits] == [1, 2]


def test_the_next_pod_is_for_the_first_node_without_a_pod() -> None:
    running = pod("agent-x", on="a", owner="DaemonSet/agent")
    subject = scenario(node("a"), node("b"), agent(), running).subject("ds/agent")
    assert subject.pod.metadata.name == "agent-b"


@pytest.mark.parametrize(
    ("documents", "text"),
    [
        pytest.param(
            [node("a"), pod("x", on="a", owner="DaemonSet/agent")],
            "DaemonSet default/agent has a pod on each of its nodes; name one of its pods",
            id="all have theirs",
        ),
        pytest.param(
            [node("a", taints=taint("gpu"))],
            "DaemonSet default/agent runs on no node: node selector, affinity or taints exclude "
            "all of them",
            id="none is for it",
        ),
        pytest.param([], "DaemonSet default/agent runs on no node: there are no nodes", id="no"),
    ],
)
def test_without_a_missing_pod_there_is_nothing_to_explain(
    documents: list[Document], text: str
) -> None:
    with pytest.raises(ExplainError) as problem:
        scenario(*documents, agent()).subject("ds/agent")
    assert str(problem.value) == text
