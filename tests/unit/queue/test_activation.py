"""Activation: pods that a plugin moves to the active queue at once."""

from kubesched.framework.cluster_event import FORCE_ACTIVATE_EVENT
from tests.unit.queue.world import NODE_ADD, World


def test_an_unschedulable_pod_is_tried_without_backing_off() -> None:
    world = World()
    pod = world.rejected("a").pod
    ready = world.ready_count
    world.queue.activate([pod])
    assert world.where("a") == "Active"
    assert world.ready_count == ready + 1
    assert world.value("queue_incoming_pods_total", "active", "ForceActivate") == 1


def test_a_pod_in_backoff_is_tried_without_passing_the_gate() -> None:
    world = World()
    pod = world.rejected("a").pod
    world.happen(NODE_ADD)
    world.gates.runs.clear()
    world.queue.activate([pod])
    assert (world.where("a"), world.gates.runs) == ("Active", [])
    assert world.value("pending_pods", "backoff") == 0


def test_a_pod_in_error_backoff_is_tried() -> None:
    world = World()
    world.add("a")
    pod = world.fail(world.pop()).pod
    world.queue.activate([pod])
    assert world.where("a") == "Active"


def test_a_gated_pod_stays_gated() -> None:
    world = World()
    world.gates.held["Gate"].add("a")
    pod = world.add("a")
    world.queue.activate([pod])
    assert world.where("a") == "Gated"
    assert world.ready_count == 0


def test_active_and_unknown_pods_are_left_alone() -> None:
    world = World()
    pod = world.add("a")
    world.queue.activate([pod, world.pod("unknown")])
    assert world.where("a") == "Active"
    assert world.where("unknown") is None
    assert world.value("queue_incoming_pods_total", "active", "ForceActivate") == 0


def test_an_in_flight_pod_is_tried_again_after_its_attempt() -> None:
    world = World()
    pod = world.add("a")
    queued = world.pop()
    world.queue.activate([pod])
    assert world.value("inflight_events", "ForceActivate") == 1
    world.fail(queued, "NobodyRegistered")
    assert world.where("a") == "Backoff"


def test_activation_does_not_affect_other_in_flight_pods() -> None:
    world = World(verbosity=6)
    for name in ("a", "b"):
        world.add(name)
        world.advance(0.001)
    first, second = world.pop(), world.pop()
    world.queue.activate([second.pod])
    world.fail(first, "NobodyRegistered")
    assert world.where("a") == "Unschedulable"
    text = "Not worth requeuing because the event is wildcard, but for another pod"
    label = FORCE_ACTIVATE_EVENT.label
    line = f'"{text}" pod="default/a" event="{label}" newObj="default/b"'
    assert line in world.messages()
    world.fail(second, "NobodyRegistered")
    assert world.where("b") == "Backoff"
