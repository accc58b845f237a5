"""The report of a pod in each of its states."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

import pytest

from kubesched.client.resources import NODES
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.scheduler.pod_reporter import event_names
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import rejection
from tests.unit.scheduler.live_world import World, on_a_loop

NOW = "2027-01-15T08:00:00Z"  # The start of the test clock.


def a_node(name: str = "n1", cpu: str = "4") -> Wire:
    room = {"cpu": cpu, "memory": "100Gi", "pods": "100"}
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": room}}


def report_of(world: World, name: str = "pod") -> Any:
    report = world.live.explain(f"default/{name}")
    assert report is not None
    return json.loads(report)


class Doorkeeper:
    """A plugin that makes pods wait on Permit or in PreBind, and rejects some in Reserve."""

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
        """Reserve nothing."""

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
async def test_a_pod_in_the_active_queue_has_no_decision() -> None:
    world = World()
    world.show("ADDED", pod_wire("pod"))
    report = report_of(world)
    assert (report["version"], report["source"], report["state"]) == (1, "scheduler", "active")
    assert (report["uid"], report["schedulerName"]) == ("uid-default-pod", "default-scheduler")
    assert (report["attempts"], report["explanation"], report["decidedAt"]) == (0, None, "")
    # This scheduler does not lead yet.
    assert report["text"] == (
        "default/pod waits for its turn in the active queue; this scheduler places no pods "
        "now: it is not the leader"
    )


@on_a_loop
async def test_a_bound_pod_is_reported_with_node_and_time() -> None:
    world = World()
    world.put("ADDED", a_node("n1"), NODES)
    world.put("ADDED", a_node("n2", cpu="8"), NODES)
    world.put("ADDED", pod_wire("pod", requests={"cpu": "1"}))
    async with world.running():
        await world.rest()
        assert report_of(world)["state"] == "binding"  # The watch has not shown it yet.
        world.put("MODIFIED", pod_wire("pod", requests={"cpu": "1"}, nodeName="n2"))
        await world.rest()
        report = report_of(world)
    assert (report["state"], report["node"], report["boundAt"]) == ("bound", "n2", NOW)
    assert report["text"] == f"default/pod is bound to n2 since {NOW}"
    assert (report["attempts"], report["decidedAt"]) == (1, NOW)
    explanation = report["explanation"]
    assert (explanation["outcome"], explanation["node"]) == ("placed", "n2")
    assert [row["node"] for row in explanation["ranking"]] == ["n2", "n1"]
    assert explanation["event"]["message"] == "Successfully assigned default/pod to n2"


@on_a_loop
async def test_an_unschedulable_pod_is_reported_with_rejectors_and_helpful_events() -> None:
    world = World()
    world.put("ADDED", a_node("n1", cpu="1"), NODES)
    world.put("ADDED", pod_wire("pod", requests={"cpu": "2"}))
    async with world.running():
        await world.rest()
        report = report_of(world)
    assert (report["state"], report["rejectedBy"]) == ("unschedulable", ["NodeResourcesFit"])
    assert report["until"] == "2027-01-15T08:05:00Z"
    (wake,) = report["wakes"]
    assert wake["plugin"] == "NodeResourcesFit"
    assert "NodeAdd" in wake["events"]
    assert "AssignedPodDelete" in wake["events"] or "PodDelete" in wake["events"]
    assert report["lastEvent"]["reason"] == "FailedScheduling"
    assert report["lastEvent"]["message"] == report["explanation"]["event"]["message"]
    (event,) = world.events("FailedScheduling")
    assert report["lastEvent"]["message"] == event["note"]
    assert event["note"].startswith("0/1 nodes are available: 1 Insufficient cpu. ")
    assert report["explanation"]["rejections"][0]["nodes"] == ["n1"]


@on_a_loop
async def test_a_pod_in_backoff_is_reported_with_its_end() -> None:
    world = World()
    world.network.reply("POST /binding", rejection(422, "Invalid", "not there"))
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod"))
    world.network.hold("POST /events")
    async with world.running():
        await world.until(lambda: world.where("pod") == "Backoff")
        report = report_of(world)
        assert (report["state"], report["until"]) == ("backoff", "2027-01-15T08:00:01Z")
        assert "after an error" in report["text"]
        # The decision chose a node; the failure came later.
        assert report["explanation"]["node"] == "n1"
        assert report["lastEvent"]["type"] == "Warning"
        assert report["lastEvent"]["message"].endswith("not there")


@on_a_loop
async def test_a_gated_pod_is_reported_with_its_gates() -> None:
    world = World()
    world.show("ADDED", pod_wire("pod", schedulingGates=[{"name": "example.com/wait"}]))
    report = report_of(world)
    assert report["state"] == "gated"
    assert report["holds"] == [
        {
            "plugin": "SchedulingGates",
            "message": "waiting for scheduling gates: [example.com/wait]",
        }
    ]
    (wake,) = report["wakes"]
    assert wake["events"] == ["PodUpdatePodSchedulingGatesEliminated"]
    assert report["explanation"] is None


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
        report = report_of(world)
        assert (report["state"], report["node"]) == ("waitingOnPermit", "n1")
        assert report["holds"] == [{"plugin": "Doorkeeper", "message": ""}]
        assert report["until"] == "2027-01-15T08:00:30Z"
        (waiting,) = world.live.waiting_pods
        waiting.allow("Doorkeeper")
        await world.until(lambda: len(world.live.in_pre_bind) == 1)
        assert report_of(world)["state"] == "preBinding"
        Doorkeeper.open_.set()
        await world.until(lambda: bool(world.bindings()))
        assert (report_of(world)["state"], report_of(world)["node"]) == ("binding", "n1")
        binding.set()


@on_a_loop
async def test_a_rejection_after_the_decision_is_the_last_event() -> None:
    world = World(Doorkeeper)
    Doorkeeper.reserve_answer = unschedulable("not this one")
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        report = report_of(world)
    assert (report["state"], report["rejectedBy"]) == ("unschedulable", ["Doorkeeper"])
    assert report["lastEvent"]["message"] == "0/1 nodes are available: 1 not this one."
    assert report["explanation"]["outcome"] == "placed"
    assert report["wakes"] == [{"plugin": "Doorkeeper", "events": ["NodeAdd"]}]


@on_a_loop
async def test_a_preempting_pod_is_reported_with_its_victims() -> None:
    world = World()
    world.put("ADDED", a_node("n1", cpu="1"), NODES)
    world.put("ADDED", pod_wire("low", requests={"cpu": "1"}, priority=0, nodeName="n1"))
    world.put("ADDED", pod_wire("pod", requests={"cpu": "1"}, priority=10))
    leaving = world.network.hold("DELETE /pods/low")
    async with world.running():
        await world.until(lambda: bool(world.network.of("DELETE", "/pods/low")))
        report = report_of(world)
        assert (report["state"], report["nominatedNode"]) == ("preempting", "n1")
        assert report["victimsLeft"] == ["default/low"]
        assert report["explanation"]["preemption"]["victims"] == [
            {"pod": "default/low", "priority": 0}
        ]
        leaving.set()
        await world.rest()
        world.put("DELETED", pod_wire("low", requests={"cpu": "1"}, nodeName="n1"))
        await world.rest()
        assert report_of(world)["victimsLeft"] == []
        assert report_of(world)["explanation"]["node"] == "n1"


@on_a_loop
async def test_a_pod_of_another_scheduler_is_reported_as_foreign() -> None:
    world = World()
    world.show("ADDED", pod_wire("pod", schedulerName="batch"))
    report = report_of(world)
    assert (report["state"], report["schedulerName"]) == ("foreign", "batch")
    assert report["profiles"] == ["default-scheduler"]
    assert report["text"] == (
        'default/pod has the scheduler name "batch", which no profile has (profiles: '
        '"default-scheduler"); the pod stays pending unless another scheduler uses that name'
    )


@on_a_loop
async def test_a_pod_bound_before_the_start_is_found_by_its_name() -> None:
    world = World()
    world.show("ADDED", a_node(), NODES)
    world.show("ADDED", pod_wire("old", nodeName="n1"))
    report = report_of(world, "old")
    assert (report["state"], report["node"], report["boundAt"]) == ("bound", "n1", "")
    assert report["explanation"] is None


@on_a_loop
async def test_unknown_and_deleted_pods_have_no_report() -> None:
    world = World()
    assert world.live.explain("default/pod") is None
    world.show("ADDED", pod_wire("pod"))
    assert world.live.explain("other/pod") is None
    world.show("DELETED", pod_wire("pod"))
    assert world.live.explain("default/pod") is None


@on_a_loop
async def test_a_recreated_pod_does_not_show_the_record_of_its_predecessor() -> None:
    world = World()
    world.put("ADDED", a_node("n1", cpu="1"), NODES)
    world.put("ADDED", pod_wire("pod", requests={"cpu": "2"}))
    async with world.running():
        await world.rest()
        world.live.scheduler.stop_scheduling()
        world.put("DELETED", pod_wire("pod", requests={"cpu": "2"}))
        world.put("ADDED", pod_wire("pod", uid="another", requests={"cpu": "2"}))
        await world.until(lambda: not world.live.inbox)
        report = report_of(world)
    assert (report["uid"], report["attempts"]) == ("another", 0)
    assert (report["explanation"], report["lastEvent"]) == (None, None)


@on_a_loop
async def test_a_terminating_pod_is_reported_as_deleting() -> None:
    world = World()
    world.put("ADDED", a_node(), NODES)
    world.put("ADDED", pod_wire("pod", metadata={"deletionTimestamp": NOW}))
    async with world.running():
        await world.rest()
        assert report_of(world)["state"] == "deleting"


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
def test_a_registration_is_reported_as_the_events_it_covers(
    resource: EventResource, action: ActionType, expected: list[str]
) -> None:
    assert event_names(ClusterEvent(resource, action)) == expected
