"""Where a pod is, told at every stop between its coming and its end."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import pytest

from kubesched.client.resources import NODES
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.scheduler.story import event_names
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import refusal
from tests.unit.scheduler.live_world import World, on_a_loop

NOW = "2027-01-15T08:00:00Z"  # what the clock of the world shows at the start


def a_node(name: str = "n1", cpu: str = "4") -> Wire:
    room = {"cpu": cpu, "memory": "100Gi", "pods": "100"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": room}}


def story(world: World, name: str = "pod") -> Any:
    told = world.live.explain(f"default/{name}")
    assert told is not None
    return json.loads(told)


class Doorkeeper:
    """Holds pods at permit or in pre-bind, and refuses some to be reserved."""

    name = "Doorkeeper"
    handle: ClassVar[Any] = None
    open_: ClassVar[asyncio.Event | None] = None
    permit_answer: ClassVar[Any] = None
    reserve_answer: ClassVar[Status | None] = None

    def __init__(self, args: object, handle: Any) -> None:
        Doorkeeper.handle = handle

    def reserve(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return self.reserve_answer

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        """Nothing was kept."""

    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        return self.permit_answer

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Status | None:
        return None

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status | None:
        if self.open_ is not None:
            await self.open_.wait()
        return None

    def events_to_register(self) -> list[EventRegistration]:
        return [EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD))]


@pytest.fixture(autouse=True)
def _an_open_door() -> None:
    Doorkeeper.open_ = None
    Doorkeeper.permit_answer = None
    Doorkeeper.reserve_answer = None


@on_a_loop
async def test_a_pod_that_waits_for_its_turn_has_no_decision_yet() -> None:
    world = World()
    world.show("ADDED", pod_wire("pod"))
    told = story(world)
    assert (told["version"], told["source"], told["state"]) == (1, "scheduler", "active")
    assert (told["uid"], told["schedulerName"]) == ("uid-default-pod", "default-scheduler")
    assert (told["attempts"], told["explanation"], told["decidedAt"]) == (0, None, "")
    # Nobody has told this scheduler to begin.
    assert told["text"] == (
        "default/pod waits for its turn in the active queue; this scheduler places no pods at "
        "present, since it does not lead"
    )


@on_a_loop
async def test_a_bound_pod_is_explained_with_where_and_when() -> None:
    world = World()
    world.put("ADDED", a_node("n1"), NODES)
    world.put("ADDED", a_node("n2", cpu="8"), NODES)
    world.put("ADDED", pod_wire("pod", requests={"cpu": "1"}))
    async with world.running():
        await world.rest()
        assert story(world)["state"] == "binding"  # The watch has not shown it yet.
        world.put("MODIFIED", pod_wire("pod", requests={"cpu": "1"}, nodeName="n2"))
        await world.rest()
        told = story(world)
    assert (told["state"], told["node"], told["boundAt"]) == ("bound", "n2", NOW)
    assert told["text"] == f"default/pod is bound to n2 since {NOW}"
    assert (told["attempts"], told["decidedAt"]) == (1, NOW)
    explanation = told["explanation"]
    assert (explanation["outcome"], explanation["node"]) == ("placed", "n2")
    assert [row["node"] for row in explanation["ranking"]] == ["n2", "n1"]
    assert explanation["event"]["message"] == "Successfully assigned default/pod to n2"


@on_a_loop
async def test_an_unschedulable_pod_names_who_refused_it_and_what_may_help() -> None:
    world = World()
    world.put("ADDED", a_node("n1", cpu="1"), NODES)
    world.put("ADDED", pod_wire("pod", requests={"cpu": "2"}))
    async with world.running():
        await world.rest()
        told = story(world)
    assert (told["state"], told["refusedBy"]) == ("unschedulable", ["NodeResourcesFit"])
    assert told["until"] == "2027-01-15T08:05:00Z"
    (wake,) = told["wakes"]
    assert wake["plugin"] == "NodeResourcesFit"
    assert "NodeAdd" in wake["events"]
    assert "AssignedPodDelete" in wake["events"] or "PodDelete" in wake["events"]
    assert told["lastEvent"]["reason"] == "FailedScheduling"
    assert told["lastEvent"]["message"] == told["explanation"]["event"]["message"]
    (event,) = world.events("FailedScheduling")
    assert told["lastEvent"]["message"] == event["note"]
    assert event["note"].startswith("0/1 nodes are available: 1 Insufficient cpu. ")
    assert told["explanation"]["refusals"][0]["nodes"] == ["n1"]


@on_a_loop
async def test_a_pod_that_backs_off_says_until_when() -> None:
    world = World()
    world.network.reply("POST /binding", refusal(422, "Invalid", "not there"))
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod"))
    world.network.hold("POST /events")
    async with world.running():
        await world.until(lambda: world.where("pod") == "Backoff")
        told = story(world)
        assert (told["state"], told["until"]) == ("backoff", "2027-01-15T08:00:01Z")
        assert "after an error" in told["text"]
        # The decision was for a node, and what went wrong came later.
        assert told["explanation"]["node"] == "n1"
        assert told["lastEvent"]["type"] == "Warning"
        assert told["lastEvent"]["message"].endswith("not there")


@on_a_loop
async def test_a_gated_pod_names_its_gates() -> None:
    world = World()
    world.show("ADDED", pod_wire("pod", schedulingGates=[{"name": "example.com/wait"}]))
    told = story(world)
    assert told["state"] == "gated"
    assert told["holds"] == [
        {
            "plugin": "SchedulingGates",
            "message": "waiting for scheduling gates: [example.com/wait]",
        }
    ]
    (wake,) = told["wakes"]
    assert wake["events"] == ["PodUpdatePodSchedulingGatesEliminated"]
    assert told["explanation"] is None


@on_a_loop
async def test_a_pod_waits_on_permit_then_is_pre_bound_then_bound() -> None:
    world = World(Doorkeeper)
    Doorkeeper.permit_answer = (Status(Code.WAIT), 30.0)
    Doorkeeper.open_ = asyncio.Event()
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod"))
    binding = world.network.hold("POST /binding")
    async with world.running():
        await world.until(lambda: len(world.live.waiting_pods) == 1)
        told = story(world)
        assert (told["state"], told["node"]) == ("waitingOnPermit", "n1")
        assert told["holds"] == [{"plugin": "Doorkeeper", "message": ""}]
        assert told["until"] == "2027-01-15T08:00:30Z"
        (waiting,) = world.live.waiting_pods
        waiting.allow("Doorkeeper")
        await world.until(lambda: len(world.live.in_pre_bind) == 1)
        assert story(world)["state"] == "preBinding"
        Doorkeeper.open_.set()
        await world.until(lambda: bool(world.bindings()))
        assert (story(world)["state"], story(world)["node"]) == ("binding", "n1")
        binding.set()


@on_a_loop
async def test_a_refusal_after_the_decision_is_the_last_word() -> None:
    world = World(Doorkeeper)
    Doorkeeper.reserve_answer = unschedulable("not this one")
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        told = story(world)
    assert (told["state"], told["refusedBy"]) == ("unschedulable", ["Doorkeeper"])
    assert told["lastEvent"]["message"] == "0/1 nodes are available: 1 not this one."
    assert told["explanation"]["outcome"] == "placed"
    assert told["wakes"] == [{"plugin": "Doorkeeper", "events": ["NodeAdd"]}]


@on_a_loop
async def test_a_pod_for_which_others_leave_names_them() -> None:
    world = World()
    world.put("ADDED", a_node("n1", cpu="1"), NODES)
    world.put("ADDED", pod_wire("low", requests={"cpu": "1"}, priority=0, nodeName="n1"))
    world.put("ADDED", pod_wire("pod", requests={"cpu": "1"}, priority=10))
    leaving = world.network.hold("DELETE /pods/low")
    async with world.running():
        await world.until(lambda: bool(world.network.of("DELETE", "/pods/low")))
        told = story(world)
        assert (told["state"], told["nominatedNode"]) == ("preempting", "n1")
        assert told["victimsLeft"] == ["default/low"]
        assert told["explanation"]["preemption"]["victims"] == [
            {"pod": "default/low", "priority": 0}
        ]
        leaving.set()
        await world.rest()
        world.put("DELETED", pod_wire("low", requests={"cpu": "1"}, nodeName="n1"))
        await world.rest()
        assert story(world)["victimsLeft"] == []
        assert story(world)["explanation"]["node"] == "n1"


@on_a_loop
async def test_a_pod_of_another_scheduler_is_named() -> None:
    world = World()
    world.show("ADDED", pod_wire("pod", schedulerName="batch"))
    told = story(world)
    assert (told["state"], told["schedulerName"]) == ("foreign", "batch")
    assert told["profiles"] == ["default-scheduler"]
    assert told["text"] == (
        'default/pod asks for the scheduler "batch", and no profile here has that name (there is '
        '"default-scheduler"): if no other scheduler runs under it, nobody places the pod'
    )


@on_a_loop
async def test_a_pod_that_was_bound_before_is_found_by_its_name() -> None:
    world = World()
    world.show("ADDED", a_node(), NODES)
    world.show("ADDED", pod_wire("old", nodeName="n1"))
    told = story(world, "old")
    assert (told["state"], told["node"], told["boundAt"]) == ("bound", "n1", "")
    assert told["explanation"] is None


@on_a_loop
async def test_nobody_is_known_by_a_wrong_name_or_after_its_end() -> None:
    world = World()
    assert world.live.explain("default/pod") is None
    world.show("ADDED", pod_wire("pod"))
    assert world.live.explain("other/pod") is None
    world.show("DELETED", pod_wire("pod"))
    assert world.live.explain("default/pod") is None


@on_a_loop
async def test_a_successor_of_the_same_name_has_no_part_in_the_story() -> None:
    world = World()
    world.put("ADDED", a_node("n1", cpu="1"), NODES)
    world.put("ADDED", pod_wire("pod", requests={"cpu": "2"}))
    async with world.running():
        await world.rest()
        world.live.scheduler.stop_scheduling()
        world.put("DELETED", pod_wire("pod", requests={"cpu": "2"}))
        world.put("ADDED", pod_wire("pod", uid="another", requests={"cpu": "2"}))
        await world.until(lambda: not world.live.inbox)
        told = story(world)
    assert (told["uid"], told["attempts"]) == ("another", 0)
    assert (told["explanation"], told["lastEvent"]) == (None, None)


@on_a_loop
async def test_a_pod_that_is_being_deleted_is_passed_over() -> None:
    world = World()
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod", metadata={"deletionTimestamp": NOW}))
    async with world.running():
        await world.rest()
        assert story(world)["state"] == "deleting"


@pytest.mark.parametrize(
    ("resource", "action", "expected"),
    [
        (EventResource.NODE, ActionType.ADD, ["NodeAdd"]),
        (
            EventResource.NODE,
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT,
            ["NodeAdd", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
        ),
        (EventResource.POD, ActionType.ALL, ["PodAdd", "PodDelete", "PodUpdate"]),
        (EventResource.WILDCARD, ActionType.ALL, ["*All"]),
    ],
)
def test_a_registration_is_told_as_the_events_it_covers(
    resource: EventResource, action: ActionType, expected: list[str]
) -> None:
    assert event_names(ClusterEvent(resource, action)) == expected
