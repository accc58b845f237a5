"""NodeVolumeLimits: a node attaches only so many volumes of a driver.

Owns counting the distinct volumes of a node's pods and attachments against what its drivers tell in
CSINode. Never looks at where a volume can be reached from: VolumeBinding does.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
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
# Above every limit a CSINode can tell, which has 32 bits.
_NO_LIMIT: Final = 2**32

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


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Distinct volumes on nodes, as pairs of a node's position and a volume's id."""

    node_count: int
    positions: IntColumn
    volumes: IntColumn


@dataclass(frozen=True, slots=True)
class _Held:
    """What is attached to some nodes: by their pods, and beyond that by attachments."""

    by_pods: _Pairs
    by_attachments: _Pairs
    failed: Mapping[str, BoolColumn]
    """Where a pod's volumes cannot be resolved, by why not."""


class _AttachedVolumes:
    """The volumes of pods and attachments, resolved once as long as their objects stand."""

    def __init__(self) -> None:
        self._epochs: tuple[object, ...] = ()
        self._forget()

    def _forget(self) -> None:
        self._ids: dict[str, int] = {}
        self._drivers: list[str] = []
        self._known_shapes = 0
        # Volume ids of all shapes in a row, and where those of each shape start.
        self._flat: IntColumn = np.zeros(0, dtype=np.int64)
        self._starts: IntColumn = np.zeros(1, dtype=np.int64)
        self._texts: dict[int, str] = {}
        self._singly: set[int] = set()
        self._attachments: dict[str, list[int]] = {}

    def follow(self, view: ClusterView) -> None:
        """Drop what other objects than today's told, and resolve shapes that are new."""
        objects = view.objects
        epochs = (
            view.pods,
            objects.persistent_volume_claims.epoch,
            objects.persistent_volumes.epoch,
            objects.storage_classes.epoch,
            objects.volume_attachments.epoch,
        )
        if epochs != self._epochs:
            self._forget()
            self._epochs = epochs
            for node_name, volumes in _attachments_by_node(objects).items():
                self._attachments[node_name] = self._ids_of(volumes)
        shapes = view.pods.shapes
        if self._known_shapes == len(shapes):
            return
        found = [
            self._resolve_shape(place, shapes[place], objects)
            for place in range(self._known_shapes, len(shapes))
        ]
        ends = self._starts[-1] + np.cumsum([len(ids) for ids in found], dtype=np.int64)
        self._starts = np.append(self._starts, ends)
        flat = np.array([one for ids in found for one in ids], dtype=np.int64)
        self._flat = np.append(self._flat, flat)
        self._known_shapes = len(shapes)

    def _resolve_shape(self, place: int, shape: PodShape, objects: ObjectStores) -> list[int]:
        if any(volume.ephemeral is not None for volume in shape.volumes):
            # Such claims are named after the pod.
            self._singly.add(place)
            return []
        volumes = _resolve_or_text(_AnyPodOf(shape), objects)
        if isinstance(volumes, str):
            self._texts[place] = volumes
            return []
        return self._ids_of(volumes)

    def _ids_of(self, volumes: Volumes) -> list[int]:
        for name, driver in volumes.items():
            if name not in self._ids:
                self._ids[name] = len(self._drivers)
                self._drivers.append(driver)
        return [self._ids[name] for name in volumes]

    def held_on(self, nodes: NodeTable) -> _Held:
        """Return the distinct volumes on each node; `follow` comes first."""
        indices, positions = _pods_on(nodes)
        shapes = nodes.view.pods.shape[indices].astype(np.int64)
        failed: dict[str, BoolColumn] = {}

        def fail(text: str, where: IntColumn) -> None:
            mask = failed.setdefault(text, np.zeros(len(nodes), dtype=np.bool_))
            mask[where] = True

        for place, text in self._texts.items():
            if (where := positions[shapes == place]).size:
                fail(text, where)
        lengths = self._starts[shapes + 1] - self._starts[shapes]
        owner = np.repeat(np.arange(len(shapes)), lengths)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        volumes = [self._flat[self._starts[shapes[owner]] + within]]
        places = [positions[owner]]
        alone = np.isin(shapes, list(self._singly)) if self._singly else shapes < 0
        for one in np.flatnonzero(alone).tolist():
            pod = nodes.view.bound_pod(int(indices[one]))
            resolved = _resolve_or_text(pod, nodes.view.objects)
            if isinstance(resolved, str):
                fail(resolved, positions[one : one + 1])
                continue
            ids = np.array(self._ids_of(resolved), dtype=np.int64)
            volumes.append(ids)
            places.append(np.full(len(ids), positions[one]))
        by_pods = self._distinct(len(nodes), np.concatenate(places), np.concatenate(volumes))
        return _Held(by_pods, self._attachments_on(nodes, by_pods), failed)

    def _attachments_on(self, nodes: NodeTable, by_pods: _Pairs) -> _Pairs:
        found = [
            (position, volume)
            for position, name in enumerate(nodes.names if self._attachments else ())
            for volume in self._attachments.get(name, ())
        ]
        positions, volumes = np.array(found, dtype=np.int64).reshape(-1, 2).T
        if not found:
            return _Pairs(len(nodes), positions, volumes)
        size = len(self._drivers)
        known = by_pods.positions * size + by_pods.volumes
        fresh = ~np.isin(positions * size + volumes, known)
        return self._distinct(len(nodes), positions[fresh], volumes[fresh])

    def _distinct(self, node_count: int, positions: IntColumn, volumes: IntColumn) -> _Pairs:
        size = max(len(self._drivers), 1)
        pairs = np.sort(positions * size + volumes)
        # np.unique hashes integers, which takes ten times as long here.
        pairs = pairs[np.flatnonzero(np.diff(pairs, prepend=-1))]
        return _Pairs(node_count, pairs // size, pairs % size)

    def count_of(self, pairs: _Pairs, names: Iterable[str]) -> IntColumn:
        """Return how many of some volumes each node has."""
        ids = [self._ids[name] for name in names if name in self._ids]
        return _counts(pairs, np.isin(pairs.volumes, ids))

    def count_of_driver(self, held: _Held, driver: str) -> IntColumn:
        """Return how many volumes of a driver each node has."""
        is_its = np.array([of_driver == driver for of_driver in self._drivers], dtype=np.bool_)
        return sum(
            (
                _counts(pairs, is_its[pairs.volumes])
                for pairs in (held.by_pods, held.by_attachments)
            ),
            start=np.zeros(held.by_pods.node_count, dtype=np.int64),
        )


@dataclass(frozen=True, slots=True)
class _AnyPodOf:
    """A pod of a shape; its own names do not matter where no volume is ephemeral."""

    shape: PodShape
    name: str = ""
    uid: str = ""

    @property
    def namespace(self) -> str:
        return self.shape.namespace


def _counts(pairs: _Pairs, chosen: BoolColumn) -> IntColumn:
    counts = np.bincount(pairs.positions[chosen], minlength=pairs.node_count)
    return counts.astype(np.int64)


def _pods_on(nodes: NodeTable) -> tuple[IntColumn, IntColumn]:
    """Return the index of every pod on some nodes, and the position of its node."""
    if isinstance(nodes.usage, LiveUsage):
        pods, count = nodes.view.pods, nodes.view.pods.count
        position_of = np.full(nodes.view.row_count, -1, dtype=np.int64)
        position_of[nodes.rows] = np.arange(len(nodes))
        indices = np.flatnonzero(pods.counted[:count])
        positions = position_of[pods.row[indices]]
        return indices[positions >= 0], positions[positions >= 0]
    on_each = [nodes.usage.pods_on(position) for position in range(len(nodes))]
    indices = np.array([index for on_one in on_each for index in on_one], dtype=np.int64)
    return indices, np.repeat(np.arange(len(nodes)), [len(on_one) for on_one in on_each])


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
