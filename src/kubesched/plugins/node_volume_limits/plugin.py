"""NodeVolumeLimits: a node attaches only so many volumes of a driver.

Owns the comparison of the volumes on a node with what its drivers tell in CSINode. Never looks at
where a volume can be reached from: VolumeBinding does.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kubesched.columns.view import NodeTable
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
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
from kubesched.plugins.node_volume_limits.attached import AttachedVolumes
from kubesched.plugins.node_volume_limits.resolve import Volumes, may_be_attached, new_volumes
from kubesched.plugins.pod_volumes import refers_to, sign_volumes

REASON_MAX_VOLUME_COUNT_EXCEEDED: Final = "node(s) exceed max volume count"

# Above every limit a CSINode can tell, which has 32 bits.
_NO_LIMIT: Final = 2**32


class NodeVolumeLimits:
    """Refuses nodes that could not attach all of the pod's volumes."""

    name = "NodeVolumeLimits"

    def __init__(self, args: object, handle: Handle) -> None:
        self._attached = AttachedVolumes()

    def reads(self, pod: PodInfo) -> Reads | None:
        """Return that a pod without volumes is nothing to this plugin; with some, ask anew."""
        return None if pod.shape.volumes else Reads()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Skip pods without a volume that could be attached."""
        return None if any(map(may_be_attached, pod.shape.volumes)) else SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Refuse nodes where old and new volumes of a driver exceed its limit."""
        csi_nodes = [nodes.view.objects.csi_nodes.get(name) for name in nodes.names]
        known = np.array([csi_node is not None for csi_node in csi_nodes], dtype=np.bool_)
        verdicts = []
        for has_csi_node, concerned in ((False, ~known), (True, known)):
            if not concerned.any():
                continue
            new = new_volumes(pod, nodes.view.objects, has_csi_node)
            if isinstance(new, Status):
                verdicts.append(Rejected(concerned, new))
            elif new and has_csi_node:
                verdicts += self._over_limits(nodes, csi_nodes, new)
        return verdicts

    def sign_pod(self, pod: PodInfo) -> list[SignFragment]:
        """Return what of the pod decides here: its volumes."""
        return sign_volumes(pod)

    def events_to_register(self) -> list[EventRegistration]:
        """Return the events that may let a refused pod fit."""
        return [
            EventRegistration(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)),
            EventRegistration(
                ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE), _after_csi_node_updated
            ),
            EventRegistration(
                ClusterEvent(EventResource.POD, ActionType.DELETE), _after_pod_deleted
            ),
            EventRegistration(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                _after_claim_added,
            ),
            EventRegistration(
                ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE),
                _after_attachment_deleted,
            ),
        ]

    def _over_limits(
        self, nodes: NodeTable, csi_nodes: Sequence[CSINode | None], new: Volumes
    ) -> list[Rejected]:
        limits = [_limits(csi_node) for csi_node in csi_nodes]
        limited = np.array([bool(limit_of) for limit_of in limits], dtype=np.bool_)
        if not limited.any():
            return []
        self._attached.follow(nodes.view)
        held = self._attached.held_on(nodes)
        over = np.zeros(len(nodes), dtype=np.bool_)
        for driver in dict.fromkeys(new.values()):
            wanted = [name for name, of_driver in new.items() if of_driver == driver]
            more = len(wanted) - self._attached.count_of(held.by_pods, wanted)
            used = self._attached.count_of_driver(held, driver)
            limit = np.array([limit_of.get(driver, _NO_LIMIT) for limit_of in limits])
            over |= (limit != _NO_LIMIT) & (more > 0) & (used + more > limit)
        rejections = [Rejected(mask & limited, error(text)) for text, mask in held.failed.items()]
        return [*rejections, Rejected(over, unschedulable(REASON_MAX_VOLUME_COUNT_EXCEEDED))]


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    if csi_node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _after_csi_node_updated(_pod: PodInfo, old: CSINode, new: CSINode) -> QueueingHint:
    before, after = _limits(old), _limits(new)
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
