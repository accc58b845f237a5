"""Which volume a claim gets: all of the choice that does not depend on the node, and the rest.

Owns the conditions between a claim and a volume, and the choice of the smallest. Never evaluates a
node affinity: it is given which masks hold.
Upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.objects.affinity import NodeSelector
from kubesched.objects.meta import ObjectReference
from kubesched.objects.quantity import Quantity, parse_quantity
from kubesched.objects.selectors import Selector, label_selector
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim
from kubesched.plugins.pod_volumes import class_of_claim, class_of_volume

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

_STORAGE: Final = "storage"
_ZERO: Final = parse_quantity("0")


class Candidates:
    """The volumes one claim could get on some node, smallest first."""

    def __init__(
        self,
        claim: PersistentVolumeClaim,
        volumes: Sequence[PersistentVolume],
        place_of: Callable[[NodeSelector | None], int],
    ) -> None:
        """Take the volumes of the claim's class in order, and what numbers a node affinity's mask.

        ValueError tells that the claim's selector does not parse.
        """
        self.claim = claim
        selector = _selector_of(claim)
        wanted = [volume for volume in volumes if _could_hold(volume, claim)]
        self._prebound = [
            (volume, place_of(_required(volume))) for volume in wanted if is_bound_to(volume, claim)
        ]
        free = [volume for volume in wanted if _is_free_for(volume, claim, selector)]
        self._free = sorted(free, key=capacity_of)
        self._places: NDArray[np.intp] = np.array(
            [place_of(_required(volume)) for volume in self._free], dtype=np.intp
        )

    def choose(
        self, holds: NDArray[np.bool_], excluded: Collection[str]
    ) -> PersistentVolume | None:
        """Return the claim's volume where those masks hold, other claims' choices left out."""
        # Parity: pv_helpers.go FindMatchingVolume, v1.36: a volume that was bound to the claim
        # beforehand is taken, or none at all if the node cannot reach it.
        for volume, place in self._prebound:
            if volume.metadata.name not in excluded:
                return volume if holds[place] else None
        for index in np.flatnonzero(holds[self._places]).tolist():
            if self._free[index].metadata.name not in excluded:
                return self._free[index]
        return None


def requested_by(claim: PersistentVolumeClaim) -> Quantity:
    """Return how much a claim asks for; nothing if it does not say."""
    text = claim.spec.resources.requests.get(_STORAGE)
    return _ZERO if text is None else parse_quantity(text)


def requests_storage(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim says how much it asks for."""
    return _STORAGE in claim.spec.resources.requests


def capacity_of(volume: PersistentVolume) -> Quantity:
    """Return how much a volume holds."""
    text = volume.spec.capacity.get(_STORAGE)
    return _ZERO if text is None else parse_quantity(text)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume is, or is to be, the claim's."""
    # Parity: pv_helpers.go IsVolumeBoundToClaim, v1.36.
    ref, meta = volume.spec.claim_ref, claim.metadata
    if ref is None or (ref.name, ref.namespace) != (meta.name, meta.namespace):
        return False
    return not ref.uid or ref.uid == meta.uid


def bound_volume(
    volume: PersistentVolume, claim: PersistentVolumeClaim
) -> tuple[PersistentVolume, bool]:
    """Return the volume as it is once bound to the claim, and whether that changes it."""
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


def _required(volume: PersistentVolume) -> NodeSelector | None:
    affinity = volume.spec.node_affinity
    return None if affinity is None else affinity.required


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
    """Tell whether nothing but the node, and what is asked of unbound volumes, is in the way."""
    spec, wanted = volume.spec, claim.spec
    return (
        (spec.claim_ref is None or is_bound_to(volume, claim))
        and not capacity_of(volume) < requested_by(claim)
        and _mode(spec.volume_mode) == _mode(wanted.volume_mode)
        and (spec.volume_attributes_class_name or "") == (wanted.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_free_for(
    volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector | None
) -> bool:
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and (selector is None or selector.matches(volume.metadata.labels))
        and class_of_volume(volume) == class_of_claim(claim)
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )


def _mode(volume_mode: str | None) -> str:
    return "Filesystem" if volume_mode is None else volume_mode
