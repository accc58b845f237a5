"""The binding cycle: order, waits, and what each failure releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from kubesched.client.errors import TransportError
from kubesched.client.resources import NODES
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import SKIP, Code, Status, error, unschedulable
from kubesched.scheduler.scheduler import OUTSTANDING_MAX
from tests.unit.builders import Wire, pod_wire
from tests.unit.client.request_world import ScriptedAnswer, rejection
from tests.unit.scheduler.live_world import World, on_a_loop

WAIT = Status(Code.WAIT)
CONFLICT = rejection(409, "Conflict", "the pod is assigned")
GONE = rejection(404, "NotFound", 'pods "pod" not found')


def a_node(name: str = "n1", pods: str = "1000") -> Wire:
    room = {"cpu": "100", "memory": "100Gi", "pods": pods}
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": room}}


class Steps:
    """A plugin that records every step of a pod, and returns what a test specifies."""

    name = "Steps"
    recorded: ClassVar[list[str]] = []
    answers: ClassVar[dict[str, Any]] = {}
    handle: ClassVar[Any] = None

    def __init__(self, args: object, handle: Any) -> None:
        Steps.handle = handle

    def _step(self, step: str, pod: Any) -> Any:
        self.recorded.append(step if pod.name == "pod" else f"{step} {pod.name}")
        answer = self.answers.get(f"{step} {pod.name}", self.answers.get(step))
        if isinstance(answer, Exception):
            raise answer
        return answer(pod) if callable(answer) else answer

    def reserve(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._step("reserve", pod)

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self._step("unreserve", pod)

    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._step("permit", pod)

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Any:
        answer = self._step("pre-flight", pod)
        return SKIP if answer is None else answer

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Any:
        answer = self._step("pre-bind", pod)
        return await answer if hasattr(answer, "__await__") else answer

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self._step("post-bind", pod)


class WokenByDeletions:
    """A plugin that rejects pods of one name until a pod is deleted."""

    name = "WokenByDeletions"

    def __init__(self, args: object, handle: Any) -> None:
        self._handle = handle

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return unschedulable("not yet") if pod.name == "sleeper" else None

    def events_to_register(self) -> list[EventRegistration]:
        return [EventRegistration(ClusterEvent(EventResource.POD, ActionType.DELETE))]


def a_world(answers: dict[str, Any] | None = None, **options: Any) -> World:
    Steps.recorded.clear()
    Steps.answers.clear()
    Steps.answers.update({"pre-flight": SKIP, **(answers or {})})
    world = World(Steps, WokenByDeletions, **options)
    world.put("ADDED", a_node(), NODES)
    return world


def condition(world: World, name: str = "pod") -> tuple[str, str]:
    written: Wire = world.patches(name)[-1]["conditions"][0]
    return written["reason"], written["message"]


BOUND = ["reserve", "permit", "pre-flight", "post-bind"]


# -- success --------------------------------------------------------------------------------------


@on_a_loop
async def test_a_bound_pod_has_an_event_a_log_line_and_metrics() -> None:
    world = a_world(verbosity=3)
    world.put("ADDED", a_node("n2", pods="0"), NODES)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
    assert Steps.recorded == BOUND
    ((path, body),) = world.network.of("POST", "/binding")
    assert path == "/api/v1/namespaces/default/pods/pod/binding"
    assert body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "pod", "namespace": "default", "uid": "uid-default-pod"},
        "target": {"kind": "Node", "name": "n1"},
    }
    (event,) = world.events()
    fields = [event[name] for name in ("type", "reason", "action", "note")]
    assert fields == [
        "Normal",
        "Scheduled",
        "Binding",
        "Successfully assigned default/pod to n1",
    ]
    assert world.lines("Successfully bound pod to node") == [
        (
            '"Successfully bound pod to node" pod="default/pod" node="n1" evaluatedNodes=2 '
            "feasibleNodes=1"
        )
    ]
    assert world.patches() == []
    assert world.queue.in_flight_pods() == []
    assert world.node_of("pod") == "n1"
    metrics = world.metrics
    assert metrics.schedule_attempts_total.labels("scheduled", "default-scheduler").value == 1
    assert metrics.pod_scheduling_sli_duration_seconds.labels("1").count == 1
    assert metrics.goroutines.labels("binding").value == 0


@on_a_loop
async def test_an_unknown_outcome_is_resolved_by_reading_the_pod() -> None:
    world = a_world()
    world.network.reply("POST /binding", TransportError("EOF", is_reset=True, was_sent=True))
    bound = b'{"metadata":{"uid":"uid-default-pod"},"spec":{"nodeName":"n1"}}'
    world.network.reply("GET /pod", ScriptedAnswer(200, bound))
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
    assert Steps.recorded == BOUND
    assert len(world.events("Scheduled")) == 1


@on_a_loop
async def test_a_failing_post_bind_plugin_changes_nothing() -> None:
    world = a_world({"post-bind": ValueError("too late")})
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
    assert Steps.recorded == BOUND
    assert world.node_of("pod") == "n1"
    assert world.events("FailedScheduling") == []
    (line,) = world.lines("Plugin failed")
    assert 'plugin="Steps"' in line
    assert "ValueError: too late" in line


@on_a_loop
async def test_pods_to_activate_are_activated_after_the_binding() -> None:
    world = a_world()

    def name_sleeper(pod: Any) -> None:
        sleeper = world.pods.get("default/sleeper")
        if pod.name == "pod" and sleeper is not None:
            Steps.handle.activate({sleeper.key: sleeper})

    Steps.answers["post-bind"] = name_sleeper
    world.put("ADDED", pod_wire("sleeper"))
    async with world.running():
        await world.rest()
        assert world.where("sleeper") == "Unschedulable"
        world.put("ADDED", pod_wire("pod"))
        await world.rest()
    assert world.live.scheduler.attempts == 3


# -- failures -------------------------------------------------------------------------------------

WITH_WORK = {"pre-flight": lambda pod: Status(Code.SUCCESS)}
FAILURES: dict[str, tuple[dict[str, Any], list[str], tuple[str, str], str]] = {
    "reserve rejects": (
        {"reserve": unschedulable("taken")},
        ["reserve", "unreserve"],
        ("Unschedulable", "0/1 nodes are available: 1 taken."),
        "Unschedulable",
    ),
    "reserve fails": (
        {"reserve": error("broken")},
        ["reserve", "unreserve"],
        ("SchedulerError", 'running Reserve plugin "Steps": broken'),
        "Backoff",
    ),
    "reserve raises": (
        {"reserve": KeyError("k")},
        ["reserve", "unreserve"],
        ("SchedulerError", "running Reserve plugin \"Steps\": KeyError: 'k'"),
        "Backoff",
    ),
    "permit rejects": (
        {"permit": (unschedulable("no"), 0.0)},
        ["reserve", "permit", "unreserve"],
        ("Unschedulable", "0/1 nodes are available: 1 no."),
        "Unschedulable",
    ),
    "permit raises": (
        {"permit": ValueError("odd")},
        ["reserve", "permit", "unreserve"],
        ("SchedulerError", 'running Permit plugin "Steps": ValueError: odd'),
        "Backoff",
    ),
    "pre-flight fails": (
        {"pre-flight": error("storm")},
        ["reserve", "permit", "pre-flight", "unreserve"],
        ("SchedulerError", 'running PreBindPreFlight "Steps": storm'),
        "Backoff",
    ),
    "pre-flight rejects": (
        {"pre-flight": unschedulable("storm")},
        ["reserve", "permit", "pre-flight", "unreserve"],
        (
            "SchedulerError",
            (
                'PreBindPreFlight Steps returned "Unschedulable", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status"
            ),
        ),
        "Backoff",
    ),
    "pre-bind fails": (
        WITH_WORK | {"pre-bind": error("no disk")},
        ["reserve", "permit", "pre-flight", "pre-bind", "unreserve"],
        ("SchedulerError", 'running PreBind plugin "Steps": no disk'),
        "Backoff",
    ),
    "pre-bind rejects": (
        WITH_WORK | {"pre-bind": unschedulable("no disk")},
        ["reserve", "permit", "pre-flight", "pre-bind", "unreserve"],
        ("Unschedulable", "no disk"),
        "Backoff",
    ),
    "pre-bind raises": (
        WITH_WORK | {"pre-bind": OSError("no disk")},
        ["reserve", "permit", "pre-flight", "pre-bind", "unreserve"],
        ("SchedulerError", 'running PreBind plugin "Steps": OSError: no disk'),
        "Backoff",
    ),
}


@pytest.mark.parametrize("case", list(FAILURES))
@on_a_loop
async def test_every_failure_unreserves_once(case: str) -> None:
    answers, steps, expected, part = FAILURES[case]
    world = a_world(answers)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        assert Steps.recorded == steps
        assert condition(world) == expected
        assert world.where("pod") == part
        assert world.node_of("pod") is None
        assert world.cache.assumed_count == 0
        assert world.queue.in_flight_pods() == []
        assert world.live.scheduler.outstanding.count == 0
        # When the plugin has changed its mind, the pod is bound.
        Steps.answers.clear()
        Steps.recorded.clear()
        world.put("ADDED", a_node("n2"), NODES)
        await world.move(3)
        assert Steps.recorded == BOUND
        assert list(world.bindings()) == ["pod"]


@pytest.mark.parametrize(
    ("step", "answer"),
    [
        ("reserve", "yes"),
        ("permit", "yes"),
        ("permit", (WAIT, "soon")),
        ("permit", (WAIT, None)),
        ("permit", (WAIT, 1.0, 2.0)),
        ("pre-flight", "yes"),
        ("pre-bind", "yes"),
    ],
)
@on_a_loop
async def test_a_result_of_the_wrong_type_is_an_error_and_unreserves(
    step: str, answer: Any
) -> None:
    world = a_world({**WITH_WORK, step: answer})
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        reason, message = condition(world)
        assert reason == "SchedulerError"
        assert "Steps" in message
    assert Steps.recorded[-1] == "unreserve"
    assert Steps.recorded.count("unreserve") == 1
    assert world.cache.assumed_count == 0
    assert world.where("pod") == "Backoff"


@on_a_loop
async def test_a_rejected_binding_is_an_error_and_unreserves() -> None:
    world = a_world(verbosity=1)
    world.network.reply("POST /binding", CONFLICT)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        assert Steps.recorded == ["reserve", "permit", "pre-flight", "unreserve"]
        assert condition(world) == (
            "SchedulerError",
            'running Bind plugin "DefaultBinder": the pod is assigned',
        )
        assert world.lines("Failed to bind pod") == ['"Failed to bind pod" pod="default/pod"']
        assert world.where("pod") == "Backoff"
        assert world.node_of("pod") is None
        await world.move(2)
        assert world.node_of("pod") == "n1"


@on_a_loop
async def test_a_pod_deleted_before_its_binding_is_not_requeued() -> None:
    world = a_world()
    held = world.network.hold("POST /binding")
    world.network.reply("POST /binding", GONE)
    world.network.reply("PATCH /status", GONE)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: world.bindings() == {"pod": "n1"})
        world.put("DELETED", pod_wire("pod"))
        await world.until(lambda: world.node_of("pod") is None)
        held.set()
        await world.rest()
    assert Steps.recorded == ["reserve", "permit", "pre-flight", "unreserve"]
    assert world.where("pod") is None
    assert world.cache.assumed_count == 0
    assert world.lines("ForgetPod failed") == [], "it was forgotten when it went"


@on_a_loop
async def test_unreserving_a_deleted_pod_wakes_other_pods() -> None:
    world = a_world()
    held = world.network.hold("POST /pod/binding")
    world.network.reply("POST /pod/binding", GONE)
    world.put("ADDED", pod_wire("pod"))
    world.put("ADDED", pod_wire("sleeper"))
    async with world.running():
        await world.until(lambda: world.where("sleeper") == "Unschedulable")
        world.put("DELETED", pod_wire("pod"))
        await world.until(lambda: world.node_of("pod") is None)
        await world.until(lambda: world.live.scheduler.attempts == 3)
        await world.until(lambda: world.where("sleeper") == "Unschedulable")
        held.set()
        await world.until(lambda: world.live.scheduler.attempts == 4)


@pytest.mark.parametrize(
    ("answers", "part"),
    [
        (WITH_WORK | {"pre-bind pod": error("broken")}, "Backoff"),
        ({"permit pod": (WAIT, 60.0)}, "Unschedulable"),
    ],
)
@on_a_loop
async def test_an_error_wakes_other_pods_before_and_a_rejection_after_the_requeue(
    answers: dict[str, Any], part: str
) -> None:
    # Parity: schedule_one.go handleBindingCycleError, v1.36.
    world = a_world(answers)
    world.put("ADDED", pod_wire("sleeper"))
    async with world.running():
        await world.rest()
        assert world.live.scheduler.attempts == 1
        world.put("ADDED", pod_wire("pod"))
        await world.rest()
        for waiting in Steps.handle.waiting_pods():
            waiting.reject("Steps", "no")
        await world.until(lambda: world.live.scheduler.attempts == 3)
        await world.rest()
    assert world.live.scheduler.attempts == 3
    assert world.where("pod") == part, "its own end does not wake it"


# -- permission -----------------------------------------------------------------------------------


async def held_pod(answers: dict[str, Any] | None = None, **options: Any) -> World:
    return a_world({"permit": (WAIT, 10.0), **(answers or {})}, **options)


@on_a_loop
async def test_a_waiting_pod_is_bound_when_it_is_allowed() -> None:
    world = await held_pod()
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        assert world.bindings() == {}
        assert world.node_of("pod") == "n1", "it has its place meanwhile"
        assert world.patches() == [{"nominatedNodeName": "n1"}]
        waiting = Steps.handle.waiting_pod("uid-default-pod")
        assert waiting.pending_plugins == ["Steps"]
        waiting.allow("Steps")
        await world.until(lambda: world.bindings() == {"pod": "n1"})
        await world.rest()
    assert Steps.recorded == BOUND
    assert world.metrics.permit_wait_duration_seconds.labels("Success").count == 1


@pytest.mark.parametrize(
    ("settle", "expected", "part"),
    [
        (
            lambda waiting: waiting.reject("Steps", "changed my mind"),
            ("Unschedulable", "0/1 nodes are available: 1 changed my mind."),
            "Unschedulable",
        ),
        (
            lambda waiting: Steps.handle.reject_waiting_pod(waiting.pod.uid),
            ("Unschedulable", "0/1 nodes are available: 1 removed."),
            "Unschedulable",
        ),
        (
            lambda waiting: waiting.preempt("DefaultPreemption", "preempted"),
            ("SchedulerError", "waiting on permit for pod: preempted"),
            "Backoff",
        ),
    ],
)
@on_a_loop
async def test_a_rejected_waiting_pod_fails(
    settle: Callable[[Any], object], expected: tuple[str, str], part: str
) -> None:
    world = await held_pod()
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        settle(Steps.handle.waiting_pod("uid-default-pod"))
        await world.until(lambda: "unreserve" in Steps.recorded)
        await world.rest()
    assert Steps.recorded == ["reserve", "permit", "pre-flight", "unreserve"]
    assert condition(world) == expected
    assert world.patches()[-1]["nominatedNodeName"] is None, "although no watch showed it"
    assert world.where("pod") == part
    assert world.node_of("pod") is None
    assert list(Steps.handle.waiting_pods()) == []


@on_a_loop
async def test_a_waiting_pod_times_out() -> None:
    world = await held_pod()
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        (waiting,) = Steps.handle.waiting_pods()
        world.clock.move(10.0)
        waiting.expire(world.clock.monotonic_s())
        await world.until(lambda: "unreserve" in Steps.recorded)
        await world.rest()
    text = "rejected due to timeout after waiting 10s at plugin Steps"
    assert condition(world) == ("Unschedulable", f"0/1 nodes are available: 1 {text}.")
    assert world.bindings() == {}


@on_a_loop
async def test_the_wait_of_a_deleted_pod_ends_at_once() -> None:
    world = await held_pod()
    world.network.reply("PATCH /status", ScriptedAnswer(200, b"{}"), GONE)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        world.put("DELETED", pod_wire("pod"))
        await world.until(lambda: "unreserve" in Steps.recorded)
        await world.rest()
    assert world.node_of("pod") is None
    assert world.where("pod") is None
    assert world.queue.in_flight_pods() == []


@on_a_loop
async def test_waiting_pods_do_not_delay_other_pods() -> None:
    def hold(pod: Any) -> Any:
        return None if pod.name == "free" else (WAIT, 900.0)

    world = a_world({"permit": hold})
    for n in range(OUTSTANDING_MAX + 1):
        world.put("ADDED", pod_wire(f"held-{n}"))
    world.put("ADDED", pod_wire("free"))
    async with world.running():
        await world.rest()
        assert len(list(Steps.handle.waiting_pods())) == OUTSTANDING_MAX + 1
        assert list(world.bindings()) == ["free"]


# -- expectations ---------------------------------------------------------------------------------


@on_a_loop
async def test_a_pod_with_pre_bind_work_is_nominated_before_it_is_bound() -> None:
    world = a_world(WITH_WORK)
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
        assert Steps.recorded == ["reserve", "permit", "pre-flight", "pre-bind", "post-bind"]
        pod = world.pods.get("default/pod")
        assert pod is not None
        assert not world.live.patches.write(pod, None, ""), "there is no nomination to clear"
    requests = [line.rpartition("/")[2] for line in world.network.answered if "/pods/" in line]
    assert requests == ["status", "binding"]
    assert world.patches() == [{"nominatedNodeName": "n1"}]


@on_a_loop
async def test_without_the_feature_gate_no_pod_is_nominated_and_pre_bind_runs() -> None:
    world = a_world(without=("NominatedNodeNameForExpectation",))
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.rest()
    assert Steps.recorded == ["reserve", "permit", "pre-bind", "post-bind"]
    assert world.patches() == []


@on_a_loop
async def test_a_binding_waits_for_the_nomination_being_sent() -> None:
    world = a_world(WITH_WORK)
    held = world.network.hold("PATCH /status")
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: "pre-bind" in Steps.recorded)
        await world.until(lambda: world.idle_count > 1)
        assert world.bindings() == {}
        held.set()
        await world.rest()
    requests = [line.rpartition("/")[2] for line in world.network.answered if "/pods/" in line]
    assert requests == ["status", "binding"]


@on_a_loop
async def test_no_status_patch_of_a_failed_attempt_follows_the_binding() -> None:
    # The patch of the first attempt is slow; the second attempt must not overtake it.
    world = a_world({"reserve": error("broken")})
    held = world.network.hold("PATCH /status")
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: len(world.patches()) == 1)
        Steps.answers.pop("reserve")
        world.clock.move(3)
        world.live.inbox.put(lambda: None)
        await world.until(lambda: world.live.scheduler.attempts == 2)
        await world.until(lambda: Steps.recorded.count("reserve") == 2)
        assert world.bindings() == {}
        held.set()
        await world.rest()
    requests = [line.rpartition("/")[2] for line in world.network.answered if "/pods/" in line]
    assert requests == ["status", "binding"]


# -- the end --------------------------------------------------------------------------------------


@on_a_loop
async def test_shutdown_waits_for_bindings_but_not_for_waiting_pods() -> None:
    world = a_world({"permit held": (WAIT, 900.0)})
    sent = world.network.hold("POST /binding")
    world.put("ADDED", pod_wire("held"))
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: world.bindings() == {"pod": "n1"})
        await world.until(lambda: "permit held" in Steps.recorded)
        ending = world.live.tasks.start(world.live.stop_scheduling(), name="end")
        world.put("ADDED", pod_wire("late"))
        await world.until(lambda: world.where("late") == "Active")
        assert not ending.done()
        sent.set()
        await world.until(lambda: world.live.scheduler.outstanding.count == 0)
        world.clock.move(0.1)
        await ending
        assert "post-bind" in Steps.recorded
        assert len(world.live.bindings) == 0
        assert world.where("late") == "Active"
    assert world.bindings() == {"pod": "n1"}


@on_a_loop
async def test_shutdown_waits_for_bindings_for_a_limited_time() -> None:
    world = a_world()
    world.network.hold("POST /binding")
    world.put("ADDED", pod_wire("pod"))
    async with world.running():
        await world.until(lambda: world.bindings() == {"pod": "n1"})
        ending = world.live.tasks.start(world.live.stop_scheduling(), name="end")
        await world.until(lambda: world.idle_count > 0)
        assert not ending.done()
        world.clock.move(5)
        await ending
    assert len(world.live.bindings) == 0
