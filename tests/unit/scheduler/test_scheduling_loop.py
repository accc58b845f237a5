"""The scheduling loop: order of work, time slices, limits of outstanding bindings, failures."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.client.resources import NODES, PODS
from kubesched.client.watch.changes import Change
from kubesched.framework.status import Status, unschedulable
from kubesched.kit.clock import SystemClock
from kubesched.scheduler.scheduler import OUTSTANDING_MAX, SLICE_S
from tests.unit.builders import Wire, pod_wire
from tests.unit.scheduler.live_world import World, on_a_loop


def a_node(name: str = "n1", pods: str = "1000") -> Wire:
    room = {"cpu": "100", "memory": "100Gi", "pods": pods}
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": room}}


class Moody:
    """A plugin that treats pods as their names say."""

    name = "Moody"

    def __init__(self, args: object, handle: Any) -> None:
        self._handle = handle

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        if pod.name.startswith("raises"):
            raise ValueError("a bad day")
        return unschedulable("\ud800") if pod.name == "mumbles" else None


@on_a_loop
async def test_all_changes_in_the_inbox_are_applied_before_an_attempt() -> None:
    world = World(verbosity=2)
    world.put("ADDED", pod_wire("first"))
    world.put("ADDED", pod_wire("second"))
    world.put("ADDED", a_node(), NODES)
    world.put("DELETED", pod_wire("second"))
    async with world.running():
        await world.rest()
    assert world.bindings() == {"first": "n1"}
    assert world.lines("Unable to schedule pod; no fit; waiting") == []


@on_a_loop
async def test_changes_and_callbacks_are_applied_in_order_of_arrival() -> None:
    world = World()
    seen: list[str | None] = []
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.inbox.put(lambda: seen.append(world.where("pod")))
        world.put("ADDED", pod_wire("pod"))
        world.live.inbox.put(lambda: seen.append(world.where("pod")))
        world.put("DELETED", pod_wire("pod"))
        world.live.inbox.put(lambda: seen.append(world.where("pod")))
        await world.rest()
    assert seen == [None, "Active", None]


@on_a_loop
async def test_the_loop_yields_to_other_tasks_after_every_slice() -> None:
    world = World()
    order: list[str] = []

    def work() -> None:
        order.append("loop")
        world.clock.move(SLICE_S / 2)

    async def other() -> None:
        while order.count("loop") < 20:
            order.append("other")
            await SystemClock().sleep(0)

    for _ in range(20):
        world.live.inbox.put(work)
    async with world.running():
        world.live.tasks.start(other(), name="other")
        await world.rest()
    in_a_row = max(len(run) for run in "".join(word[0] for word in order).split("o"))
    assert in_a_row == 2
    assert order.count("loop") == 20


@on_a_loop
async def test_the_loop_pauses_while_too_many_bindings_are_outstanding() -> None:
    world = World()
    held = world.network.hold("POST /binding")
    world.put("ADDED", a_node(), NODES)
    for n in range(OUTSTANDING_MAX + 10):
        world.put("ADDED", pod_wire(f"p-{n}"))
    async with world.running():
        await world.until(lambda: world.cache.assumed_count == OUTSTANDING_MAX)
        await world.until(lambda: world.idle_count > 0)
        assert world.live.scheduler.attempts == OUTSTANDING_MAX
        # Changes are still applied.
        world.put("ADDED", a_node("n2"), NODES)
        await world.until(lambda: world.cache.snapshot().node_count == 2)
        held.set()
        await world.rest()
    assert len(world.bindings()) == OUTSTANDING_MAX + 10
    assert world.live.scheduler.outstanding.count == 0


@on_a_loop
async def test_pods_are_retried_when_their_backoff_ends_and_not_before() -> None:
    world = World(Moody)
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("raises"))
    async with world.running():
        await world.rest()
        attempts = [world.live.scheduler.attempts]
        for seconds in (0.5, 1.0, 1.0, 1.0, 1.0):
            await world.move(seconds)
            attempts.append(world.live.scheduler.attempts)
    # The clock starts at half a second. The first backoff, one second, ends with that second, and
    # the pod leaves in the next one, as upstream counts; the second backoff takes two seconds.
    assert attempts == [1, 1, 2, 2, 2, 3]


@on_a_loop
async def test_unschedulable_pods_are_retried_after_five_minutes() -> None:
    world = World()
    world.put("ADDED", a_node(pods="0"), NODES)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        assert world.where("pod") == "Unschedulable"
        await world.move(299)
        assert world.live.scheduler.attempts == 1
        await world.move(32)
        assert world.live.scheduler.attempts == 2


@on_a_loop
async def test_a_change_that_fails_is_logged_and_the_next_is_applied() -> None:
    world = World()
    world.live.inbox.put(Change(PODS, "ADDED", "default/odd", "odd", {}, b"", initial=False))
    world.live.inbox.put(_fail)
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
    assert world.bindings() == {"pod": "n1"}
    first, second = world.lines("Failed to apply a change")
    assert 'object="default/odd"' in first
    assert 'err="it broke"' in second


def _fail() -> None:
    raise RuntimeError("it broke")


@on_a_loop
async def test_a_plugin_that_raises_fails_only_its_pod() -> None:
    world = World(Moody)
    world.put("ADDED", a_node(), NODES)
    for name in ("raises-1", "good-1", "raises-2", "good-2"):
        world.put("ADDED", pod_wire(name))
    async with world.running():
        await world.rest()
    assert world.bindings() == {"good-1": "n1", "good-2": "n1"}
    assert world.where("raises-1") == world.where("raises-2") == "Backoff"
    assert world.queue.in_flight_pods() == []
    (patch,) = world.patches("raises-1")
    assert patch["conditions"][0]["reason"] == "SchedulerError"
    message = 'running "Moody" filter plugin: ValueError: a bad day'
    assert patch["conditions"][0]["message"] == message
    assert "Moody" in world.lines("Error scheduling pod; retrying")[0]


class Sorter:
    """A QueueSort plugin that orders pods by name, and fails on demand."""

    name = "Sorter"

    def __init__(self, args: object, handle: Any) -> None:
        self._handle = handle

    def less(self, first: Any, second: Any) -> bool:
        if "raises" in first.pod.name + second.pod.name:
            raise ValueError("no taste")
        return bool(first.pod.name < second.pod.name)


class KeySorter(Sorter):
    """The same plugin with a sort key."""

    def sort_key(self, queued: Any) -> Any:
        if queued.pod.name == "raises":
            raise ValueError("no taste")
        return None if queued.pod.name == "odd" else queued.pod.name


@pytest.mark.parametrize("sorter", [Sorter, KeySorter])
@on_a_loop
async def test_a_failing_queue_sort_plugin_does_not_stop_the_loop(sorter: Any) -> None:
    order = {"disabled": [{"name": "*"}], "enabled": [{"name": "Sorter"}]}
    profiles = [{"plugins": {"queueSort": order}}]
    world = World(sorter, config={"profiles": profiles}, verbosity=3)
    names = ["d", "raises", "b", "odd", "a", "c"]
    world.put("ADDED", a_node(), NODES)
    for name in names:
        world.put("ADDED", pod_wire(name))
    async with world.running():
        await world.rest()
        world.put("ADDED", pod_wire("later"))
        await world.rest()
    assert sorted(world.bindings()) == sorted([*names, "later"])
    lines = world.lines("Plugin failed")
    assert len(lines) == len(set(lines)), "a repeated failure is logged once"
    assert lines[0] == (
        '"Plugin failed" err="ValueError: no taste" plugin="Sorter" extensionPoint="QueueSort"'
    )


@on_a_loop
async def test_an_out_of_tree_plugin_sorts_the_queue() -> None:
    order = {"disabled": [{"name": "*"}], "enabled": [{"name": "Sorter"}]}
    profiles = [{"plugins": {"queueSort": order}}]
    world = World(Sorter, config={"profiles": profiles})
    world.put("ADDED", a_node(), NODES)
    for name in ("d", "b", "a", "c"):
        world.put("ADDED", pod_wire(name))
    async with world.running():
        await world.rest()
    assert list(world.bindings()) == ["a", "b", "c", "d"]


@on_a_loop
async def test_a_message_that_cannot_be_encoded_does_not_stop_the_loop() -> None:
    world = World(Moody)
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("mumbles"))
    world.put("ADDED", pod_wire("good"))
    async with world.running():
        await world.rest()
        assert world.bindings() == {"good": "n1"}
        assert world.where("mumbles") == "Unschedulable"
        assert world.queue.in_flight_pods() == []
        world.put("ADDED", pod_wire("later"))
        await world.rest()
    assert world.bindings() == {"good": "n1", "later": "n1"}


@on_a_loop
async def test_pods_are_placed_only_between_start_and_stop_of_scheduling() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.put("ADDED", a_node(), NODES)
        world.put("ADDED", pod_wire("first"))
        await world.rest()
        assert world.bindings() == {}
        world.live.start_scheduling()
        await world.rest()
        assert world.bindings() == {"first": "n1"}
        world.live.scheduler.stop_scheduling()
        world.put("ADDED", pod_wire("second"))
        await world.rest()
        assert world.where("second") == "Active"
    assert world.bindings() == {"first": "n1"}


@on_a_loop
async def test_stop_ends_the_loop() -> None:
    world = World(verbosity=2)
    running = world.live.tasks.start(world.live.scheduler.run(), name="loop")
    await world.until(lambda: world.idle_count > 0)
    world.live.scheduler.stop()
    await world.until(running.done)
    assert running.exception() is None
    world.live.queue.pop()
    assert world.lines("Scheduling queue is closed")


@on_a_loop
async def test_pods_are_tried_by_priority_then_by_age() -> None:
    world = World(verbosity=3)
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.put("ADDED", a_node(), NODES)
        for name, priority in (("low", 1), ("old", 5), ("young", 5), ("high", 9)):
            world.put("ADDED", pod_wire(name, priority=priority))
            await world.move(0.1)
        world.live.start_scheduling()
        await world.rest()
    tried = [line.split("default/")[1][:-1] for line in world.lines("Attempting to schedule pod")]
    assert tried == ["high", "old", "young", "low"]


@on_a_loop
async def test_terminating_and_assumed_pods_are_skipped() -> None:
    world = World(verbosity=3)
    terminating = {"deletionTimestamp": "2027-01-01T00:00:00Z"}
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("going", metadata=terminating))
    async with world.running():
        await world.rest()
    assert world.bindings() == {}
    assert world.queue.in_flight_pods() == []
    assert world.lines("Skip schedule deleting pod") == [
        '"Skip schedule deleting pod" pod="default/going"'
    ]
    (event,) = world.events()
    assert event["note"] == "skip schedule deleting pod: default/going"
    assert world.patches() == []
