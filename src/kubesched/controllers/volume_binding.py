"""Claims and volumes brought together and apart again.

Owns the writes that bind, unbind, and move a claim or a volume to another phase. Never chooses.
Upstream: pkg/controller/volume/persistentvolume/pv_controller.go bind, unbindVolume,
updateClaimStatus, updateVolumePhase
"""

from __future__ import annotations

from kubesched.client.cached.api import Api
from kubesched.client.cached.documents import Document
from kubesched.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kubesched.controllers.volume_matching import (
    bound_claim,
    bound_volume,
    claim_status,
    unbound_volume,
)


class VolumeBinding:
    """Writes claims and volumes."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def bind(self, volume: Document, claim: Document) -> None:
        """Have a claim get a volume; the volume is written first, so that nobody else gets it."""
        changed = bound_volume(volume, claim)
        if changed is not None:
            volume = await self._api.update(PERSISTENT_VOLUMES, changed)
        volume = await self.set_volume_phase(volume, "Bound")
        changed = bound_claim(claim, volume)
        if changed is not None:
            claim = await self._api.update(PERSISTENT_VOLUME_CLAIMS, changed)
        await self.set_claim_phase(claim, "Bound", volume)

    async def unbind(self, volume: Document) -> None:
        """Have a volume be free again, or reserved as its owner wrote it."""
        changed = unbound_volume(volume)
        if changed != volume:
            volume = await self._api.update(PERSISTENT_VOLUMES, changed)
        await self.set_volume_phase(volume, "Available")

    async def set_volume_phase(self, volume: Document, phase: str, message: str = "") -> Document:
        """Write the phase of a volume, if it is another."""
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        changed = {**status, "phase": phase}
        changed.pop("message", None)
        if message:
            changed["message"] = message
        return await self._api.update_status(PERSISTENT_VOLUMES, {**volume, "status": changed})

    async def set_claim_phase(
        self, claim: Document, phase: str, volume: Document | None = None
    ) -> Document:
        """Write the phase of a claim and what it has of its volume, if that is new."""
        status = claim_status(claim, phase, volume)
        if status is None:
            return claim
        changed = {**claim, "status": status}
        return await self._api.update_status(PERSISTENT_VOLUME_CLAIMS, changed)
