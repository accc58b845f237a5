"""Requeueing after a failed attempt, with the events since the pop."""

from typing import Any

import pytest

from kubesched.framework.cluster_event import UNSCHEDULED_POD_ADD
from kubesched.framework.interface import EventRegistration
from tests.unit.queue.world import CSI_ADD, NODE_ADD, NODE_LABEL, World, always, helped_by, never


def test_a_rejected_pod_waits_for_an_event() -> None:
    world = World()
    queued = world.rejected("a")
    assert world.where("a") == "Unschedulable"
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == (1, 0)
    assert world.queue.in_flight_pods() == []


def test_a_pod_backs_off_after_an_error() -> None:
    world = World()
    world.add("a")
    queued = world.fail(world.pop())
    assert world.where("a") == "Backoff"
    assert (queued.unschedulable_count, queued.consecutive_errors_count) == (0, 1)


def test_without_backoff_a_pod_is_retried_at_once_after_an_error() -> None:
    world = World(max_backoff_s=0)
    world.add("a")
    world.fail(world.pop())
    assert world.where("a") == "Active"


@pytest.mark.parametrize(
    ("hint", "expected"), [(always, "Backoff"), (never, "Unschedulable"), (None, "Backoff")]
)
def test_events_since_the_pop_count(hint: Any, expected: str) -> None:
    world = World({"Fit": [EventRegistration(NODE_ADD, hint)]})
    world.add("a")
    queued = world.pop()
    world.happen(NODE_ADD)
    world.fail(queued, "Fit")
    assert world.where("a") == expected


def test_events_before_the_pop_do_not_count() -> None:
    world = World()
    world.add("other")
    world.pop()
    world.add("a")
    world.happen(NODE_ADD)
    world.fail(world.pop(), "Fit")
    assert world.where("a") == "Unschedulable"


def test_each_pod_gets_the_events_since_its_own_pop() -> None:
    world = World()
    for name in ("first", "second"):
        world.add(name)
        world.advance(0.001)
    first = world.pop()
    world.happen(NODE_ADD)
    second = world.pop()
    world.fail(second, "Fit")
    world.fail(first, "Fit")
    assert (world.where("first"), world.where("second")) == ("Backoff", "Unschedulable")


def test_an_event_of_a_pending_plugin_skips_the_backoff() -> None:
    registered = {"Claims": [EventRegistration(CSI_ADD)], "Fit": [EventRegistration(NODE_ADD)]}
    world = World(registered)
    world.add("a")
    queued = world.pop()
    world.happen(NODE_ADD)
    world.happen(CSI_ADD)
    world.fail(queued, "Fit", pending=["Claims"])
    assert world.where("a") == "Active"


def test_a_pod_passes_the_gate_before_another_attempt() -> None:
    world = World()
    world.add("a")
    queued = world.pop()
    world.gates.held["Gate"].add("a")
    world.happen(NODE_ADD)
    world.fail(queued, "Fit")
    assert world.where("a") == "Gated"


def test_an_unschedulable_pod_does_not_pass_the_gate() -> None:
    world = World()
    world.add("a")
    queued = world.pop()
    world.gates.runs.clear()
    world.fail(queued, "Fit")
    assert world.gates.runs == []


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("Active", "Pod default/a is already present in the active queue"),
        ("Backoff", "Pod default/a is already present in the backoff queue"),
        ("Unschedulable", "Pod default/a is already present in unschedulable queue"),
    ],
)
def test_a_queued_pod_is_not_added_again(part: str, text: str) -> None:
    world = World()
    world.add("a")
    stray = world.pop()
    world.queue.done(stray.pod.uid)
    world.add("a")
    if part == "Backoff":
        world.fail(world.pop())
    elif part == "Unschedulable":
        world.fail(world.pop(), "Fit")
    assert world.where("a") == part
    assert world.queue.add_unschedulable_if_not_present(stray) is False
    assert world.where("a") == part
    assert stray.unschedulable_count == stray.consecutive_errors_count == 0
    assert world.messages() == [f'"Error occurred" err="{text}"']


def test_a_pod_that_was_not_popped_is_requeued_with_an_error_line() -> None:
    world = World()
    world.add("a")
    queued = world.pop()
    world.queue.done(queued.pod.uid)
    world.fail(queued, "Fit")
    assert world.where("a") == "Backoff"
    text = "in flight Pod isn't found in the scheduling queue. If you see this error log, it's "
    line = f'"Error getting cluster events for pod" err="{text}likely a bug in the scheduler"'
    assert world.messages() == [f'{line} pod="default/a"']


def test_rejected_pods_are_counted_by_plugin_until_they_are_popped() -> None:
    world = World()
    world.rejected("a", "Fit", "Ports", pending=["Claims"])
    gauges = [world.value("unschedulable_pods", p, "default-scheduler") for p in GAUGED]
    assert gauges == [1, 1, 1]
    world.happen(NODE_ADD)
    world.pop()
    gauges = [world.value("unschedulable_pods", p, "default-scheduler") for p in GAUGED]
    assert gauges == [0, 0, 0]


GAUGED = ("Fit", "Ports", "Claims")


def test_events_are_kept_while_an_in_flight_pod_needs_them() -> None:
    world = World({"Fit": [EventRegistration(NODE_ADD), EventRegistration(NODE_LABEL)]})
    for name in ("first", "second"):
        world.add(name)
        world.advance(0.001)
    world.happen(NODE_ADD)
    assert world.value("inflight_events", "NodeAdd") == 0, "no pod is in flight"
    first = world.pop()
    world.happen(NODE_ADD)
    second = world.pop()
    world.happen(NODE_LABEL)
    assert in_flight(world) == (2, 1, 1)
    world.queue.done(first.pod.uid)
    assert in_flight(world) == (1, 0, 1)
    world.queue.done(first.pod.uid)
    assert in_flight(world) == (1, 0, 1)
    world.queue.done(second.pod.uid)
    assert in_flight(world) == (0, 0, 0)


def in_flight(world: World) -> tuple[float, float, float]:
    return (
        world.value("inflight_events", "PodPopped"),
        world.value("inflight_events", "NodeAdd"),
        world.value("inflight_events", "NodeUpdateNodeLabel"),
    )


def test_log_lines() -> None:
    world = World({"Fit": [EventRegistration(NODE_ADD, helped_by("a"))]}, verbosity=5)
    world.add("a")
    queued = world.pop()
    world.lines.truncate(0)
    world.lines.seek(0)
    world.happen(NODE_ADD)
    world.happen(UNSCHEDULED_POD_ADD)
    world.fail(queued, "Fit")
    pod = 'pod="default/a"'
    moved = '"Pod moved to an internal scheduling queue"'
    failed = f'{moved} {pod} event="ScheduleAttemptFailure" queue="Backoff"'
    plugins = '{"Fit":{}}'
    sizes = "inFlightEventsSize=2 inFlightPodsSize=1"
    assert world.messages() == [
        '"Event received while pods are in flight" event="NodeAdd"',
        f'"Checking events for in-flight pod" {pod} unschedulablePlugins={plugins} {sizes}',
        f'"Checking event for in-flight pod" {pod} event="NodeAdd"',
        failed,
        f"{failed} schedulingCycle=1 hint=1 unschedulable plugins={plugins}",
    ]
