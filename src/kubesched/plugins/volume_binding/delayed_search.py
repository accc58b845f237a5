"""Upstream's claim-by-claim choice of volumes, once for each group of nodes alike.

Owns the masks that tell nodes apart for delayed claims, and the choice within a group. Never knows
a bound claim, and assumes nothing.
Upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go findMatchingVolumes,
checkVolumeProvisions
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn
from kubesched.columns.view import NodeTable
from kubesched.objects.affinity import NodeSelector
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.plugins.pod_volumes import class_of_claim
from kubesched.plugins.volume_binding.hints import volume_limit
from kubesched.plugins.volume_binding.masks import (
    allowed_topologies_mask,
    node_affinity_mask,
    node_topology_mask,
)
from kubesched.plugins.volume_binding.matching import Candidates, requested_by, requests_storage

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ALWAYS: Final = 0


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """A pod's claims by what must still happen to them."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    unbound_delayed: tuple[PersistentVolumeClaim, ...] = ()
    unbound_immediate: tuple[PersistentVolumeClaim, ...] = ()
    volumes_by_class: Mapping[str, Sequence[PersistentVolume]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """What is to be bound and provisioned for a pod on some nodes."""

    static_bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    dynamic_provisions: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on delayed claims for all nodes of one group."""

    volumes: PodVolumes = PodVolumes()
    bind_conflict: bool = False
    not_enough_space: bool = False
    error: str = ""


class _Masks:
    """Distinct masks by number; number 0 holds everywhere."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._places: dict[Hashable, int] = {None: _ALWAYS}
        self._columns: list[BoolColumn] = [np.ones(len(nodes), dtype=np.bool_)]

    def place_of(self, key: Hashable, make: Callable[[], BoolColumn]) -> int:
        """Return the number of a mask, made when its key is new."""
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = len(self._columns)
            self._columns.append(make())
        return place

    def place_of_affinity(self, required: NodeSelector | None) -> int:
        """Return the number of the mask of a volume's node affinity."""
        if required is None:
            return _ALWAYS
        return self.place_of(required, lambda: node_affinity_mask(self._nodes, required))

    def groups(self) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return the distinct patterns over all masks, and which one each node has."""
        if len(self._columns) == 1:
            return np.ones((1, 1), dtype=np.bool_), np.zeros(len(self._nodes), dtype=np.int64)
        table = np.stack(self._columns)
        packed = np.ascontiguousarray(np.packbits(table, axis=0).T)
        # By a dictionary of bytes: sorting wide rows, as np.unique does, takes ten times as long.
        keys: list[bytes] = packed.view(f"V{packed.shape[1]}").reshape(-1).tolist()
        first: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            first.setdefault(key, position)
        numbers = {key: number for number, key in enumerate(first)}
        group = np.array([numbers[key] for key in keys], dtype=np.int64)
        return np.ascontiguousarray(table[:, list(first.values())].T), group


@dataclass(frozen=True, slots=True)
class _Provision:
    """Whether a claim's volume can be made, and the masks that say where."""

    error: str = ""
    is_provisioned: bool = False
    topology: int = _ALWAYS
    capacity: int = _ALWAYS


class DelayedSearch:
    """Upstream's claim-by-claim choice, once for each group of nodes that no mask tells apart."""

    def __init__(self, claims: PodVolumeClaims, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._masks = _Masks(nodes)
        self._selected = [c for c in claims.unbound_delayed if is_selected(c)]
        open_claims = [c for c in claims.unbound_delayed if not is_selected(c)]
        self._candidates = [
            Candidates(
                claim,
                claims.volumes_by_class[class_of_claim(claim)],
                self._masks.place_of_affinity,
            )
            for claim in sorted(open_claims, key=requested_by)
        ]
        self._provisions = {claim.key: self._provision(claim) for claim in claims.unbound_delayed}

    def run(self) -> tuple[list[Outcome], NDArray[np.int64]]:
        """Return the outcome of each group, and the group of each node."""
        patterns, group = self._masks.groups()
        return [self._outcome(holds) for holds in patterns], group

    def _outcome(self, holds: NDArray[np.bool_]) -> Outcome:
        # Parity: binder.go findMatchingVolumes, v1.36: smallest claims first.
        chosen: dict[str, tuple[PersistentVolumeClaim, PersistentVolume]] = {}
        to_provision = list(self._selected)
        for candidates in self._candidates:
            volume = candidates.choose(holds, chosen)
            if volume is None:
                to_provision.append(candidates.claim)
            else:
                chosen[volume.metadata.name] = (candidates.claim, volume)
        # Parity: binder.go checkVolumeProvisions, v1.36: the first claim in the way tells why.
        for claim in to_provision:
            provision = self._provisions[claim.key]
            if provision.error:
                return Outcome(error=provision.error)
            if not (provision.is_provisioned and holds[provision.topology]):
                return Outcome(bind_conflict=True)
            if not holds[provision.capacity]:
                return Outcome(not_enough_space=True)
        return Outcome(PodVolumes(tuple(chosen.values()), tuple(to_provision)))

    def _provision(self, claim: PersistentVolumeClaim) -> _Provision:
        class_name = class_of_claim(claim)
        if not class_name:
            return _Provision(error=f'no class for claim "{claim.key}"')
        storage_class = self._nodes.view.objects.storage_classes.get(class_name)
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
        return self._masks.place_of(terms, lambda: allowed_topologies_mask(self._nodes, terms))

    def _place_of_capacity(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> int:
        # Parity: binder.go hasEnoughCapacity, v1.36.
        objects = self._nodes.view.objects
        driver = objects.csi_drivers.get(storage_class.provisioner)
        if not requests_storage(claim) or driver is None or not driver.spec.storage_capacity:
            return _ALWAYS
        class_name, size_bytes = storage_class.metadata.name, requested_by(claim).value()

        def enough() -> BoolColumn:
            mask = np.zeros(len(self._nodes), dtype=np.bool_)
            for capacity in objects.csi_storage_capacities:
                limit = volume_limit(capacity)
                if (
                    capacity.storage_class_name == class_name
                    and limit is not None
                    and limit.value() >= size_bytes
                ):
                    mask |= node_topology_mask(self._nodes, capacity.node_topology)
            return mask

        return self._masks.place_of((class_name, size_bytes), enough)


def is_selected(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a node was already chosen to make the claim's volume for."""
    return SELECTED_NODE in claim.metadata.annotations
