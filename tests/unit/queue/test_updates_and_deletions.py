"""Updates and deletions of pods in the queue."""

from typing import Any

import pytest

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.interface import EventRegistration
from tests.unit.queue.world import NODE_ADD, World, always, never

LABELLED = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
UNGATED = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
UPDATED = ClusterEvent(EventResource.POD, ActionType.UPDATE)


def registered(event: ClusterEvent, hint: Any) -> dict[str, list[EventRegistration]]:
    return {"Fit": [EventRegistration(event, hint), EventRegistration(NODE_ADD)]}


def test_an_active_pod_is_updated_in_place_without_passing_the_gate() -> None:
    world = World()
    old = world.add("a")
    world.gates.runs.clear()
    new = world.pod("a", labels={"app": "x"})
    world.queue.update(old, new)
    assert world.gates.runs == []
    assert world.pop().pod is new


def test_a_pod_in_backoff_is_updated_in_place() -> None:
    world = World()
    queued = world.rejected("a")
    world.happen(NODE_ADD)
    expiry_s = queued.backoff_expiration_s
    new = world.pod("a", labels={"app": "x"})
    world.queue.update(queued.pod, new)
    assert (world.where("a"), queued.pod, queued.backoff_expiration_s) == ("Backoff", new, expiry_s)


@pytest.mark.parametrize(
    ("event", "hint", "passed_s", "expected"),
    [
        pytest.param(LABELLED, always, 0, "Backoff", id="helps during backoff"),
        pytest.param(LABELLED, always, 60, "Active", id="helps after backoff"),
        pytest.param(LABELLED, never, 60, "Unschedulable", id="does not help"),
        pytest.param(UNGATED, always, 60, "Unschedulable", id="labels not registered"),
        pytest.param(UPDATED, always, 60, "Active", id="any update registered"),
    ],
)
def test_an_update_may_help_an_unschedulable_pod(
    event: ClusterEvent, hint: Any, passed_s: float, expected: str
) -> None:
    world = World(registered(event, hint))
    queued = world.rejected("a")
    world.advance(passed_s)
    new = world.pod("a", labels={"app": "x"})
    world.queue.update(queued.pod, new)
    assert world.where("a") == expected
    assert queued.pod is new


def test_an_update_requeues_no_other_pod() -> None:
    world = World(registered(LABELLED, always))
    queued = world.rejected("a")
    world.rejected("b")
    world.queue.update(queued.pod, world.pod("a", labels={"app": "x"}))
    assert (world.where("a"), world.where("b")) == ("Backoff", "Unschedulable")


def test_the_first_event_that_helps_is_counted() -> None:
    world = World(
        {"Fit": [EventRegistration(LABELLED, never), EventRegistration(UNGATED, always)]},
    )
    queued = world.rejected("a", schedulingGates=[{"name": "g"}])
    world.queue.update(queued.pod, world.pod("a", labels={"app": "x"}))
    incoming = world.metrics.queue_incoming_pods_total
    label = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
    assert incoming.labels("backoff", label).value == 1
    assert world.where("a") == "Backoff"


def test_a_gated_pod_passes_the_gate_after_its_gates_are_removed() -> None:
    world = World({"Gate": [EventRegistration(UNGATED)]})
    world.gates.held["Gate"].add("a")
    old = world.add("a", schedulingGates=[{"name": "g"}])
    world.gates.held["Gate"].clear()
    world.queue.update(old, world.pod("a"))
    assert world.where("a") == "Active"
    assert world.value("pending_pods", "gated") == 0


def test_a_gated_pod_that_stays_gated_is_counted_once() -> None:
    world = World({"Gate": [EventRegistration(UNGATED)]})
    world.gates.held["Gate"].add("a")
    old = world.add("a", schedulingGates=[{"name": "g"}])
    world.queue.update(old, world.pod("a"))
    assert world.where("a") == "Gated"
    assert world.value("pending_pods", "gated") == 1
    assert world.value("queue_incoming_pods_total", "unschedulable", "UnschedulablePodAdd") == 1


def test_an_in_flight_pod_gets_its_update_after_the_attempt() -> None:
    world = World(registered(LABELLED, always), verbosity=6)
    old = world.add("a")
    queued = world.pop()
    new = world.pod("a", labels={"app": "x"})
    world.queue.update(old, new)
    assert queued.pod is old, "its attempt keeps the old state"
    assert world.value("inflight_events", "UnschedulablePodUpdatePodLabel") == 1
    text = "The pod doesn't need to be queued for now because it's being scheduled and will be "
    assert world.messages()[-1] == f'"{text}queued back if necessary" pod="default/a"'
    queued.pod = new
    world.fail(queued, "Fit")
    assert world.where("a") == "Backoff"


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    world = World()
    new = world.pod("a", labels={"app": "x"})
    world.queue.update(world.pod("a"), new)
    assert world.pop().pod is new
    assert world.value("queue_incoming_pods_total", "active", "UnschedulablePodUpdate") == 1


@pytest.mark.parametrize("part", ["Active", "Backoff", "Unschedulable", "Gated"])
def test_a_pod_is_deleted_in_every_state(part: str) -> None:
    world = World()
    if part == "Gated":
        world.gates.held["Gate"].add("a")
    pod = world.add("a")
    if part in ("Backoff", "Unschedulable"):
        world.fail(world.pop(), *(["Fit"] if part == "Unschedulable" else []))
    assert world.where("a") == part
    world.queue.delete(pod)
    assert world.where("a") is None
    assert len(world.queue) == 0
    for queue in ("active", "backoff", "unschedulable", "gated"):
        assert world.value("pending_pods", queue) == 0


def test_deletion_uncounts_an_unschedulable_pod() -> None:
    world = World()
    queued = world.rejected("a", "Fit", pending=["Claims"])
    world.queue.delete(queued.pod)
    for plugin in ("Fit", "Claims"):
        assert world.value("unschedulable_pods", plugin, "default-scheduler") == 0


def test_deletion_does_not_uncount_a_pod_in_backoff() -> None:
    world = World()
    queued = world.rejected("a", "Fit")
    world.happen(NODE_ADD)
    world.queue.delete(queued.pod)
    assert world.value("unschedulable_pods", "Fit", "default-scheduler") == 1


def test_deletion_leaves_an_in_flight_pod_to_its_attempt() -> None:
    world = World()
    pod = world.add("a")
    world.pop()
    world.queue.delete(pod)
    assert world.queue.in_flight_pods() == [pod]


def test_pending_pods_by_state() -> None:
    world = World()
    waiting = world.rejected("waiting").pod
    world.add("failed")
    failed = world.fail(world.pop()).pod
    active = world.add("active")
    parts, summary = world.queue.pending_pods()
    assert parts == {"Active": [active], "Backoff": [failed], "Unschedulable": [waiting]}
    assert summary == "activeQ:1; backoffQ:1; unschedulablePods:1"
    assert len(world.queue) == 3
