"""DefaultPreemption around the search: its gate, and what it counts."""

from __future__ import annotations

from typing import Any

from kubesched.config.types import DefaultPreemptionArgs
from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import unresolvable, unschedulable
from kubesched.framework.verdicts import NodeToStatus
from kubesched.kit.log import NullLog
from kubesched.plugins.default_preemption import DefaultPreemption
from tests.unit.plugins.builders import a_cluster, a_pod


class Attempts:
    count = 0

    def inc(self) -> None:
        self.count += 1


class PreemptingHandle:
    """A handle in an empty cluster that knows for whom pods are being evicted."""

    def __init__(self, *preempting: str) -> None:
        self._preempting = preempting
        self.snapshot = a_cluster([])
        self.log = NullLog()
        self.metrics: Any = type("Metrics", (), {"preemption_attempts_total": Attempts()})

    def is_preempting(self, uid: str) -> bool:
        return uid in self._preempting


def made(*preempting: str) -> tuple[DefaultPreemption, Any]:
    handle: Any = PreemptingHandle(*preempting)
    return DefaultPreemption(DefaultPreemptionArgs(), handle), handle


def test_a_pod_is_held_back_while_its_victims_leave() -> None:
    plugin, _ = made("u1")
    held = unresolvable("waiting for the preemption for this pod to be finished")
    assert plugin.pre_enqueue(a_pod(uid="u1")) == held
    assert plugin.pre_enqueue(a_pod(uid="u2")) is None


def test_others_decide_when_it_is_tried_again() -> None:
    plugin, _ = made()
    [registration] = plugin.events_to_register()
    assert registration.hint is not None
    assert registration.hint(a_pod(), a_pod(), None) is QueueingHint.QUEUE_SKIP


def test_every_attempt_to_make_room_is_counted() -> None:
    plugin, handle = made()
    pod = a_pod(preemptionPolicy="Never")
    for _ in range(2):
        answer = plugin.post_filter(CycleState(), pod, NodeToStatus(handle.snapshot))
        assert isinstance(answer, tuple)
        result, status = answer
        assert result is None
        text = "preemption: not eligible due to preemptionPolicy=Never."
        assert status == unschedulable(text)
    assert handle.metrics.preemption_attempts_total.count == 2
