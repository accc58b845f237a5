"""VolumeRestrictions: rejects nodes with disks that two pods cannot share.

Also lets only one pod use a ReadWriteOncePod claim.
Upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from kubesched.api.storage import PersistentVolumeClaim
from kubesched.api.volumes import (
    RBDVolumeSource,
    Volume,
)
from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    READS_NOTHING,
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
)
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.pod_volumes import (
    CLAIM,
    after_named_claim_event,
    named_claims,
    not_found_text,
    volume_changes,
)
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_columns import PodColumns
from kubesched.snapshot.pod_info import PodInfo, PodShape
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, LiveUsage, NodeTable

REASON_DISK_CONFLICT: Final = "node(s) had no available disk"
REASON_READ_WRITE_ONCE_POD_CONFLICT: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)

_STATE_KEY: Final = "PreFilterVolumeRestrictions"
_NO_STATE: Final = f'cannot read "{_STATE_KEY}" from cycleState'
_READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class _State:
    claims: frozenset[str]
    """Names of the pod's ReadWriteOncePod claims."""
    reference_count: int
    """How many of them are in use."""
    deltas: IntColumn | None = None
    """The changes by added and removed pods, per node of a trial."""


class _ShapeIndex:
    """The shapes of bound pods that name a claim, and those with disks; updated with new shapes."""

    def __init__(self) -> None:
        self._shapes: list[PodShape] = []
        self._known = 0
        self._by_claim: dict[str, list[int]] = {}
        self._with_disks: list[int] = []

    def _follow(self, pods: PodColumns) -> None:
        if pods.shapes is not self._shapes:
            # Another cluster, or its shapes were renumbered.
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
        """Return the ids of the shapes whose pods cannot share a node with pods of this shape."""
        self._follow(pods)
        return [place for place in self._with_disks if _shapes_conflict(shape, pods.shapes[place])]


class VolumeRestrictions:
    """Rejects nodes whose pods hold a disk the pod cannot share."""

    name = "VolumeRestrictions"

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._shapes = _ShapeIndex()

    def reads(self, pod: PodInfo) -> Reads | None:
        """Declare that a pod without disks and claims is skipped."""
        if not pod.shape.volumes:
            return READS_NOTHING
        if any(map(_is_restricted, pod.shape.volumes)):
            return None
        claims = self._handle.snapshot.objects.store_of(PersistentVolumeClaim)
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
            claim = view.objects.store_of(PersistentVolumeClaim).get(f"{pod.namespace}/{name}")
            if claim is None:
                return unresolvable(not_found_text(CLAIM, name))
            if _READ_WRITE_ONCE_POD in claim.spec.access_modes:
                claims.add(name)
        used = sum(self._is_used(view, f"{pod.namespace}/{name}") for name in sorted(claims))
        if used == 0 and not any(map(_is_restricted, pod.shape.volumes)):
            return SKIP
        state.write(_STATE_KEY, _State(frozenset(claims), used))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Reject nodes with a disk conflict, then all whose claims are taken."""
        disks = Rejected(self._disk_conflicts(pod, nodes), unschedulable(REASON_DISK_CONFLICT))
        claims: _State | None = state.get(_STATE_KEY)
        if claims is None:
            return [disks, Rejected(np.ones(len(nodes), dtype=np.bool_), error(_NO_STATE))]
        counts = np.full(len(nodes), claims.reference_count, dtype=np.int64)
        if claims.deltas is not None:
            counts += claims.deltas
        return [disks, Rejected(counts > 0, unschedulable(REASON_READ_WRITE_ONCE_POD_CONFLICT))]

    def add_pods(
        self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Count the claims of a pod that a trial adds to each node."""
        return _count(state, added, 1)

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> Status | None:
        """Stop counting the claims of a pod that a trial removes from each node."""
        return _count(state, removed, -1)

    def events_to_register(self) -> list[EventRegistration]:
        claims = EventResource.PERSISTENT_VOLUME_CLAIM
        return [
            on(EventResource.POD, ActionType.DELETE, _after_pod_deleted, reads="shape"),
            on(EventResource.NODE, ActionType.ADD),
            on(claims, ActionType.ADD, after_named_claim_event, reads="shape"),
        ]

    def _is_used(self, view: ClusterView, claim_key: str) -> bool:
        shapes = self._shapes.naming(view.pods, claim_key)
        rows = set(_rows_of(view, shapes).tolist()) if shapes else ()
        # Pods on a deleted node are not in upstream's snapshot.
        return any(view.row_of(view.name_of(row)) == row for row in rows)

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
        shape_ids = frozenset(shapes)
        for position in range(len(nodes)):
            indices = nodes.usage.pods_on(position)
            conflicts[position] = any(int(view.pods.shape[index]) in shape_ids for index in indices)
        return conflicts


def _rows_of(view: ClusterView, shapes: Sequence[int]) -> IntColumn:
    """Return the row of every counted pod of some shapes."""
    pods, count = view.pods, view.pods.count
    chosen = pods.counted[:count] & np.isin(pods.shape[:count], shapes)
    return pods.row[:count][chosen].astype(np.int64)


def _count(state: CycleState, pods: PodRows, sign: int) -> Status | None:
    claims: _State | None = state.get(_STATE_KEY)
    if claims is None:
        return error(_NO_STATE)
    deltas = np.zeros(len(pods), dtype=np.int64) if claims.deltas is None else claims.deltas.copy()
    for position in np.flatnonzero(pods.present).tolist():
        pod = pods[position]
        assert pod is not None, "the position is one where a pod is present"
        # Parity: volume_restrictions.go conflictingPVCRefCountForPod, v1.36: by name alone,
        # whatever the namespace.
        deltas[position] += sign * sum(name in claims.claims for name in named_claims(pod.shape))
    state.write(_STATE_KEY, replace(claims, deltas=deltas))
    return None


def _is_same_rbd(ours: RBDVolumeSource, theirs: RBDVolumeSource) -> bool:
    same_image = (ours.pool, ours.image) == (theirs.pool, theirs.image)
    return same_image and not set(ours.monitors).isdisjoint(theirs.monitors)


_EBS: Final = "aws_elastic_block_store"
_SAME_DISK: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gce_persistent_disk": lambda ours, theirs: ours.pd_name == theirs.pd_name,
    _EBS: lambda ours, theirs: ours.volume_id == theirs.volume_id,
    "iscsi": lambda ours, theirs: ours.iqn == theirs.iqn,
    "rbd": _is_same_rbd,
}
"""By field of a volume: whether two of its sources are one disk."""


def _is_restricted(volume: Volume) -> bool:
    return any(getattr(volume, source) is not None for source in _SAME_DISK)


def _shapes_conflict(ours: PodShape, theirs: PodShape) -> bool:
    return any(
        _conflict(volume, existing)
        for volume in ours.volumes
        if _is_restricted(volume)
        for existing in theirs.volumes
    )


def _conflict(ours: Volume, theirs: Volume) -> bool:
    # Parity: volume_restrictions.go isVolumeConflict, v1.36.
    for source, is_same in _SAME_DISK.items():
        own, other = getattr(ours, source), getattr(theirs, source)
        if own is None or other is None or not is_same(own, other):
            continue
        # Pods may share a disk that all of them only read, unless it is an EBS volume.
        if source == _EBS or not (own.read_only and other.read_only):
            return True
    return False


def _after_pod_deleted(pod: PodInfo, old: PodInfo, _new: None) -> QueueingHint:
    shares_claim = not set(named_claims(pod.shape)).isdisjoint(named_claims(old.shape))
    conflicted = shares_claim or _shapes_conflict(pod.shape, old.shape)
    return queue_if(old.namespace == pod.namespace and conflicted)


PLUGIN = InTreePlugin(
    plugin=VolumeRestrictions,
    watches=(PersistentVolumeClaim,),
    pod_changes=volume_changes,
    has_shared_changes=True,
)
