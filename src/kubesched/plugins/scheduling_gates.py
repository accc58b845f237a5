"""Holds pods back until their scheduling gates are gone.

Owns the check before queueing and the event that ends it. Never looks at a node.
Upstream: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status, unresolvable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo


class SchedulingGates:
    """Refuses to queue a pod that carries gates."""

    name = "SchedulingGates"

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuse a pod with gates, naming them."""
        if not pod.scheduling_gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.scheduling_gates)}]")

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the one event that helps: all gates of the pod were removed."""
        eliminated = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        event = ClusterEvent(EventResource.POD, eliminated)
        return [EventRegistration(event, _after_gates_gone, reads="nothing")]


def _after_gates_gone(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    return QueueingHint.QUEUE if new.uid == pod.uid else QueueingHint.QUEUE_SKIP
