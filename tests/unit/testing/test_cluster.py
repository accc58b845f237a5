"""The scheduler alone, as authors of plugins test with it."""

from __future__ import annotations

import pytest

from kubesched import CycleState, NodeView, PodInfo, Status, unschedulable, wait
from kubesched.testing import a_node, a_pod
from kubesched.testing.cluster import Cluster


class OnlyBlue:
    """Lets pods on blue nodes only."""

    name = "OnlyBlue"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return None if node.labels.get("color") == "blue" else unschedulable("node(s) not blue")


class WaitsForOthers:
    """Has every pod wait for permission."""

    name = "WaitsForOthers"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return wait("not yet"), 60.0


def test_a_pod_goes_where_it_fits(cluster: Cluster) -> None:
    cluster.add(a_node("small", capacity={"cpu": "1"}), a_node("big"))
    cluster.add(a_pod("web", requests={"cpu": "2"}))
    cluster.schedule()
    assert cluster.node_of("web") == "big"
    assert cluster.state("web") == "bound"
    assert cluster.events("web") == [("Scheduled", "Successfully assigned default/web to big")]


def test_a_pod_waits_and_says_why_until_there_is_room(cluster: Cluster) -> None:
    cluster.add(a_node("n1", capacity={"cpu": "1"}), a_pod("web", requests={"cpu": "2"}))
    cluster.schedule()
    assert cluster.node_of("web") == ""
    assert cluster.why("web").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert cluster.state("web") == "unschedulable"
    cluster.add(a_node("n2"))
    cluster.schedule()
    assert cluster.node_of("web") == "n2"
    assert cluster.why("web") == ""


def test_an_object_that_changes_is_put_again(cluster: Cluster) -> None:
    cluster.add(a_node("n1", taints=["team=blue:NoSchedule"]), a_pod("web"))
    cluster.schedule()
    assert "untolerated taint" in cluster.why("web")
    cluster.add(a_node("n1"))
    cluster.schedule()
    assert cluster.placed() == {"default/web": "n1"}


def test_a_more_important_pod_takes_the_place_of_another(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("low", requests={"cpu": "3"}, priority=1))
    cluster.schedule()
    cluster.add(a_pod("high", requests={"cpu": "3"}, priority=1000))
    cluster.advance(10)
    assert cluster.placed() == {"default/high": "n1"}
    with pytest.raises(KeyError):
        cluster.pod("low")


@pytest.mark.cluster(plugins=[OnlyBlue])
def test_a_plugin_is_asked(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_pod("web"))
    cluster.schedule()
    assert cluster.why("web").startswith("0/1 nodes are available: 1 node(s) not blue.")
    cluster.add(a_node("blue", labels={"color": "blue"}))
    cluster.schedule()
    assert cluster.node_of("web") == "blue"


@pytest.mark.cluster(plugins=[WaitsForOthers])
def test_time_passes_as_the_test_says(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    assert cluster.state("web") == "waitingOnPermit"
    cluster.advance(59)
    assert cluster.state("web") == "waitingOnPermit"
    cluster.advance(2)
    assert "timeout" in cluster.why("web")


def test_a_removed_node_takes_no_pods(cluster: Cluster) -> None:
    cluster.add(a_node("n1"))
    cluster.remove("Node", "n1")
    cluster.add(a_pod("shop", namespace="prod"))
    cluster.schedule()
    # Parity: pkg/scheduler/schedule_one.go ErrNoNodesAvailable, v1.36.
    assert cluster.why("prod/shop") == "no nodes available to schedule pods"
    with pytest.raises(KeyError):
        cluster.remove("Node", "n1")


def test_a_kind_that_no_scheduler_reads_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="does not look at"):
        cluster.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}})
