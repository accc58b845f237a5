"""What becomes of volumes whose claims are gone.

Owns the reclaim policies. Never decides that a claim is gone.
Upstream: pkg/controller/volume/persistentvolume/pv_controller.go reclaimVolume,
deleteVolumeOperation, recycleVolumeOperation
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.client.cached.api import Api
from kubesched.client.cached.documents import Document, is_terminating, key_of
from kubesched.client.cached.informers import Informer
from kubesched.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kubesched.controllers.pod_claims import has_ended, pods_with_claim
from kubesched.controllers.volume_binding import VolumeBinding
from kubesched.controllers.volume_matching import claim_key_of
from kubesched.controllers.volume_provisioning import (
    IN_TREE_FINALIZER,
    RECYCLABLE_SOURCES,
    is_deleted_by_others,
    why_not_deleted,
)


class VolumeReclaim:
    """Deletes, recycles or keeps volumes."""

    def __init__(
        self,
        api: Api,
        binding: VolumeBinding,
        event: Callable[[Document, str, str, str], None],
    ) -> None:
        self._api = api
        self._binding = binding
        self._event = event
        self._pods: Informer = api.informers.of(PODS)
        self._claims: Informer = api.informers.of(PERSISTENT_VOLUME_CLAIMS)

    async def reclaim(self, volume: Document) -> None:
        """Do with a released volume what its policy says."""
        policy = volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain"
        if policy == "Delete":
            await self._delete(volume)
        elif policy == "Recycle":
            await self._recycle(volume)
        elif policy != "Retain":
            reason = "VolumeUnknownReclaimPolicy"
            told = "Volume has unrecognized PersistentVolumeReclaimPolicy"
            await self._fail(volume, reason, told)

    async def _delete(self, volume: Document) -> None:
        if is_deleted_by_others(volume):
            return
        problem = why_not_deleted(volume)
        if problem is not None:
            await self._fail(volume, "VolumeFailedDelete", problem)
            return
        finalizers = volume["metadata"].get("finalizers") or []
        if IN_TREE_FINALIZER in finalizers:
            left = [one for one in finalizers if one != IN_TREE_FINALIZER]
            metadata = {**volume["metadata"], "finalizers": left}
            volume = await self._api.update(PERSISTENT_VOLUMES, {**volume, "metadata": metadata})
        if not is_terminating(volume):
            await self._api.delete(PERSISTENT_VOLUMES, volume)

    async def _recycle(self, volume: Document) -> None:
        """Make a volume free again; there is nothing in it that would have to be scrubbed."""
        users = self._users(volume)
        if users and self._claims.get(claim_key_of(volume)) is None:
            told = f"Volume is used by pods: {','.join(users)}"
            self._event(volume, "Normal", "VolumeFailedRecycle", told)
            return
        if not any(source in volume["spec"] for source in RECYCLABLE_SOURCES):
            told = "No recycler plugin found for the volume!"
            await self._fail(volume, "VolumeFailedRecycle", told)
            return
        self._event(volume, "Normal", "VolumeRecycled", "Volume recycled")
        await self._binding.unbind(volume)

    def _users(self, volume: Document) -> list[str]:
        pods = pods_with_claim(self._pods, claim_key_of(volume))
        return sorted(key_of(pod) for pod in pods if not has_ended(pod))

    async def _fail(self, volume: Document, reason: str, note: str) -> None:
        if volume.get("status", {}).get("phase") == "Failed":
            return
        volume = await self._binding.set_volume_phase(volume, "Failed", note)
        self._event(volume, "Warning", reason, note)
