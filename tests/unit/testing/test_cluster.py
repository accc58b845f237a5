"""The in-memory `Cluster` of the test kit."""

from __future__ import annotations

import pytest

from kubesched import CycleState, Handle, NodeView, PodInfo, Status, unschedulable, wait
from kubesched.testing import a_node, a_pod
from kubesched.testing.cluster import Cluster


class OnlyBlue:
    """Rejects nodes that are not blue."""

    name = "OnlyBlue"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return None if node.labels.get("color") == "blue" else unschedulable("node(s) not blue")


class WaitsForOthers:
    """Makes every pod wait on permit."""

    name = "WaitsForOthers"

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        return wait("not yet"), 60.0


def test_a_pod_is_placed_where_it_fits(cluster: Cluster) -> None:
    cluster.add(a_node("small", capacity={"cpu": "1"}), a_node("big"))
    cluster.add(a_pod("web", requests={"cpu": "2"}))
    cluster.schedule()
    assert cluster.node_of("web") == "big"
    assert cluster.state("web") == "bound"
    assert cluster.events("web") == [("Scheduled", "Successfully assigned default/web to big")]


def test_a_pod_waits_with_a_message_until_there_is_room(cluster: Cluster) -> None:
    cluster.add(a_node("n1", capacity={"cpu": "1"}), a_pod("web", requests={"cpu": "2"}))
    cluster.schedule()
    assert cluster.node_of("web") == ""
    assert cluster.why("web").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert cluster.state("web") == "unschedulable"
    cluster.add(a_node("n2"))
    cluster.schedule()
    assert cluster.node_of("web") == "n2"
    assert cluster.why("web") == ""


def test_a_changed_object_is_replaced(cluster: Cluster) -> None:
    cluster.add(a_node("n1", taints=["team=blue:NoSchedule"]), a_pod("web"))
    cluster.schedule()
    assert "untolerated taint" in cluster.why("web")
    cluster.add(a_node("n1"))
    cluster.schedule()
    assert cluster.placed() == {"default/web": "n1"}


def test_a_pod_of_higher_priority_preempts(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("low", requests={"cpu": "3"}, priority=1))
    cluster.schedule()
    cluster.add(a_pod("high", requests={"cpu": "3"}, priority=1000))
    cluster.advance(10)
    assert cluster.placed() == {"default/high": "n1"}
    with pytest.raises(KeyError):
        cluster.pod("low")


@pytest.mark.cluster(plugins=[OnlyBlue])
def test_a_plugin_is_called(cluster: Cluster) -> None:
    cluster.add(a_node("red"), a_pod("web"))
    cluster.schedule()
    assert cluster.why("web").startswith("0/1 nodes are available: 1 node(s) not blue.")
    cluster.add(a_node("blue", labels={"color": "blue"}))
    cluster.schedule()
    assert cluster.node_of("web") == "blue"


@pytest.mark.cluster(plugins=[WaitsForOthers])
def test_the_test_controls_the_clock(cluster: Cluster) -> None:
    cluster.add(a_node("n1"), a_pod("web"))
    cluster.schedule()
    assert cluster.state("web") == "waitingOnPermit"
    cluster.advance(59)
    assert cluster.state("web") == "waitingOnPermit"
    cluster.advance(2)
    assert "timeout" in cluster.why("web")


def test_a_removed_node_gets_no_pods(cluster: Cluster) -> None:
    cluster.add(a_node("n1"))
    cluster.remove("Node", "n1")
    cluster.add(a_pod("shop", namespace="prod"))
    cluster.schedule()
    # Parity: pkg/scheduler/schedule_one.go ErrNoNodesAvailable, v1.36.
    assert cluster.why("prod/shop") == "no nodes available to schedule pods"
    with pytest.raises(KeyError):
        cluster.remove("Node", "n1")


def test_an_unwatched_kind_is_rejected(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="does not watch"):
        cluster.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}})


class _Polls:
    """Reads an external value every ten seconds, and rejects pods before the first one."""

    name = "Polls"

    def __init__(self, handle: Handle) -> None:
        self.reads = 0
        self._clock = handle.clock
        handle.start_task("poll", self._poll)

    async def _poll(self) -> None:
        while True:
            await self._clock.sleep(10)
            self.reads += 1

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return None if self.reads else unschedulable("nothing was read yet")


class _Prepares:
    """Takes five seconds in pre_bind."""

    name = "Prepares"

    def __init__(self, handle: Handle) -> None:
        self._clock = handle.clock

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        await self._clock.sleep(5)


@pytest.mark.cluster(plugins=[_Polls])
def test_a_plugin_starts_a_task_in_its_constructor(cluster: Cluster) -> None:
    cluster.add(a_node("n"), a_pod("early"))
    cluster.schedule()
    assert "nothing was read yet" in cluster.why("early")
    cluster.advance(11)
    cluster.add(a_pod("late"))
    cluster.schedule()
    assert cluster.node_of("late") == "n"


@pytest.mark.cluster(plugins=[_Prepares])
def test_a_sleeping_plugin_uses_the_clock_of_the_test(cluster: Cluster) -> None:
    cluster.add(a_node("n"), a_pod("web"))
    cluster.schedule()
    assert cluster.node_of("web") == ""
    cluster.advance(4)
    assert cluster.node_of("web") == ""
    cluster.advance(2)
    assert cluster.node_of("web") == "n"
