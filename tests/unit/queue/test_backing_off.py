"""How long a pod must wait after an attempt that failed."""

import math

import pytest

from tests.unit.queue.world import NODE_ADD, START_S, World


def expiry(world: World, *, refusals: int = 0, errors: int = 0, at_s: float = START_S) -> float:
    world.clock.time_s = at_s
    world.add("a")
    queued = world.pop()
    queued.unschedulable_count, queued.consecutive_errors_count = refusals, errors
    return world.queue.backoff_expiration_s(queued)


@pytest.mark.parametrize(
    ("count", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (64, 10), (5000, 10)]
)
def test_the_time_doubles_up_to_the_limit(count: int, seconds: int) -> None:
    assert expiry(World(), refusals=count, at_s=1000.0) == 1000 + seconds
    assert expiry(World(), errors=count, at_s=1000.0) == 1000 + seconds


def test_errors_count_before_refusals() -> None:
    assert expiry(World(), refusals=4, errors=1, at_s=1000.0) == 1001


def test_a_pod_that_never_failed_does_not_back_off() -> None:
    assert expiry(World()) == -math.inf


def test_a_limit_of_nothing_switches_backoff_off() -> None:
    assert expiry(World(max_backoff_s=0), refusals=3) == -math.inf


@pytest.mark.parametrize(
    ("initial_s", "limit_s", "count", "seconds"),
    [(3, 10, 2, 6), (3, 10, 3, 10), (20, 10, 1, 10), (10, 10, 1, 10)],
)
def test_other_settings(initial_s: int, limit_s: int, count: int, seconds: int) -> None:
    world = World(initial_backoff_s=initial_s, max_backoff_s=limit_s)
    assert expiry(world, refusals=count, at_s=1000.0) == 1000 + seconds


def test_the_end_is_cut_to_a_whole_second() -> None:
    assert expiry(World(), refusals=1, at_s=1000.9) == 1001
    assert expiry(World(pop_from_backoff_queue=False), refusals=1, at_s=1000.5) == 1001.5


@pytest.mark.parametrize(
    ("now_s", "expected"),
    [
        pytest.param(1001.0, "Backoff", id="the second of the end"),
        pytest.param(1001.99, "Backoff", id="the last moment of it"),
        pytest.param(1002.0, "Active", id="the next second"),
    ],
)
def test_backoff_lasts_through_the_second_it_ends_in(now_s: float, expected: str) -> None:
    world = World()
    world.clock.time_s = 1000.9
    world.refused("a")
    world.clock.time_s = now_s
    world.happen(NODE_ADD)
    assert world.where("a") == expected


@pytest.mark.parametrize(("now_s", "expected"), [(1001.99, "Backoff"), (1002.0, "Active")])
def test_a_flush_takes_whole_seconds_and_both_heaps(now_s: float, expected: str) -> None:
    world = World()
    world.clock.time_s = 1000.5
    world.refused("refused")
    world.happen(NODE_ADD)
    world.add("failed")
    world.fail(world.pop())
    world.clock.time_s = now_s
    world.queue.flush_backoff_queue_completed()
    assert {world.where("refused"), world.where("failed")} == {expected}
    moved = 2 if expected == "Active" else 0
    assert world.value("queue_incoming_pods_total", "active", "BackoffComplete") == moved


def test_leaving_backoff_does_not_ask_the_gates_again() -> None:
    world = World()
    world.refused("a")
    world.happen(NODE_ADD)
    world.gates.asked.clear()
    world.advance(10)
    world.queue.flush_backoff_queue_completed()
    assert world.gates.asked == []


def test_with_the_gate_off_leaving_backoff_asks_and_entering_does_not() -> None:
    world = World(pop_from_backoff_queue=False)
    world.refused("a")
    world.gates.asked.clear()
    world.happen(NODE_ADD)
    assert (world.where("a"), world.gates.asked) == ("Backoff", [])
    world.gates.held["Gate"].add("a")
    world.advance(10)
    world.queue.flush_backoff_queue_completed()
    assert world.gates.asked == [("Gate", "a")]
    assert world.where("a") == "Gated"


def test_a_refusal_ends_the_run_of_errors() -> None:
    world = World()
    world.add("a")
    queued = world.fail(world.pop())
    world.advance(10)
    world.queue.flush_backoff_queue_completed()
    world.fail(world.pop())
    assert (queued.consecutive_errors_count, queued.unschedulable_count) == (2, 0)
    world.advance(10)
    world.queue.flush_backoff_queue_completed()
    world.fail(world.pop(), "Fit")
    assert (queued.consecutive_errors_count, queued.unschedulable_count) == (0, 1)


def test_the_next_flush_is_when_a_backoff_will_be_over() -> None:
    world = World()
    assert world.queue.next_flush_at_s() == math.inf
    world.clock.time_s = 1000.9
    world.add("a")
    world.fail(world.pop())
    assert world.queue.next_flush_at_s() == 1002
    world.clock.time_s = world.queue.next_flush_at_s()
    world.queue.flush_due()
    assert world.where("a") == "Active"
    assert world.queue.next_flush_at_s() == math.inf
