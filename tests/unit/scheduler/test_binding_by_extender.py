"""Pods that extenders bind: the called extender, and the effect of each reply."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest

from kubesched.client.resources import NODES
from kubesched.extender.client.extenders import Extenders
from kubesched.extender.client.http_extender import HTTPExtender
from kubesched.framework.handle import ExtenderError
from kubesched.kit.clock import SystemClock
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import ScriptedAnswer
from tests.unit.extender.scripted_extenders import ScriptedExtender
from tests.unit.scheduler.live_world import World, on_a_loop

CONFIGURED = {"extenders": [{"urlPrefix": "http://127.0.0.1:1", "bindVerb": "bind"}]}


@dataclass(slots=True, eq=False)
class Binder(ScriptedExtender):
    """An extender that binds, or fails."""

    is_binder: bool = True
    is_filter: bool = False
    is_prioritizer: bool = False
    error: str = ""
    bound: tuple[tuple[str, str], ...] = ()

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        self.bound += ((pod.name, node_name),)
        if self.held is not None:
            await self.held.wait()
        if self.error:
            raise ExtenderError(self.error)


def a_world(*members: ScriptedExtender) -> World:
    world = World(config=CONFIGURED)
    world.live.scheduler.cycle.use_extenders(
        Extenders(
            cast("Sequence[HTTPExtender]", members),
            placeholder_rows=world.cache.add_placeholders,
            log=world.log,
            metrics=world.metrics,
        )
    )
    room = {"cpu": "100", "memory": "100Gi", "pods": "1000"}
    node: Wire = {"metadata": {"name": "n1"}, "spec": {}, "status": {"allocatable": room}}
    world.put("ADDED", node, NODES)
    world.put("ADDED", pod_wire("pod"))
    return world


def reasons(world: World) -> list[str]:
    return [event["reason"] for event in world.events()]


@on_a_loop
async def test_a_pod_bound_by_an_extender_skips_the_bind_plugins() -> None:
    first, second = Binder(), Binder()
    world = a_world(first, second)
    async with world.running():
        await world.rest()
        assert (first.bound, second.bound) == ((("pod", "n1"),), ())
        assert world.bindings() == {}
        assert reasons(world) == ["Scheduled"]
        assert [pod.name for pod in world.cache.bound_pods()] == ["pod"]


@pytest.mark.parametrize("binder", [Binder(is_binder=False), Binder(interest=lambda _pod: False)])
@on_a_loop
async def test_an_extender_that_does_not_bind_such_pods_is_not_called(binder: Binder) -> None:
    world = a_world(binder)
    async with world.running():
        await world.rest()
    assert binder.bound == ()
    assert world.bindings() == {"pod": "n1"}


@on_a_loop
async def test_a_failed_binding_releases_the_node() -> None:
    binder = Binder(error="no room at the inn")
    world = a_world(binder)
    async with world.running():
        await world.rest()
        assert world.bindings() == {}
        assert world.where("pod") == "Backoff"
        assert world.cache.snapshot().pods_on(0) == []
        (event,) = world.events()
        assert (event["reason"], event["note"]) == ("FailedScheduling", "no room at the inn")
        binder.error = ""
        await world.move(2)
        assert binder.bound == (("pod", "n1"), ("pod", "n1"))
    assert "Scheduled" in reasons(world)


@on_a_loop
async def test_after_an_ignorable_extender_fails_the_next_binder_is_called() -> None:
    first = Binder(error="not today", is_ignorable=True)
    second = Binder(error="nor I", is_ignorable=True)
    world = a_world(first, second)
    async with world.running():
        await world.rest()
    assert (first.bound, second.bound) == ((("pod", "n1"),), (("pod", "n1"),))
    assert world.bindings() == {"pod": "n1"}
    assert reasons(world) == ["Scheduled"]


@on_a_loop
async def test_slow_bindings_do_not_delay_other_pods() -> None:
    binder = Binder(held=asyncio.Event())
    world = a_world(binder)
    async with world.running():
        for number in range(100):
            world.put("ADDED", pod_wire(f"pod-{number}"))
        await world.until(lambda: len(binder.bound) == 101)
        assert binder.held is not None
        binder.held.set()
        await world.rest()
    assert reasons(world) == ["Scheduled"] * 101


@on_a_loop
async def test_a_pod_bound_despite_an_error_keeps_its_node_until_the_watch_shows_it() -> None:
    """An extender that binds the pod but whose reply is lost."""
    binder = Binder(error="EOF")
    world = a_world(binder)
    bound = {**pod_wire("pod"), "spec": {**pod_wire("pod")["spec"], "nodeName": "n1"}}
    world.network.reply("GET pods/pod", ScriptedAnswer(200, msgspec.json.encode(bound)))
    async with world.running():
        await world.until(lambda: bool(world.network.of("GET", "/pods/pod")))
        for _ in range(200):
            await SystemClock().sleep(0)
        assert world.cache.assumed_count == 1
        assert [pod.name for pod in world.cache.bound_pods()] == ["pod"]
        assert world.events() == []
        world.put("MODIFIED", bound)
        await world.until(lambda: world.cache.assumed_count == 0)
        await world.move(1)
        assert [pod.name for pod in world.cache.bound_pods()] == ["pod"]
        assert world.where("pod") is None
    assert reasons(world) == ["FailedScheduling"]
    assert binder.bound == (("pod", "n1"),)
