"""Backoff after a failed attempt."""

import math

import pytest

from tests.unit.queue.world import NODE_ADD, START_S, World


def expiry(world: World, *, rejections: int = 0, errors: int = 0, at_s: float = START_S) -> float:
    world.clock.time_s = at_s
    world.add("a")
    queued = world.pop()
    queued.unschedulable_count, queued.consecutive_errors_count = rejections, errors
    return world.queue.backoff_expiration_s(queued)


@pytest.mark.parametrize(
    ("count", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (64, 10), (5000, 10)]
)
def test_the_backoff_doubles_up_to_the_limit(count: int, seconds: int) -> None:
    assert expiry(World(), rejections=count, at_s=1000.0) == 1000 + seconds
    assert expiry(World(), errors=count, at_s=1000.0) == 1000 + seconds


def test_errors_take_precedence_over_rejections() -> None:
    assert expiry(World(), rejections=4, errors=1, at_s=1000.0) == 1001


def test_a_pod_that_never_failed_does_not_back_off() -> None:
    assert expiry(World()) == -math.inf


def test_a_limit_of_zero_disables_backoff() -> None:
    assert expiry(World(max_backoff_s=0), rejections=3) == -math.inf


@pytest.mark.parametrize(
    ("initial_s", "limit_s", "count", "seconds"),
    [(3, 10, 2, 6), (3, 10, 3, 10), (20, 10, 1, 10), (10, 10, 1, 10)],
)
def test_other_settings(initial_s: int, limit_s: int, count: int, seconds: int) -> None:
    world = World(initial_backoff_s=initial_s, max_backoff_s=limit_s)
    assert expiry(world, rejections=count, at_s=1000.0) == 1000 + seconds


def test_the_expiry_is_rounded_down_to_a_second() -> None:
    assert expiry(World(), rejections=1, at_s=1000.9) == 1001
    assert expiry(World(pop_from_backoff_queue=False), rejections=1, at_s=1000.5) == 1001.5


@pytest.mark.parametrize(
    ("now_s", "expected"),
    [
        pytest.param(1001.0, "Backoff", id="second of the expiry"),
        pytest.param(1001.99, "Backoff", id="end of that second"),
        pytest.param(1002.0, "Active", id="next second"),
    ],
)
def test_the_backoff_lasts_until_the_end_of_its_second(now_s: float, expected: str) -> None:
    world = World()
    world.clock.time_s = 1000.9
    world.rejected("a")
    world.clock.time_s = now_s
    world.happen(NODE_ADD)
    assert world.where("a") == expected


@pytest.mark.parametrize(("now_s", "expected"), [(1001.99, "Backoff"), (1002.0, "Active")])
def test_a_flush_handles_whole_seconds_and_both_heaps(now_s: float, expected: str) -> None:
    world = World()
    world.clock.time_s = 1000.5
    world.rejected("rejected")
    world.happen(NODE_ADD)
    world.add("failed")
    world.fail(world.pop())
    world.clock.time_s = now_s
    world.queue.flush_backoff_queue_completed()
    assert {world.where("rejected"), world.where("failed")} == {expected}
    moved = 2 if expected == "Active" else 0
    assert world.value("queue_incoming_pods_total", "active", "BackoffComplete") == moved


def test_a_pod_leaves_backoff_without_passing_the_gate() -> None:
    world = World()
    world.rejected("a")
    world.happen(NODE_ADD)
    world.gates.runs.clear()
    world.advance(10)
    world.queue.flush_backoff_queue_completed()
    assert world.gates.runs == []


def test_without_the_feature_gate_pods_pass_the_gate_after_the_backoff() -> None:
    world = World(pop_from_backoff_queue=False)
    world.rejected("a")
    world.gates.runs.clear()
    world.happen(NODE_ADD)
    assert (world.where("a"), world.gates.runs) == ("Backoff", [])
    world.gates.held["Gate"].add("a")
    world.advance(10)
    world.queue.flush_backoff_queue_completed()
    assert world.gates.runs == [("Gate", "a")]
    assert world.where("a") == "Gated"


def test_a_rejection_resets_the_count_of_errors() -> None:
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


def test_the_next_flush_is_at_the_end_of_a_backoff() -> None:
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
