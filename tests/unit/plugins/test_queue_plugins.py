"""SchedulingGates and PrioritySort: the gate and the order of the queue."""

from dataclasses import dataclass
from typing import Any

import pytest

from kubesched.framework.cluster_event import ActionType, QueueingHint
from kubesched.framework.status import Code
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.plugins.scheduling_gates import SchedulingGates
from kubesched.snapshot.pod_info import PodInfo
from tests.unit.plugins.builders import a_pod, made


@dataclass
class Queued:
    pod: PodInfo
    timestamp_s: float


def test_a_pod_without_gates_may_enter() -> None:
    assert made(SchedulingGates).pre_enqueue(a_pod()) is None


def test_gates_are_named_in_order_between_brackets() -> None:
    pod = a_pod(schedulingGates=[{"name": "b"}, {"name": "a"}])
    status = made(SchedulingGates).pre_enqueue(pod)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("waiting for scheduling gates: [b a]",)


def test_only_the_removal_of_the_pods_own_gates_requeues_it() -> None:
    (registration,) = made(SchedulingGates).events_to_register()
    assert registration.event.action == ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    pod, other = a_pod("a"), a_pod("b")
    assert registration.hint(pod, pod, pod) is QueueingHint.QUEUE
    assert registration.hint(pod, other, other) is QueueingHint.QUEUE_SKIP


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param((10, 5.0), (1, 1.0), True, id="higher priority goes first though younger"),
        pytest.param((1, 1.0), (10, 5.0), False, id="lower priority waits though older"),
        pytest.param((1, 1.0), (1, 2.0), True, id="of equals the older goes first"),
        pytest.param((1, 2.0), (1, 1.0), False, id="of equals the younger waits"),
        pytest.param((1, 1.0), (1, 1.0), False, id="equals are not before each other"),
        pytest.param((None, 1.0), (-1, 0.0), True, id="no priority is zero"),
    ],
)
def test_priority_sort_less(first: Any, second: Any, expected: Any) -> None:
    def queued(priority: int | None, timestamp_s: float) -> Queued:
        return Queued(a_pod(priority=priority), timestamp_s)

    assert made(PrioritySort).less(queued(*first), queued(*second)) is expected
