"""A hint runs once for all pods that are equal in the fields it reads."""

from collections import Counter
from typing import Any

import pytest

from kubesched.framework.cluster_event import ASSIGNED_POD_DELETE, ClusterEvent
from kubesched.framework.interface import EventRegistration
from kubesched.snapshot.pod_info import PodInfo, PodShapes
from tests.unit.builders import a_wire_pod
from tests.unit.queue.world import NODE_ADD, QUEUE, SKIP, World, never

POD_DELETE = ClusterEvent("Pod", ASSIGNED_POD_DELETE.action)


class RecordingHint:
    """A hint that records the pods it ran for."""

    def __init__(self, *helped: str) -> None:
        self.names: list[str] = []
        self.helped = helped

    def __call__(self, pod: PodInfo, _old: Any, _new: Any) -> Any:
        self.names.append(pod.name)
        return QUEUE if pod.name in self.helped or pod.labels.get("app") in self.helped else SKIP


def waiting(
    registrations: dict[str, list[EventRegistration]], *plugins: str, pending: tuple[str, ...] = ()
) -> World:
    """Six pods: two shapes, in each two of app a and one of app b."""
    world, shapes = World(registrations), PodShapes()
    for i in range(6):
        labels = {"app": "b" if i % 3 == 2 else "a"}
        wire = a_wire_pod(f"p{i}", labels=labels, requests={"cpu": str(1 + i // 3)})
        pod = shapes.pod_info(wire)
        world.pods[pod.key] = pod
        world.queue.add(pod)
        world.fail(world.pop(), *(plugins or ("Fit",)), pending=pending)
    return world


@pytest.mark.parametrize(
    ("reads", "count"),
    [
        ("nothing", 1),
        ("shape", 2),
        ("template", 4),
        ("pod", 6),
        (lambda shape, _old, _new: "shape" if shape.requests["cpu"] == 1000 else "pod", 1 + 3),
        (lambda _shape, old, _new: "nothing" if old is None else "pod", 2),
        (lambda _shape, _old, _new: "everything", 6),
        (lambda _shape, _old, _new: 1 / 0, 6),
    ],
)
def test_how_often_a_hint_runs(reads: Any, count: int) -> None:
    hint = RecordingHint()
    world = waiting({"Fit": [EventRegistration(NODE_ADD, hint, reads=reads)]})
    world.happen(NODE_ADD)
    assert len(hint.names) == count
    assert max(Counter(hint.names).values()) == 1


@pytest.mark.parametrize(
    ("reads", "helped", "woken"),
    [
        pytest.param("template", ["b"], {"p2", "p5"}, id="by labels"),
        pytest.param("pod", ["p1"], {"p1"}, id="one pod"),
        pytest.param("shape", ["p0"], {"p0", "p1", "p2"}, id="one pod of a shape for all"),
        pytest.param("nothing", ["p0"], {f"p{i}" for i in range(6)}, id="all pods"),
    ],
)
def test_the_result_holds_for_all_pods_with_the_same_fields(
    reads: Any, helped: list[str], woken: set[str]
) -> None:
    world = waiting({"Fit": [EventRegistration(NODE_ADD, RecordingHint(*helped), reads=reads)]})
    world.happen(NODE_ADD)
    assert {f"p{i}" for i in range(6) if world.where(f"p{i}") == "Backoff"} == woken


def test_hints_that_read_more_do_not_run_after_a_final_result() -> None:
    early, late = RecordingHint("a", "b"), RecordingHint()
    registered = [
        EventRegistration(NODE_ADD, late, reads="pod"),
        EventRegistration(NODE_ADD, early, reads="nothing"),
    ]
    world = waiting({"Fit": registered})
    world.happen(NODE_ADD)
    assert (len(early.names), len(late.names)) == (1, 0)


def test_with_pending_plugins_all_hints_run() -> None:
    rejecting, pending = RecordingHint("a", "b"), RecordingHint("p1")
    world = waiting(
        {
            "Fit": [EventRegistration(NODE_ADD, rejecting, reads="nothing")],
            "Claims": [EventRegistration(NODE_ADD, pending, reads="pod")],
        },
        "Fit",
        pending=("Claims",),
    )
    world.happen(NODE_ADD)
    assert [world.where(f"p{i}") for i in range(6)] == ["Backoff", "Active", *["Backoff"] * 4]


def test_a_group_without_registrations_is_skipped() -> None:
    hint = RecordingHint()
    world = waiting({"Fit": [EventRegistration(NODE_ADD, hint)], "Ports": []}, "Ports")
    world.happen(NODE_ADD)
    assert hint.names == []


def test_a_hint_runs_alone_for_the_subject_of_the_event() -> None:
    calls = []

    def after_deleted(pod: PodInfo, old: PodInfo, _new: None) -> Any:
        calls.append(pod.name)
        return QUEUE if pod.uid == old.uid else SKIP

    registration = EventRegistration(POD_DELETE, after_deleted, reads="nothing")
    world = waiting({"Fit": [registration]})
    world.happen(ASSIGNED_POD_DELETE, world.pods["default/p1"], None)
    assert sorted(calls) == ["p0", "p1"]
    assert [world.where(f"p{i}") for i in range(3)] == [
        "Unschedulable",
        "Backoff",
        "Unschedulable",
    ]


def test_another_pod_with_the_same_name_is_not_the_subject() -> None:
    hint = RecordingHint("p1")
    world = waiting({"Fit": [EventRegistration(POD_DELETE, hint, reads="nothing")]})
    world.happen(ASSIGNED_POD_DELETE, world.pod("p1", uid="another"), None)
    assert hint.names == ["p0"]


def test_an_updated_pod_moves_to_the_group_of_its_new_shape() -> None:
    by_labels, by_shape = RecordingHint("c"), RecordingHint()
    registered = [
        EventRegistration(NODE_ADD, by_labels, reads="template"),
        EventRegistration(NODE_ADD, by_shape, reads="shape"),
    ]
    world = waiting({"Fit": registered})
    world.happen(NODE_ADD)  # From now on, templates are kept in order.
    old = world.pods["default/p0"]
    new = world.pod("p0", labels={"app": "c"}, requests={"cpu": "9"})
    world.queue.update(old, new)
    by_shape.names.clear()
    world.happen(NODE_ADD)
    assert world.where("p0") == "Backoff"
    assert len(by_shape.names) == 3, "it has a shape of its own"
    world.queue.delete(world.pods["default/p1"])
    world.happen(NODE_ADD)
    assert {world.where(f"p{i}") for i in range(2, 6)} == {"Unschedulable"}
    by_labels.helped = ("a", "b")
    world.happen(NODE_ADD)
    assert world.where("p1") is None
    assert {world.where(f"p{i}") for i in range(2, 6)} == {"Backoff"}


def test_an_unknown_value_of_reads_is_rejected() -> None:
    registration = EventRegistration(NODE_ADD, never, reads="all")  # type: ignore[arg-type]  # the fault
    with pytest.raises(ValueError, match="plugin Fit: a hint reads nothing, shape, template, pod"):
        World({"Fit": [registration]})
