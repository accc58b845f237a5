"""NodeVolumeLimits: a node attaches only so many volumes of a driver.

Owns counting the distinct volumes of a node's pods and attachments against what its drivers tell in
CSINode. Never looks at where a volume can be reached from: VolumeBinding does.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kubesched.columns.node_columns import BoolColumn
from kubesched.columns.object_store import ObjectStores
from kubesched.columns.view import ClusterView, LiveUsage, NodeTable
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration, FilterVerdict, Rejected, SignFragment
from kubesched.framework.status import SKIP, Status, StatusError, error, unresolvable, unschedulable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo, PodShape
from kubesched.objects.pod import Volume
from kubesched.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from kubesched.plugins.csi_translation import (
    MIGRATED_PLUGIN_NAMES,
    InTreePlugin,
    plugin_named,
    plugin_of_inline,
    plugin_of_volume,
)
from kubesched.plugins.pod_volumes import (
    NO_NAME,
    ClaimUse,
    NamedPod,
    claim_not_found_text,
    claim_use,
    class_of_claim,
    not_owner_text,
    refers_to,
    sign_volumes,
)

REASON_MAX_VOLUME_COUNT_EXCEEDED: Final = "node(s) exceed max volume count"

# Upstream draws 32 random letters once, so that a claim without a volume cannot be taken for a
# volume; no handle can hold this one either.
_UNBOUND_PREFIX: Final = "\0"

Volumes = Mapping[str, str]
"""Driver by unique name of a volume: `<driver>/<handle>`."""


class NodeVolumeLimits:
    """Refuses nodes that could not attach all of the pod's volumes."""

    name = "NodeVolumeLimits"

    def __init__(self, args: object, handle: Handle) -> None:
        self._attached = _AttachedVolumes()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Skip pods without a volume that could be attached."""
        return None if any(map(_may_be_attached, pod.shape.volumes)) else SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Refuse nodes where old and new volumes of a driver exceed its limit."""
        csi_nodes = [nodes.view.objects.csi_nodes.get(name) for name in nodes.names]
        known = np.array([csi_node is not None for csi_node in csi_nodes], dtype=np.bool_)
        verdicts = []
        for has_csi_node, concerned in ((False, ~known), (True, known)):
            if not concerned.any():
                continue
            new = _new_volumes(pod, nodes.view.objects, has_csi_node)
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
        self._attached.follow(nodes.view)
        pods_at = self._attached.pods_at(nodes)
        over = np.zeros(len(nodes), dtype=np.bool_)
        failed: dict[str, BoolColumn] = {}
        for position, limit_of in enumerate(limits):
            if not limit_of:
                continue
            try:
                attached = self._attached.of_pods(pods_at.get(position, ()))
            except StatusError as problem:
                mask = failed.setdefault(str(problem), np.zeros(len(nodes), dtype=np.bool_))
                mask[position] = True
                continue
            counts = Counter(attached.values())
            counts.update(
                driver
                for name, driver in self._attached.of_node(nodes.info(position).name).items()
                if name not in attached
            )
            more = Counter(driver for name, driver in new.items() if name not in attached)
            over[position] = any(
                driver in limit_of and counts[driver] + count > limit_of[driver]
                for driver, count in more.items()
            )
        rejections = [Rejected(mask, error(text)) for text, mask in failed.items()]
        return [*rejections, Rejected(over, unschedulable(REASON_MAX_VOLUME_COUNT_EXCEEDED))]


@dataclass(slots=True)
class _Facts:
    """What was resolved from claims, volumes and classes as they stood at some epochs."""

    epochs: tuple[object, ...] = ()
    by_shape: dict[int, Volumes | str] = field(default_factory=dict)
    by_node: dict[str, dict[str, str]] = field(default_factory=dict)


class _AttachedVolumes:
    """The volumes that pods and attachments hold, resolved once as long as their objects stand."""

    def __init__(self) -> None:
        self._facts = _Facts()
        self._view: ClusterView | None = None
        self._may_attach = np.zeros(0, dtype=np.bool_)

    def follow(self, view: ClusterView) -> None:
        """Drop what other objects than today's told."""
        objects = view.objects
        epochs = (
            view.pods,
            objects.persistent_volume_claims.epoch,
            objects.persistent_volumes.epoch,
            objects.storage_classes.epoch,
            objects.volume_attachments.epoch,
        )
        if epochs != self._facts.epochs:
            self._facts = _Facts(epochs, by_node=_attachments_by_node(objects))
            self._may_attach = np.zeros(0, dtype=np.bool_)
        self._view = view
        known = len(self._may_attach)
        if known < len(view.pods.shapes):
            more = [any(map(_may_be_attached, s.volumes)) for s in view.pods.shapes[known:]]
            self._may_attach = np.append(self._may_attach, np.array(more, dtype=np.bool_))

    def pods_at(self, nodes: NodeTable) -> dict[int, list[int]]:
        """Return, by position, the pods that may hold a volume."""
        pods, found = nodes.view.pods, dict[int, list[int]]()
        if isinstance(nodes.usage, LiveUsage):
            positions = dict(zip(nodes.rows.tolist(), range(len(nodes)), strict=True))
            holds = pods.counted[: pods.count].copy()
            holds[holds] = self._may_attach[pods.shape[: pods.count][holds]]
            for index in np.flatnonzero(holds).tolist():
                position = positions.get(int(pods.row[index]))
                if position is not None:
                    found.setdefault(position, []).append(index)
            return found
        for position in range(len(nodes)):
            indices = nodes.usage.pods_on(position)
            found[position] = [i for i in indices if self._may_attach[pods.shape[i]]]
        return found

    def of_pods(self, indices: Iterable[int]) -> dict[str, str]:
        """Return the distinct volumes of some pods; StatusError if one cannot be resolved."""
        volumes: dict[str, str] = {}
        for index in indices:
            volumes |= self._of_pod(index)
        return volumes

    def of_node(self, name: str) -> Volumes:
        """Return the volumes that attachments tell of a node."""
        return self._facts.by_node.get(name, {})

    def _of_pod(self, index: int) -> Volumes:
        assert self._view is not None, "follow() comes first"
        place = int(self._view.pods.shape[index])
        known = self._facts.by_shape.get(place)
        if known is None:
            known = _resolve_or_text(self._view.bound_pod(index), self._view.objects)
            shape = self._view.pods.shapes[place]
            if not any(volume.ephemeral is not None for volume in shape.volumes):
                self._facts.by_shape[place] = known
        if isinstance(known, str):
            raise StatusError(error(known))
        return known


def _resolve_or_text(pod: NamedPod, objects: ObjectStores) -> Volumes | str:
    # Nodes are asked for their pods' volumes only where they have limits, hence a CSINode.
    try:
        return _resolve(pod, pod.shape.volumes, objects, has_csi_node=True, is_new=False)
    except StatusError as problem:
        return problem.status.message


def _attachments_by_node(objects: ObjectStores) -> dict[str, dict[str, str]]:
    # Parity: csi.go getNodeVolumeAttachmentInfo, v1.36: in-tree volumes are not translated here.
    found: dict[str, dict[str, str]] = {}
    for attachment in objects.volume_attachments:
        spec = attachment.spec
        volume_name = spec.source.persistent_volume_name
        if not spec.attacher or volume_name is None:
            continue
        volume = objects.persistent_volumes.get(volume_name)
        if volume is None or volume.spec.csi is None:
            continue
        unique_name = f"{spec.attacher}/{volume.spec.csi.volume_handle}"
        found.setdefault(spec.node_name, {})[unique_name] = spec.attacher
    return found


def _new_volumes(pod: PodInfo, objects: ObjectStores, has_csi_node: bool) -> Volumes | Status:
    volumes: Sequence[Volume] = pod.shape.volumes
    if any(plugin_of_inline(volume) is not None for volume in volumes):
        # Texts name the pod's own volumes; those of its shape may be another pod's.
        volumes = pod.spec.volumes or ()
    try:
        return _resolve(pod, volumes, objects, has_csi_node=has_csi_node, is_new=True)
    except StatusError as problem:
        return problem.status


def _resolve(
    pod: NamedPod,
    volumes: Iterable[Volume],
    objects: ObjectStores,
    *,
    has_csi_node: bool,
    is_new: bool,
) -> Volumes:
    """Return the volumes of a pod that count, on a node with or without a CSINode."""
    # Parity: csi.go filterAttachableVolumes, v1.36.
    found: dict[str, str] = {}
    for volume in volumes:
        use = claim_use(pod.name, volume)
        if use is None:
            handle = _inline_handle(volume, pod.namespace, has_csi_node)
        else:
            claim = _claim(pod, use, objects, is_new)
            handle = None if claim is None else _claim_handle(claim, objects, has_csi_node)
        if handle is not None:
            driver, name = handle
            found[f"{driver}/{name}"] = driver
    return found


def _claim(
    pod: NamedPod, use: ClaimUse, objects: ObjectStores, is_new: bool
) -> PersistentVolumeClaim | None:
    if not use.claim_name:
        raise StatusError(error(NO_NAME))
    key = f"{pod.namespace}/{use.claim_name}"
    claim = objects.persistent_volume_claims.get(key)
    if claim is None:
        if is_new:
            missing = claim_not_found_text(use.claim_name)
            raise StatusError(unresolvable(f"looking up PVC {key}: {missing}"))
        return None
    problem = not_owner_text(pod, claim) if use.is_ephemeral else None
    if problem is not None:
        raise StatusError(error(problem))
    return claim


def _inline_handle(volume: Volume, namespace: str, has_csi_node: bool) -> tuple[str, str] | None:
    plugin = plugin_of_inline(volume)
    if plugin is None or not _is_migrated(plugin, has_csi_node):
        return None
    try:
        translated = plugin.translate_inline(volume, namespace)
    except ValueError as problem:
        text = f"converting volume({volume.name}) from inline to csi: {problem}"
        raise StatusError(error(text)) from problem
    return translated.driver, translated.volume_handle


def _claim_handle(
    claim: PersistentVolumeClaim, objects: ObjectStores, has_csi_node: bool
) -> tuple[str, str] | None:
    # Parity: csi.go getCSIDriverInfo, v1.36. A claim whose volume is not there yet counts by class.
    volume = objects.persistent_volumes.get(claim.spec.volume_name)
    if volume is None:
        driver = _driver_of_class(claim, objects, has_csi_node)
        handle = f"{_UNBOUND_PREFIX}-{claim.metadata.namespace}/{claim.metadata.name}"
    else:
        driver, handle = _volume_handle(volume, has_csi_node)
    return (driver, handle) if driver and handle else None


def _volume_handle(volume: PersistentVolume, has_csi_node: bool) -> tuple[str, str]:
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    plugin = plugin_of_volume(volume)
    if plugin is None or not _is_migrated(plugin, has_csi_node):
        return "", ""
    try:
        translated = plugin.translate(volume)
    except ValueError:
        # Parity: csi.go getCSIDriverInfo, v1.36: what cannot be translated is not counted.
        return "", ""
    return translated.driver, translated.volume_handle


def _driver_of_class(
    claim: PersistentVolumeClaim, objects: ObjectStores, has_csi_node: bool
) -> str:
    storage_class = objects.storage_classes.get(class_of_claim(claim))
    if storage_class is None:
        return ""
    plugin = plugin_named(storage_class.provisioner)
    if plugin is None:
        return storage_class.provisioner
    return plugin.driver if _is_migrated(plugin, has_csi_node) else ""


def _is_migrated(plugin: InTreePlugin, has_csi_node: bool) -> bool:
    # Parity: nodevolumelimits/utils.go isCSIMigrationOn, v1.36: any CSINode will do here, whatever
    # its annotation of migrated plugins says.
    return has_csi_node and plugin.name in MIGRATED_PLUGIN_NAMES


def _may_be_attached(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or plugin_of_inline(volume) is not None
    )


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
    frees = had_node and any(map(_may_be_attached, old.shape.volumes))
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
