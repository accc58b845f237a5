"""Claims that a controller binds before any pod comes.

Owns which claims are new, hence still to be bound, and which volumes are free for them. What
matches and what a provisioner makes are the rules of `controllers`, which a running cluster
follows. Claims that wait for their first consumer are left to the scheduler.
Upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncUnboundClaim
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

from kubesched.client.cached.documents import Document
from kubesched.controllers.volume_matching import (
    best_match,
    bound_claim,
    bound_volume,
    claim_key_of,
    claim_status,
    class_of,
)
from kubesched.controllers.volume_provisioning import (
    ProvisioningError,
    Site,
    provisioned_volume,
    provisioner_of,
)
from kubesched.objects.decode import KubeObject, decode_as
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.plugins.pod_volumes import class_of_claim

WAITS = "WaitForFirstConsumer"


def is_new(claim: PersistentVolumeClaim) -> bool:
    """Return whether no controller has seen a claim yet; what has a phase keeps it."""
    return not claim.status.phase and not claim.spec.volume_name


class ClaimBinder:
    """Binds new claims, each to a volume of its own."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._classes: dict[str, StorageClass] = {}
        self._available: list[PersistentVolume] = []
        """As they are at the start."""
        for obj in objects:
            if isinstance(obj, StorageClass):
                self._classes[obj.metadata.name] = obj
            elif isinstance(obj, PersistentVolume) and obj.status.phase == "Available":
                self._available.append(obj)

    @cached_property
    def _free(self) -> dict[str, list[Document]]:
        """The volumes that nobody has, by class, and those kept for a claim, by its key."""
        free: dict[str, list[Document]] = {}
        for volume in map(_document, self._available):
            free.setdefault(claim_key_of(volume) or class_of(volume), []).append(volume)
        return free

    def all_bound(self, objects: Iterable[KubeObject]) -> list[KubeObject]:
        """Return the objects with all claims as a controller leaves them, and new volumes."""
        objects = list(objects)
        changed: dict[tuple[str, str], KubeObject] = {}
        for obj in objects:
            if isinstance(obj, PersistentVolumeClaim):
                changed |= {(one.kind, one.key): one for one in self.bound(obj)}
        kept = [changed.pop((obj.kind, obj.key), obj) for obj in objects]
        return [*kept, *changed.values()]

    def bound(self, claim: PersistentVolumeClaim) -> tuple[KubeObject, ...]:
        """Return a claim as a controller leaves it, after its volume if it gets one."""
        if not is_new(claim):
            return (claim,)
        document = _document(claim)
        volume = None if self._waits(claim) else self._take(claim, document)
        if volume is None:
            return (_with_phase(document, "Pending", None),)
        volume = bound_volume(volume, document) or volume
        volume["status"] = {"phase": "Bound"}
        document = bound_claim(document, volume) or document
        return decode_as(PersistentVolume, volume), _with_phase(document, "Bound", volume)

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        found = self._classes.get(class_of_claim(claim))
        return found is not None and found.volume_binding_mode == WAITS

    def _take(self, claim: PersistentVolumeClaim, document: Document) -> Document | None:
        kept, free = (self._free.get(place, []) for place in (claim.key, class_of_claim(claim)))
        found = best_match(document, [*kept, *free], delays=False)
        if found is None:
            return self._provisioned(claim, document)
        for volumes in (kept, free):
            volumes[:] = [one for one in volumes if one is not found]
        return found

    def _provisioned(self, claim: PersistentVolumeClaim, document: Document) -> Document | None:
        found = self._classes.get(class_of_claim(claim))
        if found is None:
            return None
        storage_class = _document(found)
        try:
            by = provisioner_of(storage_class)
            return provisioned_volume(document, storage_class, by, Site(is_csi=by.is_external))
        except ProvisioningError:
            return None


def _with_phase(document: Document, phase: str, volume: Document | None) -> PersistentVolumeClaim:
    status = claim_status(document, phase, volume)
    return decode_as(PersistentVolumeClaim, {**document, "status": status})


def _document(obj: KubeObject) -> Document:
    document: Document = msgspec.to_builtins(obj)
    return document
