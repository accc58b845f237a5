"""Status patches of pods: content, order per pod, and that none follows a binding."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.scheduler.status_patches import SENDING_MAX, UnschedulableCondition
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import rejection
from tests.unit.scheduler.live_world import World, on_a_loop

FULL = UnschedulableCondition("Unschedulable", "full")
BROKEN = UnschedulableCondition("SchedulerError", "broken")
UNSCHEDULABLE: Wire = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "full",
    "lastTransitionTime": "2026-12-01T00:00:00Z",
}


def a_pod(
    world: World,
    *conditions: Wire,
    name: str = "pod",
    nominated: str = "",
    generation: int = 0,
) -> PodInfo:
    """Return a pod as the watch last showed it."""
    status: dict[str, Any] = {"conditions": list(conditions)}
    if nominated:
        status["nominatedNodeName"] = nominated
    wire = pod_wire(name, status=status, metadata={"generation": generation})
    world.show("ADDED", wire)
    pod = world.pods.get(f"default/{name}")
    assert pod is not None
    return pod


def written(world: World, name: str = "pod") -> list[tuple[str, Any]]:
    """Return condition message and nomination of every patch; `-` for an unset field."""
    return [
        (
            patch["conditions"][0]["message"] if "conditions" in patch else "-",
            patch.get("nominatedNodeName", "-"),
        )
        for patch in world.patches(name)
    ]


@on_a_loop
async def test_a_new_condition_keeps_the_order_of_the_others() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        ready = {"type": "Ready", "status": "False"}
        assert world.live.patches.write(a_pod(world, ready), FULL, None)
        await world.rest()
    (patch,) = world.patches()
    assert patch["$setElementOrder/conditions"] == [{"type": "Ready"}, {"type": "PodScheduled"}]
    assert [condition["type"] for condition in patch["conditions"]] == ["PodScheduled"]


@on_a_loop
async def test_a_condition_that_stays_false_keeps_its_time() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod = a_pod(world, UNSCHEDULABLE, {"type": "Ready", "status": "False"}, generation=2)
        assert world.live.patches.write(pod, BROKEN, None)
        await world.rest()
    (patch,) = world.patches()
    assert patch["$setElementOrder/conditions"] == [{"type": "PodScheduled"}, {"type": "Ready"}]
    assert patch["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulerError",
            "message": "broken",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-12-01T00:00:00Z",
            "observedGeneration": 2,
        }
    ]


@on_a_loop
async def test_a_condition_that_becomes_false_gets_the_current_time() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.patches.write(a_pod(world, UNSCHEDULABLE | {"status": "True"}), FULL, None)
        await world.rest()
    assert world.patches()[0]["conditions"][0]["lastTransitionTime"] == "2027-01-15T08:00:00Z"


@pytest.mark.parametrize("nominated", [None, "n1"])
@on_a_loop
async def test_an_equal_status_is_not_written(nominated: str | None) -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        # As upstream: a new generation is no reason to write.
        pod = a_pod(world, UNSCHEDULABLE | {"observedGeneration": 1}, nominated="n1", generation=2)
        assert not world.live.patches.write(pod, FULL, nominated)
        await world.rest()
    assert world.network.sent == []


@on_a_loop
async def test_a_nomination_does_not_change_conditions() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.patches.write(a_pod(world, UNSCHEDULABLE), None, "n1")
        await world.rest()
    assert world.patches() == [{"nominatedNodeName": "n1"}]


# -- order ----------------------------------------------------------------------------------------


@on_a_loop
async def test_updates_during_a_patch_are_merged_into_one_patch_after_it() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world), world.live.patches
        held = world.network.hold("PATCH /status")
        for message in ("first", "second", "third"):
            patches.write(pod, UnschedulableCondition("Unschedulable", message), None)
        await world.until(lambda: len(world.patches()) == 1)
        held.set()
        await world.rest()
    assert written(world) == [("first", "-"), ("third", "-")]


@on_a_loop
async def test_a_merged_update_keeps_fields_that_the_later_one_does_not_set() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world), world.live.patches
        held = world.network.hold("PATCH /status")
        patches.write(pod, UnschedulableCondition("Unschedulable", "first"), None)
        patches.write(pod, UnschedulableCondition("Unschedulable", "second"), None)
        patches.write(pod, None, "n1")
        held.set()
        await world.rest()
    assert written(world) == [("first", "-"), ("second", "n1")]


@on_a_loop
async def test_a_return_to_the_watched_status_is_written_after_a_patch_being_sent() -> None:
    # The watched pod has this status, but the patch being sent changes it.
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world, UNSCHEDULABLE, nominated="n1"), world.live.patches
        held = world.network.hold("PATCH /status")
        patches.write(pod, BROKEN, "")
        assert patches.write(pod, FULL, "n1")
        held.set()
        await world.rest()
    assert written(world) == [("broken", None), ("full", "n1")]


@on_a_loop
async def test_a_return_to_the_watched_status_drops_a_waiting_patch() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        held = world.network.hold("PATCH /status")
        others = [a_pod(world, name=f"other-{n}") for n in range(SENDING_MAX)]
        pod, patches = a_pod(world, UNSCHEDULABLE), world.live.patches
        for other in others:
            patches.write(other, FULL, None)
        assert patches.write(pod, BROKEN, None)
        assert not patches.write(pod, FULL, None)
        held.set()
        await world.rest()
    assert written(world) == []
    assert len(world.patches()) == SENDING_MAX


@on_a_loop
async def test_patches_of_different_pods_are_sent_in_parallel_up_to_a_limit() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        held = world.network.hold("PATCH /status")
        names = [f"p-{n}" for n in range(SENDING_MAX + 2)]
        for name in names:
            world.live.patches.write(a_pod(world, name=name), FULL, None)
        await world.until(lambda: len(world.patches()) == SENDING_MAX)
        assert len(world.live.patches) == SENDING_MAX + 2
        held.set()
        await world.rest()
    assert [path.split("/")[-2] for path, _ in world.network.of("PATCH")] == names


# -- bindings -------------------------------------------------------------------------------------


@on_a_loop
async def test_a_waiting_patch_is_dropped_before_the_binding() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        held = world.network.hold("PATCH /status")
        pod, patches = a_pod(world), world.live.patches
        patches.write(pod, FULL, None)
        patches.write(pod, BROKEN, None)
        settled = world.live.tasks.start(patches.settle(pod.uid), name="settle")
        await world.until(lambda: len(world.patches()) == 1)
        assert not settled.done(), "the patch being sent comes first"
        held.set()
        await settled
        await world.rest()
    assert written(world) == [("full", "-")]


@on_a_loop
async def test_a_pod_without_a_patch_being_sent_does_not_wait() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.network.hold("PATCH /status")
        world.live.patches.write(a_pod(world, name="other"), FULL, None)
        await world.live.patches.settle("uid-default-pod")


@on_a_loop
async def test_an_expected_node_is_cleared_before_the_watch_shows_it() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world, UNSCHEDULABLE), world.live.patches
        patches.expect(pod, "n1")
        await world.rest()
        assert patches.write(pod, FULL, "")
        await world.rest()
        # Once is enough.
        assert not patches.write(pod, FULL, "")
    assert written(world) == [("-", "n1"), ("full", None)]


@on_a_loop
async def test_an_expected_node_is_not_cleared_after_the_binding() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world), world.live.patches
        patches.expect(pod, "n1")
        await world.rest()
        patches.bound(pod.uid)
        assert not patches.write(pod, None, "")


# -- failures -------------------------------------------------------------------------------------


@on_a_loop
async def test_a_rejected_patch_is_logged_and_the_next_is_sent() -> None:
    world = World()
    world.network.reply("PATCH /status", rejection(403, "Forbidden", "not you"))
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod = a_pod(world)
        world.live.patches.write(pod, FULL, None)
        await world.rest()
        world.live.patches.write(pod, BROKEN, None)
        await world.rest()
    assert world.lines("Error updating pod") == [
        '"Error updating pod" err="not you" pod="default/pod"'
    ]
    assert written(world) == [("full", "-"), ("broken", "-")]


@on_a_loop
async def test_a_message_that_cannot_be_encoded_does_not_delay_other_patches() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        held = world.network.hold("PATCH /status")
        for n in range(SENDING_MAX - 1):
            world.live.patches.write(a_pod(world, name=f"p-{n}"), FULL, None)
        pod = a_pod(world)
        world.live.patches.write(pod, UnschedulableCondition("Unschedulable", "\ud800"), None)
        world.live.patches.write(a_pod(world, name="next"), FULL, None)
        await world.until(lambda: written(world, "next") != [])
        held.set()
        await world.rest()
    assert len(world.lines("Error updating pod")) == 1
