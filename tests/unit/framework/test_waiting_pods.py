"""Pods that wait on Permit, and pods whose PreBind can still be cancelled."""

from __future__ import annotations

import math

import pytest

from kubesched.framework.runtime.waiting_pods import PodInPreBind, WaitingPodsMap
from kubesched.framework.status import SUCCESS, Status, error, unschedulable
from tests.unit.builders import a_pod


class Held:
    """A pod that waits since second 100, and the statuses that ended its wait."""

    def __init__(self, **wait_s: float) -> None:
        self.settled: list[Status] = []
        self.pods = WaitingPodsMap()
        self.pod = self.pods.add(a_pod("p", uid="u"), wait_s, 100.0)
        self.pod.when_settled(self.settled.append)


def test_all_plugins_have_to_allow() -> None:
    held = Held(A=10, B=20)
    assert held.pod.pending_plugins == ["A", "B"]
    held.pod.allow("B")
    held.pod.allow("C")
    assert (held.pod.pending_plugins, held.settled) == (["A"], [])
    held.pod.allow("A")
    assert held.settled == [SUCCESS]
    assert held.pod.status == SUCCESS


def test_one_rejection_is_enough_and_only_the_first_counts() -> None:
    held = Held(A=10, B=20)
    assert held.pod.reject("B", "no room")
    assert not held.pod.reject("A", "late")
    assert not held.pod.preempt("A", "late")
    held.pod.allow("A")
    held.pod.allow("B")
    held.pod.expire(1e9)
    assert held.settled == [unschedulable("no room").by("B")]


def test_a_preemption_is_an_error_and_not_a_rejection() -> None:
    held = Held(A=10)
    assert held.pod.preempt("DefaultPreemption", "preempted")
    assert held.settled == [error("preempted").by("DefaultPreemption")]


def test_an_allowed_pod_cannot_be_rejected() -> None:
    held = Held(A=10)
    held.pod.allow("A")
    assert not held.pod.reject("A", "no")
    assert held.settled == [SUCCESS]


@pytest.mark.parametrize(
    ("wait_s", "text"),
    [(900.0, "15m0s"), (0.0, "0s"), (1.5, "1.5s"), (0.25, "250ms"), (3661.0, "1h1m1s")],
)
def test_a_pod_is_rejected_at_its_deadline(wait_s: float, text: str) -> None:
    held = Held(Gang=wait_s)
    assert held.pod.next_deadline_s == 100.0 + wait_s
    held.pod.expire(100.0 + wait_s - 0.001)
    assert held.settled == []
    held.pod.expire(100.0 + wait_s)
    message = f"rejected due to timeout after waiting {text} at plugin Gang"
    assert held.settled == [unschedulable(message).by("Gang")]
    assert held.pod.next_deadline_s == math.inf


def test_the_earliest_deadline_counts() -> None:
    held = Held(A=30, B=10, C=20)
    held.pod.allow("B")
    assert held.pod.next_deadline_s == 120.0
    held.pod.expire(200.0)
    assert [status.plugin for status in held.settled] == ["C"]


def test_a_callback_set_after_the_end_is_called_at_once() -> None:
    pods = WaitingPodsMap()
    settled: list[Status] = []
    early = pods.add(a_pod("p", uid="u"), {"A": 1.0}, 0.0)
    early.when_settled(settled.append)
    assert settled == []
    early.allow("A")
    late = pods.add(a_pod("q", uid="v"), {"A": 1.0}, 0.0)
    late.reject("A", "no")
    late.when_settled(settled.append)
    assert settled == [SUCCESS, unschedulable("no").by("A")]


def test_waiting_pods_are_found_by_uid_and_can_be_removed_during_iteration() -> None:
    pods = WaitingPodsMap()
    for name in "abc":
        pods.add(a_pod(name, uid=f"uid-{name}"), {"A": 1.0}, 0.0)
    found = pods.get("uid-b")
    assert found is not None
    assert found.pod.name == "b"
    seen = []
    for waiting in pods:
        seen.append(waiting.pod.name)
        pods.remove(waiting.pod.uid)
    pods.remove("uid-a")
    assert (seen, len(pods), pods.get("uid-b")) == (["a", "b", "c"], 0, None)


def test_a_deleted_pod_is_rejected_without_a_plugin() -> None:
    held = Held(A=10)
    assert held.pods.reject("u")
    assert not held.pods.reject("u")
    assert not held.pods.reject("other")
    assert held.settled == [unschedulable("removed")]


def test_pre_bind_is_cancelled_once() -> None:
    causes: list[str] = []
    entry = PodInPreBind(causes.append)
    assert entry.cancel("preempted by X")
    assert entry.cancel("preempted by Y")
    assert (causes, entry.message) == (["preempted by X"], "preempted by X")
    assert not entry.mark_prebound()


def test_a_prebound_pod_cannot_be_cancelled() -> None:
    causes: list[str] = []
    entry = PodInPreBind(causes.append)
    assert entry.mark_prebound()
    assert not entry.cancel("preempted by X")
    assert causes == []
    assert entry.mark_prebound()
