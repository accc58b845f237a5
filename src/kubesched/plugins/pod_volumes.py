"""Volumes and claims of a pod, as all volume plugins read them, and texts for missing objects.

Upstream: staging/src/k8s.io/component-helpers/storage/{volume,ephemeral}, kube-scheduler
framework/signers.go VolumesSigner
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kubesched.api.meta import ObjectMeta
from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.api.volumes import Volume
from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.interface import HintReads
from kubesched.plugins.pod_changes import PodChange, RejectedPod, without_part
from kubesched.plugins.queueing_hints import AnyPod, queue_if
from kubesched.snapshot.pod_info import PodInfo, PodShape, meets_rules

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
CLAIM: Final = "persistentvolumeclaim"
NO_NAME: Final = "PersistentVolumeClaim had no name"

_BETA_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that a volume of a pod refers to."""

    claim_name: str
    is_ephemeral: bool


def claim_use(pod_name: str, volume: Volume) -> ClaimUse | None:
    """Return the claim of a volume, named or ephemeral; None if it has none."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name, is_ephemeral=False)
    if volume.ephemeral is not None:
        # Parity: component-helpers/storage/ephemeral/ephemeral.go VolumeClaimName, v1.36.
        return ClaimUse(f"{pod_name}-{volume.name}", is_ephemeral=True)
    return None


def claim_uses(pod: AnyPod) -> Iterator[ClaimUse]:
    """Yield the claims of a pod's volumes, in the pod's order."""
    for volume in pod.shape.volumes:
        use = claim_use(pod.name, volume)
        if use is not None:
            yield use


def named_claims(shape: PodShape) -> list[str]:
    """Return the claims that volumes name, without those of ephemeral volumes."""
    return [
        volume.persistent_volume_claim.claim_name
        for volume in shape.volumes
        if volume.persistent_volume_claim is not None
    ]


def after_named_claim_event(
    pod: PodInfo, _old: object, claim: PersistentVolumeClaim
) -> QueueingHint:
    """Queue the pod if one of its volumes names the claim; ephemeral volumes name none."""
    is_named = claim.metadata.name in named_claims(pod.shape)
    return queue_if(is_named and claim.metadata.namespace == pod.namespace)


def after_claim_event(pod: PodInfo, _old: object, claim: PersistentVolumeClaim) -> QueueingHint:
    """Queue the pod if one of its volumes, named or ephemeral, uses the claim."""
    is_used = any(use.claim_name == claim.metadata.name for use in claim_uses(pod))
    return queue_if(is_used and claim.metadata.namespace == pod.namespace)


def reads_after_claim_event(shape: PodShape, _old: object, _new: object) -> HintReads:
    """Return what the hint reads: the claim of an ephemeral volume is named after the pod."""
    return "pod" if any(volume.ephemeral is not None for volume in shape.volumes) else "shape"


def not_owner_text(pod: AnyPod, claim: PersistentVolumeClaim) -> str | None:
    """Return an error text if an ephemeral volume's claim belongs to another pod."""
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
    """Return the error text for a class without a volume binding mode."""
    return f'VolumeBindingMode not set for StorageClass "{storage_class.metadata.name}"'


def not_found_text(resource: str, name: str) -> str:
    """Return the API's text for a missing object."""
    return f'{resource} "{name}" not found'


def volume_changes(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield copies of the pod, each without one of the volumes that a rule reads."""
    for number, volume in enumerate(rejected.pod.object.spec.volumes):
        # Not by name: pods of one shape may name their volumes differently.
        if not meets_rules(volume):
            continue
        claim = volume.persistent_volume_claim
        of_claim = f" (claim {claim.claim_name})" if claim is not None else ""
        yield PodChange(
            "volume",
            f"spec.volumes[{number}]",
            f"without the volume {volume.name}{of_claim}",
            without_part("volumes", volume),
        )
