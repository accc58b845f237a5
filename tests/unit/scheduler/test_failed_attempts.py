"""Failed attempts: requeue, nomination, event, condition, log and metrics."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from kubesched.scheduler.failure import (
    CLEAR,
    LEAVE,
    Failed,
    of_binding,
    of_status,
    of_wait,
)
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import rejection
from tests.unit.scheduler.live_world import World, on_a_loop

PENDING = Status(Code.PENDING, ("not there yet",), "X")
REJECTED = Failed("0/3 nodes are available: 3 full.", rejected=True, is_fit_error=True)
ERROR = Failed('running Reserve plugin "X": no', rejected=False, plugin="X")


def a_pod(name: str = "pod", **parts: Any) -> Wire:
    metadata = {"generation": 3, **parts.pop("metadata", {})}
    return pod_wire(name, metadata=metadata, **parts)


async def fail(world: World, failed: Failed, pod: Wire | None = None) -> None:
    """End the attempt of a pod with a failure, and wait for all requests."""
    world.show("ADDED", pod or a_pod())
    await settle(world, failed)


async def settle(world: World, failed: Failed) -> None:
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.failures.handle(world.pop(), failed, start_s=0.0)
        await world.rest()


# -- failures by status ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "unschedulable_plugins", "pending_plugins"),
    [
        (unschedulable("full").by("X"), "0/1 nodes are available: 1 full.", {"X"}, set()),
        (unresolvable("b", "a").by("X"), "0/1 nodes are available: 1 a, 1 b.", {"X"}, set()),
        (unschedulable("a", "a").by("X"), "0/1 nodes are available: 2 a.", {"X"}, set()),
        (unschedulable().by("X"), "0/1 nodes are available:", {"X"}, set()),
        (PENDING, "0/1 nodes are available: 1 not there yet.", {"X"}, {"X"}),
        (unschedulable("full"), "0/1 nodes are available: 1 full.", set(), set()),
    ],
)
def test_a_rejection_by_reserve_or_permit_reads_like_one_node_that_does_not_fit(
    status: Status, message: str, unschedulable_plugins: set[str], pending_plugins: set[str]
) -> None:
    failed = of_status(status)
    assert (failed.rejected, failed.is_fit_error, failed.nominated) == (True, True, CLEAR)
    assert failed.message == message
    assert failed.unschedulable_plugins == unschedulable_plugins
    assert failed.pending_plugins == pending_plugins


def test_a_rejection_while_waiting_counts_even_without_a_plugin() -> None:
    assert of_wait(unschedulable("removed")).unschedulable_plugins == {""}
    assert of_wait(unschedulable("late").by("X")).unschedulable_plugins == {"X"}


def test_a_rejection_after_permit_keeps_its_message_and_has_no_rejector() -> None:
    failed = of_binding(unschedulable("a", "b").by("X"))
    assert (failed.message, failed.rejected, failed.is_fit_error) == ("a, b", True, False)
    assert failed.unschedulable_plugins == failed.pending_plugins == set()


@pytest.mark.parametrize("of", [of_status, of_wait, of_binding])
def test_an_error_keeps_its_message_and_names_its_plugin(of: Any) -> None:
    failed = of(error("broken").by("X"))
    assert (failed.message, failed.rejected, failed.plugin) == ("broken", False, "X")
    assert failed.unschedulable_plugins == set()
    assert not SUCCESS.is_rejected


# -- requeueing -----------------------------------------------------------------------------------


@on_a_loop
async def test_a_rejected_pod_is_unschedulable_in_queue_event_condition_log_and_metrics() -> None:
    world = World(verbosity=3)
    rejected = Failed(
        "0/3 nodes are available: 3 full.",
        rejected=True,
        is_fit_error=True,
        unschedulable_plugins={"NodeResourcesFit"},
    )
    await fail(world, rejected)
    assert world.where("pod") == "Unschedulable"
    assert world.patches() == [
        {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/3 nodes are available: 3 full.",
                    "lastProbeTime": None,
                    "lastTransitionTime": "2027-01-15T08:00:00Z",
                    "observedGeneration": 3,
                }
            ],
        }
    ]
    (path, body) = world.network.of("PATCH")[0]
    assert path == "/api/v1/namespaces/default/pods/pod/status"
    assert body["metadata"] == {"uid": "uid-default-pod"}
    (event,) = world.events()
    assert event["regarding"]["name"] == "pod"
    fields = [event[name] for name in ("type", "reason", "action", "note", "reportingController")]
    assert fields == [
        "Warning",
        "FailedScheduling",
        "Scheduling",
        "0/3 nodes are available: 3 full.",
        "default-scheduler",
    ]
    assert world.lines("Unable to schedule pod; no fit; waiting") == [
        (
            '"Unable to schedule pod; no fit; waiting" pod="default/pod" '
            'err="0/3 nodes are available: 3 full."'
        )
    ]
    assert world.lines("Updating pod condition and nominated node name") == [
        (
            '"Updating pod condition and nominated node name" pod="default/pod" '
            'conditionType="PodScheduled" conditionStatus="False" conditionReason="Unschedulable" '
            'nominatedNodeName="" nominatingMode=1'
        )
    ]
    attempts = world.metrics.schedule_attempts_total
    assert attempts.labels("unschedulable", "default-scheduler").value == 1
    assert attempts.labels("error", "default-scheduler").value == 0


@on_a_loop
async def test_an_error_backs_off_and_the_log_names_the_plugin() -> None:
    world = World()
    await fail(world, ERROR)
    assert world.where("pod") == "Backoff"
    (patch,) = world.patches()
    assert patch["conditions"][0]["reason"] == "SchedulerError"
    assert patch["conditions"][0]["message"] == 'running Reserve plugin "X": no'
    assert world.lines("Error scheduling pod; retrying") == [
        (
            '"Error scheduling pod; retrying" err="running Reserve plugin \\"X\\": no" '
            'pod="default/pod" plugin="X"'
        )
    ]
    attempts = world.metrics.schedule_attempts_total
    assert attempts.labels("error", "default-scheduler").value == 1


@on_a_loop
async def test_no_nodes_at_all_is_unschedulable_and_backs_off() -> None:
    world = World(verbosity=2)
    failed = Failed("no nodes available to schedule pods", rejected=True, has_no_nodes=True)
    await fail(world, failed)
    assert world.where("pod") == "Backoff"
    assert world.patches()[0]["conditions"][0]["reason"] == "Unschedulable"
    assert world.lines("Unable to schedule pod; no nodes are registered to the cluster; waiting")
    assert world.lines("Error scheduling pod; retrying") == []


@on_a_loop
async def test_a_rejection_other_than_a_fit_error_is_logged_as_an_error() -> None:
    # Parity: schedule_one.go handleSchedulingFailure, v1.36, for what PreBind rejects.
    world = World()
    await fail(world, of_binding(unschedulable("not now").by("X")))
    assert world.where("pod") == "Backoff"
    assert world.patches()[0]["conditions"][0]["reason"] == "Unschedulable"
    assert len(world.lines("Error scheduling pod; retrying")) == 1


@on_a_loop
async def test_the_note_of_an_event_is_truncated_and_formatted_but_not_the_condition() -> None:
    world = World()
    message = "%s " * 400 + "end"
    await fail(world, Failed(message, rejected=True))
    (event,) = world.events()
    assert event["note"].startswith("%!s(MISSING) %!s(MISSING)")
    assert event["note"].endswith(" ...")
    assert world.patches()[0]["conditions"][0]["message"] == message


# -- the last watched pod -------------------------------------------------------------------------


@on_a_loop
async def test_the_requeued_pod_is_the_last_watched_state() -> None:
    world = World()
    world.show("ADDED", a_pod())
    queued = world.pop()
    world.show("MODIFIED", a_pod(labels={"a": "b"}, metadata={"generation": 4}))
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.failures.handle(queued, ERROR, 0.0)
        await world.rest()
    assert queued.pod.labels == {"a": "b"}
    assert world.patches()[0]["conditions"][0]["observedGeneration"] == 4


@on_a_loop
async def test_a_deleted_pod_is_not_requeued_but_has_an_event() -> None:
    world = World()
    world.show("ADDED", a_pod())
    queued = world.pop()
    world.show("DELETED", a_pod())
    world.network.reply("PATCH /status", rejection(404, "NotFound", 'pods "pod" not found'))
    async with world.running():
        world.live.failures.handle(queued, ERROR, 0.0)
        await world.rest()
    assert world.where("pod") is None
    assert world.queue.in_flight_pods() == []
    assert world.lines("Pod doesn't exist in informer cache") == [
        '"Pod doesn\'t exist in informer cache" pod="default/pod" err="pod \\"pod\\" not found"'
    ]
    assert len(world.events("FailedScheduling")) == 1
    assert len(world.patches()) == 1
    assert world.lines("Error updating pod") == []


@on_a_loop
async def test_a_pod_bound_meanwhile_is_not_requeued_but_has_an_event() -> None:
    world = World()
    world.show("ADDED", a_pod())
    queued = world.pop()
    world.show("MODIFIED", a_pod(nodeName="n7"))
    async with world.running():
        world.live.failures.handle(queued, ERROR, 0.0)
        await world.rest()
    assert world.where("pod") is None
    assert world.queue.in_flight_pods() == []
    assert world.lines("Pod has been assigned to node. Abort adding it back to queue.") == [
        (
            '"Pod has been assigned to node. Abort adding it back to queue." '
            'pod="default/pod" node="n7"'
        )
    ]
    assert world.node_of("pod") == "n7"
    assert len(world.events("FailedScheduling")) == 1


@on_a_loop
async def test_a_recreated_pod_is_ignored() -> None:
    world = World(verbosity=2)
    world.show("ADDED", a_pod(uid="first"))
    queued = world.pop()
    world.show("DELETED", a_pod(uid="first"))
    world.show("ADDED", a_pod(uid="second"))
    async with world.running():
        world.live.scheduler.stop_scheduling()
        world.live.failures.handle(queued, ERROR, 0.0)
        await world.rest()
    assert world.where("pod") == "Active", "this is the new pod"
    assert world.queue.in_flight_pods() == []
    assert world.events() == []
    assert world.patches() == []
    line = (
        "Pod was recreated while handling scheduling failure. Skip requeueing and status updates."
    )
    assert world.lines(line) == [f'"{line}" pod="default/pod" oldUID="first" newUID="second"']


# -- nominations ----------------------------------------------------------------------------------


@on_a_loop
async def test_a_nomination_is_stored_at_once_and_written() -> None:
    world = World()
    await fail(world, Failed("full", rejected=True, nominated="n1"))
    assert world.nominated("n1") == ["pod"]
    assert world.patches()[0]["nominatedNodeName"] == "n1"


@on_a_loop
async def test_a_nomination_is_cleared() -> None:
    world = World()
    await fail(
        world,
        Failed("full", rejected=True, nominated=CLEAR),
        a_pod(status={"nominatedNodeName": "n1"}),
    )
    assert world.nominated("n1") == []
    assert world.patches()[0]["nominatedNodeName"] is None


@on_a_loop
async def test_a_nomination_is_left_unchanged() -> None:
    world = World(verbosity=3)
    await fail(
        world,
        Failed("full", rejected=True, nominated=LEAVE),
        a_pod(status={"nominatedNodeName": "n1"}),
    )
    assert world.nominated("n1") == ["pod"]
    assert "nominatedNodeName" not in world.patches()[0]
    (line,) = world.lines("Updating pod condition and nominated node name")
    assert "nominat" not in line.partition("name")[2]
