"""What is seen of a cluster: nodes and their load, who waits, what was decided."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from kubesched.cli.playground_view import LineView, decision_line, rendered
from kubesched.cli.playground_words import unserved_line
from kubesched.client.cached.informers import Informers
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.playground.overview import Decision, Overview
from kubesched.testing import a_node, a_pod
from tests.clock import StillClock


class World:
    """An overview, and the informers that feed it."""

    def __init__(self) -> None:
        self.clock = StillClock(1_000.0)
        self.informers = Informers(None, self.clock, None, None)  # type: ignore[arg-type]  # Nothing is asked.
        self.overview = Overview(self.clock, served=["default-scheduler"])
        self.overview.watch(self.informers)
        self.overview.go_live()
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
        self.informers.of(resource).noted(
            {**document, "metadata": metadata, "status": {**known, **status}}
        )

    def put_ready(self, node: dict[str, Any]) -> None:
        self.put(NODES, node, conditions=[{"type": "Ready", "status": "True"}])

    def put_bound(self, name: str, node: str, **parts: Any) -> None:
        scheduled = {"type": "PodScheduled", "status": "True"}
        self.put(PODS, a_pod(name, node=node, **parts), phase="Running", conditions=[scheduled])

    def put_refused(self, name: str, why: str, **parts: Any) -> None:
        refused = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
        }
        self.put(PODS, a_pod(name, **parts), phase="Pending", conditions=[refused])

    def forget(self, name: str) -> None:
        self.informers.of(PODS).forget(f"default/{name}", name)


@pytest.fixture
def world() -> World:
    return World()


def test_a_node_counts_what_its_pods_request(world: World) -> None:
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
    assert world.overview.counts().over == 1


@pytest.mark.parametrize(
    ("spec", "ready", "word"),
    [
        ({}, "True", "Ready"),
        ({"unschedulable": True}, "True", "Ready,SchedulingDisabled"),
        ({}, "Unknown", "NotReady"),
        ({"unschedulable": True}, "False", "NotReady,SchedulingDisabled"),
    ],
)
def test_a_node_is_called_as_kubectl_calls_it(
    world: World, spec: dict[str, Any], ready: str, word: str
) -> None:
    conditions = [{"type": "Ready", "status": ready}]
    world.put(NODES, {**a_node("n1"), "spec": spec}, conditions=conditions)
    assert world.overview.shown_nodes[0].status == word


def test_nodes_are_in_the_order_in_which_people_count(world: World) -> None:
    for number in (10, 2, 1):
        world.put_ready(a_node(f"node-{number}"))
    assert [one.name for one in world.overview.shown_nodes] == ["node-1", "node-2", "node-10"]


def test_decisions_are_told_once_each(world: World) -> None:
    world.put(PODS, a_pod("web"))
    assert not world.overview.decisions
    world.put_refused("web", "0/1 nodes are available")
    world.put_refused("web", "0/1 nodes are available")
    assert world.overview.waiting["default/web"].reason == "0/1 nodes are available"
    world.put_bound("web", "n1")
    world.put_bound("web", "n1")
    told = [(one.key, one.node, one.reason) for one in world.overview.decisions]
    assert told == [
        ("default/web", "", "0/1 nodes are available"),
        ("default/web", "n1", ""),
    ]
    assert not world.overview.waiting
    assert world.overview.bound_count == 1


def test_a_pod_that_was_made_with_a_node_was_given_it_by_nobody(world: World) -> None:
    world.put(PODS, a_pod("mirror", node="n1"), phase="Running")
    assert not world.overview.decisions


def test_a_pod_that_nobody_takes_care_of_is_named_once_after_a_while(world: World) -> None:
    world.put(PODS, a_pod("lost", scheduler="nobody"))
    world.put(PODS, a_pod("ours"))
    assert world.overview.unserved() == {}
    world.clock.at_s += 3
    (found,) = world.overview.unserved().values()
    assert [one.key for one in found] == ["default/lost"]
    assert world.overview.unserved() == {}


def test_a_scheduler_that_has_decided_anything_is_somebody(world: World) -> None:
    world.put(PODS, a_pod("first", scheduler="second"))
    world.put_bound("other", "n1", scheduler="second")
    world.clock.at_s += 60
    assert world.overview.unserved() == {}


def test_the_picture_has_nodes_waiting_pods_and_decisions(world: World) -> None:
    world.put_ready(a_node("n1", capacity={"cpu": "2"}))
    world.put_bound("a", "n1", requests={"cpu": "1"})
    world.put_refused("b", "0/1 nodes are available: 1 Insufficient cpu.")
    world.put(PODS, a_pod("lost", scheduler="nobody"))
    console = Console(width=120, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(rendered(world.overview))
    text = captured.get()
    assert "█████░░░░░ 1/2" in text
    assert "pods: 1 running, 0 starting, 0 ending, 0 over, 2 waiting; 1 placed so far" in text
    assert "default/b     0/1 nodes are available: 1 Insufficient cpu." in text
    assert "default/lost  nobody runs the scheduler 'nobody'" in text
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
def test_nothing_of_a_node_is_cut_where_there_is_little_room(
    world: World, width: int, row: str
) -> None:
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
        console.print(rendered(world.overview))
    lines = captured.get().splitlines()
    assert lines[1].startswith(row)
    assert lines[1].rstrip().endswith("0.0/16.0 GiB")
    assert "…" not in lines[0] + lines[1]


def test_of_very_many_decisions_only_the_first_are_lines(
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
    assert lines[-1] == "... and 30 more placed, 0 told to wait"


def test_a_decision_is_one_line() -> None:
    assert decision_line(Decision(0.0, "a/b", reason="no room")).endswith(" a/b waits: no room")


@pytest.mark.parametrize(
    ("pods", "own", "said"),
    [
        (["a/b"], ["x"], "a/b waits for the scheduler 'y', which nobody runs: here runs x. "),
        (
            ["a/1", "a/2", "a/3", "a/4", "a/5"],
            [],
            "a/1, a/2, a/3 and 2 more wait for the scheduler 'y', which nobody runs: no ",
        ),
    ],
)
def test_lost_pods_are_named_in_one_line(pods: list[str], own: list[str], said: str) -> None:
    assert unserved_line("y", pods, own).startswith(said)
