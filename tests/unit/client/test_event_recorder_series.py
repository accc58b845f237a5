"""Repeated events become a series."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from tests.unit.client.election_world import settle
from tests.unit.client.event_world import Subject, World, running

MINUTE_S = 60.0


def with_world(
    test: Callable[[World], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    @wraps(test)
    async def run() -> None:
        world = World()
        async with running(world):
            await test(world)

    def called() -> None:
        asyncio.run(run())

    called.__name__ = test.__name__
    return called


async def seen(world: World, times: int) -> None:
    for _ in range(times):
        world.failed()
        await settle()


@with_world
async def test_the_second_event_is_a_patch_and_later_ones_are_only_counted(world: World) -> None:
    await seen(world, 1)
    await world.clock.advance(2.5)
    await seen(world, 3)
    assert world.methods == ["POST", "PATCH"]
    assert world.server.only["series"] == {
        "count": 2,
        "lastObservedTime": "2027-01-15T08:00:02.750000Z",
    }


@with_world
async def test_a_series_keeps_the_first_note(world: World) -> None:
    world.failed(note="first")
    await settle()
    world.failed(note="second")
    await settle()
    assert world.server.only["note"] == "first"
    assert world.server.only["series"]["count"] == 2


@with_world
async def test_a_pod_that_changed_gets_a_new_event(world: World) -> None:
    world.failed(Subject(resource_version="7"))
    world.failed(Subject(resource_version="8"))
    world.scheduled("a")
    await settle()
    assert len(world.server.events) == 3
    assert all("series" not in event for event in world.server.events.values())


@with_world
async def test_two_profiles_do_not_share_a_series(world: World) -> None:
    world.failed()
    other = world.broadcaster.recorder("other")
    other.event(
        Subject(), kind="Warning", reason="FailedScheduling", action="Scheduling", note="no room"
    )
    await settle()
    assert len(world.server.events) == 2


@with_world
async def test_a_patch_waits_for_its_event(world: World) -> None:
    gate = world.server.gate = asyncio.Event()
    world.failed()
    await settle()
    world.failed()
    world.failed()
    await settle()
    gate.set()
    await settle()
    assert world.methods == ["POST", "PATCH"]
    assert world.server.only["series"]["count"] == 2


@with_world
async def test_a_series_whose_event_expired_is_created_again(world: World) -> None:
    await seen(world, 1)
    world.server.events.clear()
    await seen(world, 1)
    assert world.methods == ["POST", "PATCH", "POST"]
    assert world.server.only["series"]["count"] == 2
    assert world.server.only["note"] == "no room"


@with_world
async def test_the_last_count_is_written_at_the_end_of_a_series(world: World) -> None:
    await seen(world, 5)
    await world.clock.advance(6 * MINUTE_S)
    assert world.server.only["series"]["count"] == 2
    await world.clock.advance(6 * MINUTE_S + 1)
    assert world.methods == ["POST", "PATCH", "PATCH"]
    assert world.server.only["series"]["count"] == 5
    await seen(world, 1)
    assert len(world.server.events) == 2


@with_world
async def test_an_event_that_never_repeated_is_forgotten_without_a_write(world: World) -> None:
    await seen(world, 1)
    await world.clock.advance(12 * MINUTE_S + 1)
    assert world.methods == ["POST"]
    await seen(world, 1)
    assert world.methods == ["POST", "POST"]


@with_world
async def test_an_active_series_is_written_every_half_hour(world: World) -> None:
    for _ in range(31):
        await seen(world, 1)
        await world.clock.advance(MINUTE_S)
    assert world.methods == ["POST", "PATCH", "PATCH"]
    assert world.server.only["series"]["count"] == 30


@with_world
async def test_a_series_that_repeats_while_it_is_finished_is_kept(world: World) -> None:
    await seen(world, 2)
    gate = world.server.gate = asyncio.Event()
    await world.clock.advance(12 * MINUTE_S + 1)
    world.failed()
    gate.set()
    await settle()
    assert world.server.only["series"]["count"] == 2
    await world.clock.advance(12 * MINUTE_S + 1)
    assert world.server.only["series"]["count"] == 3


def test_the_number_of_remembered_events_is_bounded() -> None:
    async def run() -> None:
        world = World(remembered_max=3)
        async with running(world):
            for number in range(5):
                world.scheduled(f"p{number}")
                await settle()
            world.scheduled("p4")
            world.scheduled("p0")
            await settle()
        assert world.methods == ["POST"] * 5 + ["PATCH", "POST"]

    asyncio.run(run())
