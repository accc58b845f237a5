"""Core events: counted, combined and rate limited as by client-go's recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubesched.client.events.recorder import CoreEventRecorder
from tests.unit.client.election_world import settle
from tests.unit.client.event_world import World, running

_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "3"},
}


def _recorded(*actions: Callable[[CoreEventRecorder], None]) -> World:
    """Run some actions, each followed by its writes."""
    world = World()

    async def run() -> None:
        recorder = world.broadcaster.core_recorder("replicaset-controller", "host-1")
        async with running(world):
            for action in actions:
                action(recorder)
                await settle()

    asyncio.run(run())
    return world


def _created(note: str, field_path: str = "") -> Callable[[CoreEventRecorder], None]:
    return lambda recorder: recorder.event(
        _SET, reason="SuccessfulCreate", note=note, field_path=field_path
    )


def test_source_and_field_path_are_written() -> None:
    event = _recorded(_created("Created pod", "spec.containers{a}")).server.only
    assert event["source"] == {"component": "replicaset-controller", "host": "host-1"}
    assert event["reportingInstance"] == "host-1"
    assert event["involvedObject"]["fieldPath"] == "spec.containers{a}"


def test_an_event_with_the_same_message_is_counted() -> None:
    world = _recorded(_created("Created pod"), _created("Created pod"), _created("Created pod"))
    assert world.methods == ["POST", "PATCH", "PATCH"]
    assert world.server.only["count"] == 3


def test_similar_events_are_combined_from_the_tenth_on() -> None:
    world = _recorded(*(_created(f"Created pod {number}") for number in range(12)))
    events = list(world.server.events.values())
    assert len(events) == 10
    assert events[-1]["message"] == "(combined from similar events): Created pod 11"
    assert events[-1]["count"] == 3


def test_a_source_may_write_twenty_five_events_per_object() -> None:
    world = _recorded(*(_created("Created pod") for _ in range(40)))
    assert len(world.methods) == 25
    assert world.server.only["count"] == 25
