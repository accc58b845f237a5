"""Whether an event makes a refused pod worth another attempt."""

from typing import Any

import pytest

from kubesched.framework.interface import EventRegistration
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.model.pod_info import PodInfo
from kubesched.queue.hints import build_hint_map
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


def test_no_hint_means_try_again() -> None:
    world = World({"Fit": [register(NODE_ADD)]})
    world.refused("a")
    world.happen(NODE_ADD)
    assert world.where("a") == "Backoff"


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        pytest.param([register(NODE_ADD, never)], "Unschedulable", id="it does not help"),
        pytest.param([register(NODE_ADD, always)], "Active", id="it helps"),
        pytest.param([register(NODE_ADD, failing)], "Active", id="who fails may be wrong"),
        pytest.param([register(CSI_ADD, always)], "Unschedulable", id="another event"),
        pytest.param(
            [register(NODE_ADD, never), register(NODE_ADD, always)], "Active", id="one says yes"
        ),
        pytest.param([], "Unschedulable", id="nothing was registered"),
    ],
)
def test_a_plugins_own_registrations_decide(
    registered: list[EventRegistration], expected: str
) -> None:
    world = World({"Fit": registered, "Other": [register(NODE_ADD, always)]})
    world.refused("a")
    after_the_backoff(world).happen(NODE_ADD)
    assert world.where("a") == expected


def test_only_plugins_that_refused_are_asked() -> None:
    asked = []

    def note(pod: PodInfo, old: Any, new: Any) -> Any:
        asked.append((pod.name, old, new))
        return QUEUE

    world = World({"Fit": [register(NODE_ADD, note)], "Other": [register(NODE_ADD, failing)]})
    world.refused("a", "Fit")
    world.refused("b", "Third")
    world.happen(NODE_ADD, None, "node")
    assert asked == [("a", None, "node")]
    assert world.messages() == []


def test_a_hint_that_raises_is_named_in_the_log_and_counted_as_an_error() -> None:
    world = World({"Fit": [register(NODE_ADD, failing)]})
    world.refused("a")
    world.happen(NODE_ADD)
    line = '"QueueingHintFn returns error" err="no idea"'
    event = '{"Resource":"Node","ActionType":1,"CustomLabel":""}'
    assert world.messages() == [f'{line} event={event} plugin="Fit" pod="default/a"']
    hints = world.metrics.queueing_hint_execution_duration_seconds
    assert hints.labels("Fit", "NodeAdd", "Error").count == 1


def test_answers_are_timed_by_plugin_event_and_answer() -> None:
    world = World({"Fit": [register(NODE_ADD, never)], "Ports": [register(NODE_ADD, always)]})
    world.refused("a", "Fit", "Ports")
    world.happen(NODE_ADD)
    hints = world.metrics.queueing_hint_execution_duration_seconds
    assert hints.labels("Fit", "NodeAdd", "QueueSkip").count == 1
    assert hints.labels("Ports", "NodeAdd", "Queue").count == 1


@pytest.mark.parametrize(
    ("pending", "refusing", "expected"),
    [
        pytest.param(always, never, "Active", id="what it waited for has come: no backoff"),
        pytest.param(never, always, "Backoff", id="another's yes does not end the backoff"),
        pytest.param(always, always, "Active", id="the waiting plugin's yes counts more"),
        pytest.param(never, never, "Unschedulable", id="nobody"),
    ],
)
def test_a_pending_plugins_yes_ends_the_backoff(pending: Any, refusing: Any, expected: str) -> None:
    world = World({"Fit": [register(NODE_ADD, refusing)], "Claims": [register(NODE_ADD, pending)]})
    world.refused("a", "Fit", pending=["Claims"])
    world.happen(NODE_ADD)
    assert world.where("a") == expected


def test_an_event_nobody_registered_is_dropped_at_once() -> None:
    world = World({"Fit": [register(NODE_ADD)]}, verbosity=6)
    world.refused("a")
    world.add("b")
    world.pop()
    world.happen(NODE_CONDITION)
    assert world.value("inflight_events", "NodeUpdateNodeCondition") == 0
    event = '{"Resource":"Node","ActionType":32,"CustomLabel":""}'
    message = "receive an event that isn't interested by any enabled plugins"
    assert world.messages()[-1] == f'"{message}" event={event}'


def test_whoever_waits_for_nodes_to_come_hears_of_lost_taints() -> None:
    world = World({"Fit": [register(NODE_ADD, never)]})
    world.refused("a")
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
def test_taints_are_added_only_for_those_who_did_not_register_them(
    action: ActionType, gets_taints: bool
) -> None:
    registered = ClusterEvent(EventResource.NODE, action)
    hints = build_hint_map({"Fit": [register(registered, never)]})
    assert (NODE_TAINT in hints) == (gets_taints or registered == NODE_TAINT)


def test_a_broad_registration_hears_narrow_events() -> None:
    everything = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
    world = World({"Fit": [register(everything)]})
    world.refused("a")
    world.happen(NODE_LABEL)
    assert world.where("a") == "Backoff"


def test_a_pod_of_an_unknown_profile_is_tried_again() -> None:
    world = World({"Fit": [register(NODE_ADD, never)]})
    world.refused("a", "Fit", schedulerName="other")
    world.happen(NODE_ADD)
    assert world.where("a") == "Backoff"
    line = '"No QueueingHintMap is registered for this profile" profile="other"'
    assert world.messages() == [line]


def test_a_check_leaves_pods_out() -> None:
    world = World()
    world.refused("low", priority=1)
    world.refused("high", priority=9)
    world.happen(NODE_ADD, pre_check=lambda pod: pod.priority <= 1)
    assert (world.where("low"), world.where("high")) == ("Backoff", "Unschedulable")


def test_what_plugins_registered_is_known_by_resource() -> None:
    world = World({"Fit": [register(NODE_ADD), register(CSI_ADD)], "B": [register(NODE_LABEL)]})
    node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    assert world.queue.registered_actions() == {
        EventResource.NODE: node,
        EventResource.CSI_NODE: ActionType.ADD,
    }


def test_log_lines() -> None:
    world = World({"Fit": [register(NODE_ADD, never)]}, verbosity=5)
    world.refused("a")
    world.lines.truncate(0)
    world.lines.seek(0)
    world.happen(NODE_ADD)
    line = '"Event is not making pod schedulable" pod="default/a" event="NodeAdd"'
    assert world.messages() == [line]
