"""DefaultPreemption around the search: its gate, and its metrics."""

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
    """A handle in an empty cluster that knows the pods whose victims are being evicted."""

    def __init__(self, *preempting: str) -> None:
        self._preempting = preempting
        self.snapshot = a_cluster([])
        self.log = NullLog()
        self.metrics: Any = type("Metrics", (), {"preemption_attempts_total": Attempts()})

    def is_preempting(self, uid: str) -> bool:
        return uid in self._preempting


def plugin_and_handle(*preempting: str) -> tuple[DefaultPreemption, Any]:
    handle: Any = PreemptingHandle(*preempting)
    return DefaultPreemption(DefaultPreemptionArgs(), handle), handle


def test_a_pod_is_gated_while_its_victims_terminate() -> None:
    plugin, _ = plugin_and_handle("u1")
    held = unresolvable("waiting for the preemption for this pod to be finished")
    assert plugin.pre_enqueue(a_pod(uid="u1")) == held
    assert plugin.pre_enqueue(a_pod(uid="u2")) is None


def test_its_own_hint_never_requeues_a_pod() -> None:
    plugin, _ = plugin_and_handle()
    [registration] = plugin.events_to_register()
    assert registration.hint is not None
    assert registration.hint(a_pod(), a_pod(), None) is QueueingHint.QUEUE_SKIP


def test_every_preemption_attempt_is_counted() -> None:
    plugin, handle = plugin_and_handle()
    pod = a_pod(preemptionPolicy="Never")
    for _ in range(2):
        answer = plugin.post_filter(CycleState(), pod, NodeToStatus(handle.snapshot))
        assert isinstance(answer, tuple)
        result, status = answer
        assert result is None
        text = "preemption: not eligible due to preemptionPolicy=Never."
        assert status == unschedulable(text)
    assert handle.metrics.preemption_attempts_total.count == 2
