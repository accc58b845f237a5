"""Status patches of pods: what they say, their order per pod, and that none follows a binding."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.model.pod_info import PodInfo
from kubesched.scheduler.status_patches import SENDING_MAX, Verdict
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import refusal
from tests.unit.scheduler.live_world import World, on_a_loop

FULL = Verdict("Unschedulable", "full")
BROKEN = Verdict("SchedulerError", "broken")
SAID: Wire = {
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
    known = world.pods.get(f"default/{name}")
    assert known is not None
    return known


def written(world: World, name: str = "pod") -> list[tuple[str, Any]]:
    """Return message of the condition and nomination of every patch; `-` for what it leaves."""
    return [
        (
            patch["conditions"][0]["message"] if "conditions" in patch else "-",
            patch.get("nominatedNodeName", "-"),
        )
        for patch in world.patches(name)
    ]


@on_a_loop
async def test_a_condition_is_put_beside_others_and_keeps_their_order() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        ready = {"type": "Ready", "status": "False"}
        assert world.live.patches.write(a_pod(world, ready), FULL, None)
        await world.rest()
    (patch,) = world.patches()
    assert patch["$setElementOrder/conditions"] == [{"type": "Ready"}, {"type": "PodScheduled"}]
    assert [one["type"] for one in patch["conditions"]] == ["PodScheduled"]


@on_a_loop
async def test_a_condition_that_stays_false_keeps_its_time() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod = a_pod(world, SAID, {"type": "Ready", "status": "False"}, generation=2)
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
async def test_a_condition_that_turns_false_is_dated_now() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.patches.write(a_pod(world, SAID | {"status": "True"}), FULL, None)
        await world.rest()
    assert world.patches()[0]["conditions"][0]["lastTransitionTime"] == "2027-01-15T08:00:00Z"


@pytest.mark.parametrize("nominated", [None, "n1"])
@on_a_loop
async def test_what_the_status_says_already_is_not_written(nominated: str | None) -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        # A generation that moved on is no reason to write, as with upstream.
        pod = a_pod(world, SAID | {"observedGeneration": 1}, nominated="n1", generation=2)
        assert not world.live.patches.write(pod, FULL, nominated)
        await world.rest()
    assert world.network.sent == []


@on_a_loop
async def test_a_nomination_alone_leaves_conditions_alone() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.patches.write(a_pod(world, SAID), None, "n1")
        await world.rest()
    assert world.patches() == [{"nominatedNodeName": "n1"}]


# -- order ----------------------------------------------------------------------------------------


@on_a_loop
async def test_one_is_under_way_and_the_last_word_follows() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world), world.live.patches
        held = world.network.hold("PATCH /status")
        for message in ("first", "second", "third"):
            patches.write(pod, Verdict("Unschedulable", message), None)
        await world.until(lambda: len(world.patches()) == 1)
        held.set()
        await world.rest()
    assert written(world) == [("first", "-"), ("third", "-")]


@on_a_loop
async def test_what_a_later_word_leaves_alone_is_still_said() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world), world.live.patches
        held = world.network.hold("PATCH /status")
        patches.write(pod, Verdict("Unschedulable", "first"), None)
        patches.write(pod, Verdict("Unschedulable", "second"), None)
        patches.write(pod, None, "n1")
        held.set()
        await world.rest()
    assert written(world) == [("first", "-"), ("second", "n1")]


@on_a_loop
async def test_going_back_to_what_was_seen_is_said_after_what_is_under_way() -> None:
    # The pod as seen says so already, but the patch under way will have changed that.
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world, SAID, nominated="n1"), world.live.patches
        held = world.network.hold("PATCH /status")
        patches.write(pod, BROKEN, "")
        assert patches.write(pod, FULL, "n1")
        held.set()
        await world.rest()
    assert written(world) == [("broken", None), ("full", "n1")]


@on_a_loop
async def test_going_back_to_what_was_seen_drops_what_was_not_sent() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        held = world.network.hold("PATCH /status")
        others = [a_pod(world, name=f"other-{n}") for n in range(SENDING_MAX)]
        pod, patches = a_pod(world, SAID), world.live.patches
        for one in others:
            patches.write(one, FULL, None)
        assert patches.write(pod, BROKEN, None)
        assert not patches.write(pod, FULL, None)
        held.set()
        await world.rest()
    assert written(world) == []
    assert len(world.patches()) == SENDING_MAX


@on_a_loop
async def test_pods_do_not_wait_for_each_other_and_so_many_are_sent_at_once() -> None:
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
async def test_nothing_that_waits_is_written_once_a_pod_is_to_be_bound() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        held = world.network.hold("PATCH /status")
        pod, patches = a_pod(world), world.live.patches
        patches.write(pod, FULL, None)
        patches.write(pod, BROKEN, None)
        settled = world.live.tasks.start(patches.settle(pod.uid), name="settle")
        await world.until(lambda: len(world.patches()) == 1)
        assert not settled.done(), "the one under way comes first"
        held.set()
        await settled
        await world.rest()
    assert written(world) == [("full", "-")]


@on_a_loop
async def test_who_has_nothing_under_way_is_not_held_up() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.network.hold("PATCH /status")
        world.live.patches.write(a_pod(world, name="other"), FULL, None)
        await world.live.patches.settle("uid-default-pod")


@on_a_loop
async def test_an_expectation_is_taken_back_before_the_watch_showed_it() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world, SAID), world.live.patches
        patches.expect(pod, "n1")
        await world.rest()
        assert patches.write(pod, FULL, "")
        await world.rest()
        # Once is enough.
        assert not patches.write(pod, FULL, "")
    assert written(world) == [("-", "n1"), ("full", None)]


@on_a_loop
async def test_an_expectation_that_came_true_is_not_taken_back() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        pod, patches = a_pod(world), world.live.patches
        patches.expect(pod, "n1")
        await world.rest()
        patches.bound(pod.uid)
        assert not patches.write(pod, None, "")


# -- trouble --------------------------------------------------------------------------------------


@on_a_loop
async def test_a_refused_patch_is_logged_and_the_next_one_goes_out() -> None:
    world = World()
    world.network.reply("PATCH /status", refusal(403, "Forbidden", "not you"))
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
async def test_a_text_that_cannot_be_sent_holds_nobody_up() -> None:
    world = World()
    async with world.running():
        world.live.scheduler.stop_scheduling()
        held = world.network.hold("PATCH /status")
        for n in range(SENDING_MAX - 1):
            world.live.patches.write(a_pod(world, name=f"p-{n}"), FULL, None)
        pod = a_pod(world)
        world.live.patches.write(pod, Verdict("Unschedulable", "\ud800"), None)
        world.live.patches.write(a_pod(world, name="next"), FULL, None)
        await world.until(lambda: written(world, "next") != [])
        held.set()
        await world.rest()
    assert len(world.lines("Error updating pod")) == 1
