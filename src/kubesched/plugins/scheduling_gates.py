"""SchedulingGates: keeps pods out of the queue until their scheduling gates are removed.

Upstream: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status, unresolvable
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.pod_info import PodInfo


class SchedulingGates:
    """Keeps a pod with gates out of the queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Reject a pod with gates, naming them."""
        if not pod.scheduling_gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]")

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Register for the removal of all gates."""
        eliminated = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return [on(EventResource.POD, eliminated, _after_gates_removed, reads="nothing")]


def _after_gates_removed(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    return queue_if(new.uid == pod.uid)


PLUGIN = InTreePlugin(plugin=SchedulingGates)
