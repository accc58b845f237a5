"""The decision history: its records, their limits, and values shared between them."""

from __future__ import annotations

from typing import Any

from kubesched.api.meta import ObjectReference
from kubesched.explanation.attempt_record import AttemptRecord, attempt
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.scheduler.decision_history import BOUND_S_MAX, DecisionHistory, HistoryRecorder
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.builders import a_cluster, a_node, a_pod, built_with
from tests.unit.scheduler.live_world import MovedClock

VIEW = a_cluster([a_node("n1"), a_node("n2", allocatable={"cpu": "1", "pods": "5"})])


def tried(pod: PodInfo) -> AttemptRecord:
    built = built_with()
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = VIEW
    return attempt(profile, VIEW, pod)


PLACED = tried(a_pod("placed", requests={"cpu": "2"}))
REJECTED = tried(a_pod("rejected", requests={"cpu": "99"}))


class Memory:
    """A history, with shortcuts to record decisions and events."""

    def __init__(self, **limits: int) -> None:
        self.clock = MovedClock()
        self.history = DecisionHistory(self.clock, **limits)

    def decide(
        self, name: str, attempted: AttemptRecord = REJECTED, *, uid: str = "", attempts: int = 1
    ) -> None:
        pod = a_pod(name, uid=uid)
        queued = QueuedPodInfo(pod, 0.0)
        queued.attempts = attempts
        made = AttemptRecord(
            attempted.profile,
            attempted.view,
            pod,
            attempted.state,
            result=attempted.result,
            failure=attempted.failure,
        )
        self.history.record_decision(queued, made)

    def bind(self, name: str, *, uid: str = "") -> None:
        self.history.record_event(a_pod(name, uid=uid), "Normal", "Scheduled", "")

    def names(self, *names: str) -> list[str]:
        """Return the names that have a record."""
        return [name for name in names if self.history.get(f"default/{name}") is not None]


def holds_no_pod(key: str, uid: str) -> bool:
    return False


def holds_every_pod(key: str, uid: str) -> bool:
    return True


def test_the_least_recently_tried_pending_pod_is_dropped_first() -> None:
    memory = Memory(pending_max=3)
    for name in ("a", "b", "c"):
        memory.decide(name)
    memory.decide("a", attempts=2)
    memory.decide("d")
    assert memory.names("a", "b", "c", "d") == ["a", "c", "d"]
    record = memory.history.get("default/a")
    assert record is not None
    assert record.attempts == 2


def test_the_first_bound_pod_is_dropped_first_and_no_pending_pod() -> None:
    memory = Memory(bound_max=2)
    memory.decide("waiting")
    for name in ("a", "b", "c"):
        memory.decide(name, PLACED)
        memory.bind(name)
    assert memory.names("waiting", "a", "b", "c") == ["waiting", "b", "c"]


def test_a_bound_pod_is_forgotten_after_an_hour() -> None:
    memory = Memory()
    memory.decide("a", PLACED)
    memory.bind("a")
    memory.clock.move(BOUND_S_MAX - 1)
    assert memory.history.forget(holds_every_pod, 10) == 0
    memory.decide("b")
    memory.clock.move(2)
    assert memory.history.forget(holds_every_pod, 10) == 1
    memory.clock.move(10 * BOUND_S_MAX)
    assert memory.history.forget(holds_every_pod, 10) == 0
    assert memory.names("a", "b") == ["b"]


def test_deleted_pods_are_forgotten_a_few_at_a_time() -> None:
    memory = Memory()
    for number in range(10):
        memory.decide(f"p{number}")
    checked: list[str] = []

    def is_there(key: str, uid: str) -> bool:
        checked.append(key)
        assert uid == f"uid-{key.replace('/', '-')}"
        return key.endswith(("3", "7"))

    assert memory.history.forget(is_there, 4) == sum(not k.endswith(("3", "7")) for k in checked)
    assert len(checked) == 4
    memory.history.forget(is_there, 4)
    memory.history.forget(is_there, 4)
    assert sorted(checked) == [f"default/p{number}" for number in range(10)]
    assert len(memory.history) == 2
    assert memory.names("p3", "p6", "p7") == ["p3", "p7"]


def test_a_recreated_pod_gets_a_new_record() -> None:
    memory = Memory()
    memory.decide("a", uid="first", attempts=5)
    memory.history.record_event(a_pod("a", uid="first"), "Warning", "FailedScheduling", "no")
    memory.decide("a", uid="second")
    record = memory.history.get("default/a")
    assert record is not None
    assert (record.uid, record.attempts, record.last_event) == ("second", 1, None)
    # A late event about the first pod changes nothing.
    memory.history.record_event(a_pod("a", uid="first"), "Normal", "Preempted", "late")
    assert record.last_event is None


def test_equal_rejections_share_their_values() -> None:
    memory = Memory()
    memory.decide("a")
    memory.decide("b")
    first, second = memory.history.get("default/a"), memory.history.get("default/b")
    assert first is not None
    assert second is not None
    assert first.summary is not None
    assert second.summary is not None
    assert first.summary.rejected is second.summary.rejected
    ours, theirs = first.summary.explanation(), second.summary.explanation()
    assert ours.event.message is theirs.event.message
    assert (ours.pod, theirs.pod) == ("default/a", "default/b")
    assert ours.rejected_count == 2


def test_a_record_keeps_only_the_best_nodes() -> None:
    view = a_cluster([a_node(f"n{number}") for number in range(40)])
    built = built_with()
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = view
    attempted = attempt(profile, view, a_pod("a", requests={"cpu": "1"}))
    memory = Memory()
    memory.history.record_decision(QueuedPodInfo(attempted.pod, 0.0), attempted)
    record = memory.history.get("default/a")
    assert record is not None
    assert record.summary is not None
    explanation = record.summary.explanation()
    assert (len(explanation.ranking), explanation.ranking_left_out) == (5, 35)
    assert (len(explanation.tied), explanation.tied_count) == (3, 40)


class Recorded:
    def __init__(self) -> None:
        self.events: list[tuple[Any, dict[str, Any]]] = []

    def event(self, regarding: Any, **fields: Any) -> None:
        self.events.append((regarding, fields))


def test_events_are_forwarded_and_added_to_the_history() -> None:
    memory, behind = Memory(), Recorded()
    recorder = HistoryRecorder(behind, memory.history)
    pod, other = a_pod("a"), ObjectReference(kind="Node", api_version="v1", name="n1", uid="u")
    recorder.event(pod, kind="Warning", reason="FailedScheduling", action="Scheduling", note="no")
    recorder.event(other, kind="Normal", reason="Scheduled", action="x", note="y", related=pod)
    assert [regarding for regarding, _ in behind.events] == [pod, other]
    assert behind.events[1][1] == {
        "kind": "Normal",
        "reason": "Scheduled",
        "action": "x",
        "note": "y",
        "related": pod,
    }
    record = memory.history.get("default/a")
    assert record is not None
    assert record.last_event is not None
    assert (record.last_event.reason, record.last_event.note) == ("FailedScheduling", "no")
    assert len(memory.history) == 1  # Only of pods.
    recorder.event(pod, kind="Normal", reason="Scheduled", action="Binding", note="to n1")
    bound = memory.history.get("default/a")
    assert bound is record
    assert (bound.bound_s, bound.last_event) == (memory.clock.now_s(), None)


def test_pods_without_an_attempt_get_no_record() -> None:
    memory = Memory()
    memory.history.record_event(a_pod("victim"), "Normal", "Preempted", "by somebody")
    assert len(memory.history) == 0
    assert memory.history.forget(holds_no_pod, 5) == 0
