"""The order of requests under the rate limit."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.client.errors import TransportError
from kubesched.client.http.lanes import LIMITS, Lane, Lanes, TokenBucket
from kubesched.kit.tasks import Tasks
from tests.unit.client.election_world import HandClock, settle
from tests.unit.client.request_world import on_a_loop

WIDE = dict.fromkeys(Lane, 1000)


class Traffic:
    """Lanes, with the order of admissions."""

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
async def test_requests_follow_the_burst_and_then_the_rate() -> None:
    clock = HandClock()
    bucket = TokenBucket(10, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    assert bucket.wait_s() == pytest.approx(0.1)
    await clock.advance(0.05)
    assert not bucket.take()
    await clock.advance(0.0501)
    assert bucket.take()
    await clock.advance(60)
    # Never more than the burst, even after a long pause.
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(("qps", "burst", "number"), [(-1, 0, 500), (0, 0, 10), (5, 7, 7)])
def test_no_limit_and_the_defaults_of_client_go(qps: float, burst: int, number: int) -> None:
    bucket = TokenBucket(qps, burst, HandClock())
    assert sum(bucket.take() for _ in range(500)) == number


@on_a_loop
async def test_bindings_go_first_and_each_lane_keeps_its_order() -> None:
    traffic = Traffic(qps=1, burst=1)
    assert traffic.lanes.try_enter(Lane.EVENT)
    for number in range(2):
        for lane in (Lane.EVENT, Lane.OTHER, Lane.WRITE, Lane.BINDING):
            traffic.queue(lane, f"{lane.name}{number}")
    await traffic.clock.advance(8.5)
    assert traffic.names == [
        "BINDING0", "BINDING1", "WRITE0", "WRITE1", "OTHER0", "OTHER1", "EVENT0", "EVENT1",
    ]  # fmt: skip
    assert [moment for moment, _ in traffic.through] == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8])


@on_a_loop
async def test_a_later_binding_goes_first() -> None:
    traffic = Traffic(qps=1, burst=1)
    assert traffic.lanes.try_enter(Lane.WRITE)
    traffic.queue(Lane.WRITE, "patch")
    await traffic.clock.advance(0.9)
    traffic.queue(Lane.BINDING, "binding")
    await traffic.clock.advance(0.2)
    assert traffic.names == ["binding"]
    await traffic.clock.advance(1)
    assert traffic.names == ["binding", "patch"]


@on_a_loop
async def test_a_new_request_does_not_overtake_when_a_token_arrives() -> None:
    traffic = Traffic(qps=1, burst=1)
    assert traffic.lanes.try_enter(Lane.WRITE)
    traffic.queue(Lane.WRITE, "first")
    await settle()
    traffic.clock._now_s = 1.5  # The token exists, but the waiting request is not admitted yet.
    assert not traffic.lanes.try_enter(Lane.WRITE)
    assert not traffic.lanes.try_enter(Lane.EVENT)
    assert traffic.lanes.try_enter(Lane.BINDING)


@on_a_loop
async def test_a_full_lane_does_not_delay_other_lanes() -> None:
    traffic = Traffic(qps=-1, burst=0, limits={**WIDE, Lane.BINDING: 1, Lane.EVENT: 2})
    assert [traffic.lanes.try_enter(Lane.EVENT) for _ in range(3)] == [True, True, False]
    assert [traffic.lanes.try_enter(Lane.BINDING) for _ in range(2)] == [True, False]
    traffic.queue(Lane.BINDING, "binding")
    await settle()
    # It waits for its lane; there are enough tokens.
    assert traffic.lanes.try_enter(Lane.WRITE)
    assert traffic.names == []
    traffic.lanes.leave(Lane.BINDING)
    await settle()
    assert traffic.names == ["binding"]


@on_a_loop
async def test_a_cancelled_request_leaves_the_queue() -> None:
    traffic = Traffic(qps=1, burst=1)
    assert traffic.lanes.try_enter(Lane.OTHER)
    cancelled = traffic.queue(Lane.OTHER, "gone")
    traffic.queue(Lane.OTHER, "stays")
    await settle()
    cancelled.cancel()
    await traffic.clock.advance(1.01)
    assert traffic.names == ["stays"]
    assert not traffic.lanes._waiting[Lane.OTHER]


@on_a_loop
async def test_an_admission_after_cancellation_is_returned() -> None:
    traffic = Traffic(qps=0.001, burst=1, limits={**WIDE, Lane.OTHER: 1})
    assert traffic.lanes.try_enter(Lane.OTHER)
    traffic.lanes._bucket.put_back()
    late = traffic.queue(Lane.OTHER, "late")
    await settle()
    traffic.lanes.leave(Lane.OTHER)  # Admits it.
    late.cancel()  # and it is gone in the same moment
    await settle()
    assert late.cancelled()
    assert traffic.lanes.try_enter(Lane.OTHER)


@on_a_loop
async def test_close_rejects_waiting_requests() -> None:
    traffic = Traffic(qps=1, burst=1)
    assert traffic.lanes.try_enter(Lane.OTHER)
    waiting = [traffic.queue(lane, lane.name) for lane in Lane]
    await settle()
    await traffic.lanes.close()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(error, TransportError) and error.is_closed for error in ended)


def test_events_cannot_take_all_connections() -> None:
    assert LIMITS[Lane.EVENT] < LIMITS[Lane.BINDING]
