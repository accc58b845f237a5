"""Persistent volumes by storage class, with cached results that depend only on the volume.

Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go FindMatchingVolume
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.affinity import NodeSelector
from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.api.storage import PersistentVolume
from kubesched.api.wire import QuantityText
from kubesched.plugins.pod_volumes import class_of_volume
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.object_store import ObjectStore

ANYWHERE: Final = 0
"""The number of the node affinity of volumes that have none."""

_STORAGE: Final = "storage"
# How many more node affinities than volumes are kept before unused ones are dropped.
_DEAD_MAX: Final = 1024


class VolumeKind(NamedTuple):
    """The kind of volume that a claim requires."""

    mode: str
    attributes_class: str
    access_modes: frozenset[str]


class _Entry(NamedTuple):
    volume: PersistentVolume
    class_name: str
    capacity: QuantityText
    kind: int
    affinity: int


class VolumePool:
    """The volumes of one class: free ones with the smallest first, others by their claim."""

    def __init__(self, entries: Sequence[_Entry], kinds: Sequence[VolumeKind]) -> None:
        self._kinds = kinds
        self._by_claim: dict[tuple[str, str], list[PersistentVolume]] = {}
        free: list[_Entry] = []
        for entry in entries:
            ref = entry.volume.spec.claim_ref
            if ref is not None:
                self._by_claim.setdefault((ref.namespace, ref.name), []).append(entry.volume)
            elif _is_available(entry.volume):
                free.append(entry)
        self._capacities, ranks = _ranked([entry.capacity for entry in free])
        # Stable, as upstream's: of equal ones the first by name.
        order = np.argsort(ranks, kind="stable")
        self._ranks: IntColumn = ranks[order]
        self.free: list[PersistentVolume] = [free[place].volume for place in order.tolist()]
        """The volumes that are free, as they are stored."""
        self.affinities = _column([entry.affinity for entry in free])[order]
        """The number of each free volume's node affinity."""
        self._free_kinds = _column([entry.kind for entry in free])[order]
        self.place_of = {volume.metadata.name: n for n, volume in enumerate(self.free)}

    def bound_to(self, namespace: str, claim_name: str) -> Sequence[PersistentVolume]:
        """Return the volumes that name a claim, as they are stored."""
        return self._by_claim.get((namespace, claim_name), ())

    def free_for(self, requested: Quantity, suits: Callable[[VolumeKind], bool]) -> BoolColumn:
        """Return which free volumes are large enough and of a suitable kind."""
        by_kind = np.array([suits(kind) for kind in self._kinds], dtype=np.bool_)
        least = bisect_left(self._capacities, requested)
        chosen: BoolColumn = (self._ranks >= least) & by_kind[self._free_kinds]
        return chosen


class VolumeIndex:
    """Pools by class over a store, followed as its objects are replaced."""

    def __init__(self) -> None:
        self._store: ObjectStore[PersistentVolume] | None = None
        self._epoch = -1
        self._forget()

    def _forget(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._by_class: dict[str, list[_Entry]] = {}
        self._pools: dict[str, VolumePool] = {}
        self._kinds: dict[VolumeKind, int] = {}
        self._affinities: dict[NodeSelector | None, int] = {None: ANYWHERE}
        self.affinities: list[NodeSelector | None] = [None]
        """The distinct node affinities by number."""
        self.generation = object()
        """Another one when the numbers of node affinities mean something else."""

    def pool(self, store: ObjectStore[PersistentVolume], class_name: str) -> VolumePool:
        """Return the volumes of a class."""
        self._follow(store)
        pool = self._pools.get(class_name)
        if pool is None:
            entries = self._by_class.get(class_name, ())
            pool = self._pools[class_name] = VolumePool(entries, list(self._kinds))
        return pool

    def affinity_of(self, volume: PersistentVolume) -> int:
        """Return the number of a volume's node affinity."""
        affinity = volume.spec.node_affinity
        required = None if affinity is None else affinity.required
        place = self._affinities.get(required)
        if place is None:
            place = self._affinities[required] = len(self.affinities)
            self.affinities.append(required)
        return place

    def _follow(self, store: ObjectStore[PersistentVolume]) -> None:
        if store is self._store and store.epoch == self._epoch:
            return
        if store is not self._store or len(self.affinities) > 2 * len(store) + _DEAD_MAX:
            self._forget()
        self._store, self._epoch = store, store.epoch
        previous, self._entries, self._by_class = self._entries, {}, {}
        for volume in store:
            name = volume.metadata.name
            entry = previous.get(name)
            if entry is None or entry.volume is not volume:
                entry = self._entry(volume)
            self._entries[name] = entry
            self._by_class.setdefault(entry.class_name, []).append(entry)
        self._pools = {}

    def _entry(self, volume: PersistentVolume) -> _Entry:
        spec = volume.spec
        kind = VolumeKind(
            mode_of(spec.volume_mode),
            spec.volume_attributes_class_name or "",
            frozenset(spec.access_modes),
        )
        return _Entry(
            volume,
            class_of_volume(volume),
            spec.capacity.get(_STORAGE, "0"),
            self._kinds.setdefault(kind, len(self._kinds)),
            self.affinity_of(volume),
        )


def mode_of(volume_mode: str | None) -> str:
    """Return a volume mode, the default for none."""
    return "Filesystem" if volume_mode is None else volume_mode


def _is_available(volume: PersistentVolume) -> bool:
    return volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None


def _ranked(texts: Sequence[QuantityText]) -> tuple[list[Quantity], IntColumn]:
    """Return the distinct quantities in order, and which of them each text is."""
    by_text = {text: parse_quantity(text) for text in dict.fromkeys(texts)}
    quantities = sorted(set(by_text.values()))
    places = {quantity: place for place, quantity in enumerate(quantities)}
    ranks = {text: places[quantity] for text, quantity in by_text.items()}
    return quantities, _column([ranks[text] for text in texts])


def _column(values: list[int]) -> NDArray[Any]:
    return np.array(values, dtype=np.int64)
