"""A whole cluster in this process: the public fixture `playground`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched import CycleState, NodeView, PodInfo
from kubesched.cluster.playground.in_process import Playground
from kubesched.cluster.playground.in_process import playground as a_playground
from kubesched.testing import a_node, a_pod


class LastNode:
    """Prefers the node with the greatest name."""

    name = "LastNode"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return 100 if node.name == "node-3" else 0


def test_a_pod_is_bound_runs_and_terminates(playground: Playground) -> None:
    playground.create(a_pod("web", requests={"cpu": "1"}))
    assert playground.until_bound("web") in playground.nodes
    running = playground.until_running("default/web")
    assert running["status"]["podIP"]
    assert playground.scheduler.until_state("default/web", "bound")["node"]
    if playground.machinery is not None:  # KWOK's kubelets write no events.
        playground.until(lambda: playground.notes("web", "Started"), "its start is reported")
    playground.api.delete("/api/v1/namespaces/default/pods/web").must(200)
    playground.until(lambda: not playground.pod("web"), "the pod is gone")


@pytest.mark.playground(nodes=1)
def test_a_pod_waits_for_a_node(playground: Playground) -> None:
    assert playground.nodes == ["node-1"]
    playground.create(a_pod("web", nodeSelector={"disk": "ssd"}))
    playground.until(lambda: playground.notes("web", "FailedScheduling"), "the pod is rejected")
    playground.create(
        a_node("fast", labels={"disk": "ssd"}, annotations={"kubesched.dev/heartbeat": "on"})
    )
    assert playground.until_bound("web") == "fast"


@pytest.mark.playground(
    nodes=3,
    plugins=[LastNode],
    config={
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "LastNode", "weight": 100}]},
                },
            }
        ]
    },
)
def test_a_plugin_decides(playground: Playground) -> None:
    playground.create(*(a_pod(f"web-{number}") for number in range(3)))
    nodes = {playground.until_bound(f"web-{number}") for number in range(3)}
    assert nodes == {"node-3"}


@pytest.mark.playground(scheduler=False, nodes=1)
def test_without_a_scheduler_pods_wait(playground: Playground) -> None:
    playground.create(a_pod("web"))
    playground.create(a_pod("placed", node="node-1"))
    playground.until_running("placed")
    assert playground.node_of("web") == ""
    with pytest.raises(AssertionError, match="has no scheduler"):
        _ = playground.scheduler


def test_a_cluster_continues_with_its_data_file(tmp_path: Path) -> None:
    data = tmp_path / "cluster.db"
    with a_playground(nodes=2, data=data) as first:
        first.create(a_pod("web"))
        node = first.until_bound("web")
        uid = first.pod("web")["metadata"]["uid"]
    with a_playground(nodes=2, data=data) as second:
        running = second.until_running("web")
        assert running["metadata"]["uid"] == uid
        assert running["spec"]["nodeName"] == node
