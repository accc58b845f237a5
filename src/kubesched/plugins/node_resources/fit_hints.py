"""Queueing hints of NodeResourcesFit: whether an event makes room for a rejected pod.

Upstream: pkg/scheduler/framework/plugins/noderesources/fit.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.framework.cluster_event import QueueingHint
from kubesched.plugins.queueing_hints import AnyPod, has_node, queue_if
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo

_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def after_pod_event(pod: PodInfo, old: AnyPod, new: AnyPod | None) -> QueueingHint:
    """Queue if a deleted or shrunk pod makes room."""
    # Parity: fit.go isSchedulableAfterPodEvent, v1.36.
    return queue_if(has_node(old) if new is None else _scale_down_helps(pod, old, new))


def after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    """Queue if a node came, or grew in a requested resource, and is large enough."""
    # Parity: fit.go isSchedulableAfterNodeChange, v1.36.
    return queue_if(_fits_empty(pod, new) and (old is None or _grew(pod, old, new)))


def after_device_class_event(
    pod: PodInfo, old: Mapping[str, Any] | None, new: Mapping[str, Any]
) -> QueueingHint:
    """Queue if a device class, as a document, now provides a resource that the pod requests."""
    # Parity: fit.go isSchedulableAfterDeviceClassEvent, v1.36.
    name = _extended_resource(new)
    if old is not None:
        if (_extended_resource(old) or "") == (name or ""):
            return QueueingHint.QUEUE_SKIP
    elif f"{_DEVICE_CLASS_PREFIX}{new['metadata']['name']}" in pod.requests:
        return QueueingHint.QUEUE
    return queue_if(name is not None and name in pod.requests)


def _extended_resource(device_class: Mapping[str, Any]) -> str | None:
    spec: Mapping[str, str] = device_class.get("spec") or {}
    return spec.get("extendedResourceName")


def _scale_down_helps(pod: PodInfo, old: AnyPod, new: AnyPod) -> bool:
    if new.uid == pod.uid:
        return True
    if not new.node_name:
        return False
    before, after = old.shape.usage, new.shape.usage
    return any(
        before[resource] > after[resource]
        for resource, request in pod.shape.usage.items()
        if request
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
