"""Evicting the victims of a plan: order, requests, what is said, and who is held back meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kubesched.columns.pod_columns import BoundPod
from kubesched.framework.handle import ApiCallError
from kubesched.framework.interface import Victims
from kubesched.framework.status import Status, error
from kubesched.framework.waiting_pods import PodsInPreBind, WaitingPodsMap
from kubesched.kit.log import Ref
from kubesched.kit.tasks import Tasks
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.pod_info import PodInfo
from kubesched.scheduler.preemption import PreemptionExecutor
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
    """An executor, and everything it touches."""

    def __init__(self) -> None:
        self.client = ScriptedApi()
        self.events: list[tuple[str, str, dict[str, Any]]] = []
        self.activated: list[str] = []
        self.nominated: dict[str, list[PodInfo]] = {}
        self.waiting = WaitingPodsMap()
        self.pre_binding = PodsInPreBind()
        self.bound: dict[str, BoundPod] = {}
        self.lines: list[tuple[int, str, dict[str, Any]]] = []
        self.metrics = SchedulerMetrics()
        self.tasks = Tasks()
        self.executor = PreemptionExecutor(
            client=self.client,
            recorder_of=lambda profile: _Recorder(profile, self.events),
            activate=self._activate,
            nominator=self,
            waiting_pods=self.waiting,
            pods_in_pre_bind=self.pre_binding,
            cache=self,
            tasks=self.tasks,
            clock=FixedClock(),
            log=self,
            metrics=self.metrics,
        )

    def _activate(self, pods: Iterable[PodInfo]) -> None:
        self.activated += [pod.name for pod in pods]

    def nominated_pods(self, node_name: str) -> list[PodInfo]:
        return self.nominated.get(node_name, [])

    def bound_pod(self, uid: str) -> BoundPod | None:
        return self.bound.get(uid)

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
        """Carry out a plan beside scheduling, to its end."""

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


def test_a_victim_is_told_why_then_deleted_and_an_event_says_so() -> None:
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


def test_a_victim_that_was_told_before_keeps_the_time_of_that() -> None:
    world = World()
    victims = world.victims("v")
    victims.pods[0].disruption_target = True
    world.run(victims)
    [(_, _, patch), _] = world.client.requests
    sent = {key: value for key, value in CONDITION.items() if key != "lastTransitionTime"}
    assert patch == {"status": {"conditions": [sent]}}


@pytest.mark.parametrize("verb", ["patch", "delete"])
def test_a_victim_that_is_gone_is_no_failure_and_no_news(verb: str) -> None:
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
def test_a_victim_that_cannot_be_evicted_has_the_preemptor_tried_again(
    verb: str, text: str
) -> None:
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


def test_a_victim_that_waits_is_sent_back_without_a_request() -> None:
    world = World()
    settled: list[Status] = []
    victims = world.victims("v")
    world.waiting.add(a_pod("v", uid="uid-v"), {"Gang": 60.0}, 0.0, settled.append)
    world.run(victims)
    assert settled == [error("preempted").by("DefaultPreemption")]
    assert world.client.requests == []
    assert world.events == [("profile", "v", preempted(f"{NOTE} (in kube-scheduler memory)."))]


def test_a_victim_that_was_let_go_meanwhile_is_deleted() -> None:
    world = World()
    victims = world.victims("v")
    world.waiting.add(a_pod("v", uid="uid-v"), {"Gang": 60.0}, 0.0).allow("Gang")
    causes: list[str] = []
    world.pre_binding.add("uid-v", causes.append)
    world.run(victims)
    assert causes == []
    assert world.client.verbs == ["patch pods/status default/v", "delete pods default/v"]
    assert world.events == [("profile", "v", preempted(NOTE))]


def test_a_victim_that_is_about_to_be_bound_is_called_off() -> None:
    world = World()
    causes: list[str] = []
    world.pre_binding.add("uid-v", causes.append)
    world.run(world.victims("v"))
    assert causes == ["preempted by DefaultPreemption"]
    assert world.client.requests == []
    assert world.events == [("profile", "v", preempted(f"{NOTE} (in kube-scheduler memory)."))]


def test_a_victim_whose_binding_nothing_stops_is_deleted() -> None:
    world = World()
    world.pre_binding.add("uid-v", lambda cause: None).mark_prebound()
    world.run(world.victims("v"))
    assert world.client.verbs == ["patch pods/status default/v", "delete pods default/v"]
    text = "Failed to reject a pod in preBind, falling back to deletion via api call"
    assert (5, text) in [(level, line) for level, line, _ in world.lines]


# -- several --------------------------------------------------------------------------------------


def test_the_last_victim_goes_after_all_others() -> None:
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


def test_a_fault_of_ours_does_not_leave_the_preemptor_behind() -> None:
    world = World()
    world.client.failures["patch", "v"] = ValueError("bad")
    world.run(world.victims("v"))
    assert world.activated == ["high"]
    assert not world.executor.is_preempting("uid-high")


def test_who_leaves_already_is_not_evicted_and_counts_all_the_same() -> None:
    world = World()
    world.run(world.victims("a", "b", leaving="b"))
    assert world.client.verbs == ["patch pods/status default/a", "delete pods default/a"]
    counts = {"numVictims": 2, "numVictimsToDelete": 1}
    assert counts.items() <= world.lines[1][2].items()
    assert world.lines[0][1] == (
        "Victim Pod is already being deleted, skipping the API call for it"
    )
    assert victim_counts(world) == (1.0, 2.0)


def test_nothing_happens_if_all_leave_already() -> None:
    world = World()
    world.run(world.victims("a", leaving="a"))
    assert world.client.requests == []
    assert not world.executor.is_preempting("uid-high")
    assert victim_counts(world) == (0.0, 0.0)


def victim_counts(world: World) -> tuple[float, float]:
    """Return how many preemptions were counted, and how many victims."""
    registry = world.metrics.registry
    values = [registry.get_sample_value(f"scheduler_preemption_victims_{of}") for of in COUNTED]
    count, total = values
    return count or 0.0, total or 0.0


COUNTED = ("count", "sum")


# -- the gate -------------------------------------------------------------------------------------


def held_back(world: World, victims: Victims, *, seen: Callable[[str, str], None]) -> list[bool]:
    """Return whether the preemptor was held back before, at each request, and at the end."""
    answers: list[bool] = []

    def note(verb: str, name: str) -> None:
        seen(verb, name)
        answers.append(world.executor.is_preempting("uid-high"))

    world.client.on_request = note
    answers.append(world.executor.is_preempting("uid-high"))
    world.run(victims)
    answers.append(world.executor.is_preempting("uid-high"))
    return answers


def test_the_preemptor_is_held_back_until_the_last_victim_is_deleted() -> None:
    world = World()
    answers = held_back(world, world.victims("a"), seen=lambda verb, name: None)
    assert answers == [False, True, True, False]


@pytest.mark.parametrize("how", ["gone", "leaving"])
def test_the_gate_opens_as_soon_as_the_last_victim_is_seen_to_go(how: str) -> None:
    world = World()

    def watch(verb: str, name: str) -> None:
        if verb == "delete" and how == "gone":
            del world.bound[f"uid-{name}"]
        elif verb == "delete":
            world.bound[f"uid-{name}"].terminating = True

    # Of the first victim nothing follows: the last one is still there.
    assert held_back(world, world.victims("a", "b"), seen=watch) == [
        *(False, True, True),
        *(True, False, False),
    ]


def test_others_are_never_held_back() -> None:
    world = World()
    seen: list[bool] = []
    world.client.on_request = lambda verb, name: seen.append(world.executor.is_preempting("x"))
    world.run(world.victims("a"))
    assert seen == [False, False]


# -- promises -------------------------------------------------------------------------------------


def promised(name: str, priority: int, node: str = "n1") -> PodInfo:
    return a_pod(name, priority=priority, status={"nominatedNodeName": node})


def test_less_important_pods_lose_their_promise_of_the_node_first() -> None:
    world = World()
    world.nominated["n1"] = [promised("low", 99), promised("same", 100), promised("other", 1, "")]
    world.run(world.victims("v"))
    assert world.client.requests[0] == (
        "patch",
        "pods/status default/low",
        {"status": {"nominatedNodeName": None}},
    )
    assert world.client.verbs[1:] == ["patch pods/status default/v", "delete pods default/v"]


def test_a_promise_that_cannot_be_broken_does_not_stop_the_evictions() -> None:
    world = World()
    world.nominated["n1"] = [promised("x", 1), promised("y", 2)]
    world.client.failures["patch", "x"] = FAILED
    world.client.failures["patch", "y"] = not_found("y")
    world.run(world.victims("v"))
    assert world.client.verbs[-1] == "delete pods default/v"
    text = "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
    assert world.errors == [(text, '[etcd is full, pods "y" not found]')]
    assert world.activated == ["high"]


# -- at once --------------------------------------------------------------------------------------


def test_at_once_promises_are_broken_last_and_nobody_is_held_back() -> None:
    world = World()
    world.nominated["n1"] = [promised("low", 99)]
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


def test_at_once_a_failure_ends_the_attempt() -> None:
    world = World()
    world.nominated["n1"] = [promised("low", 99)]
    world.client.failures["delete", "a"] = FAILED
    assert world.run_at_once(world.victims("a")) == error("etcd is full")
    assert world.client.verbs == ["patch pods/status default/a", "delete pods default/a"]
    assert world.activated == []


def test_at_once_a_promise_that_cannot_be_broken_is_only_logged() -> None:
    world = World()
    world.nominated["n1"] = [promised("low", 99)]
    world.client.failures["patch", "low"] = FAILED
    assert world.run_at_once(world.victims("a")) is None
    assert world.errors == [("Cannot clear 'NominatedNodeName' field", "etcd is full")]
