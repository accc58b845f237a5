"""Whether an event makes room for a pod that did not fit.

Owns the queueing hints of NodeResourcesFit. Never looks at the cluster: only at the pod and at what
changed.
Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from __future__ import annotations

from typing import Any

from kubesched.model.cluster_event import QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo

_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def after_pod_event(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> QueueingHint:
    """Tell whether a deleted or shrunk pod makes room."""
    # Parity: fit.go isSchedulableAfterPodEvent, v1.36.
    if new is None:
        return _hint(bool(old.node_name or old.nominated_node_name))
    return _hint(_scale_down_helps(pod, old, new))


def after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    """Tell whether a node came, or grew in something the pod asks for, and is large enough."""
    # Parity: fit.go isSchedulableAfterNodeChange, v1.36.
    return _hint(_fits_empty(pod, new) and (old is None or _grew(pod, old, new)))


def after_device_class_event(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    """Tell whether a device class came to stand for a resource the pod asks for."""
    # Parity: fit.go isSchedulableAfterDeviceClassEvent, v1.36.
    name = new.spec.extended_resource_name
    if old is not None:
        if (old.spec.extended_resource_name or "") == (name or ""):
            return QueueingHint.QUEUE_SKIP
    elif f"{_DEVICE_CLASS_PREFIX}{new.metadata.name}" in pod.requests:
        return QueueingHint.QUEUE
    return _hint(name is not None and name in pod.requests)


def _hint(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.QUEUE_SKIP


def _scale_down_helps(pod: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    if new.uid == pod.uid:
        return True
    if not new.node_name:
        return False
    before, after = old.shape.usage, new.shape.usage
    return any(
        before[resource] > after[resource]
        for resource, wanted in pod.shape.usage.items()
        if wanted != 0
    )


def _fits_empty(pod: PodInfo, node: NodeInfo) -> bool:
    # Ignored resources count here, since upstream asks without the plugin's arguments.
    return node.allowed_pods >= 1 and all(
        request <= node.allocatable[resource]
        for resource, request in pod.requests.items()
        if request
    )


def _grew(pod: PodInfo, old: NodeInfo, new: NodeInfo) -> bool:
    return new.allowed_pods > old.allowed_pods or any(
        new.allocatable[resource] > old.allocatable[resource]
        for resource, request in pod.requests.items()
        if request
    )
