"""VolumeRestrictions: disks that two pods cannot share.

Owns the conflicts of in-line disks on a node, and the one pod a ReadWriteOncePod claim may have.
Never counts volumes: NodeVolumeLimits does.
Upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.pod_columns import PodColumns
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, LiveUsage, NodeTable
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
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.pod_info import PodInfo, PodShape
from kubesched.objects.pod import Volume
from kubesched.objects.storage import PersistentVolumeClaim
from kubesched.objects.volumes import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    RBDVolumeSource,
)
from kubesched.plugins.pod_volumes import claim_not_found_text, named_claims, sign_volumes

REASON_DISK_CONFLICT: Final = "node(s) had no available disk"
REASON_READ_WRITE_ONCE_POD_CONFLICT: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)

_STATE_KEY: Final = "PreFilterVolumeRestrictions"
_NO_STATE: Final = f'cannot read "{_STATE_KEY}" from cycleState'
_READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
# More changes than these, and who uses a claim is looked up among all pods.
_CHANGES_MAX: Final = 64
_CLAIM_USERS_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class _State:
    claims: frozenset[str]
    """Names of the pod's claims that one pod alone may use."""
    reference_count: int
    """How many of them pods of the cluster use."""
    deltas: IntColumn | None = None
    """Per node of a trial, what added and removed pods change."""


class _ShapeIndex:
    """Which shapes of bound pods name a claim, and which hold disks; follows the list of shapes."""

    def __init__(self) -> None:
        self._shapes: list[PodShape] = []
        self._known = 0
        self._by_claim: dict[str, list[int]] = {}
        self._with_disks: list[int] = []

    def _follow(self, pods: PodColumns) -> None:
        if pods.shapes is not self._shapes:
            # Another cluster, or its shapes were numbered anew.
            self._shapes, self._known, self._by_claim, self._with_disks = pods.shapes, 0, {}, []
        for place in range(self._known, len(pods.shapes)):
            shape = pods.shapes[place]
            for claim in named_claims(shape):
                self._by_claim.setdefault(f"{shape.namespace}/{claim}", []).append(place)
            if any(map(_is_restricted, shape.volumes)):
                self._with_disks.append(place)
        self._known = len(pods.shapes)

    def naming(self, pods: PodColumns, claim_key: str) -> list[int]:
        """Return the ids of the shapes that name a claim."""
        self._follow(pods)
        return self._by_claim.get(claim_key, [])

    def conflicting(self, pods: PodColumns, shape: PodShape) -> list[int]:
        """Return the ids of the shapes whose pods cannot be on one node with the given one's."""
        self._follow(pods)
        return [place for place in self._with_disks if _shapes_conflict(shape, pods.shapes[place])]


class _ClaimUsers:
    """The rows with pods that use one claim; follows the changes."""

    __slots__ = ("_rows", "_seen")

    def __init__(self) -> None:
        self._rows: set[int] = set()
        self._seen = -1

    def are_any(self, view: ClusterView, shapes: Sequence[int]) -> bool:
        """Return whether a pod of the given shapes is on a node."""
        changes = view.changes_since(self._seen) if self._seen >= 0 else None
        if changes is None or len(changes) > _CHANGES_MAX:
            self._rows = set(_rows_of(view, shapes).tolist())
        else:
            shape_of = view.pods.shape
            for row in dict.fromkeys(change.row for change in changes):
                if any(shape_of.item(index) in shapes for index in view.pods_on(row)):
                    self._rows.add(row)
                else:
                    self._rows.discard(row)
        self._seen = view.stamp
        # Pods that wait on a node which is gone are not in upstream's snapshot.
        return any(view.row_of(view.name_of(row)) == row for row in self._rows)


class VolumeRestrictions:
    """Refuses nodes whose pods hold a disk the pod cannot share."""

    name = "VolumeRestrictions"
    same_for_family = True

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle
        self._shapes = _ShapeIndex()

    def reads(self, pod: PodInfo) -> Reads | None:
        """Return that a pod without disks and claims of its own is nothing to this plugin."""
        if not pod.shape.volumes:
            return READS_NOTHING
        if any(map(_is_restricted, pod.shape.volumes)):
            return None
        claims = self._handle.snapshot.objects.persistent_volume_claims
        for name in named_claims(pod.shape):
            claim = claims.get(f"{pod.namespace}/{name}")
            if claim is None or _READ_WRITE_ONCE_POD in claim.spec.access_modes:
                return None
        return Reads(objects=("persistent_volume_claims",))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Find the pod's ReadWriteOncePod claims and count those that are in use."""
        view = nodes.view
        claims = set()
        for name in named_claims(pod.shape):
            claim = view.objects.persistent_volume_claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                return unresolvable(claim_not_found_text(name))
            if _READ_WRITE_ONCE_POD in claim.spec.access_modes:
                claims.add(name)
        used = sum(self._is_used(view, f"{pod.namespace}/{name}") for name in sorted(claims))
        if used == 0 and not any(map(_is_restricted, pod.shape.volumes)):
            return SKIP
        state.write(_STATE_KEY, _State(frozenset(claims), used))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Refuse nodes with a disk conflict, then all whose claims are taken."""
        disks = Rejected(self._disk_conflicts(pod, nodes), unschedulable(REASON_DISK_CONFLICT))
        found: _State | None = state.get(_STATE_KEY)
        if found is None:
            return [disks, Rejected(np.ones(len(nodes), dtype=np.bool_), error(_NO_STATE))]
        counts = np.full(len(nodes), found.reference_count, dtype=np.int64)
        if found.deltas is not None:
            counts += found.deltas
        return [
            disks,
            Rejected(counts > 0, unschedulable(REASON_READ_WRITE_ONCE_POD_CONFLICT)),
        ]

    def add_pods(
        self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Count the claims of a supposed pod on each node."""
        return _count(state, added, 1)

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Stop counting the claims of a pod supposed gone from each node."""
        return _count(state, removed, -1)

    def sign_pod(self, pod: PodInfo) -> list[SignFragment]:
        """Return what of the pod decides here: its volumes."""
        return sign_volumes(pod)

    def events_to_register(self) -> list[EventRegistration]:
        """Return the events that may let a refused pod fit."""
        return [
            EventRegistration(
                ClusterEvent(EventResource.POD, ActionType.DELETE),
                _after_pod_deleted,
                reads="shape",
            ),
            EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            EventRegistration(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
                _after_claim_added,
                reads="shape",
            ),
        ]

    def _is_used(self, view: ClusterView, claim_key: str) -> bool:
        shapes = self._shapes.naming(view.pods, claim_key)
        if not shapes:
            return False
        counters, key = view.counters, (self, claim_key)
        users: _ClaimUsers | None = counters.kept(key)
        if users is None:
            users = _ClaimUsers()
            counters.keep(key, users, _CLAIM_USERS_BYTES)
        return users.are_any(view, shapes)

    def _disk_conflicts(self, pod: PodInfo, nodes: NodeTable) -> BoolColumn:
        conflicts = np.zeros(len(nodes), dtype=np.bool_)
        if not any(map(_is_restricted, pod.shape.volumes)):
            return conflicts
        view = nodes.view
        shapes = self._shapes.conflicting(view.pods, pod.shape)
        if not shapes:
            return conflicts
        if isinstance(nodes.usage, LiveUsage):
            return np.isin(nodes.rows, _rows_of(view, shapes))
        wanted = frozenset(shapes)
        for position in range(len(nodes)):
            indices = nodes.usage.pods_on(position)
            conflicts[position] = any(int(view.pods.shape[index]) in wanted for index in indices)
        return conflicts


def _rows_of(view: ClusterView, shapes: Sequence[int]) -> IntColumn:
    """Return the row of every counted pod of some shapes."""
    pods, count = view.pods, view.pods.count
    chosen = pods.counted[:count] & np.isin(pods.shape[:count], shapes)
    return pods.row[:count][chosen].astype(np.int64)


def _count(state: CycleState, pods: PodRows, sign: int) -> Status | None:
    found: _State | None = state.get(_STATE_KEY)
    if found is None:
        return error(_NO_STATE)
    deltas = np.zeros(len(pods), dtype=np.int64) if found.deltas is None else found.deltas.copy()
    for position in np.flatnonzero(pods.present).tolist():
        pod = pods[position]
        assert pod is not None, "the position is one where a pod is present"
        # Parity: volume_restrictions.go conflictingPVCRefCountForPod, v1.36: by name alone,
        # whatever the namespace.
        deltas[position] += sign * sum(name in found.claims for name in named_claims(pod.shape))
    state.write(_STATE_KEY, replace(found, deltas=deltas))
    return None


def _is_restricted(volume: Volume) -> bool:
    sources = (
        volume.gce_persistent_disk,
        volume.aws_elastic_block_store,
        volume.rbd,
        volume.iscsi,
    )
    return any(source is not None for source in sources)


def _shapes_conflict(ours: PodShape, theirs: PodShape) -> bool:
    return any(
        _conflict(volume, existing)
        for volume in ours.volumes
        if _is_restricted(volume)
        for existing in theirs.volumes
    )


def _conflict(ours: Volume, theirs: Volume) -> bool:
    # Parity: volume_restrictions.go isVolumeConflict, v1.36.
    return (
        _gce_conflict(ours.gce_persistent_disk, theirs.gce_persistent_disk)
        or _ebs_conflict(ours.aws_elastic_block_store, theirs.aws_elastic_block_store)
        or _iscsi_conflict(ours.iscsi, theirs.iscsi)
        or _rbd_conflict(ours.rbd, theirs.rbd)
    )


def _gce_conflict(
    ours: GCEPersistentDiskVolumeSource | None, theirs: GCEPersistentDiskVolumeSource | None
) -> bool:
    if ours is None or theirs is None:
        return False
    return ours.pd_name == theirs.pd_name and not (ours.read_only and theirs.read_only)


def _ebs_conflict(
    ours: AWSElasticBlockStoreVolumeSource | None, theirs: AWSElasticBlockStoreVolumeSource | None
) -> bool:
    return ours is not None and theirs is not None and ours.volume_id == theirs.volume_id


def _iscsi_conflict(ours: ISCSIVolumeSource | None, theirs: ISCSIVolumeSource | None) -> bool:
    if ours is None or theirs is None:
        return False
    return ours.iqn == theirs.iqn and not (ours.read_only and theirs.read_only)


def _rbd_conflict(ours: RBDVolumeSource | None, theirs: RBDVolumeSource | None) -> bool:
    if ours is None or theirs is None or (ours.read_only and theirs.read_only):
        return False
    same_image = (ours.pool, ours.image) == (theirs.pool, theirs.image)
    return same_image and not set(ours.monitors).isdisjoint(theirs.monitors)


def _after_pod_deleted(pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    if old.namespace != pod.namespace:
        return QueueingHint.QUEUE_SKIP
    shared = not set(named_claims(pod.shape)).isdisjoint(named_claims(old.shape))
    if shared or _shapes_conflict(pod.shape, old.shape):
        return QueueingHint.QUEUE
    return QueueingHint.QUEUE_SKIP


def _after_claim_added(
    pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> QueueingHint:
    ours = new.metadata.namespace == pod.namespace and new.metadata.name in named_claims(pod.shape)
    return QueueingHint.QUEUE if ours else QueueingHint.QUEUE_SKIP
