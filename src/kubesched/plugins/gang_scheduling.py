"""Holds the pods of a gang together (alpha, off by default).

Owns the extension points of upstream's plugin. Pod groups are not served while the feature is off,
so a pod that names one waits for it.
Upstream: pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status, error, unresolvable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo


class GangScheduling:
    """Lets pods without a group through, and holds those whose group is not there."""

    name = "GangScheduling"

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments, and there are no groups to ask for."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold back a pod whose group is not known."""
        group = _group_name(pod)
        if group is None:
            return None
        return unresolvable(
            f'waiting for pods\'s pod group "{group}" to appear in scheduling queue'
        )

    def permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status | None, float]:
        """Fail for a pod whose group is not known."""
        group = _group_name(pod)
        if group is None:
            return None, 0.0
        missing = f'podgroup.scheduling.k8s.io "{group}" not found'
        return error(f"failed to get podGroup {pod.namespace}/{group}: {missing}"), 0.0

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which a gang may be complete."""
        added = ActionType.ADD
        return [
            EventRegistration(ClusterEvent(EventResource.POD, added), _after_pod_added),
            EventRegistration(ClusterEvent(EventResource.POD_GROUP, added), _after_group_added),
        ]


def _group_name(pod: PodInfo) -> str | None:
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name or ""


def _after_pod_added(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    group = _group_name(pod)
    same = group is not None and (pod.namespace, group) == (new.namespace, _group_name(new))
    return QueueingHint.QUEUE if same else QueueingHint.QUEUE_SKIP


def _after_group_added(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    added = (new.metadata.namespace, new.metadata.name)
    same = (pod.namespace, _group_name(pod)) == added
    return QueueingHint.QUEUE if same else QueueingHint.QUEUE_SKIP
