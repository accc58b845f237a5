"""The scheduling loop while an attempt waits for an extender."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kubesched.client.resources import NODES
from kubesched.extender.client.extenders import Extenders
from kubesched.extender.client.http_extender import HTTPExtender
from kubesched.framework.handle import ExtenderError
from kubesched.kit.clock import SystemClock
from kubesched.kit.tasks import Tasks
from kubesched.run.swap import Swap
from tests.unit.builders import Wire, pod_wire
from tests.unit.extender.scripted_extenders import ScriptedExtender, failing, names
from tests.unit.scheduler.live_world import World, on_a_loop


def a_node(name: str) -> Wire:
    room = {"cpu": "100", "memory": "100Gi", "pods": "1000"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": room}}


CONFIGURED = {"extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}


def a_world(*members: ScriptedExtender, **options: Any) -> World:
    """Return a scheduler of two nodes whose extenders are scripted."""
    world = World(config=CONFIGURED, **options)
    world.live.scheduler.cycle.use_extenders(scripted(world, *members))
    for name in ("n1", "n2"):
        world.put("ADDED", a_node(name), NODES)
    return world


def scripted(world: World, *members: ScriptedExtender) -> Extenders:
    return Extenders(
        cast("Sequence[HTTPExtender]", members),
        placeholder_rows=world.cache.add_placeholders,
        log=world.log,
        metrics=world.metrics,
    )


@on_a_loop
async def test_a_pod_goes_to_a_node_that_extenders_allow() -> None:
    extender = ScriptedExtender(filters=lambda _: names("n2"))
    world = a_world(extender)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
    assert world.bindings() == {"pod": "n2"}
    assert extender.calls == [("filter", ["n1", "n2"])]


@on_a_loop
async def test_changes_wait_until_the_attempt_ends() -> None:
    extender = ScriptedExtender(held=asyncio.Event())
    world = a_world(extender)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: bool(extender.calls))
        world.put("ADDED", a_node("n3"), NODES)
        for _ in range(100):
            await SystemClock().sleep(0)
        assert len(world.live.inbox) == 1
        assert world.cache.snapshot().node_count == 2
        assert extender.held is not None
        extender.held.set()
        await world.rest()
        assert world.cache.snapshot().node_count == 3
    assert [sent for _, sent in extender.calls] == [["n1", "n2"], ["n1", "n2"]]
    assert set(world.bindings()) == {"pod"}


@on_a_loop
async def test_stopping_cancels_the_wait_for_an_extender_without_an_event() -> None:
    extender = ScriptedExtender(held=asyncio.Event())
    world = a_world(extender)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: bool(extender.calls))
        await world.live.stop_scheduling()
        await world.rest()
        assert world.bindings() == {}
        assert world.events() == world.patches() == []
        assert world.where("pod") == "Backoff"
        # This scheduler leads again.
        assert extender.held is not None
        extender.held.set()
        world.live.start_scheduling()
        await world.move(2)
    assert set(world.bindings()) == {"pod"}


@on_a_loop
async def test_the_process_ends_at_once_while_an_extender_is_called() -> None:
    extender = ScriptedExtender(held=asyncio.Event())
    world = a_world(extender)
    world.put("ADDED", pod_wire("pod"))
    world.live.tasks.start(world.live.scheduler.run(), name="scheduler")
    world.live.start_scheduling()
    await world.until(lambda: bool(extender.calls))
    stopping = Tasks().start(world.live.stop(), name="stop")
    await world.until(stopping.done)
    assert world.bindings() == {}


@on_a_loop
async def test_a_pod_deleted_meanwhile_is_not_requeued() -> None:
    extender = ScriptedExtender(held=asyncio.Event())
    world = a_world(extender)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: bool(extender.calls))
        world.put("DELETED", pod_wire("pod"))
        await world.live.stop_scheduling()
        await world.rest()
        assert world.where("pod") is None
        assert world.queue.in_flight_pods() == []


@pytest.mark.parametrize("ignorable", [False, True])
@on_a_loop
async def test_a_failing_extender_fails_the_attempt_unless_it_is_ignorable(
    ignorable: bool,
) -> None:
    extender = ScriptedExtender(filters=failing("Post: EOF"), is_ignorable=ignorable)
    world = a_world(extender)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        if ignorable:
            assert set(world.bindings()) == {"pod"}
            return
        assert world.bindings() == {}
        assert world.where("pod") == "Backoff"
    (event,) = world.events("FailedScheduling")
    assert event["note"] == "Post: EOF"
    condition = world.patches("pod")[0]["conditions"][0]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", "Post: EOF")


@on_a_loop
async def test_every_cluster_event_wakes_a_pod_that_extenders_rejected() -> None:
    extender = ScriptedExtender(filters=lambda _: names(n1="busy", n2="busy"))
    world = a_world(extender)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        assert world.where("pod") == "Unschedulable"
        assert len(extender.calls) == 1
        (event,) = world.events("FailedScheduling")
        assert event["note"].startswith("0/2 nodes are available: 2 busy.")
        world.put("ADDED", pod_wire("other", nodeName="n1"))
        await world.rest()
        assert len(extender.calls) == 2


@on_a_loop
async def test_replaced_extenders_are_used_from_the_next_pod_on_and_old_ones_closed() -> None:
    former = ScriptedExtender(filters=lambda _: names("n1"))
    world = World(config=CONFIGURED)
    old = world.live.profile_set
    # Replace the configured extenders by scripted ones.
    object.__setattr__(old, "extenders", scripted(world, former))
    world.live.scheduler.cycle.use_extenders(old.extenders)
    for name in ("n1", "n2"):
        world.put("ADDED", a_node(name), NODES)
    world.put("ADDED", pod_wire("first"))
    async with world.running():
        await world.rest()
        putting = Swap(world.live).apply(World().live.settings)
        swapping = Tasks().start(putting, name="swap")
        await world.until(swapping.done)
        new = swapping.result()
        assert len(new.extenders) == 0
        assert world.live.scheduler.cycle.extenders is None
        assert world.live.scheduler.cycle.search.extender_count == 0
        world.put("ADDED", pod_wire("second"))
        await world.rest()
        await world.move(1)
        await world.until(lambda: former.is_closed)
    assert world.bindings()["first"] == "n1"
    assert set(world.bindings()) == {"first", "second"}
    assert [sent for _, sent in former.calls] == [["n1", "n2"]]


@on_a_loop
async def test_a_scheduler_that_ends_closes_its_connections() -> None:
    extender = ScriptedExtender(scores=ExtenderError("down"))
    world = a_world()
    object.__setattr__(world.live.profile_set, "extenders", scripted(world, extender))
    await world.live.stop_tasks()
    assert extender.is_closed
