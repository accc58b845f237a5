"""Other rules for a queue that holds pods: who is asked again, in which order, who is dropped."""

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


def test_those_that_wait_are_put_in_the_new_order() -> None:
    world = World()
    for name in ("b", "c", "a"):
        world.add(name)
    swap(world, less=by_name_backwards)
    assert world.drain() == ["c", "b", "a"]


def test_pods_whose_backoff_ends_at_once_are_put_in_the_new_order() -> None:
    world = World()
    for name in ("b", "c", "a"):
        world.refused(name)
    swap(world, less=by_name)
    assert {world.where(name) for name in "abc"} == {"Backoff"}
    swap(world, less=by_name_backwards)
    assert world.drain() == ["c", "b", "a"]


def test_a_refused_pod_returns_after_its_backoff_and_at_once_if_that_is_over() -> None:
    world = World()
    world.refused("old")
    world.advance(30)
    world.refused("new")
    swap(world)
    assert (world.where("old"), world.where("new")) == ("Active", "Backoff")
    assert world.value("queue_incoming_pods_total", "active", "RulesChanged") == 1
    assert world.value("queue_incoming_pods_total", "backoff", "RulesChanged") == 1
    assert pending(world) == {"active": 1, "backoff": 1, "unschedulable": 0, "gated": 0}


def test_the_new_gate_is_asked_about_everybody() -> None:
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


def test_gated_pods_are_woken_by_what_the_new_gate_registered_for() -> None:
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


def test_pods_of_a_profile_that_is_gone_are_dropped() -> None:
    world = World()
    world.refused("refused", "Fit")
    world.add("waits")
    swap(world, names=("another",))
    assert len(world.queue) == 0
    assert pending(world) == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert world.value("unschedulable_pods", "Fit", "default-scheduler") == 0


def test_a_pod_under_way_that_is_refused_after_the_swap_is_not_left_waiting() -> None:
    world = World()
    world.add("pod")
    queued = world.pop()
    swap(world)
    world.fail(queued, "Fit")
    assert world.where("pod") == "Backoff"


def test_whoever_waits_for_a_pod_is_told() -> None:
    world = World()
    swap(world)
    assert world.ready_count == 1
