"""Events while the server is slow, refuses, or is away: tried again, bounded, counted."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from kubesched.client.errors import (
    AlreadyExistsError,
    ForbiddenError,
    InternalServerError,
    InvalidError,
    NotFoundError,
    TransportError,
)
from tests.unit.client.election_world import settle
from tests.unit.client.event_world import World, running

REFUSED = TransportError("connection refused", is_refused=True)


def with_world(
    **options: Any,
) -> Callable[[Callable[[World], Coroutine[Any, Any, None]]], Callable[[], None]]:
    def decorate(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        @wraps(test)
        async def run() -> None:
            world = World(**options)
            async with running(world):
                await test(world)

        def called() -> None:
            asyncio.run(run())

        called.__name__ = test.__name__
        return called

    return decorate


@with_world()
async def test_no_answer_is_tried_again_after_ten_seconds_and_a_quarter_at_most(
    world: World,
) -> None:
    world.server.is_down = REFUSED
    world.failed()
    await world.clock.advance(9.9)
    assert world.methods == ["POST"]
    await world.clock.advance(2.7)
    assert world.methods == ["POST", "POST"]
    world.server.is_down = None
    await world.clock.advance(12.6)
    assert len(world.server.events) == 1
    assert world.broadcaster.dropped_count == 0
    assert set(world.messages) == {"Unable to write event (may retry after sleeping)"}


@with_world()
async def test_twelve_tries_are_enough(world: World) -> None:
    world.server.is_down = REFUSED
    world.failed()
    await world.clock.advance(12 * 12.6)
    assert world.methods == ["POST"] * 12
    assert world.messages[-1] == "Unable to write event (retry limit exceeded!)"
    assert world.dropped("retries_exceeded") == world.broadcaster.dropped_count == 1


@with_world(concurrency=2)
async def test_events_that_wait_for_another_try_do_not_hold_up_others(world: World) -> None:
    world.server.failures.extend([REFUSED] * 3)
    for name in ("a", "b", "c", "d"):
        world.scheduled(name)
    await settle()
    assert [name.partition(".")[0] for name in world.server.names] == ["d"]
    await world.clock.advance(12.6)
    assert len(world.server.events) == 4


@pytest.mark.parametrize(
    "error",
    [
        ForbiddenError("no", code=403),
        InvalidError("no", code=422),
        InternalServerError("no", code=500),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_answer_that_refuses_is_final(error: Exception) -> None:
    async def run() -> None:
        world = World()
        async with running(world):
            world.server.failures.append(error)
            world.failed()
            await world.clock.advance(60)
            assert world.methods == ["POST"]
            assert world.messages == ["Server rejected event (will not retry!)"]
            assert world.dropped("rejected") == 1

    asyncio.run(run())


@with_world()
async def test_an_event_that_is_there_already_is_no_loss(world: World) -> None:
    world.server.failures.append(AlreadyExistsError("there", code=409))
    world.failed()
    await world.clock.advance(60)
    assert world.methods == ["POST"]
    assert world.broadcaster.dropped_count == 0


@with_world()
async def test_a_series_that_turns_up_while_it_is_made_anew_is_patched_later(world: World) -> None:
    world.failed()
    await settle()
    world.server.failures.extend(
        [NotFoundError("not yet", code=404), AlreadyExistsError("there after all", code=409)]
    )
    world.failed()
    await world.clock.advance(13)
    assert world.methods == ["POST", "PATCH", "POST", "PATCH"]
    assert world.server.only["series"]["count"] == 2
    assert world.broadcaster.dropped_count == 0


@with_world()
async def test_something_unexpected_ends_one_event_and_no_more(world: World) -> None:
    world.server.failures.append(RuntimeError("a bug"))
    world.scheduled("a")
    world.scheduled("b")
    await settle()
    assert [name.partition(".")[0] for name in world.server.names] == ["b"]
    assert world.messages == ["Unable to construct event (will not retry!)"]
    assert world.dropped("rejected") == 1


@with_world(concurrency=3)
async def test_as_many_as_were_asked_for_are_written_at_once(world: World) -> None:
    gate = world.server.gate = asyncio.Event()
    for number in range(10):
        world.scheduled(f"p{number}")
    await settle()
    assert world.server.under_way == 3
    gate.set()
    await settle()
    assert world.server.under_way_max == 3
    assert len(world.server.events) == 10


def test_few_are_written_while_there_is_more_important_work() -> None:
    async def run() -> None:
        busy = [True]
        world = World(concurrency=8, is_busy=lambda: busy[0])
        gate = world.server.gate = asyncio.Event()
        async with running(world):
            for number in range(100):
                world.scheduled(f"p{number}")
            await settle()
            assert world.server.under_way == 1
            # The more wait, the more are written: at no time are events starved.
            for number in range(100, 4_100):
                world.scheduled(f"p{number}")
            await settle()
            assert world.server.under_way == 3
            busy[0] = False
            world.scheduled("last")
            await settle()
            assert world.server.under_way == 8
            gate.set()
            await world.broadcaster.drain(10.0)
            assert len(world.server.events) == 4_101

    asyncio.run(run())


@with_world(concurrency=1)
async def test_events_are_written_in_the_order_in_which_they_came(world: World) -> None:
    expected = [f"p{number}" for number in range(20)]
    for name in expected:
        world.scheduled(name)
    await settle()
    assert [name.partition(".")[0] for name in world.server.names] == expected


def test_what_does_not_fit_into_the_queue_is_counted_and_said_once_in_a_while() -> None:
    async def run() -> None:
        world = World(queued_max=100)
        for number in range(150):
            world.scheduled(f"p{number}")
        assert world.broadcaster.pending_count == 100
        assert world.dropped("queue_full") == world.broadcaster.dropped_count == 50
        assert world.messages == ["Unable to record event: too many queued events, dropped event"]
        async with running(world):
            await settle()
            assert len(world.server.events) == 100
            # What was lost is not remembered: it may come again.
            world.scheduled("p149")
            await settle()
        assert len(world.server.events) == 101
        assert world.broadcaster.dropped_count == 50

    asyncio.run(run())


def test_a_burst_of_five_thousand_fits() -> None:
    async def run() -> None:
        world = World()
        for number in range(5000):
            world.scheduled(f"p{number}")
        async with running(world):
            assert await world.broadcaster.drain(60)
        assert len(world.server.events) == 5000
        assert world.broadcaster.dropped_count == 0

    asyncio.run(run())


@with_world()
async def test_draining_waits_for_what_is_under_way(world: World) -> None:
    gate = world.server.gate = asyncio.Event()
    world.scheduled("a")
    await settle()
    draining = asyncio.ensure_future(world.broadcaster.drain(5))
    await world.clock.advance(4)
    assert not draining.done()
    gate.set()
    await settle()
    assert draining.result() is True
    assert await world.broadcaster.drain(5) is True


@with_world()
async def test_draining_gives_up(world: World) -> None:
    world.server.gate = asyncio.Event()
    world.scheduled("a")
    draining = asyncio.ensure_future(world.broadcaster.drain(5))
    await world.clock.advance(6)
    assert draining.result() is False


def test_what_is_left_when_it_stops_is_counted_and_nothing_is_taken_any_more() -> None:
    async def run() -> None:
        world = World(concurrency=2)
        world.server.gate = asyncio.Event()
        async with running(world):
            for number in range(5):
                world.scheduled(f"p{number}")
            await settle()
        assert world.dropped("stopped") == 5
        assert world.messages == ["Unable to write events (broadcaster is shut down)"]
        world.scheduled("late")
        assert world.messages[-1] == "Unable to record event (will not retry!)"
        assert world.broadcaster.dropped_count == 6

    asyncio.run(run())
