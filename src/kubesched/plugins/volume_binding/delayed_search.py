"""Upstream's claim-by-claim choice of volumes, once for each group of equal nodes.

Nodes are equal if the same masks hold for them.
Upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go findMatchingVolumes,
checkVolumeProvisions
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kubesched.plugins.pod_volumes import class_of_claim
from kubesched.plugins.volume_binding.hints import volume_limit
from kubesched.plugins.volume_binding.masks import (
    AffinityRows,
    allowed_topologies_mask,
    node_topology_mask,
)
from kubesched.plugins.volume_binding.matching import (
    Candidates,
    ClassVolumes,
    requested_by,
    requests_storage,
)
from kubesched.plugins.volume_binding.volume_index import ANYWHERE, VolumeIndex
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.view import NodeTable

REASONS: Final = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
"""Why VolumeBinding rejects a node, in upstream's order."""
(
    REASON_NODE_CONFLICT,
    REASON_BIND_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_VOLUME_NOT_EXIST,
) = REASONS
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ALWAYS: Final = 0
# A mask that holds for more nodes than these is kept as a column.
_FEW: Final = 64


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """A pod's claims by state: bound, to be bound at once, or delayed."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    unbound_delayed: tuple[PersistentVolumeClaim, ...] = ()
    unbound_immediate: tuple[PersistentVolumeClaim, ...] = ()
    volumes_by_class: Mapping[str, ClassVolumes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """The volumes to bind and to provision for a pod on some nodes."""

    static_bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    dynamic_provisions: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on delayed claims for all nodes of one group."""

    volumes: PodVolumes = PodVolumes()
    conflict: str = ""
    """The reason if some claim cannot get a volume."""
    error: str = ""


class _Masks:
    """Distinct masks over nodes by number; number 0 holds everywhere.

    One that holds for few nodes is kept as their positions: local volumes make thousands of these.
    """

    def __init__(self, nodes: NodeTable, affinities: AffinityRows) -> None:
        self._nodes = nodes
        self._affinities = affinities
        self._places: dict[Hashable, int] = {ANYWHERE: _ALWAYS}
        self._columns: dict[int, BoolColumn] = {}
        self._masks_at: dict[int, list[int]] = {}
        self._position_of: list[int] | None = None

    def mask_number(self, key: Hashable, make: Callable[[], BoolColumn]) -> int:
        """Return the number of a mask, made when its key is new."""
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._places)
            self._columns[place] = make()
        return place

    def affinity_mask_number(self, affinity: int) -> int:
        """Return the number of the mask of a volume's node affinity."""
        place = self._places.get(affinity)
        if place is None:
            place = self._places[affinity] = len(self._places)
            self._hold_at(place, self._affinities.rows(self._nodes.view, affinity))
        return place

    def _hold_at(self, place: int, rows: list[int]) -> None:
        if self._position_of is None:
            position_of = np.full(self._nodes.view.row_count, -1, dtype=np.int64)
            position_of[self._nodes.rows] = np.arange(len(self._nodes))
            self._position_of = position_of.tolist()
        by_row = self._position_of
        positions = [position for row in rows if (position := by_row[row]) >= 0]
        if len(positions) > _FEW:
            column = self._columns[place] = np.zeros(len(self._nodes), dtype=np.bool_)
            column[positions] = True
            return
        for position in positions:
            self._masks_at.setdefault(position, []).append(place)

    def groups(self) -> tuple[list[frozenset[int]], NDArray[np.int64]]:
        """Return the masks that hold in each group of equal nodes, and each node's group."""
        patterns, group = self._groups_of_columns()
        holding = [frozenset((_ALWAYS, *pattern)) for pattern in patterns]
        numbers: dict[tuple[int, ...], int] = {}
        for position, masks in self._masks_at.items():
            coarse = group.item(position)
            key = (coarse, *masks)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(holding)
                holding.append(holding[coarse].union(masks))
            group[position] = number
        return holding, group

    def _groups_of_columns(self) -> tuple[list[list[int]], NDArray[np.int64]]:
        if not self._columns:
            return [[]], np.zeros(len(self._nodes), dtype=np.int64)
        places, table = list(self._columns), np.stack(list(self._columns.values()))
        packed = np.ascontiguousarray(np.packbits(table, axis=0).T)
        # By a dictionary of bytes: sorting wide rows, as np.unique does, takes ten times as long.
        keys: list[bytes] = packed.view(f"V{packed.shape[1]}").reshape(-1).tolist()
        first: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            first.setdefault(key, position)
        numbers = {key: number for number, key in enumerate(first)}
        group = np.array([numbers[key] for key in keys], dtype=np.int64)
        patterns = [
            [places[n] for n in np.flatnonzero(table[:, position]).tolist()]
            for position in first.values()
        ]
        return patterns, group


@dataclass(frozen=True, slots=True)
class _Provision:
    """Whether a claim's volume can be provisioned, and the masks of the nodes."""

    error: str = ""
    is_provisioned: bool = False
    topology: int = _ALWAYS
    capacity: int = _ALWAYS


class DelayedSearch:
    """Upstream's claim-by-claim choice, once for each group of nodes with the same masks."""

    def __init__(
        self,
        claims: PodVolumeClaims,
        nodes: NodeTable,
        index: VolumeIndex,
        affinities: AffinityRows,
    ) -> None:
        self._nodes = nodes
        self._masks = _Masks(nodes, affinities)
        self._selected = [c for c in claims.unbound_delayed if is_selected(c)]
        open_claims = [c for c in claims.unbound_delayed if not is_selected(c)]
        self._candidates = [
            Candidates(
                claim,
                claims.volumes_by_class[class_of_claim(claim)],
                index,
                self._masks.affinity_mask_number,
            )
            for claim in sorted(open_claims, key=requested_by)
        ]
        self._provisions = {claim.key: self._provision(claim) for claim in claims.unbound_delayed}

    def run(self) -> tuple[list[Outcome], NDArray[np.int64]]:
        """Return the outcome of each group, and the group of each node."""
        holding, group = self._masks.groups()
        return [self._outcome(holds) for holds in holding], group

    def _outcome(self, holds: frozenset[int]) -> Outcome:
        # Parity: binder.go findMatchingVolumes, v1.36: smallest claims first.
        chosen: dict[str, tuple[PersistentVolumeClaim, PersistentVolume]] = {}
        to_provision = list(self._selected)
        for candidates in self._candidates:
            volume = candidates.choose(holds, chosen)
            if volume is None:
                to_provision.append(candidates.claim)
            else:
                chosen[volume.metadata.name] = (candidates.claim, volume)
        # Parity: binder.go checkVolumeProvisions, v1.36: the first claim in the way is the reason.
        for claim in to_provision:
            provision = self._provisions[claim.key]
            if provision.error:
                return Outcome(error=provision.error)
            if not (provision.is_provisioned and provision.topology in holds):
                return Outcome(conflict=REASON_BIND_CONFLICT)
            if provision.capacity not in holds:
                return Outcome(conflict=REASON_NOT_ENOUGH_SPACE)
        return Outcome(PodVolumes(tuple(chosen.values()), tuple(to_provision)))

    def _provision(self, claim: PersistentVolumeClaim) -> _Provision:
        class_name = class_of_claim(claim)
        if not class_name:
            return _Provision(error=f'no class for claim "{claim.key}"')
        storage_class = self._nodes.view.objects.store_of(StorageClass).get(class_name)
        if storage_class is None:
            return _Provision(error=f'failed to find storage class "{class_name}"')
        if storage_class.provisioner in ("", _NO_PROVISIONER):
            return _Provision()
        return _Provision(
            is_provisioned=True,
            topology=self._place_of_topology(storage_class),
            capacity=self._place_of_capacity(claim, storage_class),
        )

    def _place_of_topology(self, storage_class: StorageClass) -> int:
        terms = storage_class.allowed_topologies
        if not terms:
            return _ALWAYS
        return self._masks.mask_number(terms, lambda: allowed_topologies_mask(self._nodes, terms))

    def _place_of_capacity(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> int:
        # Parity: binder.go hasEnoughCapacity, v1.36.
        objects = self._nodes.view.objects
        driver = objects.store_of(CSIDriver).get(storage_class.provisioner)
        if not requests_storage(claim) or driver is None or not driver.spec.storage_capacity:
            return _ALWAYS
        class_name, size_bytes = storage_class.metadata.name, requested_by(claim).value()

        def enough() -> BoolColumn:
            mask = np.zeros(len(self._nodes), dtype=np.bool_)
            for capacity in objects.store_of(CSIStorageCapacity):
                limit = volume_limit(capacity)
                if (
                    capacity.storage_class_name == class_name
                    and limit is not None
                    and limit.value() >= size_bytes
                ):
                    mask |= node_topology_mask(self._nodes, capacity.node_topology)
            return mask

        return self._masks.mask_number((class_name, size_bytes), enough)


def is_selected(claim: PersistentVolumeClaim) -> bool:
    """Return whether a node was already selected for provisioning the claim's volume."""
    return SELECTED_NODE in claim.metadata.annotations
