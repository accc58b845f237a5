"""NodeVolumeLimits: a node attaches only so many volumes of a driver.

Owns the comparison of the volumes on a node with what its drivers tell in CSINode. Never looks at
where a volume can be reached from: VolumeBinding does.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from __future__ import annotations

from typing import Final

from kubesched.columns.rules import is_any, looked_up, negate
from kubesched.columns.view import LiveUsage, NodeRow, NodeTable
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    READS_NOTHING,
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.status import SKIP, Status, error, unschedulable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo, PodShape
from kubesched.objects.pod import Volume
from kubesched.objects.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from kubesched.plugins.csi_translation import plugin_of_inline
from kubesched.plugins.node_volume_limits.attached import (
    AttachedVolumes,
    LiveCounts,
    SupposedCounts,
)
from kubesched.plugins.node_volume_limits.limits import NO_LIMIT, LimitColumns, limits_of
from kubesched.plugins.node_volume_limits.resolve import Volumes, may_be_attached, new_volumes
from kubesched.plugins.pod_volumes import reads_of_claim_hint, refers_to, sign_volumes

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
    """Refuses nodes that could not attach all of the pod's volumes."""

    name = "NodeVolumeLimits"
    same_for_family = True

    def __init__(self, args: object, handle: Handle) -> None:
        self._limits = LimitColumns()
        self._attached = AttachedVolumes()

    def reads(self, pod: PodInfo) -> Reads | None:
        """Return that the row's pods and the storage objects decide; None where names do too."""
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
        """Refuse nodes where old and new volumes of a driver exceed its limit."""
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

    def sign_pod(self, pod: PodInfo) -> list[SignFragment]:
        """Return what of the pod decides here: its volumes."""
        return sign_volumes(pod)

    def events_to_register(self) -> list[EventRegistration]:
        """Return the events that may let a refused pod fit."""
        return [
            EventRegistration(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)),
            EventRegistration(
                ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE),
                _after_csi_node_updated,
                reads="nothing",
            ),
            EventRegistration(
                ClusterEvent(EventResource.POD, ActionType.DELETE),
                _after_pod_deleted,
                reads="nothing",
            ),
            EventRegistration(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                _after_claim_added,
                reads=reads_of_claim_hint,
            ),
            EventRegistration(
                ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE),
                _after_attachment_deleted,
                reads="shape",
            ),
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
            wanted = [name for name, of_driver in new.items() if of_driver == driver]
            more = len(wanted) - counts.of_pods(wanted)
            over = (limit != NO_LIMIT) & (more > 0) & (counts.of_driver(driver) + more > limit)
            rejections.append(Rejected(over, _EXCEEDED))
        return rejections

    def _counts(self, nodes: NodeTable | NodeRow) -> LiveCounts | SupposedCounts:
        self._attached.follow(nodes.view)
        if isinstance(nodes, NodeRow) or isinstance(nodes.usage, LiveUsage):
            return self._attached.live(nodes.rows)
        return self._attached.supposed(nodes)


def _after_csi_node_updated(_pod: PodInfo, old: CSINode, new: CSINode) -> QueueingHint:
    before, after = limits_of(old), limits_of(new)
    # Parity: csi.go isSchedulableAfterCSINodeUpdated, v1.36: no limit counts as a limit of zero.
    raised = any(limit > before.get(driver, 0) for driver, limit in after.items())
    return QueueingHint.QUEUE if raised else QueueingHint.QUEUE_SKIP


def _after_pod_deleted(_pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    had_node = bool(old.node_name or old.nominated_node_name)
    frees = had_node and any(map(may_be_attached, old.shape.volumes))
    return QueueingHint.QUEUE if frees else QueueingHint.QUEUE_SKIP


def _after_claim_added(
    pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    return QueueingHint.QUEUE if refers_to(pod, new) else QueueingHint.QUEUE_SKIP


def _after_attachment_deleted(pod: PodInfo, old: VolumeAttachment, _new: None) -> QueueingHint:
    for volume in pod.shape.volumes:
        if volume.persistent_volume_claim is not None or _is_attached_by(
            old.spec.attacher, volume, pod.shape
        ):
            return QueueingHint.QUEUE
    return QueueingHint.QUEUE_SKIP


def _is_attached_by(attacher: str, volume: Volume, shape: PodShape) -> bool:
    plugin = plugin_of_inline(volume)
    if plugin is None:
        return False
    try:
        plugin.translate_inline(volume, shape.namespace)
    except ValueError:
        # Parity: csi.go isSchedulableAfterVolumeAttachmentDeleted, v1.36: an error queues the pod.
        return True
    return plugin.driver == attacher
