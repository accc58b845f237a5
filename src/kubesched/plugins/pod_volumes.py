"""What the volume plugins ask of a pod's volumes, claims and persistent volumes.

Owns how a volume names its claim, which class a claim is of, and the texts of what is missing.
Never decides about a node.
Upstream: staging/src/k8s.io/component-helpers/storage/{volume,ephemeral}, kube-scheduler
framework/signers.go VolumesSigner
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from kubesched.framework.interface import HintReads, SignFragment
from kubesched.model.pod_info import PodInfo, PodShape
from kubesched.objects.meta import ObjectMeta
from kubesched.objects.pod import Volume
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_NAME: Final = "PersistentVolumeClaim had no name"

_BETA_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_SIGNER_NAME: Final = "v1.Pod.Spec.Volumes.NonSyntheticSources()"


class NamedPod(Protocol):
    """A pod, pending or bound, as far as its claims need it."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def shape(self) -> PodShape: ...


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A volume of a pod that stands for a claim."""

    claim_name: str
    is_ephemeral: bool


def claim_use(pod_name: str, volume: Volume) -> ClaimUse | None:
    """Return the claim a volume stands for, by name or as an ephemeral volume; None if neither."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name, is_ephemeral=False)
    if volume.ephemeral is not None:
        # Parity: component-helpers/storage/ephemeral/ephemeral.go VolumeClaimName, v1.36.
        return ClaimUse(f"{pod_name}-{volume.name}", is_ephemeral=True)
    return None


def claim_uses(pod: NamedPod) -> Iterator[ClaimUse]:
    """Yield the claims a pod's volumes stand for, in the pod's order."""
    for volume in pod.shape.volumes:
        use = claim_use(pod.name, volume)
        if use is not None:
            yield use


def named_claims(shape: PodShape) -> list[str]:
    """Return the claims that volumes name themselves, ephemeral ones left out."""
    return [
        volume.persistent_volume_claim.claim_name
        for volume in shape.volumes
        if volume.persistent_volume_claim is not None
    ]


def refers_to(pod: PodInfo, claim: PersistentVolumeClaim) -> bool:
    """Tell whether one of the pod's volumes stands for the claim."""
    return claim.metadata.namespace == pod.namespace and any(
        use.claim_name == claim.metadata.name for use in claim_uses(pod)
    )


def reads_of_claim_hint(shape: PodShape, _old: object, _new: object) -> HintReads:
    """Return what `refers_to` reads: an ephemeral volume's claim has the pod's own name in it."""
    return "pod" if any(volume.ephemeral is not None for volume in shape.volumes) else "shape"


def not_owner_text(pod: NamedPod, claim: PersistentVolumeClaim) -> str | None:
    """Return what is wrong if an ephemeral volume's claim was not made for the pod."""
    # Parity: component-helpers/storage/ephemeral/ephemeral.go VolumeIsForPod, v1.36.
    owner = next((o for o in claim.metadata.owner_references if o.controller), None)
    if claim.metadata.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return None
    return (
        f"PVC {claim.metadata.namespace}/{claim.metadata.name} was not created for pod "
        f"{pod.namespace}/{pod.name} (pod is not owner)"
    )


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """Return the name of the claim's storage class, empty if it has none."""
    return _class_of(claim.metadata, claim.spec.storage_class_name or "")


def class_of_volume(volume: PersistentVolume) -> str:
    """Return the name of the volume's storage class, empty if it has none."""
    return _class_of(volume.metadata, volume.spec.storage_class_name)


def _class_of(metadata: ObjectMeta, spec_class: str) -> str:
    return metadata.annotations.get(_BETA_CLASS_ANNOTATION, spec_class)


def binding_mode_unset_text(storage_class: StorageClass) -> str:
    """Return the text about a class that does not say when its claims are bound."""
    return f'VolumeBindingMode not set for StorageClass "{storage_class.metadata.name}"'


def claim_not_found_text(name: str) -> str:
    """Return the API's text about a claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found_text(name: str) -> str:
    """Return the API's text about a persistent volume that is not there."""
    return f'persistentvolume "{name}" not found'


def class_not_found_text(name: str) -> str:
    """Return the API's text about a storage class that is not there."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def sign_volumes(pod: PodInfo) -> list[SignFragment]:
    """Return the part of a pod's signature that its volumes make."""
    sources = sorted(
        msgspec.json.encode(msgspec.structs.replace(volume, name="")).decode()
        for volume in pod.spec.volumes or ()
        if volume.config_map is None and volume.secret is None
    )
    return [SignFragment(_SIGNER_NAME, tuple(sources))]
