"""Pods that stay unschedulable for five minutes are requeued without an event."""

import pytest

from tests.unit.queue.world import World


@pytest.mark.parametrize(("waited_s", "expected"), [(300, "Unschedulable"), (300.5, "Active")])
def test_a_pod_is_requeued_after_five_minutes(waited_s: float, expected: str) -> None:
    world = World()
    queued = world.rejected("a", "NobodyRegistered")
    world.advance(waited_s)
    world.queue.flush_unschedulable_pods_left_over()
    assert world.where("a") == expected
    assert queued.was_flushed_from_unschedulable == (expected == "Active")
    moved = 1 if expected == "Active" else 0
    assert world.value("queue_incoming_pods_total", "active", "UnschedulableTimeout") == moved


def test_the_limit_is_configurable() -> None:
    world = World(max_in_unschedulable_s=60)
    world.rejected("a")
    world.advance(61)
    world.queue.flush_unschedulable_pods_left_over()
    assert world.where("a") == "Active"


def test_a_flushed_pod_that_is_gated_waits_another_five_minutes() -> None:
    world = World()
    world.gates.held["Gate"].add("a")
    world.add("a")
    world.advance(301)
    world.gates.runs.clear()
    world.queue.flush_unschedulable_pods_left_over()
    assert world.gates.runs == [("Gate", "a")]
    queued = world.queue.get("default/a")
    assert queued is not None
    assert queued.flush_timestamp_s == world.clock.now_s()
    assert queued.was_flushed_from_unschedulable is False
    world.advance(299)
    world.queue.flush_unschedulable_pods_left_over()
    assert world.gates.runs == [("Gate", "a")]
    world.advance(2)
    world.queue.flush_unschedulable_pods_left_over()
    assert world.gates.runs == [("Gate", "a")] * 2


def test_a_failed_attempt_clears_the_flush_marks() -> None:
    world = World()
    queued = world.rejected("a")
    world.advance(301)
    world.queue.flush_unschedulable_pods_left_over()
    world.fail(world.pop(), "Fit")
    assert queued.was_flushed_from_unschedulable is False
    assert queued.flush_timestamp_s is None


def test_in_flight_pods_get_the_event_of_a_flush() -> None:
    world = World()
    world.rejected("a")
    world.add("b")
    world.pop()
    world.queue.flush_unschedulable_pods_left_over()
    assert world.value("inflight_events", "UnschedulableTimeout") == 0
    world.advance(301)
    world.queue.flush_unschedulable_pods_left_over()
    assert world.value("inflight_events", "UnschedulableTimeout") == 1


def test_left_over_pods_are_checked_every_thirty_seconds() -> None:
    world = World()
    start_s = world.clock.now_s()
    world.rejected("a")
    assert world.queue.next_flush_at_s() == start_s + 30
    world.advance(290)
    world.queue.flush_due()
    assert world.queue.next_flush_at_s() == start_s + 300
    world.advance(10)
    world.queue.flush_due()
    assert world.where("a") == "Unschedulable", "not longer than five minutes yet"
    assert world.queue.next_flush_at_s() == start_s + 330
    world.advance(29)
    world.queue.flush_due()
    assert world.where("a") == "Unschedulable"
    world.advance(1)
    world.queue.flush_due()
    assert world.where("a") == "Active"
