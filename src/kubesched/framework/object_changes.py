"""Cluster events of an update: which properties of a pod or a node have changed.

Owns the comparison of two states of an object, in upstream's order. Never wakes a pod.
Upstream: pkg/scheduler/framework/events.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kubesched.api.pod import PodStatus
from kubesched.api.times import parse_time
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo, PodShape


class PodState(Protocol):
    """The compared properties of a pod, bound or pending."""

    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def node_name(self) -> str: ...
    @property
    def shape(self) -> PodShape: ...


_POD_ACTIONS = (
    ActionType.UPDATE_POD_LABEL,
    ActionType.UPDATE_POD_SCALE_DOWN,
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ActionType.UPDATE_POD_TOLERATION,
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
)
_POD_EVENTS = {
    (resource, action): ClusterEvent(resource, action)
    for resource in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
    for action in (*_POD_ACTIONS, ActionType.UPDATE)
}
_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
_ALLOCATABLE = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE)
_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
_CONDITION = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_CONDITION)
_ANNOTATION = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_ANNOTATION)
_FEATURE = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE)


def pod_scheduling_property_changes(old: PodState, new: PodState) -> list[ClusterEvent]:
    """Return the events of a pod's update; a plain update if no such property changed."""
    # Parity: events.go PodSchedulingPropertiesChange, v1.36.
    resource = EventResource.ASSIGNED_POD if new.node_name else EventResource.UNSCHEDULABLE_POD
    changed = (
        old.labels != new.labels,
        old.shape is not new.shape and _is_scaled_down(old.shape, new.shape),
        bool(_gates(old)) and not _gates(new),
        len(old.shape.tolerations) != len(new.shape.tolerations),
        _are_claims_changed(old, new),
    )
    events = [
        _POD_EVENTS[resource, action]
        for action, is_changed in zip(_POD_ACTIONS, changed, strict=True)
        if is_changed
    ]
    return events or [_POD_EVENTS[resource, ActionType.UPDATE]]


def node_scheduling_property_changes(old: NodeInfo, new: NodeInfo) -> list[ClusterEvent]:
    """Return the events of a node's update; none for a heartbeat."""
    # Parity: events.go NodeSchedulingPropertiesChange, v1.36. Uncordoning and the loss of a taint
    # are the same event, and an update that does both yields it twice.
    changed = (
        (_TAINT, old.unschedulable and not new.unschedulable),
        (
            _ALLOCATABLE,
            old.allocatable != new.allocatable or old.allowed_pods != new.allowed_pods,
        ),
        (_LABEL, old.labels != new.labels),
        (_TAINT, old.taints != new.taints or _taint_times(old) != _taint_times(new)),
        (_CONDITION, dict(old.conditions) != dict(new.conditions)),
        (_ANNOTATION, old.annotations != new.annotations),
        (_FEATURE, old.declared_features != new.declared_features),
    )
    return [event for event, is_changed in changed if is_changed]


def _is_scaled_down(old: PodShape, new: PodShape) -> bool:
    # Parity: events.go extractPodScaleDown, v1.36: a removed request counts as scaled down.
    return any(
        name not in new.usage or value > new.usage[name] for name, value in old.usage.items()
    )


def _gates(pod: PodState) -> tuple[str, ...]:
    # A bound pod has none.
    return pod.scheduling_gates if isinstance(pod, PodInfo) else ()


def _are_claims_changed(old: PodState, new: PodState) -> bool:
    # Generated claims are in the status, which bound pods do not keep. Only pending pods are woken
    # by them.
    if not isinstance(old, PodInfo) or not isinstance(new, PodInfo):
        return False
    before, after = _claim_statuses(old), _claim_statuses(new)
    return before is not after and _claims(before) != _claims(after)


def _claim_statuses(pod: PodInfo) -> PodStatus | None:
    # Decoding a whole pod to find no generated claim would cost more than the rest.
    return pod.status if b"laimStatus" in pod.raw else None


def _claims(status: PodStatus | None) -> object:
    if status is None:
        return (), None
    return status.resource_claim_statuses, status.extended_resource_claim_status


def _taint_times(node: NodeInfo) -> list[float | None]:
    return [parse_time(time) if time else None for time in node.taint_times]
