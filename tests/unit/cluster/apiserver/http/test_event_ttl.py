"""Events are deleted an hour after their last write."""

from __future__ import annotations

from kubesched.cluster.apiserver.resources import Resource
from kubesched.cluster.apiserver.storage.event_ttl import EventExpiry
from kubesched.cluster.apiserver.strategy import Strategy
from tests.unit.cluster.apiserver.http.worlds import VERBS, World

EVENTS = "/api/v1/namespaces/one/events"


def world_with_events() -> World:
    world = World()
    world.context.registry.add(
        Resource(
            group="",
            version="v1",
            resource="events",
            kind="Event",
            singular="event",
            is_namespaced=True,
            verbs=VERBS,
            strategy=Strategy(),
            schema=None,
        )
    )
    return world


def make(world: World, name: str) -> None:
    world("POST", EVENTS, {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}})


def names(world: World) -> list[str]:
    return [event["metadata"]["name"] for event in world("GET", EVENTS)["items"]]


def test_events_are_deleted_in_order() -> None:
    world = world_with_events()
    make(world, "loaded")
    expiry = EventExpiry(world.context)
    world.clock.moved_s = 1800
    make(world, "made")
    world.clock.moved_s = 3599
    expiry.sweep()
    assert names(world) == ["loaded", "made"]
    world.clock.moved_s = 3600
    expiry.sweep()
    assert names(world) == ["made"]
    world.clock.moved_s = 5400
    expiry.sweep()
    assert names(world) == []


def test_a_write_gives_another_hour() -> None:
    world = world_with_events()
    expiry = EventExpiry(world.context)
    make(world, "a")
    world.clock.moved_s = 3000
    world.patch(f"{EVENTS}/a", {"count": 2})
    world.clock.moved_s = 4000
    expiry.sweep()
    assert names(world) == ["a"]
    watcher = world.watch(f"{EVENTS}?watch=1&resourceVersion=3")
    world.clock.moved_s = 6600
    expiry.sweep()
    assert names(world) == []
    assert b'"type":"DELETED"' in watcher.take()
