"""Evictions of a preemption: order, requests, events, logs, and the gate of the preemptor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kubesched.framework.handle import ApiCallError
from kubesched.framework.interface import Victims
from kubesched.framework.runtime.waiting_pods import PodInPreBind, WaitingPodsMap
from kubesched.framework.status import Status, error
from kubesched.kit.log import Ref
from kubesched.kit.tasks import Tasks
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.scheduler.preemption import PreemptionExecutor
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_pod
from tests.unit.scripted_api import ScriptedApi, not_found

PREEMPTOR = a_pod("high", uid="uid-high", priority=100, schedulerName="mine")
FAILED = ApiCallError("etcd is full", code=500, reason="InternalError")
CONDITION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "mine: preempting to accommodate a higher priority pod",
    "observedGeneration": 4,
    "lastTransitionTime": "2027-01-15T08:00:00Z",
}


class FixedClock:
    def now_s(self) -> float:
        return 1_800_000_000.0

    def monotonic_s(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None:
        raise AssertionError("nothing sleeps here")


class World:
    """An executor with recording dependencies."""

    def __init__(self) -> None:
        self.client = ScriptedApi()
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.activated: list[str] = []
        self.nominated: dict[str, list[PodInfo]] = {}
        self.waiting = WaitingPodsMap()
        self.pre_binding: dict[str, PodInPreBind] = {}
        self.bound: dict[str, BoundPod] = {}
        self.lines: list[tuple[int, str, dict[str, Any]]] = []
        self.metrics = SchedulerMetrics()
        self.tasks = Tasks()
        self.executor = PreemptionExecutor(
            client=self.client,
            recorder_of=lambda profile: _Recorder(profile, self.events),
            activate=self._activate,
            nominated_pods=lambda node_name: self.nominated.get(node_name, []),
            waiting_pods=self.waiting,
            pods_in_pre_bind=self.pre_binding,
            bound_pod=self.bound.get,
            tasks=self.tasks,
            clock=FixedClock(),
            log=self,
            metrics=self.metrics,
        )

    def _activate(self, pods: Iterable[PodInfo]) -> None:
        self.activated += [pod.name for pod in pods]

    def info(self, message: str, /, *, level: int = 0, **fields: object) -> None:
        self.lines.append((level, message, fields))

    def error(self, message: str, /, **fields: object) -> None:
        self.lines.append((-1, message, fields))

    @property
    def errors(self) -> list[tuple[str, str]]:
        return [(text, str(fields["err"])) for level, text, fields in self.lines if level < 0]

    def victims(self, *names: str, leaving: str = "") -> Victims:
        pods = []
        for name in names:
            metadata: dict[str, Any] = {"generation": 4}
            if name in leaving:
                metadata["deletionTimestamp"] = "2027-01-01T00:00:00Z"
            pod = a_pod(name, uid=f"uid-{name}", metadata=metadata)
            pods.append(BoundPod(pod, "n1", None))
        self.bound |= {pod.uid: pod for pod in pods}
        return Victims("n1", tuple(pods))

    def run(self, victims: Victims) -> None:
        """Run an asynchronous preemption to its end."""

        async def main() -> None:
            self.executor.start("profile", "DefaultPreemption", PREEMPTOR, victims)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others)

        asyncio.run(main())

    def run_at_once(self, victims: Victims) -> Status | None:
        return asyncio.run(self.executor.evict("profile", "DefaultPreemption", PREEMPTOR, victims))


class _Recorder:
    def __init__(self, profile: str, events: list[tuple[str, str, dict[str, Any]]]) -> None:
        self._profile = profile
        self._events = events

    def event(self, regarding: Any, **fields: Any) -> None:
        self._events.append((self._profile, regarding.name, fields))


def preempted(note: str) -> dict[str, Any]:
    return {"kind": "Normal", "reason": "Preempted", "action": "Preempting", "note": note}


NOTE = "Preempted by pod uid-high on node n1"


# -- one victim -----------------------------------------------------------------------------------


def test_a_victim_gets_a_condition_is_deleted_and_has_an_event() -> None:
    world = World()
    world.run(world.victims("v"))
    assert world.client.requests == [
        ("patch", "pods/status default/v", {"status": {"conditions": [CONDITION]}}),
        ("delete", "pods default/v", None),
    ]
    assert world.events == [("profile", "v", preempted(NOTE))]
    assert world.activated == []
    ref = {"preemptor": Ref("default", "high"), "node": "n1"}
    start = {"numVictims": 1, "numVictimsToDelete": 1}
    assert world.lines == [
        (2, "Start the preemption asynchronously", ref | start),
        (2, "Preemptor Pod preempted victim Pod", ref | {"victim": Ref("default", "v")}),
        (2, "Async Preemption finished completely", ref | {"result": "success"}),
    ]


def test_an_existing_condition_of_a_victim_keeps_its_time() -> None:
    world = World()
    victims = world.victims("v")
    victims.pods[0].disruption_target = True
    world.run(victims)
    [(_, _, patch), _] = world.client.requests
    sent = {key: value for key, value in CONDITION.items() if key != "lastTransitionTime"}
    assert patch == {"status": {"conditions": [sent]}}


@pytest.mark.parametrize("verb", ["patch", "delete"])
def test_a_deleted_victim_is_no_failure_and_no_event(verb: str) -> None:
    world = World()
    world.client.failures[verb, "v"] = not_found("v")
    world.run(world.victims("v"))
    assert (world.events, world.activated, world.errors) == ([], [], [])
    assert "Victim Pod is already deleted" in [text for _, text, _ in world.lines]


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("patch", "Could not add DisruptionTarget condition due to preemption"),
        ("delete", "Tried to preempted pod"),
    ],
)
def test_a_failed_eviction_activates_the_preemptor(verb: str, text: str) -> None:
    world = World()
    world.client.failures[verb, "v"] = FAILED
    world.run(world.victims("v"))
    assert world.activated == ["high"]
    assert world.events == []
    assert world.errors == [
        (text, "etcd is full"),
        ("Error occurred during async preemption of the last victim", "etcd is full"),
    ]
    assert world.lines[-1][2]["result"] == "error"
    assert not world.executor.is_preempting("uid-high")


def test_a_waiting_victim_is_preempted_without_a_request() -> None:
    world = World()
    settled: list[Status] = []
    victims = world.victims("v")
    waiting = world.waiting.add(a_pod("v", uid="uid-v"), {"Gang": 60.0}, 0.0)
    waiting.when_settled(settled.append)
    world.run(victims)
    assert settled == [error("preempted").by("DefaultPreemption")]
    assert world.client.requests == []
    assert world.events == [("profile", "v", preempted(f"{NOTE} (in kube-scheduler memory)."))]


def test_a_victim_allowed_meanwhile_is_deleted() -> None:
    world = World()
    victims = world.victims("v")
    world.waiting.add(a_pod("v", uid="uid-v"), {"Gang": 60.0}, 0.0).allow("Gang")
    causes: list[str] = []
    world.pre_binding["uid-v"] = PodInPreBind(causes.append)
    world.run(victims)
    assert causes == []
    assert world.client.verbs == ["patch pods/status default/v", "delete pods default/v"]
    assert world.events == [("profile", "v", preempted(NOTE))]


def test_the_pre_bind_run_of_a_victim_is_cancelled() -> None:
    world = World()
    causes: list[str] = []
    world.pre_binding["uid-v"] = PodInPreBind(causes.append)
    world.run(world.victims("v"))
    assert causes == ["preempted by DefaultPreemption"]
    assert world.client.requests == []
    assert world.events == [("profile", "v", preempted(f"{NOTE} (in kube-scheduler memory)."))]


def test_a_victim_whose_binding_cannot_be_cancelled_is_deleted() -> None:
    world = World()
    world.pre_binding["uid-v"] = entry = PodInPreBind(lambda cause: None)
    entry.mark_prebound()
    world.run(world.victims("v"))
    assert world.client.verbs == ["patch pods/status default/v", "delete pods default/v"]
    text = "Failed to reject a pod in preBind, falling back to deletion via api call"
    assert (5, text) in [(level, line) for level, line, _ in world.lines]


# -- several victims ------------------------------------------------------------------------------


def test_the_last_victim_is_evicted_after_all_others() -> None:
    world = World()
    world.run(world.victims("a", "b", "c"))
    assert world.client.verbs[-2:] == ["patch pods/status default/c", "delete pods default/c"]
    assert sorted(world.client.verbs[:-2]) == [
        "delete pods default/a",
        "delete pods default/b",
        "patch pods/status default/a",
        "patch pods/status default/b",
    ]


def test_the_last_victim_stays_if_another_could_not_be_evicted() -> None:
    world = World()
    world.client.failures["delete", "a"] = FAILED
    world.run(world.victims("a", "b"))
    assert world.client.verbs == ["patch pods/status default/a", "delete pods default/a"]
    assert world.activated == ["high"]
    assert world.errors[-1] == ("Error occurred during async preemption", "etcd is full")


def test_an_unexpected_exception_activates_the_preemptor() -> None:
    world = World()
    world.client.failures["patch", "v"] = ValueError("bad")
    world.run(world.victims("v"))
    assert world.activated == ["high"]
    assert not world.executor.is_preempting("uid-high")


def test_a_terminating_victim_is_not_evicted_but_counts() -> None:
    world = World()
    world.run(world.victims("a", "b", leaving="b"))
    assert world.client.verbs == ["patch pods/status default/a", "delete pods default/a"]
    counts = {"numVictims": 2, "numVictimsToDelete": 1}
    assert counts.items() <= world.lines[1][2].items()
    assert world.lines[0][1] == (
        "Victim Pod is already being deleted, skipping the API call for it"
    )
    assert victim_counts(world) == (1.0, 2.0)


def test_terminating_victims_alone_start_nothing() -> None:
    world = World()
    world.run(world.victims("a", leaving="a"))
    assert world.client.requests == []
    assert not world.executor.is_preempting("uid-high")
    assert victim_counts(world) == (0.0, 0.0)


def victim_counts(world: World) -> tuple[float, float]:
    """Return the counted preemptions and victims."""
    registry = world.metrics.registry
    values = [registry.get_sample_value(f"scheduler_preemption_victims_{of}") for of in COUNTED]
    count, total = values
    return count or 0.0, total or 0.0


COUNTED = ("count", "sum")


# -- the gate -------------------------------------------------------------------------------------


def held_back(world: World, victims: Victims, *, seen: Callable[[str, str], None]) -> list[bool]:
    """Return whether the preemptor was gated before, at each request, and at the end."""
    answers: list[bool] = []

    def note(verb: str, name: str) -> None:
        seen(verb, name)
        answers.append(world.executor.is_preempting("uid-high"))

    world.client.on_request = note
    answers.append(world.executor.is_preempting("uid-high"))
    world.run(victims)
    answers.append(world.executor.is_preempting("uid-high"))
    return answers


def test_the_preemptor_is_gated_until_the_last_victim_is_deleted() -> None:
    world = World()
    answers = held_back(world, world.victims("a"), seen=lambda verb, name: None)
    assert answers == [False, True, True, False]


@pytest.mark.parametrize("outcome", ["gone", "leaving"])
def test_the_gate_opens_when_the_last_victim_is_seen_terminating(outcome: str) -> None:
    world = World()

    def watch(verb: str, name: str) -> None:
        if verb == "delete" and outcome == "gone":
            del world.bound[f"uid-{name}"]
        elif verb == "delete":
            world.bound[f"uid-{name}"].terminating = True

    # The first victim does not open the gate: the last is still bound.
    assert held_back(world, world.victims("a", "b"), seen=watch) == [
        *(False, True, True),
        *(True, False, False),
    ]


def test_other_pods_are_not_gated() -> None:
    world = World()
    seen: list[bool] = []
    world.client.on_request = lambda verb, name: seen.append(world.executor.is_preempting("x"))
    world.run(world.victims("a"))
    assert seen == [False, False]


# -- nominations ----------------------------------------------------------------------------------


def nominee(name: str, priority: int, node: str = "n1") -> PodInfo:
    return a_pod(name, priority=priority, status={"nominatedNodeName": node})


def test_nominations_of_less_important_pods_are_cleared_first() -> None:
    world = World()
    world.nominated["n1"] = [nominee("low", 99), nominee("same", 100), nominee("other", 1, "")]
    world.run(world.victims("v"))
    assert world.client.requests[0] == (
        "patch",
        "pods/status default/low",
        {"status": {"nominatedNodeName": None}},
    )
    assert world.client.verbs[1:] == ["patch pods/status default/v", "delete pods default/v"]


def test_a_nomination_that_cannot_be_cleared_does_not_stop_the_evictions() -> None:
    world = World()
    world.nominated["n1"] = [nominee("x", 1), nominee("y", 2)]
    world.client.failures["patch", "x"] = FAILED
    world.client.failures["patch", "y"] = not_found("y")
    world.run(world.victims("v"))
    assert world.client.verbs[-1] == "delete pods default/v"
    text = "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
    assert world.errors == [(text, '[etcd is full, pods "y" not found]')]
    assert world.activated == ["high"]


# -- synchronous ----------------------------------------------------------------------------------


def test_synchronous_preemption_clears_nominations_last_and_gates_no_pod() -> None:
    world = World()
    world.nominated["n1"] = [nominee("low", 99)]
    seen: list[bool] = []
    world.client.on_request = lambda verb, name: seen.append(
        world.executor.is_preempting("uid-high")
    )
    assert world.run_at_once(world.victims("a", "b", leaving="b")) is None
    assert world.client.verbs == [
        "patch pods/status default/a",
        "delete pods default/a",
        "patch pods/status default/low",
    ]
    assert not any(seen)
    assert victim_counts(world) == (1.0, 2.0)


def test_a_failure_of_synchronous_preemption_ends_the_attempt() -> None:
    world = World()
    world.nominated["n1"] = [nominee("low", 99)]
    world.client.failures["delete", "a"] = FAILED
    assert world.run_at_once(world.victims("a")) == error("etcd is full")
    assert world.client.verbs == ["patch pods/status default/a", "delete pods default/a"]
    assert world.activated == []


def test_synchronous_preemption_only_logs_a_nomination_that_cannot_be_cleared() -> None:
    world = World()
    world.nominated["n1"] = [nominee("low", 99)]
    world.client.failures["patch", "low"] = FAILED
    assert world.run_at_once(world.victims("a")) is None
    assert world.errors == [("Cannot clear 'NominatedNodeName' field", "etcd is full")]
