"""Binding and reclaiming of persistent volumes.

Owns the writes that bind and unbind claims and volumes, their phases, and the reclaim policies.
Never chooses a volume.
Upstream: pkg/controller/volume/persistentvolume/pv_controller.go bind, unbindVolume,
updateClaimStatus, updateVolumePhase, reclaimVolume, deleteVolumeOperation, recycleVolumeOperation
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from kubesched.api.documents import Document, is_terminating, key_of
from kubesched.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kubesched.cluster.controllers.persistent_volume.deletion import (
    RECYCLABLE_SOURCES,
    deletion_problem,
    is_deleted_externally,
)
from kubesched.cluster.controllers.pod_claims import has_ended, pods_with_claim
from kubesched.cluster.informers.informer import Informer
from kubesched.cluster.informers.write_through import WriteThroughClient
from kubesched.workloads.volume_matching import (
    BOUND_BY_CONTROLLER,
    annotations_of,
    bound_claim,
    bound_volume,
    claim_key_of,
    claim_status,
)
from kubesched.workloads.volume_provisioning import IN_TREE_FINALIZER


class VolumeBinder:
    """Binds claims and volumes."""

    def __init__(self, api: WriteThroughClient) -> None:
        self._api = api

    async def bind(self, volume: Document, claim: Document) -> None:
        """Bind a claim; the volume is written first, so that no other claim gets it."""
        updated = bound_volume(volume, claim)
        if updated is not None:
            volume = await self._api.update(PERSISTENT_VOLUMES, updated)
        volume = await self.set_volume_phase(volume, "Bound")
        updated = bound_claim(claim, volume)
        if updated is not None:
            claim = await self._api.update(PERSISTENT_VOLUME_CLAIMS, updated)
        await self.set_claim_phase(claim, "Bound", volume)

    async def unbind(self, volume: Document) -> None:
        """Make a volume available again, or restore its pre-bound claim."""
        updated = unbound_volume(volume)
        if updated != volume:
            volume = await self._api.update(PERSISTENT_VOLUMES, updated)
        await self.set_volume_phase(volume, "Available")

    async def set_volume_phase(self, volume: Document, phase: str, message: str = "") -> Document:
        """Update the phase of a volume if it changed."""
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        updated = {**status, "phase": phase}
        updated.pop("message", None)
        if message:
            updated["message"] = message
        return await self._api.update_status(PERSISTENT_VOLUMES, {**volume, "status": updated})

    async def set_claim_phase(
        self, claim: Document, phase: str, volume: Document | None = None
    ) -> Document:
        """Update the phase and capacity of a claim if they changed."""
        status = claim_status(claim, phase, volume)
        if status is None:
            return claim
        updated = {**claim, "status": status}
        return await self._api.update_status(PERSISTENT_VOLUME_CLAIMS, updated)


class VolumeReclaimer:
    """Deletes, recycles or retains released volumes."""

    def __init__(
        self,
        api: WriteThroughClient,
        binder: VolumeBinder,
        event: Callable[[Document, str, str, str], None],
    ) -> None:
        self._api = api
        self._binder = binder
        self._event = event
        self._pods: Informer = api.informers.of(PODS)
        self._claims: Informer = api.informers.of(PERSISTENT_VOLUME_CLAIMS)

    async def reclaim(self, volume: Document) -> None:
        """Apply the reclaim policy to a released volume."""
        policy = volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain"
        if policy == "Delete":
            await self._delete(volume)
        elif policy == "Recycle":
            await self._recycle(volume)
        elif policy != "Retain":
            reason = "VolumeUnknownReclaimPolicy"
            note = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            await self._fail(volume, reason, note)

    async def _delete(self, volume: Document) -> None:
        if is_deleted_externally(volume):
            return
        problem = deletion_problem(volume)
        if problem is not None:
            await self._fail(volume, "VolumeFailedDelete", problem)
            return
        finalizers = volume["metadata"].get("finalizers") or []
        if IN_TREE_FINALIZER in finalizers:
            left = [finalizer for finalizer in finalizers if finalizer != IN_TREE_FINALIZER]
            metadata = {**volume["metadata"], "finalizers": left}
            volume = await self._api.update(PERSISTENT_VOLUMES, {**volume, "metadata": metadata})
        if not is_terminating(volume):
            await self._api.delete(PERSISTENT_VOLUMES, volume)

    async def _recycle(self, volume: Document) -> None:
        """Make a volume available again; there is no data to scrub."""
        users = self._pods_using(volume)
        if users and self._claims.get(claim_key_of(volume)) is None:
            note = f"Volume is used by pods: {','.join(users)}"
            self._event(volume, "Normal", "VolumeFailedRecycle", note)
            return
        if not any(source in volume["spec"] for source in RECYCLABLE_SOURCES):
            note = "No recycler plugin found for the volume!"
            await self._fail(volume, "VolumeFailedRecycle", note)
            return
        self._event(volume, "Normal", "VolumeRecycled", "Volume recycled")
        await self._binder.unbind(volume)

    def _pods_using(self, volume: Document) -> list[str]:
        pods = pods_with_claim(self._pods, claim_key_of(volume))
        return sorted(key_of(pod) for pod in pods if not has_ended(pod))

    async def _fail(self, volume: Document, reason: str, note: str) -> None:
        if volume.get("status", {}).get("phase") == "Failed":
            return
        volume = await self._binder.set_volume_phase(volume, "Failed", note)
        self._event(volume, "Warning", reason, note)


def unbound_volume(volume: Document) -> Document:
    """Return a released volume: unbound, or reserved as its owner specified."""
    changed = copy.deepcopy(volume)
    if BOUND_BY_CONTROLLER in annotations_of(volume):
        del changed["spec"]["claimRef"]
        del changed["metadata"]["annotations"][BOUND_BY_CONTROLLER]
    else:
        changed["spec"]["claimRef"].pop("uid", None)
    return changed
