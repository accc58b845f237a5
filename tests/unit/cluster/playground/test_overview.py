"""The overview of a cluster: nodes, pending pods and decisions."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from kubesched.cli.playground.messages import unserved_line
from kubesched.cli.playground.view import LineView, decision_line, render
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.cluster.informers.informer import Informers
from kubesched.cluster.playground.overview import Decision, Overview
from kubesched.testing import a_node, a_pod
from tests.clock import StillClock


class World:
    """An overview, and the informers that feed it."""

    def __init__(self) -> None:
        self.clock = StillClock(1_000.0)
        self.informers = Informers(None, self.clock, None, None)  # type: ignore[arg-type]  # No requests.
        self.overview = Overview(self.clock, served=["default-scheduler"])
        self.overview.watch(self.informers)
        self.overview.start_recording()
        self._version = 0

    def put(self, resource: Resource, document: dict[str, Any], **status: Any) -> None:
        self._version += 1
        metadata = {
            "uid": document["metadata"]["name"],
            **document["metadata"],
            "resourceVersion": str(self._version),
        }
        if resource == PODS:
            metadata.setdefault("namespace", "default")
        known = document.get("status", {})
        self.informers.of(resource).record_write(
            {**document, "metadata": metadata, "status": {**known, **status}}
        )

    def put_ready(self, node: dict[str, Any]) -> None:
        self.put(NODES, node, conditions=[{"type": "Ready", "status": "True"}])

    def put_bound(self, name: str, node: str, **parts: Any) -> None:
        scheduled = {"type": "PodScheduled", "status": "True"}
        self.put(PODS, a_pod(name, node=node, **parts), phase="Running", conditions=[scheduled])

    def put_rejected(self, name: str, message: str, **parts: Any) -> None:
        rejected = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        self.put(PODS, a_pod(name, **parts), phase="Pending", conditions=[rejected])

    def forget(self, name: str) -> None:
        self.informers.of(PODS).forget(f"default/{name}", name)


@pytest.fixture
def world() -> World:
    return World()


def test_a_node_sums_the_requests_of_its_pods(world: World) -> None:
    world.put_ready(a_node("n1", capacity={"cpu": "2", "memory": "1Gi", "pods": "10"}))
    world.put_bound("a", "n1", requests={"cpu": "500m", "memory": "256Mi"})
    world.put_bound("b", "n1", requests={"cpu": "1"})
    (node,) = world.overview.shown_nodes
    assert (node.cpu_milli, node.cpu_milli_max) == (1500, 2000)
    assert (node.memory_bytes, node.memory_bytes_max) == (256 * 2**20, 2**30)
    assert (node.pod_count, node.pod_count_max) == (2, 10)
    world.forget("b")
    assert (node.cpu_milli, node.pod_count) == (500, 1)
    world.put(PODS, a_pod("a", node="n1"), phase="Succeeded")
    assert (node.cpu_milli, node.memory_bytes, node.pod_count) == (0, 0, 0)
    assert world.overview.counts().finished == 1


@pytest.mark.parametrize(
    ("spec", "ready", "word"),
    [
        ({}, "True", "Ready"),
        ({"unschedulable": True}, "True", "Ready,SchedulingDisabled"),
        ({}, "Unknown", "NotReady"),
        ({"unschedulable": True}, "False", "NotReady,SchedulingDisabled"),
    ],
)
def test_the_status_of_a_node_matches_kubectl(
    world: World, spec: dict[str, Any], ready: str, word: str
) -> None:
    conditions = [{"type": "Ready", "status": ready}]
    world.put(NODES, {**a_node("n1"), "spec": spec}, conditions=conditions)
    assert world.overview.shown_nodes[0].status == word


def test_nodes_are_in_natural_order(world: World) -> None:
    for number in (10, 2, 1):
        world.put_ready(a_node(f"node-{number}"))
    assert [node.name for node in world.overview.shown_nodes] == ["node-1", "node-2", "node-10"]


def test_decisions_are_recorded_once(world: World) -> None:
    world.put(PODS, a_pod("web"))
    assert not world.overview.decisions
    world.put_rejected("web", "0/1 nodes are available")
    world.put_rejected("web", "0/1 nodes are available")
    assert world.overview.pending["default/web"].reason == "0/1 nodes are available"
    world.put_bound("web", "n1")
    world.put_bound("web", "n1")
    reported = [
        (decision.key, decision.node, decision.reason) for decision in world.overview.decisions
    ]
    assert reported == [
        ("default/web", "", "0/1 nodes are available"),
        ("default/web", "n1", ""),
    ]
    assert not world.overview.pending
    assert world.overview.bound_count == 1


def test_a_pod_created_with_a_node_is_no_decision(world: World) -> None:
    world.put(PODS, a_pod("mirror", node="n1"), phase="Running")
    assert not world.overview.decisions


def test_an_unserved_pod_is_reported_once_after_a_delay(world: World) -> None:
    world.put(PODS, a_pod("lost", scheduler="nobody"))
    world.put(PODS, a_pod("ours"))
    assert world.overview.take_unserved() == {}
    world.clock.at_s += 3
    (found,) = world.overview.take_unserved().values()
    assert [pod.key for pod in found] == ["default/lost"]
    assert world.overview.take_unserved() == {}


def test_a_scheduler_that_has_decided_is_running(world: World) -> None:
    world.put(PODS, a_pod("first", scheduler="second"))
    world.put_bound("other", "n1", scheduler="second")
    world.clock.at_s += 60
    assert world.overview.take_unserved() == {}


def test_the_view_has_nodes_pending_pods_and_decisions(world: World) -> None:
    world.put_ready(a_node("n1", capacity={"cpu": "2"}))
    world.put_bound("a", "n1", requests={"cpu": "1"})
    world.put_rejected("b", "0/1 nodes are available: 1 Insufficient cpu.")
    world.put(PODS, a_pod("lost", scheduler="nobody"))
    console = Console(width=120, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(render(world.overview))
    text = captured.get()
    assert "█████░░░░░ 1/2" in text
    assert "pods: 1 running, 0 starting, 0 stopping, 0 finished, 2 pending; 1 bound so far" in text
    assert "default/b     0/1 nodes are available: 1 Insufficient cpu." in text
    assert "default/lost  scheduler 'nobody' is not running" in text
    assert "default/a -> n1" in text


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (
            120,
            "node-1  Ready,SchedulingDisabled  2       zone-a  1/110  █████░░░░░ 1/2  ",
        ),
        (80, "node-1  Ready,SchedulingDisabled  2       zone-a  1/110  1/2       "),
        (72, "node-1  Ready,SchedulingDisabled  2       1/110  1/2       "),
    ],
)
def test_narrow_terminals_omit_columns(world: World, width: int, row: str) -> None:
    world.put_ready(
        a_node(
            "node-1",
            labels={"topology.kubernetes.io/zone": "zone-a"},
            capacity={"cpu": "2"},
            taints=["team=blue:NoSchedule", "gpu:NoExecute"],
            unschedulable=True,
        )
    )
    world.put_bound("a", "node-1", requests={"cpu": "1"})
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(render(world.overview))
    lines = captured.get().splitlines()
    assert lines[1].startswith(row)
    assert lines[1].rstrip().endswith("0.0/16.0 GiB")
    assert "…" not in lines[0] + lines[1]


def test_only_the_first_of_many_decisions_are_printed(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    view = LineView(world.overview)
    view.start()
    for number in range(50):
        world.put_bound(f"web-{number}", "n1")
    view.refresh()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 21
    assert lines[0].endswith("default/web-0 -> n1")
    assert lines[-1] == "... and 30 more bound, 0 unschedulable"


def test_a_decision_is_one_line() -> None:
    assert decision_line(Decision(0.0, "a/b", reason="no room")).endswith(" a/b pending: no room")


@pytest.mark.parametrize(
    ("pods", "own", "output"),
    [
        (["a/b"], ["x"], "a/b waits for the scheduler 'y', which is not running (running: x). "),
        (
            ["a/1", "a/2", "a/3", "a/4", "a/5"],
            [],
            "a/1, a/2, a/3 and 2 more wait for the scheduler 'y', which is not running (no ",
        ),
    ],
)
def test_unserved_pods_are_reported_in_one_line(
    pods: list[str], own: list[str], output: str
) -> None:
    assert unserved_line("y", pods, own).startswith(output)
