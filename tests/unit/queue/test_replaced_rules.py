"""Replacing the rules of a queue that holds pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.queue.interface import Less, ProfileQueueing
from tests.unit.queue.world import DEFAULT_REGISTRATIONS, Gates, World


def by_name(first: Any, second: Any) -> bool:
    return bool(first.pod.name < second.pod.name)


def by_name_backwards(first: Any, second: Any) -> bool:
    return bool(first.pod.name > second.pod.name)


def swap(
    world: World,
    gates: Gates | None = None,
    less: Less = by_name,
    names: tuple[str, ...] = ("default-scheduler",),
    registrations: Mapping[str, Any] = DEFAULT_REGISTRATIONS,
) -> None:
    profile = ProfileQueueing((gates or Gates("Gate")).calls(), registrations)
    rules = world.queue.rules_of(dict.fromkeys(names, profile), less=less, key=None)
    world.queue.swap(rules)


def pending(world: World) -> dict[str, float]:
    parts = ("active", "backoff", "unschedulable", "gated")
    return {part: world.value("pending_pods", part) for part in parts}


def test_active_pods_get_the_new_order() -> None:
    world = World()
    for name in ("b", "c", "a"):
        world.add(name)
    swap(world, less=by_name_backwards)
    assert world.drain() == ["c", "b", "a"]


def test_pods_in_the_same_backoff_window_get_the_new_order() -> None:
    world = World()
    for name in ("b", "c", "a"):
        world.rejected(name)
    swap(world, less=by_name)
    assert {world.where(name) for name in "abc"} == {"Backoff"}
    swap(world, less=by_name_backwards)
    assert world.drain() == ["c", "b", "a"]


def test_a_rejected_pod_is_requeued_after_its_backoff() -> None:
    world = World()
    world.rejected("old")
    world.advance(30)
    world.rejected("new")
    swap(world)
    assert (world.where("old"), world.where("new")) == ("Active", "Backoff")
    assert world.value("queue_incoming_pods_total", "active", "RulesChanged") == 1
    assert world.value("queue_incoming_pods_total", "backoff", "RulesChanged") == 1
    assert pending(world) == {"active": 1, "backoff": 1, "unschedulable": 0, "gated": 0}


def test_all_pods_pass_the_new_gate() -> None:
    gates = Gates("Gate")
    gates.held["Gate"] = {"gated"}
    world = World(gates=gates)
    for name in ("gated", "waits"):
        world.add(name)
    assert (world.where("gated"), world.where("waits")) == ("Gated", "Active")
    after = Gates("Gate")
    after.held["Gate"] = {"waits"}
    swap(world, after)
    assert (world.where("gated"), world.where("waits")) == ("Active", "Gated")
    assert pending(world) == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 1}


def test_gated_pods_wait_for_the_events_of_the_new_gate() -> None:
    gates = Gates("Gate")
    gates.held["Gate"] = {"one", "two"}
    world = World({"Gate": []}, gates=gates)
    for name in ("one", "two"):
        world.add(name)
    after = Gates("Gate")
    after.held["Gate"] = {"one", "two"}
    swap(world, after)
    after.held["Gate"] = set()
    world.happen(DEFAULT_REGISTRATIONS["Gate"][0].event)
    assert (world.where("one"), world.where("two")) == ("Active", "Active")


def test_pods_of_a_removed_profile_are_dropped() -> None:
    world = World()
    world.rejected("rejected", "Fit")
    world.add("waits")
    swap(world, names=("another",))
    assert len(world.queue) == 0
    assert pending(world) == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert world.value("unschedulable_pods", "Fit", "default-scheduler") == 0


def test_an_in_flight_pod_rejected_after_the_swap_is_requeued() -> None:
    world = World()
    world.add("pod")
    queued = world.pop()
    swap(world)
    world.fail(queued, "Fit")
    assert world.where("pod") == "Backoff"


def test_a_swap_calls_on_ready() -> None:
    world = World()
    swap(world)
    assert world.ready_count == 1
