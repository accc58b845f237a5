"""The fields of Event objects."""

import asyncio
import re

import pytest

from kubesched.api.meta import ObjectReference
from kubesched.client.events.bodies import event_name, micro_time
from kubesched.client.events.recorder import truncated_note
from tests.unit.client.election_world import settle
from tests.unit.client.event_world import Subject, World, running

AT_NS = 1_800_000_000_250_000_000


def written(world: World) -> None:
    async def run() -> None:
        async with running(world):
            await settle()

    asyncio.run(run())


def test_an_event_about_a_pod() -> None:
    world = World()
    world.failed()
    written(world)
    assert world.server.requests == [("POST", "/apis/events.k8s.io/v1/namespaces/default/events")]
    assert world.server.only == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"a.{AT_NS:x}", "namespace": "default"},
        "eventTime": "2027-01-15T08:00:00.250000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "namespace": "default",
            "name": "a",
            "uid": "uid-a",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": "no room",
        "type": "Warning",
    }


def test_an_event_about_a_cluster_scoped_object_goes_to_default() -> None:
    world = World()
    node = ObjectReference(
        kind="Node", api_version="v1", name="n", uid="uid-n", resource_version="3"
    )
    group = ObjectReference(
        kind="PodGroup",
        api_version="scheduling.k8s.io/v1alpha1",
        namespace="x",
        name="g",
        uid="uid-g",
        resource_version="4",
    )
    world.recorder.event(node, kind="Normal", reason="R", action="A", note="text", related=group)
    written(world)
    event = world.server.only
    assert event["metadata"]["namespace"] == "default"
    assert event["regarding"] == {
        "kind": "Node",
        "name": "n",
        "uid": "uid-n",
        "apiVersion": "v1",
        "resourceVersion": "3",
    }
    assert event["related"]["kind"] == "PodGroup"


def test_simultaneous_events_have_different_names() -> None:
    world = World()
    world.failed()
    world.scheduled("a")
    written(world)
    assert world.server.names == [f"a.{AT_NS:x}", f"a.{AT_NS + 1:x}"]


def test_an_invalid_name_is_replaced() -> None:
    uuid = "[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"
    for bad in ("a" * 253, "Upper", "under_score", "-dash"):
        assert re.fullmatch(uuid, event_name(bad, AT_NS))
    assert event_name("a.b-c", 255) == "a.b-c.ff"


def test_an_unknown_type_is_rejected() -> None:
    world = World()
    world.recorder.event(Subject(), kind="Bad", reason="R", action="A", note="")
    written(world)
    assert world.server.events == {}
    assert world.messages == ["Unsupported event type"]


def test_an_event_of_the_core_group() -> None:
    world = World()
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "kube-scheduler",
            "namespace": "kube-system",
            "uid": "u",
            "resourceVersion": "9",
        },
        "spec": {},
    }
    world.broadcaster.core_recorder("default-scheduler").event(
        lease, reason="LeaderElection", note="host_1 became leader"
    )
    written(world)
    assert world.server.requests == [("POST", "/api/v1/namespaces/kube-system/events")]
    assert world.server.only == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"kube-scheduler.{AT_NS:x}", "namespace": "kube-system"},
        "involvedObject": {
            "kind": "Lease",
            "namespace": "kube-system",
            "name": "kube-scheduler",
            "uid": "u",
            "apiVersion": "coordination.k8s.io/v1",
            "resourceVersion": "9",
        },
        "reason": "LeaderElection",
        "message": "host_1 became leader",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "count": 1,
        "type": "Normal",
        "reportingComponent": "default-scheduler",
    }


@pytest.mark.parametrize(
    ("message", "note"),
    [
        pytest.param("x" * 1024, "x" * 1024, id="longest note"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="one byte too long"),
        pytest.param("é" * 512, "é" * 512, id="bytes count, not characters"),
        pytest.param("é" * 513, "é" * 510 + " ...", id="too many bytes"),
        pytest.param(
            "x" + "é" * 512, "x" + "é" * 509 + " ...", id="partial character"
        ),
    ],
)  # fmt: skip
def test_a_long_message_is_truncated(message: str, note: str) -> None:
    assert truncated_note(message) == note


def test_times_have_six_digits() -> None:
    assert micro_time(0) == "1970-01-01T00:00:00.000000Z"
    assert micro_time(1_800_000_000_000_001_999) == "2027-01-15T08:00:00.000001Z"
