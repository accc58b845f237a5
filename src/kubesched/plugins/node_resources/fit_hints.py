"""Whether an event makes room for a pod that did not fit.

Owns the queueing hints of NodeResourcesFit. Never looks at the cluster: only at the pod and at what
changed.
Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from kubesched.columns.pod_columns import BoundPod
from kubesched.model.cluster_event import QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo

AnyPod: TypeAlias = PodInfo | BoundPod
_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def after_pod_event(pod: PodInfo, old: AnyPod, new: AnyPod | None) -> QueueingHint:
    """Tell whether a deleted or shrunk pod makes room."""
    # Parity: fit.go isSchedulableAfterPodEvent, v1.36.
    if new is None:
        return _hint(bool(old.node_name or old.nominated_node_name))
    return _hint(_scale_down_helps(pod, old, new))


def after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    """Tell whether a node came, or grew in something the pod asks for, and is large enough."""
    # Parity: fit.go isSchedulableAfterNodeChange, v1.36.
    return _hint(_fits_empty(pod, new) and (old is None or _grew(pod, old, new)))


def after_device_class_event(
    pod: PodInfo, old: Mapping[str, Any] | None, new: Mapping[str, Any]
) -> QueueingHint:
    """Tell whether a device class, as a document, came to stand for a resource of the pod's."""
    # Parity: fit.go isSchedulableAfterDeviceClassEvent, v1.36.
    name = _extended_resource(new)
    if old is not None:
        if (_extended_resource(old) or "") == (name or ""):
            return QueueingHint.QUEUE_SKIP
    elif f"{_DEVICE_CLASS_PREFIX}{new['metadata']['name']}" in pod.requests:
        return QueueingHint.QUEUE
    return _hint(name is not None and name in pod.requests)


def _extended_resource(device_class: Mapping[str, Any]) -> str | None:
    spec: Mapping[str, str] = device_class.get("spec") or {}
    return spec.get("extendedResourceName")


def _hint(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.QUEUE_SKIP


def _scale_down_helps(pod: PodInfo, old: AnyPod, new: AnyPod) -> bool:
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
