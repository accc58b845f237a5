"""Queueing hints: whether an event requeues a rejected pod."""

from typing import Any

import pytest

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.interface import EventRegistration
from kubesched.queue.hints import build_hint_map
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.queue.world import (
    CSI_ADD,
    NODE_ADD,
    NODE_CONDITION,
    NODE_LABEL,
    NODE_TAINT,
    QUEUE,
    World,
    always,
    never,
)


def register(event: ClusterEvent, hint: Any = None, **more: Any) -> EventRegistration:
    return EventRegistration(event, hint, **more)


def failing(_pod: PodInfo, _old: Any, _new: Any) -> Any:
    raise RuntimeError("no idea")


def after_the_backoff(world: World) -> World:
    world.advance(60)
    return world


def test_a_registration_without_a_hint_requeues() -> None:
    world = World({"Fit": [register(NODE_ADD)]})
    world.rejected("a")
    world.happen(NODE_ADD)
    assert world.where("a") == "Backoff"


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        pytest.param([register(NODE_ADD, never)], "Unschedulable", id="does not help"),
        pytest.param([register(NODE_ADD, always)], "Active", id="helps"),
        pytest.param([register(NODE_ADD, failing)], "Active", id="hint fails"),
        pytest.param([register(CSI_ADD, always)], "Unschedulable", id="another event"),
        pytest.param(
            [register(NODE_ADD, never), register(NODE_ADD, always)], "Active", id="one of two helps"
        ),
        pytest.param([], "Unschedulable", id="no registration"),
    ],
)
def test_the_registrations_of_the_rejecting_plugin_decide(
    registered: list[EventRegistration], expected: str
) -> None:
    world = World({"Fit": registered, "Other": [register(NODE_ADD, always)]})
    world.rejected("a")
    after_the_backoff(world).happen(NODE_ADD)
    assert world.where("a") == expected


def test_only_hints_of_rejecting_plugins_run() -> None:
    calls = []

    def note(pod: PodInfo, old: Any, new: Any) -> Any:
        calls.append((pod.name, old, new))
        return QUEUE

    world = World({"Fit": [register(NODE_ADD, note)], "Other": [register(NODE_ADD, failing)]})
    world.rejected("a", "Fit")
    world.rejected("b", "Third")
    world.happen(NODE_ADD, None, "node")
    assert calls == [("a", None, "node")]
    assert world.messages() == []


def test_a_failing_hint_is_logged_and_counted_as_an_error() -> None:
    world = World({"Fit": [register(NODE_ADD, failing)]})
    world.rejected("a")
    world.happen(NODE_ADD)
    line = '"QueueingHintFn returns error" err="no idea"'
    event = '{"Resource":"Node","ActionType":1,"CustomLabel":""}'
    assert world.messages() == [f'{line} event={event} plugin="Fit" pod="default/a"']
    hints = world.metrics.queueing_hint_execution_duration_seconds
    assert hints.labels("Fit", "NodeAdd", "Error").count == 1


def test_hints_are_timed_by_plugin_event_and_result() -> None:
    world = World({"Fit": [register(NODE_ADD, never)], "Ports": [register(NODE_ADD, always)]})
    world.rejected("a", "Fit", "Ports")
    world.happen(NODE_ADD)
    hints = world.metrics.queueing_hint_execution_duration_seconds
    assert hints.labels("Fit", "NodeAdd", "QueueSkip").count == 1
    assert hints.labels("Ports", "NodeAdd", "Queue").count == 1


@pytest.mark.parametrize(
    ("pending", "rejecting", "expected"),
    [
        pytest.param(always, never, "Active", id="pending plugin helps"),
        pytest.param(never, always, "Backoff", id="another plugin helps"),
        pytest.param(always, always, "Active", id="both help"),
        pytest.param(never, never, "Unschedulable", id="none helps"),
    ],
)
def test_a_hint_of_a_pending_plugin_skips_the_backoff(
    pending: Any, rejecting: Any, expected: str
) -> None:
    world = World({"Fit": [register(NODE_ADD, rejecting)], "Claims": [register(NODE_ADD, pending)]})
    world.rejected("a", "Fit", pending=["Claims"])
    world.happen(NODE_ADD)
    assert world.where("a") == expected


def test_an_event_without_registrations_is_ignored() -> None:
    world = World({"Fit": [register(NODE_ADD)]}, verbosity=6)
    world.rejected("a")
    world.add("b")
    world.pop()
    world.happen(NODE_CONDITION)
    assert world.value("inflight_events", "NodeUpdateNodeCondition") == 0
    event = '{"Resource":"Node","ActionType":32,"CustomLabel":""}'
    message = "receive an event that isn't interested by any enabled plugins"
    assert world.messages()[-1] == f'"{message}" event={event}'


def test_a_registration_for_added_nodes_covers_removed_taints() -> None:
    world = World({"Fit": [register(NODE_ADD, never)]})
    world.rejected("a")
    world.happen(NODE_TAINT)
    assert world.where("a") == "Backoff"


@pytest.mark.parametrize(
    ("action", "gets_taints"),
    [
        (ActionType.ADD, True),
        (ActionType.ADD | ActionType.UPDATE_NODE_LABEL, True),
        (ActionType.UPDATE_NODE_LABEL, False),
        (ActionType.ADD | ActionType.UPDATE_NODE_TAINT, False),
        (ActionType.ALL, False),
    ],
)
def test_taint_events_are_added_only_if_not_registered(
    action: ActionType, gets_taints: bool
) -> None:
    registered = ClusterEvent(EventResource.NODE, action)
    hints = build_hint_map({"Fit": [register(registered, never)]})
    assert (NODE_TAINT in hints) == (gets_taints or registered == NODE_TAINT)


def test_a_broad_registration_covers_narrow_events() -> None:
    everything = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
    world = World({"Fit": [register(everything)]})
    world.rejected("a")
    world.happen(NODE_LABEL)
    assert world.where("a") == "Backoff"


def test_a_pod_of_an_unknown_profile_is_requeued() -> None:
    world = World({"Fit": [register(NODE_ADD, never)]})
    world.rejected("a", "Fit", schedulerName="other")
    world.happen(NODE_ADD)
    assert world.where("a") == "Backoff"
    line = '"No QueueingHintMap is registered for this profile" profile="other"'
    assert world.messages() == [line]


def test_a_pre_check_excludes_pods() -> None:
    world = World()
    world.rejected("low", priority=1)
    world.rejected("high", priority=9)
    world.happen(NODE_ADD, pre_check=lambda pod: pod.priority <= 1)
    assert (world.where("low"), world.where("high")) == ("Backoff", "Unschedulable")


def test_registered_actions_by_resource() -> None:
    world = World({"Fit": [register(NODE_ADD), register(CSI_ADD)], "B": [register(NODE_LABEL)]})
    node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    assert world.queue.registered_actions() == {
        EventResource.NODE: node,
        EventResource.CSI_NODE: ActionType.ADD,
    }


def test_log_lines() -> None:
    world = World({"Fit": [register(NODE_ADD, never)]}, verbosity=5)
    world.rejected("a")
    world.lines.truncate(0)
    world.lines.seek(0)
    world.happen(NODE_ADD)
    line = '"Event is not making pod schedulable" pod="default/a" event="NodeAdd"'
    assert world.messages() == [line]
