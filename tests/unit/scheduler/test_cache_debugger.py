"""The cache debugger on SIGUSR2: comparison with the API server, and the dump."""

from __future__ import annotations

import msgspec

from kubesched.client.resources import NODES
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import ScriptedAnswer, rejection
from tests.unit.scheduler.live_world import World, on_a_loop

NODES_PATH, PODS_PATH = "GET /api/v1/nodes", "GET /api/v1/pods"


def a_node(name: str) -> Wire:
    room = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": room}}


def listed(*objects: Wire) -> ScriptedAnswer:
    items = [{"metadata": obj["metadata"]} for obj in objects]
    return ScriptedAnswer(200, msgspec.json.encode({"items": items}))


async def compared(world: World, *, late: bool = False) -> None:
    """Run a comparison; `late` is called before the second look."""
    async with world.running():
        world.live.scheduler.stop_scheduling()
        work = world.live.tasks.start(world.live.debugger.compare_and_dump(), name="compare")
        if late:
            await world.until(lambda: len(world.network.of("GET")) == 2)
            await world.rest()
            world.clock.move(2)
        await work


def a_world(*pods: Wire, nodes: tuple[str, ...] = ("n1",)) -> World:
    world = World(verbosity=3)
    for name in nodes:
        world.show("ADDED", a_node(name), NODES)
    for pod in pods:
        world.show("ADDED", pod)
    return world


def mismatches(world: World) -> list[str]:
    return world.lines("Cache mismatch")


@on_a_loop
async def test_equal_states_log_no_mismatch() -> None:
    bound, pending = pod_wire("bound", nodeName="n1"), pod_wire("pending")
    world = a_world(bound, pending)
    world.network.reply(NODES_PATH, listed(a_node("n1")))
    world.network.reply(PODS_PATH, listed(bound, pending))
    await compared(world)
    assert mismatches(world) == []
    assert world.messages()[-4:-1] == [
        "Cache comparer started",
        "Cache comparer finished",
        "Dump of cached NodeInfo",
    ]
    text = world.text.getvalue()
    assert "Node name: n1" in text
    assert "Scheduled Pods(number: 1)" in text
    assert "name: bound, namespace: default, uid: uid-default-bound" in text
    assert 'summary="activeQ:1; backoffQ:0; unschedulablePods:0"' in text


@on_a_loop
async def test_a_difference_found_twice_is_logged() -> None:
    known, lost = pod_wire("known", nodeName="n1"), pod_wire("lost")
    world = a_world(known, nodes=("n1", "gone"))
    for _ in range(2):
        world.network.reply(NODES_PATH, listed(a_node("n1"), a_node("new")))
        world.network.reply(PODS_PATH, listed(lost))
    await compared(world, late=True)
    nodes, pods = mismatches(world)
    assert nodes == '"Cache mismatch" missedNodes=["new"] redundantNodes=["gone"]'
    assert pods == (
        '"Cache mismatch" missedPods=["uid-default-lost"] redundantPods=["uid-default-known"]'
    )


@on_a_loop
async def test_a_watch_that_lags_is_no_difference() -> None:
    late = pod_wire("late", nodeName="n1")
    world = a_world()
    for _ in range(2):
        world.network.reply(NODES_PATH, listed(a_node("n1")))
        world.network.reply(PODS_PATH, listed(late))
    async with world.running():
        world.live.scheduler.stop_scheduling()
        work = world.live.tasks.start(world.live.debugger.compare_and_dump(), name="compare")
        await world.until(lambda: len(world.network.of("GET")) == 2)
        world.put("ADDED", late)
        await world.rest()
        world.clock.move(2)
        await work
    assert mismatches(world) == []


@on_a_loop
async def test_a_failed_comparison_is_logged_and_the_dump_follows() -> None:
    world = a_world()
    world.network.reply(NODES_PATH, rejection(403, "Forbidden", "not you"))
    await compared(world)
    assert world.lines("Failed to compare cache") == ['"Failed to compare cache" err="not you"']
    assert world.lines("Dump of scheduling queue") != []
