"""What is remembered of pods, and for how long: bounded, and shared where it is the same."""

from __future__ import annotations

from typing import Any

from kubesched.client.event_bodies import ObjectReference
from kubesched.engine.explanation import Attempt, attempt
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.scheduler.stories import BOUND_S_MAX, NotedRecorder, Stories
from tests.unit.builders import a_cluster, a_node, a_pod, built_with
from tests.unit.scheduler.live_world import MovedClock

VIEW = a_cluster([a_node("n1"), a_node("n2", allocatable={"cpu": "1", "pods": "5"})])


def tried(pod: PodInfo) -> Attempt:
    built = built_with()
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = VIEW
    return attempt(profile, VIEW, pod)


PLACED = tried(a_pod("placed", requests={"cpu": "2"}))
REFUSED = tried(a_pod("refused", requests={"cpu": "99"}))


class Memory:
    """Stories, and short ways to have something happen."""

    def __init__(self, **limits: int) -> None:
        self.clock = MovedClock()
        self.stories = Stories(self.clock, **limits)

    def decide(
        self, name: str, one: Attempt = REFUSED, *, uid: str = "", attempts: int = 1
    ) -> None:
        pod = a_pod(name, uid=uid)
        queued = QueuedPodInfo(pod, 0.0)
        queued.attempts = attempts
        made = Attempt(
            one.profile, one.view, pod, one.state, result=one.result, failure=one.failure
        )
        self.stories.decided(queued, made)

    def bind(self, name: str, *, uid: str = "") -> None:
        self.stories.said(a_pod(name, uid=uid), "Normal", "Scheduled", "")

    def names(self, *names: str) -> list[str]:
        """Return those of the names that are remembered."""
        return [name for name in names if self.stories.get(f"default/{name}") is not None]


def nobody(key: str, uid: str) -> bool:
    return False


def everybody(key: str, uid: str) -> bool:
    return True


def test_the_least_recently_tried_of_too_many_pending_pods_makes_way() -> None:
    memory = Memory(pending_max=3)
    for name in ("a", "b", "c"):
        memory.decide(name)
    memory.decide("a", attempts=2)
    memory.decide("d")
    assert memory.names("a", "b", "c", "d") == ["a", "c", "d"]
    note = memory.stories.get("default/a")
    assert note is not None
    assert note.attempts == 2


def test_the_first_bound_of_too_many_makes_way_and_pending_ones_do_not() -> None:
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
    assert memory.stories.forget(everybody, 10) == 0
    memory.decide("b")
    memory.clock.move(2)
    assert memory.stories.forget(everybody, 10) == 1
    memory.clock.move(10 * BOUND_S_MAX)
    assert memory.stories.forget(everybody, 10) == 0
    assert memory.names("a", "b") == ["b"]


def test_pods_that_are_gone_are_forgotten_a_few_at_a_time() -> None:
    memory = Memory()
    for number in range(10):
        memory.decide(f"p{number}")
    asked: list[str] = []

    def is_there(key: str, uid: str) -> bool:
        asked.append(key)
        assert uid == f"uid-{key.replace('/', '-')}"
        return key.endswith(("3", "7"))

    assert memory.stories.forget(is_there, 4) == sum(not k.endswith(("3", "7")) for k in asked)
    assert len(asked) == 4
    memory.stories.forget(is_there, 4)
    memory.stories.forget(is_there, 4)
    assert sorted(asked) == [f"default/p{number}" for number in range(10)]
    assert len(memory.stories) == 2
    assert memory.names("p3", "p6", "p7") == ["p3", "p7"]


def test_a_name_that_is_used_again_begins_a_new_story() -> None:
    memory = Memory()
    memory.decide("a", uid="first", attempts=5)
    memory.stories.said(a_pod("a", uid="first"), "Warning", "FailedScheduling", "no")
    memory.decide("a", uid="second")
    note = memory.stories.get("default/a")
    assert note is not None
    assert (note.uid, note.attempts, note.said) == ("second", 1, None)
    # An event that comes late, about the first one, changes nothing.
    memory.stories.said(a_pod("a", uid="first"), "Normal", "Preempted", "late")
    assert note.said is None


def test_pods_that_were_refused_alike_share_what_is_the_same() -> None:
    memory = Memory()
    memory.decide("a")
    memory.decide("b")
    first, second = memory.stories.get("default/a"), memory.stories.get("default/b")
    assert first is not None
    assert second is not None
    assert first.digest is not None
    assert second.digest is not None
    assert first.digest.refused is second.digest.refused
    ours, theirs = first.digest.explanation(), second.digest.explanation()
    assert ours.event.message is theirs.event.message
    assert (ours.pod, theirs.pod) == ("default/a", "default/b")
    assert ours.refused_count == 2


def test_what_is_kept_is_bounded_by_the_best_nodes() -> None:
    view = a_cluster([a_node(f"n{number}") for number in range(40)])
    built = built_with()
    profile = built.profiles["default-scheduler"]
    built.handles[profile.name].view = view
    one = attempt(profile, view, a_pod("a", requests={"cpu": "1"}))
    memory = Memory()
    memory.stories.decided(QueuedPodInfo(one.pod, 0.0), one)
    note = memory.stories.get("default/a")
    assert note is not None
    assert note.digest is not None
    explanation = note.digest.explanation()
    assert (len(explanation.ranking), explanation.ranking_left_out) == (5, 35)
    assert (len(explanation.tied), explanation.tied_count) == (3, 40)


class Recorded:
    def __init__(self) -> None:
        self.events: list[tuple[Any, dict[str, Any]]] = []

    def event(self, regarding: Any, **fields: Any) -> None:
        self.events.append((regarding, fields))


def test_events_are_recorded_and_taken_down() -> None:
    memory, behind = Memory(), Recorded()
    recorder = NotedRecorder(behind, memory.stories)
    pod, other = a_pod("a"), ObjectReference("Node", "v1", "", "n1", "u", "")
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
    note = memory.stories.get("default/a")
    assert note is not None
    assert note.said is not None
    assert (note.said.reason, note.said.note) == ("FailedScheduling", "no")
    assert len(memory.stories) == 1  # Only of pods.
    recorder.event(pod, kind="Normal", reason="Scheduled", action="Binding", note="to n1")
    known = memory.stories.get("default/a")
    assert known is note
    assert (known.bound_s, known.said) == (memory.clock.now_s(), None)


def test_nothing_is_remembered_of_pods_nobody_tried() -> None:
    memory = Memory()
    memory.stories.said(a_pod("victim"), "Normal", "Preempted", "by somebody")
    assert len(memory.stories) == 0
    assert memory.stories.forget(nobody, 5) == 0
