"""Which changes of storage objects, nodes and drivers may let a refused pod fit.

Owns the events VolumeBinding wakes pods for. Never reads the cluster.
Upstream: pkg/scheduler/framework/plugins/volumebinding/volume_binding.go EventsToRegister
"""

from __future__ import annotations

from typing import Final

from kubesched.framework.interface import EventRegistration
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo
from kubesched.objects.quantity import Quantity, parse_quantity
from kubesched.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from kubesched.plugins.pod_volumes import reads_of_claim_hint, refers_to

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"


def volume_limit(capacity: CSIStorageCapacity) -> Quantity | None:
    """Return how large a volume of that capacity may be, if it is known."""
    # Parity: volumebinding/binder.go volumeLimit, v1.36: the largest volume is the better answer.
    text = capacity.maximum_volume_size
    if text is None:
        text = capacity.capacity
    return None if text is None else parse_quantity(text)


def registrations() -> list[EventRegistration]:
    """Return the events that may let a refused pod fit, in upstream's order."""
    changed = ActionType.ADD | ActionType.UPDATE
    return [
        EventRegistration(
            ClusterEvent(EventResource.STORAGE_CLASS, changed),
            after_storage_class_changed,
            reads="nothing",
        ),
        EventRegistration(
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, changed),
            after_claim_changed,
            reads=reads_of_claim_hint,
        ),
        EventRegistration(ClusterEvent(EventResource.PERSISTENT_VOLUME, changed)),
        EventRegistration(
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        ),
        EventRegistration(
            ClusterEvent(EventResource.CSI_NODE, changed), after_csi_node_changed, reads="nothing"
        ),
        EventRegistration(
            ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE),
            after_csi_driver_changed,
            reads="shape",
        ),
        EventRegistration(
            ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, changed),
            after_capacity_changed,
            reads="nothing",
        ),
    ]


def after_storage_class_changed(
    _pod: PodInfo, old: StorageClass | None, new: StorageClass
) -> QueueingHint:
    """Queue for a new class, or one whose allowed topologies changed."""
    return _queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_claim_changed(
    pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    """Queue if the pod's volumes stand for the claim."""
    return _queue_if(refers_to(pod, new))


def after_csi_node_changed(_pod: PodInfo, old: CSINode | None, new: CSINode) -> QueueingHint:
    """Queue for a new node, or one on which other plugins have migrated."""
    return _queue_if(old is None or _migrated(old) != _migrated(new))


def after_csi_driver_changed(pod: PodInfo, old: CSIDriver, new: CSIDriver) -> QueueingHint:
    """Queue if a driver of the pod's in-line volumes no longer tells its capacity."""
    stopped = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    return _queue_if(
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
    if old is None:
        return QueueingHint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    return _queue_if(after is not None and (before is None or after.value() > before.value()))


def _migrated(csi_node: CSINode) -> str:
    return csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")


def _queue_if(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.QUEUE_SKIP
