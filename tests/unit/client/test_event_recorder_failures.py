"""Events while the server is slow, rejects them or is away."""

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

REJECTED = TransportError("connection refused", is_refused=True)


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
async def test_without_a_response_a_write_is_retried_after_ten_seconds_with_jitter(
    world: World,
) -> None:
    world.server.is_down = REJECTED
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
async def test_a_write_is_tried_twelve_times(world: World) -> None:
    world.server.is_down = REJECTED
    world.failed()
    await world.clock.advance(12 * 12.6)
    assert world.methods == ["POST"] * 12
    assert world.messages[-1] == "Unable to write event (retry limit exceeded!)"
    assert world.dropped("retries_exceeded") == world.broadcaster.dropped_count == 1


@with_world(concurrency=2)
async def test_retries_do_not_delay_other_events(world: World) -> None:
    world.server.failures.extend([REJECTED] * 3)
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
def test_a_rejected_event_is_not_retried(error: Exception) -> None:
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
async def test_an_event_that_exists_already_is_not_lost(world: World) -> None:
    world.server.failures.append(AlreadyExistsError("the event exists", code=409))
    world.failed()
    await world.clock.advance(60)
    assert world.methods == ["POST"]
    assert world.broadcaster.dropped_count == 0


@with_world()
async def test_a_series_that_appears_while_it_is_created_is_patched_later(world: World) -> None:
    world.failed()
    await settle()
    world.server.failures.extend(
        [NotFoundError("not found", code=404), AlreadyExistsError("the event exists", code=409)]
    )
    world.failed()
    await world.clock.advance(13)
    assert world.methods == ["POST", "PATCH", "POST", "PATCH"]
    assert world.server.only["series"]["count"] == 2
    assert world.broadcaster.dropped_count == 0


@with_world()
async def test_an_unexpected_error_affects_one_event_only(world: World) -> None:
    world.server.failures.append(RuntimeError("a bug"))
    world.scheduled("a")
    world.scheduled("b")
    await settle()
    assert [name.partition(".")[0] for name in world.server.names] == ["b"]
    assert world.messages == ["Unable to construct event (will not retry!)"]
    assert world.dropped("rejected") == 1


@with_world(concurrency=3)
async def test_the_number_of_concurrent_writes_is_limited(world: World) -> None:
    gate = world.server.gate = asyncio.Event()
    for number in range(10):
        world.scheduled(f"p{number}")
    await settle()
    assert world.server.active == 3
    gate.set()
    await settle()
    assert world.server.active_max == 3
    assert len(world.server.events) == 10


def test_few_events_are_written_while_the_scheduler_is_busy() -> None:
    async def run() -> None:
        busy = [True]
        world = World(concurrency=8, is_busy=lambda: busy[0])
        gate = world.server.gate = asyncio.Event()
        async with running(world):
            for number in range(100):
                world.scheduled(f"p{number}")
            await settle()
            assert world.server.active == 1
            # Concurrency grows with the queue, so that events do not starve.
            for number in range(100, 4_100):
                world.scheduled(f"p{number}")
            await settle()
            assert world.server.active == 3
            busy[0] = False
            world.scheduled("last")
            await settle()
            assert world.server.active == 8
            gate.set()
            await world.broadcaster.drain(10.0)
            assert len(world.server.events) == 4_101

    asyncio.run(run())


@with_world(concurrency=1)
async def test_events_are_written_in_order_of_arrival(world: World) -> None:
    expected = [f"p{number}" for number in range(20)]
    for name in expected:
        world.scheduled(name)
    await settle()
    assert [name.partition(".")[0] for name in world.server.names] == expected


def test_events_beyond_the_queue_limit_are_counted_and_logged_rarely() -> None:
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
            # A lost event is not remembered, so that it may be recorded again.
            world.scheduled("p149")
            await settle()
        assert len(world.server.events) == 101
        assert world.broadcaster.dropped_count == 50

    asyncio.run(run())


def test_a_burst_of_five_thousand_events_is_written() -> None:
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
async def test_drain_waits_for_active_writes(world: World) -> None:
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
async def test_drain_returns_false_after_its_timeout(world: World) -> None:
    world.server.gate = asyncio.Event()
    world.scheduled("a")
    draining = asyncio.ensure_future(world.broadcaster.drain(5))
    await world.clock.advance(6)
    assert draining.result() is False


def test_stop_counts_remaining_events_and_accepts_no_more() -> None:
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
