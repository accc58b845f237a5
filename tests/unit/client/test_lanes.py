"""Who may send next."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.client.errors import TransportError
from kubesched.client.lanes import LIMITS, Lane, Lanes, TokenBucket
from kubesched.kit.tasks import Tasks
from tests.unit.client.election_world import HandClock, settle
from tests.unit.client.request_world import on_a_loop

WIDE = dict.fromkeys(Lane, 1000)


class Road:
    """Lanes, and the order in which requests got through them."""

    def __init__(self, *, qps: float, burst: int, limits: dict[Lane, int] | None = None) -> None:
        self.clock = HandClock()
        self.lanes = Lanes(qps=qps, burst=burst, clock=self.clock, limits=limits or WIDE)
        self.through: list[tuple[float, str]] = []
        self._tasks = Tasks()

    def queue(self, lane: Lane, name: str) -> asyncio.Task[None]:
        async def drive() -> None:
            await self.lanes.enter(lane)
            self.through.append((self.clock.monotonic_s(), name))

        return self._tasks.start(drive(), name=name)

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.through]


@on_a_loop
async def test_a_burst_then_the_rate() -> None:
    clock = HandClock()
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    assert bucket.wait_s() == pytest.approx(0.1)
    await clock.advance(0.05)
    assert not bucket.take()
    await clock.advance(0.0501)
    assert bucket.take()
    await clock.advance(60)
    # Never more than the burst, however long nobody asked.
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(("qps", "burst", "number"), [(-1, 0, 500), (0, 0, 10), (5, 7, 7)])
def test_no_limit_and_the_defaults_of_client_go(qps: float, burst: int, number: int) -> None:
    bucket = TokenBucket(qps, burst, HandClock())
    assert sum(bucket.take() for _ in range(500)) == number


@on_a_loop
async def test_bindings_go_before_all_that_waits_and_each_lane_in_order() -> None:
    road = Road(qps=1, burst=1)
    assert road.lanes.try_enter(Lane.EVENT)
    for number in range(2):
        for lane in (Lane.EVENT, Lane.OTHER, Lane.WRITE, Lane.BINDING):
            road.queue(lane, f"{lane.name}{number}")
    await road.clock.advance(8.5)
    assert road.names == [
        "BINDING0", "BINDING1", "WRITE0", "WRITE1", "OTHER0", "OTHER1", "EVENT0", "EVENT1",
    ]  # fmt: skip
    assert [moment for moment, _ in road.through] == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8])


@on_a_loop
async def test_a_binding_that_comes_later_goes_first() -> None:
    road = Road(qps=1, burst=1)
    assert road.lanes.try_enter(Lane.WRITE)
    road.queue(Lane.WRITE, "patch")
    await road.clock.advance(0.9)
    road.queue(Lane.BINDING, "binding")
    await road.clock.advance(0.2)
    assert road.names == ["binding"]
    await road.clock.advance(1)
    assert road.names == ["binding", "patch"]


@on_a_loop
async def test_nobody_overtakes_in_the_moment_when_a_token_comes() -> None:
    road = Road(qps=1, burst=1)
    assert road.lanes.try_enter(Lane.WRITE)
    road.queue(Lane.WRITE, "first")
    await settle()
    road.clock._now_s = 1.5  # the token is there, and the one who waits has not been told yet
    assert not road.lanes.try_enter(Lane.WRITE)
    assert not road.lanes.try_enter(Lane.EVENT)
    assert road.lanes.try_enter(Lane.BINDING)


@on_a_loop
async def test_a_full_lane_holds_up_nobody_else() -> None:
    road = Road(qps=-1, burst=0, limits={**WIDE, Lane.BINDING: 1, Lane.EVENT: 2})
    assert [road.lanes.try_enter(Lane.EVENT) for _ in range(3)] == [True, True, False]
    assert [road.lanes.try_enter(Lane.BINDING) for _ in range(2)] == [True, False]
    road.queue(Lane.BINDING, "binding")
    await settle()
    # It waits for a place in its own lane; tokens there are enough.
    assert road.lanes.try_enter(Lane.WRITE)
    assert road.names == []
    road.lanes.leave(Lane.BINDING)
    await settle()
    assert road.names == ["binding"]


@on_a_loop
async def test_who_gives_up_leaves_no_gap() -> None:
    road = Road(qps=1, burst=1)
    assert road.lanes.try_enter(Lane.OTHER)
    gone = road.queue(Lane.OTHER, "gone")
    road.queue(Lane.OTHER, "stays")
    await settle()
    gone.cancel()
    await road.clock.advance(1.01)
    assert road.names == ["stays"]
    assert road.lanes.waiting(Lane.OTHER) == 0


@on_a_loop
async def test_a_turn_that_came_too_late_is_given_back() -> None:
    road = Road(qps=0.001, burst=1, limits={**WIDE, Lane.OTHER: 1})
    assert road.lanes.try_enter(Lane.OTHER)
    road.lanes._bucket.give_back()
    late = road.queue(Lane.OTHER, "late")
    await settle()
    road.lanes.leave(Lane.OTHER)  # its turn comes
    late.cancel()  # and it is gone in the same moment
    await settle()
    assert late.cancelled()
    assert road.lanes.try_enter(Lane.OTHER)


@on_a_loop
async def test_closing_turns_everybody_away() -> None:
    road = Road(qps=1, burst=1)
    assert road.lanes.try_enter(Lane.OTHER)
    waiting = [road.queue(lane, lane.name) for lane in Lane]
    await settle()
    await road.lanes.close()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, TransportError) and one.is_closed for one in ended)


def test_events_cannot_take_all_connections() -> None:
    assert LIMITS[Lane.EVENT] < LIMITS[Lane.BINDING]
