"""NodeVolumeLimits: rejects nodes whose CSINode does not allow the pod's volumes in addition.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from __future__ import annotations

from typing import Final

from kubesched.api.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kubesched.api.volumes import Volume
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import (
    READS_NOTHING,
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
)
from kubesched.framework.status import SKIP, Status, error, unschedulable
from kubesched.plugins.csi_translation import plugin_of
from kubesched.plugins.node_volume_limits.attached import (
    AttachedVolumes,
    LiveCounts,
    SupposedCounts,
)
from kubesched.plugins.node_volume_limits.limits import NO_LIMIT, LimitColumns, limits_of
from kubesched.plugins.node_volume_limits.resolve import Volumes, may_be_attached, new_volumes
from kubesched.plugins.pod_volumes import (
    after_claim_event,
    reads_after_claim_event,
    volume_changes,
)
from kubesched.plugins.queueing_hints import has_node, on, queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.expressions import is_any, looked_up, negate
from kubesched.snapshot.pod_info import PodInfo, PodShape
from kubesched.snapshot.view import LiveUsage, NodeRow, NodeTable

REASON_MAX_VOLUME_COUNT_EXCEEDED: Final = "node(s) exceed max volume count"

_EXCEEDED: Final = unschedulable(REASON_MAX_VOLUME_COUNT_EXCEEDED)
_READS: Final = Reads(
    usage=True,
    objects=(
        "csi_nodes",
        "persistent_volume_claims",
        "persistent_volumes",
        "storage_classes",
        "volume_attachments",
    ),
)


class NodeVolumeLimits:
    """Rejects nodes that cannot attach all of the pod's volumes."""

    name = "NodeVolumeLimits"

    def __init__(self) -> None:
        self._limits = LimitColumns()
        self._attached = AttachedVolumes()

    def reads(self, pod: PodInfo) -> Reads | None:
        """Declare that verdicts depend on usage and storage objects; None if also on pod names."""
        volumes = pod.shape.volumes
        if not any(map(may_be_attached, volumes)):
            return READS_NOTHING
        if any(volume.ephemeral is not None for volume in volumes):
            return None  # Such claims are named after the pod.
        return _READS

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Skip pods without a volume that could be attached."""
        return None if any(map(may_be_attached, pod.shape.volumes)) else SKIP

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Reject nodes where old and new volumes of a driver exceed its limit."""
        view, verdicts = nodes.view, []
        self._limits.follow(view)
        known = looked_up(self._limits.has_csi_node, nodes.rows)
        for has_csi_node, concerned in ((False, negate(known)), (True, known)):
            if not is_any(concerned):
                continue
            new = new_volumes(pod, view.objects, has_csi_node)
            if isinstance(new, Status):
                verdicts.append(Rejected(concerned, new))
            elif new and has_csi_node:
                verdicts += self._over_limits(nodes, new)
        return verdicts

    def events_to_register(self) -> list[EventRegistration]:
        add, update, delete = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
        claims, attachments = EventResource.PERSISTENT_VOLUME_CLAIM, EventResource.VOLUME_ATTACHMENT
        return [
            on(EventResource.CSI_NODE, add),
            on(EventResource.CSI_NODE, update, _after_csi_node_updated, reads="nothing"),
            on(EventResource.POD, delete, _after_pod_deleted, reads="nothing"),
            on(claims, add, after_claim_event, reads=reads_after_claim_event),
            on(attachments, delete, _after_attachment_deleted, reads="shape"),
        ]

    def _over_limits(self, nodes: NodeTable | NodeRow, new: Volumes) -> list[Rejected]:
        limited = looked_up(self._limits.is_limited, nodes.rows)
        if not is_any(limited):
            return []
        counts = self._counts(nodes)
        rejections = [
            Rejected(where & limited, error(text)) for text, where in counts.problems().items()
        ]
        for driver in dict.fromkeys(new.values()):
            column = self._limits.of_driver(driver)
            if column is None:
                continue
            limit = looked_up(column, nodes.rows)
            names = [name for name, of_driver in new.items() if of_driver == driver]
            more = len(names) - counts.of_pods(names)
            over = (limit != NO_LIMIT) & (more > 0) & (counts.of_driver(driver) + more > limit)
            rejections.append(Rejected(over, _EXCEEDED))
        return rejections

    def _counts(self, nodes: NodeTable | NodeRow) -> LiveCounts | SupposedCounts:
        self._attached.follow(nodes.view)
        if isinstance(nodes, NodeRow) or isinstance(nodes.usage, LiveUsage):
            return LiveCounts(self._attached, nodes.rows)
        return self._attached.supposed(nodes)


def _after_csi_node_updated(_pod: PodInfo, old: CSINode, new: CSINode) -> QueueingHint:
    before, after = limits_of(old), limits_of(new)
    # Parity: csi.go isSchedulableAfterCSINodeUpdated, v1.36: no limit counts as a limit of zero.
    return queue_if(any(limit > before.get(driver, 0) for driver, limit in after.items()))


def _after_pod_deleted(_pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    return queue_if(has_node(old) and any(map(may_be_attached, old.shape.volumes)))


def _after_attachment_deleted(pod: PodInfo, old: VolumeAttachment, _new: None) -> QueueingHint:
    return queue_if(
        any(
            volume.persistent_volume_claim is not None
            or _is_attached_by(old.spec.attacher, volume, pod.shape)
            for volume in pod.shape.volumes
        )
    )


def _is_attached_by(attacher: str, volume: Volume, shape: PodShape) -> bool:
    plugin = plugin_of(volume)
    if plugin is None:
        return False
    try:
        plugin.translate_inline(volume, shape.namespace)
    except ValueError:
        # Parity: csi.go isSchedulableAfterVolumeAttachmentDeleted, v1.36: an error queues the pod.
        return True
    return plugin.driver == attacher


PLUGIN = InTreePlugin(
    plugin=NodeVolumeLimits,
    watches=(PersistentVolume, PersistentVolumeClaim, StorageClass, CSIDriver, VolumeAttachment),
    pod_changes=volume_changes,
    has_shared_changes=True,
)
