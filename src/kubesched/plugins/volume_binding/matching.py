"""Matches claims with volumes: first what does not depend on the node, then the rest.

The caller passes the node affinities that hold.
Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import merge
from typing import Final

import msgspec
import numpy as np

from kubesched.api.label_selectors import Selector, label_selector
from kubesched.api.meta import ObjectReference
from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim
from kubesched.plugins.volume_binding.volume_index import (
    VolumeIndex,
    VolumeKind,
    VolumePool,
    mode_of,
)

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

_STORAGE: Final = "storage"
_ZERO: Final = parse_quantity("0")


@dataclass(frozen=True, slots=True)
class ClassVolumes:
    """The volumes of one class, and the assumed states of some of them."""

    pool: VolumePool
    assumed: Mapping[str, PersistentVolume]
    """By name."""

    def bound_to(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the volumes bound to, or reserved for, the claim, by name."""
        stored = self.pool.bound_to(claim.metadata.namespace, claim.metadata.name)
        latest = {volume.metadata.name: volume for volume in stored} | dict(self.assumed)
        return [latest[name] for name in sorted(latest) if is_bound_to(latest[name], claim)]

    def free_for(self, claim: PersistentVolumeClaim) -> list[int]:
        """Return the indexes of the volumes that a claim could get on some node, smallest first.

        Raises ValueError if the claim's selector does not parse.
        """
        selector, pool = _selector_of(claim), self.pool
        chosen = pool.free_for(requested_by(claim), _kind_wanted_by(claim))
        chosen[[pool.place_of[name] for name in self.assumed if name in pool.place_of]] = False
        places: list[int] = np.flatnonzero(chosen).tolist()
        if selector is None:
            return places
        return [place for place in places if selector.matches(pool.free[place].metadata.labels)]


class Candidates:
    """The volumes one claim could get on some node, smallest first."""

    def __init__(
        self,
        claim: PersistentVolumeClaim,
        volumes: ClassVolumes,
        index: VolumeIndex,
        mask_of: Callable[[int], int],
    ) -> None:
        """Take the volumes of the claim's class, and a function that numbers node affinities.

        Raises ValueError if the claim's selector does not parse.
        """
        self.claim = claim
        self._free = volumes.pool.free
        places = volumes.free_for(claim)
        self._prebound = [
            (volume, mask_of(index.affinity_of(volume)))
            for volume in volumes.bound_to(claim)
            if _could_hold(volume, claim)
        ]
        self._by_mask: dict[int, list[int]] = {}
        affinities = volumes.pool.affinities[places].tolist()
        for place, affinity in zip(places, affinities, strict=True):
            self._by_mask.setdefault(mask_of(affinity), []).append(place)

    def choose(self, holds: frozenset[int], excluded: Collection[str]) -> PersistentVolume | None:
        """Return the volume for the claim where these masks hold, without those already chosen."""
        # Parity: pv_helpers.go FindMatchingVolume, v1.36: a volume that was bound to the claim
        # beforehand is taken, or none at all if the node cannot reach it.
        for volume, mask in self._prebound:
            if volume.metadata.name not in excluded:
                return volume if mask in holds else None
        reached = [self._by_mask[mask] for mask in holds & self._by_mask.keys()]
        places: Iterable[int] = reached[0] if len(reached) == 1 else merge(*reached)
        for place in places:
            volume = self._free[place]
            if volume.metadata.name not in excluded:
                return volume
        return None


def requested_by(claim: PersistentVolumeClaim) -> Quantity:
    """Return the storage request of a claim; zero if it has none."""
    text = claim.spec.resources.requests.get(_STORAGE)
    return _ZERO if text is None else parse_quantity(text)


def requests_storage(claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim has a storage request."""
    return _STORAGE in claim.spec.resources.requests


def capacity_of(volume: PersistentVolume) -> Quantity:
    """Return the capacity of a volume."""
    text = volume.spec.capacity.get(_STORAGE)
    return _ZERO if text is None else parse_quantity(text)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is bound to, or reserved for, the claim."""
    # Parity: pv_helpers.go IsVolumeBoundToClaim, v1.36.
    ref, meta = volume.spec.claim_ref, claim.metadata
    if ref is None or (ref.name, ref.namespace) != (meta.name, meta.namespace):
        return False
    return not ref.uid or ref.uid == meta.uid


def bound_volume(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, bool]:
    """Return the volume bound to the claim, and whether it differs from the given one."""
    # Parity: pv_helpers.go GetBindVolumeToClaim, v1.36.
    ref, meta, bound = volume.spec.claim_ref, claim.metadata, volume
    if ref is None or (ref.name, ref.namespace, ref.uid) != (meta.name, meta.namespace, meta.uid):
        new_ref = ObjectReference(
            api_version=claim.api_version,
            kind=claim.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        spec = msgspec.structs.replace(volume.spec, claim_ref=new_ref)
        bound = msgspec.structs.replace(bound, spec=spec)
    annotations = volume.metadata.annotations
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations:
        marked = {**annotations, BOUND_BY_CONTROLLER: "yes"}
        metadata = msgspec.structs.replace(volume.metadata, annotations=marked)
        bound = msgspec.structs.replace(bound, metadata=metadata)
    return bound, bound is not volume


def _selector_of(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return label_selector(claim.spec.selector)
    except ValueError as problem:
        raise ValueError(
            f"error creating internal label selector for claim: {claim.key}: {problem}"
        ) from problem


def _could_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume reserved for the claim is usable, apart from its node affinity."""
    spec, required = volume.spec, claim.spec
    return (
        not capacity_of(volume) < requested_by(claim)
        and mode_of(spec.volume_mode) == mode_of(required.volume_mode)
        and (spec.volume_attributes_class_name or "")
        == (required.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _kind_wanted_by(claim: PersistentVolumeClaim) -> Callable[[VolumeKind], bool]:
    required = claim.spec
    mode, access_modes = mode_of(required.volume_mode), frozenset(required.access_modes)
    attributes_class = required.volume_attributes_class_name or ""

    def suits(kind: VolumeKind) -> bool:
        return (
            kind.mode == mode
            and kind.attributes_class == attributes_class
            and access_modes <= kind.access_modes
        )

    return suits
