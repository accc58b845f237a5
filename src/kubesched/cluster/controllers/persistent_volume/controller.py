"""Persistent volumes: binds claims to volumes, provisions volumes and reclaims them.

Owns the sync of one claim or volume. Matching is volume_matching's, provisioning `provisioner`'s.
Never waits for storage: there is none.
Upstream: pkg/controller/volume/persistentvolume/{pv_controller,pv_controller_base}.go

Differs: upstream resyncs everything every 15 seconds. Here an unbound claim is synced again when a
volume, class or pod that may affect it changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from kubesched.api.documents import Document, key_of, name_of, uid_of
from kubesched.client.errors import NotFoundError
from kubesched.client.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
)
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.persistent_volume.binding import VolumeBinder, VolumeReclaimer
from kubesched.cluster.controllers.persistent_volume.deletion import with_deletion_finalizer
from kubesched.cluster.controllers.persistent_volume.provisioner import (
    SELECTED_NODE,
    VolumeProvisioner,
)
from kubesched.cluster.controllers.pod_claims import (
    claim_keys,
    has_ended,
    index_by_claim,
    pods_with_claim,
)
from kubesched.workloads.volume_matching import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    annotations_of,
    best_match,
    claim_key_of,
    class_of,
    has_class,
    is_bound_to,
    volume_mismatch,
    volume_mode_of,
)
from kubesched.workloads.volume_provisioning import PROVISIONED_BY

_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_RELEASED_PHASES: Final = ("Released", "Failed")
_DELETED_UIDS_MAX: Final = 4096
_FREE_BY_CLASS: Final = "free by class"
_BY_CLAIM: Final = "claim"
_WAITING_BY_CLASS: Final = "waiting by class"
_BY_VOLUME: Final = "volume"


class MisboundError(Exception):
    """The volume of a claim that we bound belongs to another claim."""


class PersistentVolumeController(Controller):
    """Reconciles claims and volumes; keys with a slash are claims, others volumes."""

    name: ClassVar[str] = "persistentvolume-binder-controller"
    component: ClassVar[str] = "persistentvolume-controller"
    # Differs: upstream syncs one claim at a time, so that no two choose the same volume. Here the
    # second one gets a conflict and chooses again.
    workers: ClassVar[int] = 8

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        informers = context.informers
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.of(PERSISTENT_VOLUMES)
        self._classes = informers.of(STORAGE_CLASSES)
        self._pods = informers.of(PODS)
        self._binder = VolumeBinder(context.api)
        self._reclaimer = VolumeReclaimer(context.api, self._binder, self.event)
        self._provisioner = VolumeProvisioner(context, self._event_once, self.event)
        self._last_events: dict[str, tuple[str, str]] = {}
        self._deleted_uids: dict[str, None] = {}
        index_by_claim(self._pods)
        self._claims.add_index(_WAITING_BY_CLASS, _waiting_index_keys)
        self._claims.add_index(_BY_VOLUME, _volume_index_keys)
        self._volumes.add_index(_BY_CLAIM, _claim_index_keys)
        self._volumes.add_index(_FREE_BY_CLASS, _free_class_index_keys)
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._classes.on_change(self._class_changed)
        self._pods.on_change(self._pod_changed)

    # -- events -----------------------------------------------------------------------------------

    def _claim_changed(self, old: Document | None, new: Document | None) -> None:
        document = new or old
        assert document is not None
        self.queue.add(key_of(document))
        if new is None:
            self._last_events.pop(uid_of(document), None)
            self._deleted_uids[uid_of(document)] = None
            if len(self._deleted_uids) > _DELETED_UIDS_MAX:
                self._deleted_uids.pop(next(iter(self._deleted_uids)))
        volume_name = "" if new is None else new["spec"].get("volumeName")
        volume_name_before = "" if old is None else old["spec"].get("volumeName")
        if old is None or new is None or volume_name != volume_name_before:
            # The binding changed: sync the volumes reserved for the claim.
            for volume in self._volumes.by_index(_BY_CLAIM, key_of(document)):
                self.queue.add(name_of(volume))

    def _volume_changed(self, old: Document | None, new: Document | None) -> None:
        for document in (old, new):
            if document is not None and (claim_key := claim_key_of(document)):
                self.queue.add(claim_key)
        document = new or old
        assert document is not None
        self.queue.add(name_of(document))
        if new is None:
            self._last_events.pop(uid_of(document), None)
        self._enqueue_claims(self._claims.by_index(_BY_VOLUME, name_of(document)))
        if new is not None and new.get("status", {}).get("phase") == "Available":
            self._enqueue_claims(self._claims.by_index(_WAITING_BY_CLASS, class_of(new)))

    def _class_changed(self, _old: Document | None, new: Document | None) -> None:
        if new is not None:
            self._enqueue_claims(self._claims.by_index(_WAITING_BY_CLASS, name_of(new)))
            if default_class([new]) is not None:
                self._enqueue_claims(self._claims.by_index(_WAITING_BY_CLASS, ""))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if old is not None and new is not None and has_ended(old) == has_ended(new):
            return
        for key in claim_keys(new or old or {}):
            claim = self._claims.get(key)
            if claim is None or BIND_COMPLETED not in annotations_of(claim):
                self.queue.add(key)

    def _enqueue_claims(self, claims: Iterable[Document]) -> None:
        for claim in claims:
            self.queue.add(key_of(claim))

    def _event_once(self, claim: Document, kind: str, reason: str, note: str) -> None:
        """Record an event unless it repeats the object's last one."""
        if self._last_events.get(uid_of(claim)) != (reason, note):
            self._last_events[uid_of(claim)] = (reason, note)
            self.event(claim, kind, reason, note)

    # -- claims -----------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Reconcile a claim or a volume."""
        if "/" not in key:
            volume = self._volumes.get(key)
            if volume is not None:
                await self._sync_volume(volume)
            return
        claim = self._claims.get(key)
        if claim is None:
            for volume in self._volumes.by_index(_BY_CLAIM, key):
                self.queue.add(name_of(volume))
        elif BIND_COMPLETED in annotations_of(claim):
            await self._sync_bound_claim(claim)
        elif claim["spec"].get("volumeName"):
            await self._sync_claim_with_volume(claim)
        else:
            await self._sync_unbound_claim(claim)

    async def _sync_unbound_claim(self, claim: Document) -> None:
        """Find a volume for a claim, or provision one."""
        # Parity: pv_controller.go syncUnboundClaim, v1.36.
        storage_class = self._classes.get(class_of(claim)) if class_of(claim) else None
        is_delayed = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        candidates = self._volumes.by_index(_BY_CLAIM, key_of(claim))
        candidates += [] if is_delayed else self._volumes.by_index(_FREE_BY_CLASS, class_of(claim))
        volume = best_match(claim, candidates, delays=is_delayed)
        if volume is not None:
            await self._binder.bind(volume, claim)
            return
        if not has_class(claim) and (default := default_class(self._classes)) is not None:
            spec = {**claim["spec"], "storageClassName": name_of(default)}
            await self.api.update(PERSISTENT_VOLUME_CLAIMS, {**claim, "spec": spec})
            return
        if is_delayed and SELECTED_NODE not in annotations_of(claim):
            self._record_delayed_binding(claim)
        elif class_of(claim):
            await self._provisioner.provision(claim, storage_class)
            return
        else:
            note = "no persistent volumes available for this claim and no storage class is set"
            self._event_once(claim, "Normal", "FailedBinding", note)
        await self._binder.set_claim_phase(claim, "Pending")

    def _record_delayed_binding(self, claim: Document) -> None:
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
            plural = "s" if len(pods) > 1 else ""
            note = f"waiting for pod{plural} {','.join(pods)} to be scheduled"
        self._event_once(claim, "Normal", reason, note)

    async def _sync_claim_with_volume(self, claim: Document) -> None:
        """Bind a claim to the volume it names, if possible."""
        name = claim["spec"]["volumeName"]
        volume = self._volumes.get(name)
        if volume is None:
            await self._binder.set_claim_phase(claim, "Pending")
            return
        if is_bound_to(volume, claim):
            await self._binder.bind(volume, claim)
            return
        if volume["spec"].get("claimRef"):
            note = f'volume "{name}" already bound to a different claim.'
            self._event_once(claim, "Warning", "FailedBinding", note)
            if BOUND_BY_CONTROLLER in annotations_of(claim):
                raise MisboundError(
                    f'invalid binding of claim "{key_of(claim)}" to volume "{name}": '
                    f'volume already claimed by "{claim_key_of(volume)}"'
                )
            await self._binder.set_claim_phase(claim, "Pending")
            return
        problem = volume_mismatch(volume, claim)
        if problem is not None:
            note = f'Cannot bind to requested volume "{name}": {problem}'
            self._event_once(claim, "Warning", "VolumeMismatch", note)
            await self._binder.set_claim_phase(claim, "Pending")
            return
        await self._binder.bind(volume, claim)

    async def _sync_bound_claim(self, claim: Document) -> None:
        """Check that a bound claim still has its volume."""
        # Parity: pv_controller.go syncBoundClaim, v1.36.
        name = claim["spec"].get("volumeName")
        volume = self._volumes.get(name) if name else None
        if not name:
            note = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            await self._set_lost(claim, "ClaimLost", note)
        elif volume is None:
            note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
            await self._set_lost(claim, "ClaimLost", note)
        elif (reference := volume["spec"].get("claimRef")) and reference.get("uid") != uid_of(
            claim
        ):
            note = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._set_lost(claim, "ClaimMisbound", note)
        else:
            await self._binder.bind(volume, claim)

    async def _set_lost(self, claim: Document, reason: str, note: str) -> None:
        if claim.get("status", {}).get("phase") != "Lost":
            claim = await self._binder.set_claim_phase(claim, "Lost")
            self.event(claim, "Warning", reason, note)

    # -- volumes ----------------------------------------------------------------------------------

    async def _sync_volume(self, volume: Document) -> None:
        """Update a volume's phase according to its claim."""
        # Parity: pv_controller.go syncVolume, v1.36.
        finalizers = with_deletion_finalizer(volume)
        if finalizers is not None:
            metadata = {**volume["metadata"], "finalizers": finalizers}
            volume = await self.api.update(PERSISTENT_VOLUMES, {**volume, "metadata": metadata})
        reference = volume["spec"].get("claimRef")
        if not reference or not reference.get("uid"):
            await self._binder.set_volume_phase(volume, "Available")
            return
        claim = await self._claim_of(volume)
        if claim is None:
            await self._release(volume)
        elif not claim["spec"].get("volumeName"):
            self._enqueue_reserved_claim(volume, claim)
        elif claim["spec"]["volumeName"] == name_of(volume):
            await self._binder.set_volume_phase(volume, "Bound")
        elif _is_dynamically_provisioned(volume):
            # Provisioned for the claim, which got another volume meanwhile.
            await self._release(volume)
        else:
            await self._binder.unbind(volume)

    async def _claim_of(self, volume: Document) -> Document | None:
        """Return the claim of a volume; None if that very claim is gone."""
        key, uid = claim_key_of(volume), volume["spec"]["claimRef"]["uid"]
        claim = self._claims.get(key)
        if uid in self._deleted_uids:
            return None
        is_known_gone = claim is None and volume.get("status", {}).get("phase") in _RELEASED_PHASES
        if (claim is None or uid_of(claim) != uid) and not is_known_gone:
            # A volume must not be deleted because the claim watch is behind the volume watch.
            namespace, name = key.split("/", 1)
            try:
                claim = await self.api.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
            except NotFoundError:
                return None
        return claim if claim is not None and uid_of(claim) == uid else None

    def _enqueue_reserved_claim(self, volume: Document, claim: Document) -> None:
        """Enqueue the claim that a volume is reserved for, if their modes match."""
        if volume_mode_of(volume) == volume_mode_of(claim):
            self.queue.add(key_of(claim))
            return
        reason_text = "due to incompatible volumeMode."
        note = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{name_of(claim)}"'
        self._event_once(volume, "Warning", "VolumeMismatch", f"{note} {reason_text}")
        note = (
            f'Cannot bind PersistentVolume "{name_of(volume)}" to requested PersistentVolumeClaim'
        )
        self._event_once(claim, "Warning", "VolumeMismatch", f"{note} {reason_text}")

    async def _release(self, volume: Document) -> None:
        """Release a volume whose claim is gone, and reclaim it."""
        if volume.get("status", {}).get("phase") not in _RELEASED_PHASES:
            volume = await self._binder.set_volume_phase(volume, "Released")
        await self._reclaimer.reclaim(volume)


def _is_dynamically_provisioned(volume: Document) -> bool:
    policy = volume["spec"].get("persistentVolumeReclaimPolicy")
    return PROVISIONED_BY in annotations_of(volume) and policy == "Delete"


def _waiting_index_keys(claim: Document) -> Iterable[str]:
    is_waiting = BIND_COMPLETED not in annotations_of(claim) and not claim["spec"].get("volumeName")
    return (class_of(claim),) if is_waiting else ()


def _volume_index_keys(claim: Document) -> Iterable[str]:
    name = claim["spec"].get("volumeName")
    return (name,) if name else ()


def _claim_index_keys(volume: Document) -> Iterable[str]:
    claim_key = claim_key_of(volume)
    return (claim_key,) if claim_key else ()


def _free_class_index_keys(volume: Document) -> Iterable[str]:
    return () if volume["spec"].get("claimRef") else (class_of(volume),)


def default_class(classes: Iterable[Document]) -> Document | None:
    """Return the default storage class: the newest one with the default annotation."""
    marked = [
        one
        for one in classes
        if any(annotations_of(one).get(name) == "true" for name in _DEFAULT_CLASS)
    ]
    # By name first: sorting keeps that order among classes of the same second.
    marked.sort(key=name_of)
    marked.sort(key=lambda one: str(one["metadata"].get("creationTimestamp", "")), reverse=True)
    return marked[0] if marked else None
