"""The order in which pods are popped."""

import pytest

from tests.unit.queue.world import NODE_ADD, World


@pytest.mark.parametrize("by_less", [False, True])
def test_priority_first_then_arrival(by_less: bool) -> None:
    world = World(by_less=by_less)
    for name, priority in (("old", 5), ("high", 9), ("new", 5), ("low", -1)):
        world.add(name, priority=priority)
        world.advance(1)
    assert world.drain() == ["high", "old", "new", "low"]


def test_nothing_is_popped_from_an_empty_queue() -> None:
    assert World().queue.pop() is None


def test_a_popped_pod_is_in_flight_and_counted() -> None:
    world = World()
    pod = world.add("a")
    queued = world.pop()
    assert (queued.attempts, world.queue.scheduling_cycle) == (1, 1)
    assert world.where("a") == "InFlight"
    assert world.queue.in_flight_pods() == [pod]
    world.queue.done(pod.uid)
    assert world.where("a") is None


def test_the_first_attempt_is_dated_once() -> None:
    world = World()
    world.add("a")
    first_s = world.clock.now_s()
    world.advance(3)
    queued = world.fail(world.pop())
    world.advance(20)
    world.queue.flush_backoff_queue_completed()
    assert world.pop() is queued
    assert queued.initial_attempt_timestamp_s == first_s
    assert queued.timestamp_s == first_s + 3


def test_an_update_may_change_the_order() -> None:
    world = World()
    old = world.add("a", priority=1)
    world.add("b", priority=2)
    world.queue.update(old, world.pod("a", priority=3))
    assert world.drain() == ["a", "b"]


def backing_off(world: World, **priorities: int) -> None:
    for name, priority in priorities.items():
        world.rejected(name, "Fit", priority=priority)
    world.happen(NODE_ADD)
    assert {world.where(name) for name in priorities} == {"Backoff"}


def test_an_idle_scheduler_pops_pods_in_backoff() -> None:
    world = World()
    backing_off(world, low=1, high=9)
    assert world.drain() == ["high", "low"]
    assert world.value("queue_incoming_pods_total", "active", "PopFromBackoffQ") == 2


def test_active_pods_go_before_pods_in_backoff() -> None:
    world = World()
    backing_off(world, high=9)
    world.add("low", priority=1)
    assert world.drain() == ["low", "high"]


def test_backoff_is_ordered_by_second_and_then_by_priority() -> None:
    world = World()
    world.clock.time_s = 1000.0
    world.rejected("early", priority=1)
    world.clock.time_s = 1000.9
    world.rejected("same-second", priority=5)
    world.clock.time_s = 1001.0
    world.rejected("next-second", priority=9)
    world.happen(NODE_ADD)
    assert world.drain() == ["same-second", "early", "next-second"]


def test_without_the_feature_gate_no_pod_leaves_backoff_early() -> None:
    world = World(pop_from_backoff_queue=False)
    backing_off(world, a=1)
    assert world.queue.pop() is None


def test_a_pod_in_error_backoff_is_not_popped_early() -> None:
    world = World()
    world.add("a")
    world.fail(world.pop())
    assert world.where("a") == "Backoff"
    assert world.queue.pop() is None
    assert world.ready_count == 2, "as upstream: the popper is woken, and finds nothing"


def test_a_pod_that_is_already_in_flight_is_discarded() -> None:
    world = World()
    world.add("twice", priority=9)
    world.pop()
    world.add("twice", priority=9)
    world.add("other")
    assert world.pop().pod.name == "other"
    assert world.queue.pop() is None
    expected = '"Discarding the popped pod" err="the same pod is tracked in multiple places in '
    assert world.messages() == [f'{expected}the scheduler: default/twice"']


def test_on_ready_is_called_when_a_pod_is_ready() -> None:
    world = World()
    world.add("a")
    assert world.ready_count == 1
    world.fail(world.pop(), "Fit")
    assert world.ready_count == 1
    world.happen(NODE_ADD)
    assert world.ready_count == 2


def test_close_clears_in_flight_pods_and_calls_on_ready() -> None:
    world = World(verbosity=2)
    world.add("a")
    world.pop()
    world.happen(NODE_ADD)
    world.queue.close()
    assert world.queue.in_flight_pods() == []
    assert world.value("inflight_events", "PodPopped") == 0
    assert world.value("inflight_events", "NodeAdd") == 0
    assert world.ready_count == 2
    assert world.queue.pop() is None
    assert world.messages() == ['"Scheduling queue is closed"']
