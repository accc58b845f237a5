"""Persistent volumes: claims get volumes, volumes are made for claims, and end with them.

Owns what is to be done with one claim or one volume. Which volume fits is volume_matching's, who
makes a new one volume_provisioner's. Never waits for storage: there is none.
Upstream: pkg/controller/volume/persistentvolume/{pv_controller,pv_controller_base}.go

Differs: upstream looks at everything again every 15 seconds. Here a claim that waits is looked at
again when a volume, a class or a pod that may matter to it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    key_of,
    name_of,
    uid_of,
)
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.pod_claims import (
    claim_keys,
    has_ended,
    index_by_claim,
    pods_with_claim,
)
from kubesched.controllers.volume_binding import VolumeBinding
from kubesched.controllers.volume_matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    annotations_of,
    best_match,
    claim_key_of,
    class_of,
    default_class,
    has_class,
    is_bound_to,
    volume_mode_of,
    why_not,
)
from kubesched.controllers.volume_provisioner import VolumeProvisioner
from kubesched.controllers.volume_provisioning import (
    PROVISIONED_BY,
    with_deletion_finalizer,
)
from kubesched.controllers.volume_reclaim import VolumeReclaim

_RELEASED: Final = ("Released", "Failed")
_GONE_MAX: Final = 4096
_CLASS: Final = "free by class"
_CLAIM: Final = "claim"
_WAITING: Final = "waiting by class"
_VOLUME: Final = "volume"


class MisboundError(Exception):
    """A claim's volume belongs to another, though we bound it."""


class PersistentVolumeController(Controller):
    """Brings claims and volumes together; keys with a slash are claims, others volumes."""

    name: ClassVar[str] = "persistentvolume-binder-controller"
    component: ClassVar[str] = "persistentvolume-controller"
    # Differs: upstream looks at one claim at a time, lest two choose the same volume. Here the
    # second writes an old version of it, is refused, and chooses again.
    workers: ClassVar[int] = 8

    def __init__(self, parts: Parts) -> None:
        """Watch claims, volumes, classes and pods."""
        super().__init__(parts)
        informers = parts.informers
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.of(PERSISTENT_VOLUMES)
        self._classes = informers.of(STORAGE_CLASSES)
        self._pods = informers.of(PODS)
        self._binding = VolumeBinding(parts.api)
        self._reclaim = VolumeReclaim(parts.api, self._binding, self.event)
        self._provisioner = VolumeProvisioner(parts, self._tell, self.event)
        self._told: dict[str, tuple[str, str]] = {}
        self._gone: dict[str, None] = {}
        index_by_claim(self._pods)
        self._claims.add_index(_WAITING, _waiting_class)
        self._claims.add_index(_VOLUME, _wanted_volume)
        self._volumes.add_index(_CLAIM, _holder)
        self._volumes.add_index(_CLASS, _free_class)
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._classes.on_change(self._class_changed)
        self._pods.on_change(self._pod_changed)

    # -- what may matter to whom ------------------------------------------------------------------

    def _claim_changed(self, old: Document | None, new: Document | None) -> None:
        shown = new or old
        assert shown is not None
        self.queue.add(key_of(shown))
        if new is None:
            self._told.pop(uid_of(shown), None)
            self._gone[uid_of(shown)] = None
            if len(self._gone) > _GONE_MAX:
                self._gone.pop(next(iter(self._gone)))
        wanted = "" if new is None else new["spec"].get("volumeName")
        before = "" if old is None else old["spec"].get("volumeName")
        if old is None or new is None or wanted != before:
            # The binding has a new end, or an end less.
            for volume in self._volumes.by(_CLAIM, key_of(shown)):
                self.queue.add(name_of(volume))

    def _volume_changed(self, old: Document | None, new: Document | None) -> None:
        for shown in (old, new):
            if shown is not None and (holder := claim_key_of(shown)):
                self.queue.add(holder)
        shown = new or old
        assert shown is not None
        self.queue.add(name_of(shown))
        if new is None:
            self._told.pop(uid_of(shown), None)
        self._add_all(self._claims.by(_VOLUME, name_of(shown)))
        if new is not None and new.get("status", {}).get("phase") == "Available":
            self._add_all(self._claims.by(_WAITING, class_of(new)))

    def _class_changed(self, _old: Document | None, new: Document | None) -> None:
        if new is not None:
            self._add_all(self._claims.by(_WAITING, name_of(new)))
            if default_class([new]) is not None:
                self._add_all(self._claims.by(_WAITING, ""))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if old is not None and new is not None and has_ended(old) == has_ended(new):
            return
        for key in claim_keys(new or old or {}):
            claim = self._claims.get(key)
            if claim is None or BIND_COMPLETED not in annotations_of(claim):
                self.queue.add(key)

    def _add_all(self, claims: Iterable[Document]) -> None:
        for claim in claims:
            self.queue.add(key_of(claim))

    def _tell(self, claim: Document, kind: str, reason: str, note: str) -> None:
        """Write an event about a claim that waits, once for as long as it says the same."""
        if self._told.get(uid_of(claim)) != (reason, note):
            self._told[uid_of(claim)] = (reason, note)
            self.event(claim, kind, reason, note)

    # -- claims -----------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Bring a claim or a volume to where it should be."""
        if "/" not in key:
            volume = self._volumes.get(key)
            if volume is not None:
                await self._sync_volume(volume)
            return
        claim = self._claims.get(key)
        if claim is None:
            for volume in self._volumes.by(_CLAIM, key):
                self.queue.add(name_of(volume))
        elif BIND_COMPLETED in annotations_of(claim):
            await self._sync_bound_claim(claim)
        elif claim["spec"].get("volumeName"):
            await self._sync_choosing_claim(claim)
        else:
            await self._sync_waiting_claim(claim)

    async def _sync_waiting_claim(self, claim: Document) -> None:
        """Find a volume for a claim, or have one made."""
        # Parity: pv_controller.go syncUnboundClaim, v1.36.
        storage_class = self._classes.get(class_of(claim)) if class_of(claim) else None
        delays = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        candidates = self._volumes.by(_CLAIM, key_of(claim))
        candidates += [] if delays else self._volumes.by(_CLASS, class_of(claim))
        volume = best_match(claim, candidates, delays=delays)
        if volume is not None:
            await self._binding.bind(volume, claim)
            return
        if not has_class(claim) and (chosen := default_class(self._classes)) is not None:
            spec = {**claim["spec"], "storageClassName": name_of(chosen)}
            await self.api.update(PERSISTENT_VOLUME_CLAIMS, {**claim, "spec": spec})
            return
        if delays and SELECTED_NODE not in annotations_of(claim):
            self._tell_of_delay(claim)
        elif class_of(claim):
            await self._provisioner.provision(claim, storage_class)
            return
        else:
            note = "no persistent volumes available for this claim and no storage class is set"
            self._tell(claim, "Normal", "FailedBinding", note)
        await self._binding.set_claim_phase(claim, "Pending")

    def _tell_of_delay(self, claim: Document) -> None:
        # Parity: pv_controller.go emitEventForUnboundDelayBindingClaim, v1.36.
        reason = "WaitForFirstConsumer"
        note = "waiting for first consumer to be created before binding"
        pods = [
            name_of(pod)
            for pod in pods_with_claim(self._pods, key_of(claim))
            if not has_ended(pod) and not pod["spec"].get("nodeName")
        ]
        if pods:
            reason = "WaitForPodScheduled"
            several = "s" if len(pods) > 1 else ""
            note = f"waiting for pod{several} {','.join(pods)} to be scheduled"
        self._tell(claim, "Normal", reason, note)

    async def _sync_choosing_claim(self, claim: Document) -> None:
        """Bind a claim to the volume it names, if it may have it."""
        name = claim["spec"]["volumeName"]
        volume = self._volumes.get(name)
        if volume is None:
            await self._binding.set_claim_phase(claim, "Pending")
            return
        if is_bound_to(volume, claim):
            await self._binding.bind(volume, claim)
            return
        if volume["spec"].get("claimRef"):
            note = f'volume "{name}" already bound to a different claim.'
            self._tell(claim, "Warning", "FailedBinding", note)
            if BOUND_BY_CONTROLLER in annotations_of(claim):
                raise MisboundError(
                    f'invalid binding of claim "{key_of(claim)}" to volume "{name}": '
                    f'volume already claimed by "{claim_key_of(volume)}"'
                )
            await self._binding.set_claim_phase(claim, "Pending")
            return
        problem = why_not(volume, claim)
        if problem is not None:
            note = f'Cannot bind to requested volume "{name}": {problem}'
            self._tell(claim, "Warning", "VolumeMismatch", note)
            await self._binding.set_claim_phase(claim, "Pending")
            return
        await self._binding.bind(volume, claim)

    async def _sync_bound_claim(self, claim: Document) -> None:
        """See whether a bound claim still has its volume."""
        # Parity: pv_controller.go syncBoundClaim, v1.36.
        name = claim["spec"].get("volumeName")
        volume = self._volumes.get(name) if name else None
        if not name:
            note = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", note)
        elif volume is None:
            note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", note)
        elif (reference := volume["spec"].get("claimRef")) and reference.get("uid") != uid_of(
            claim
        ):
            note = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", note)
        else:
            await self._binding.bind(volume, claim)

    async def _lose(self, claim: Document, reason: str, note: str) -> None:
        if claim.get("status", {}).get("phase") != "Lost":
            claim = await self._binding.set_claim_phase(claim, "Lost")
            self.event(claim, "Warning", reason, note)

    # -- volumes ----------------------------------------------------------------------------------

    async def _sync_volume(self, volume: Document) -> None:
        """Bring a volume to the phase its claim puts it in."""
        # Parity: pv_controller.go syncVolume, v1.36.
        finalizers = with_deletion_finalizer(volume)
        if finalizers is not None:
            metadata = {**volume["metadata"], "finalizers": finalizers}
            volume = await self.api.update(PERSISTENT_VOLUMES, {**volume, "metadata": metadata})
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            await self._binding.set_volume_phase(volume, "Available")
            return
        claim = await self._holder_of(volume)
        if claim is None:
            await self._release(volume)
        elif not claim["spec"].get("volumeName"):
            self._hand_over(volume, claim)
        elif claim["spec"]["volumeName"] == name_of(volume):
            await self._binding.set_volume_phase(volume, "Bound")
        elif _is_made_and_deletable(volume):
            # Made for the claim, which has got another meanwhile.
            await self._release(volume)
        else:
            await self._binding.unbind(volume)

    async def _holder_of(self, volume: Document) -> Document | None:
        """Return the claim that has a volume; None if that very claim is gone."""
        key, uid = claim_key_of(volume), volume["spec"]["claimRef"]["uid"]
        claim = self._claims.get(key)
        if uid in self._gone:
            return None
        is_known_gone = claim is None and volume.get("status", {}).get("phase") in _RELEASED
        if (claim is None or uid_of(claim) != uid) and not is_known_gone:
            # A volume must not be deleted because the watch of claims is behind that of volumes.
            namespace, name = key.split("/", 1)
            try:
                claim = await self.api.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
            except NotFoundError:
                return None
        return claim if claim is not None and uid_of(claim) == uid else None

    def _hand_over(self, volume: Document, claim: Document) -> None:
        """Have a claim take the volume that is reserved for it."""
        if volume_mode_of(volume) == volume_mode_of(claim):
            self.queue.add(key_of(claim))
            return
        told = "due to incompatible volumeMode."
        note = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name_of(claim)}"'
        self._tell(volume, "Warning", "VolumeMismatch", f"{note} {told}")
        note = (
            f'Cannot bind PersistentVolume "{name_of(volume)}" to requested PersistentVolumeClaim'
        )
        self._tell(claim, "Warning", "VolumeMismatch", f"{note} {told}")

    async def _release(self, volume: Document) -> None:
        """Do with a volume without claim what its policy says."""
        if volume.get("status", {}).get("phase") not in _RELEASED:
            volume = await self._binding.set_volume_phase(volume, "Released")
        await self._reclaim.reclaim(volume)


def _is_made_and_deletable(volume: Document) -> bool:
    policy = volume["spec"].get("persistentVolumeReclaimPolicy")
    return PROVISIONED_BY in annotations_of(volume) and policy == "Delete"


def _waiting_class(claim: Document) -> Iterable[str]:
    waits = BIND_COMPLETED not in annotations_of(claim) and not claim["spec"].get("volumeName")
    return (class_of(claim),) if waits else ()


def _wanted_volume(claim: Document) -> Iterable[str]:
    name = claim["spec"].get("volumeName")
    return (name,) if name else ()


def _holder(volume: Document) -> Iterable[str]:
    holder = claim_key_of(volume)
    return (holder,) if holder else ()


def _free_class(volume: Document) -> Iterable[str]:
    return () if volume["spec"].get("claimRef") else (class_of(volume),)
