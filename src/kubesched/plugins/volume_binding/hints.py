"""Queueing hints of VolumeBinding: which changes may help a rejected pod.

Upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go EventsToRegister
"""

from __future__ import annotations

from typing import Final

from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
)
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration
from kubesched.plugins.pod_volumes import after_claim_event, reads_after_claim_event
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.snapshot.pod_info import PodInfo

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"


def volume_limit(capacity: CSIStorageCapacity) -> Quantity | None:
    """Return the maximum size of a volume of that capacity, if it is known."""
    # Parity: volumebinding/binder.go volumeLimit, v1.36: the largest volume is the better answer.
    text = capacity.maximum_volume_size
    if text is None:
        text = capacity.capacity
    return None if text is None else parse_quantity(text)


def registrations() -> list[EventRegistration]:
    """Return the events that may make a rejected pod fit, in upstream's order."""
    changed = ActionType.ADD | ActionType.UPDATE
    claims, capacities = EventResource.PERSISTENT_VOLUME_CLAIM, EventResource.CSI_STORAGE_CAPACITY
    return [
        on(EventResource.STORAGE_CLASS, changed, after_storage_class_changed, reads="nothing"),
        on(claims, changed, after_claim_event, reads=reads_after_claim_event),
        on(EventResource.PERSISTENT_VOLUME, changed),
        on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
        on(EventResource.CSI_NODE, changed, after_csi_node_changed, reads="nothing"),
        on(EventResource.CSI_DRIVER, ActionType.UPDATE, after_csi_driver_changed, reads="shape"),
        on(capacities, changed, after_capacity_changed, reads="nothing"),
    ]


def after_storage_class_changed(
    _pod: PodInfo, old: StorageClass | None, new: StorageClass
) -> QueueingHint:
    """Queue for a new class, or one whose allowed topologies changed."""
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_csi_node_changed(_pod: PodInfo, old: CSINode | None, new: CSINode) -> QueueingHint:
    """Queue for a new node, or a node on which the set of migrated plugins has changed."""
    return queue_if(old is None or _migrated(old) != _migrated(new))


def after_csi_driver_changed(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> QueueingHint:
    """Queue if a driver of the pod's in-line volumes no longer reports its capacity."""
    stopped = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    return queue_if(
        stopped
        and any(
            volume.csi is not None and volume.csi.driver == new.metadata.name
            for volume in pod.shape.volumes
        )
    )


def after_capacity_changed(
    _pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> QueueingHint:
    """Queue for a new capacity, or one that allows larger volumes."""
    before, after = None if old is None else volume_limit(old), volume_limit(new)
    grew = after is not None and (before is None or after.value() > before.value())
    return queue_if(old is None or grew)


def _migrated(csi_node: CSINode) -> str:
    return csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")
