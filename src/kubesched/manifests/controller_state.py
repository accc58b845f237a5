"""State that controllers would have written into handwritten objects.

Sets volume phases and the status of disruption budgets, binds new claims, and creates the claims of
ephemeral volumes. Objects with a status keep it. Claims that wait for their first consumer are left
to the scheduler. The rules are in `kubesched.workloads`, shared with the running controllers.
Upstream: pkg/controller/disruption/disruption.go,
pkg/controller/volume/{persistentvolume/pv_controller,ephemeral/controller}.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api.decode import KubeObject, decode_as
from kubesched.api.documents import Document
from kubesched.api.label_selectors import label_selector
from kubesched.api.pod import Pod
from kubesched.api.policy import NO_STATUS, PodDisruptionBudget, PodDisruptionBudgetStatus
from kubesched.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
    StorageClass,
)
from kubesched.manifests.defaulting import Admission
from kubesched.manifests.workloads import Workload, controller_of, has_ended
from kubesched.plugins.pod_volumes import class_of_claim
from kubesched.workloads.disruption import (
    depends_on_scale,
    desired_healthy,
    healthy_count,
    new_status,
)
from kubesched.workloads.volume_matching import (
    best_match,
    bound_claim,
    bound_volume,
    claim_key_of,
    claim_status,
    class_of,
)
from kubesched.workloads.volume_provisioning import (
    ProvisioningError,
    Site,
    ephemeral_claim,
    provisioned_volume,
    provisioner_of,
)

# Owners of pods without a scale subresource.
_WITHOUT_SCALE = ("DaemonSet", "Job", "Node")


def with_controller_status(
    objects: Sequence[KubeObject], pods: Sequence[Pod], workloads: Iterable[Workload]
) -> list[KubeObject]:
    """Return the objects with the status that controllers would have written.

    Args:
        objects: all objects of the files.
        pods: the existing pods among them, without templates.
        workloads: the workloads that define a number of replicas.
    """
    claims = {obj.key: obj for obj in objects if isinstance(obj, PersistentVolumeClaim)}
    scales = _Scales(workloads, pods)
    done: list[KubeObject] = []
    for obj in objects:
        if isinstance(obj, PersistentVolume) and not obj.status.phase:
            done.append(replace(obj, status=PersistentVolumeStatus(phase=_phase(obj, claims))))
        elif isinstance(obj, PodDisruptionBudget) and obj.status is NO_STATUS:
            done.append(replace(obj, status=_budget_status(obj, pods, scales)))
        else:
            done.append(obj)
    return done


def _phase(volume: PersistentVolume, claims: Mapping[str, PersistentVolumeClaim]) -> str:
    # Parity: pv_controller.go syncVolume, v1.36: a volume reserved for a claim that does not name
    # it is Available, unless its claimRef has the uid of a claim that is gone.
    claim_ref = volume.spec.claim_ref
    if claim_ref is None:
        return "Available"
    claim = claims.get(f"{claim_ref.namespace}/{claim_ref.name}")
    if claim is not None and claim.spec.volume_name == volume.metadata.name:
        return "Bound"
    return "Released" if claim_ref.uid and claim is None else "Available"


# -- disruption budgets ---------------------------------------------------------------------------


class _Scales:
    """The desired numbers of replicas by owner."""

    def __init__(self, workloads: Iterable[Workload], pods: Sequence[Pod]) -> None:
        # By namespace, kind and name of an owner: the uid of its workload, and its replicas.
        self._by_owner: dict[tuple[str, str, str], tuple[str, int]] = {}
        for workload in workloads:
            replicas = 1 if workload.spec.replicas is None else workload.spec.replicas
            for owner in (workload.owner, *workload.other_owners):
                key = (workload.namespace, owner.kind, owner.name)
                self._by_owner[key] = workload.pod_uid, replicas
        self._pods = pods

    @cached_property
    def _counts(self) -> Counter[tuple[str, str, str] | None]:
        """Return the number of pods by owner: the scale of owners that are not in the files."""
        return Counter(_owner_key(pod) for pod in self._pods)

    def expected(self, pods: Iterable[Pod]) -> int | None:
        """Return the desired number of pods; None if an owner has no scale.

        Parity: disruption.go getExpectedScale, v1.36.
        """
        replicas: dict[str, int] = {}
        for pod in pods:
            key = _owner_key(pod)
            if key is None:
                continue
            if key[1] in _WITHOUT_SCALE:
                return None
            uid, count = self._by_owner.get(key) or ("/".join(key), self._counts[key])
            replicas[uid] = count
        return sum(replicas.values())


def _owner_key(pod: Pod) -> tuple[str, str, str] | None:
    owner = controller_of(pod)
    return None if owner is None else (pod.metadata.namespace, owner.kind, owner.name)


def _budget_status(
    budget: PodDisruptionBudget, pods: Iterable[Pod], scales: _Scales
) -> PodDisruptionBudgetStatus:
    spec: dict[str, Any] = msgspec.to_builtins(budget.spec)
    try:
        selector = label_selector(budget.spec.selector)
        covered = [
            pod
            for pod in pods
            if pod.metadata.namespace == budget.metadata.namespace
            and selector.matches(pod.metadata.labels)
        ]
        expected = scales.expected(covered) if depends_on_scale(spec) else len(covered)
        if expected is None:
            return NO_STATUS
        desired = desired_healthy(spec, expected)
    except ValueError:
        return NO_STATUS  # An invalid budget allows no disruption.
    status = new_status(
        {"metadata": {}},
        healthy=healthy_count(map(_pod_document, covered), {}, now_s=0.0),
        desired=desired,
        expected=expected,
        disrupted={},
        now_s=0.0,
    )
    return decode_as(PodDisruptionBudgetStatus, status or {})


def _pod_document(pod: Pod) -> dict[str, Any]:
    """Return the fields that decide a pod's health; a bound pod without conditions is ready."""
    conditions = [
        {"type": condition.type, "status": condition.status} for condition in pod.status.conditions
    ]
    if not conditions and pod.spec.node_name and not has_ended(pod):
        conditions = [{"type": "Ready", "status": "True"}]
    meta = pod.metadata
    return {
        "metadata": {"name": meta.name, "deletionTimestamp": meta.deletion_timestamp},
        "status": {"conditions": conditions},
    }


WAITS = "WaitForFirstConsumer"


class ClaimBinder:
    """Binds new claims to free or newly provisioned volumes."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._classes: dict[str, StorageClass] = {}
        self._available: list[PersistentVolume] = []
        for obj in objects:
            if isinstance(obj, StorageClass):
                self._classes[obj.metadata.name] = obj
            elif isinstance(obj, PersistentVolume) and obj.status.phase == "Available":
                self._available.append(obj)

    @cached_property
    def _free(self) -> dict[str, list[Document]]:
        """The unbound volumes: by class, or by the key of the claim they are reserved for."""
        free: dict[str, list[Document]] = {}
        for volume in map(msgspec.to_builtins, self._available):
            free.setdefault(claim_key_of(volume) or class_of(volume), []).append(volume)
        return free

    def bind_all(self, objects: Iterable[KubeObject]) -> list[KubeObject]:
        """Return the objects with all claims bound where possible, and new volumes."""
        objects = list(objects)
        changed: dict[tuple[str, str], KubeObject] = {}
        for obj in objects:
            if isinstance(obj, PersistentVolumeClaim):
                changed |= {(bound.kind, bound.key): bound for bound in self.bind(obj)}
        kept = [changed.pop((obj.kind, obj.key), obj) for obj in objects]
        return [*kept, *changed.values()]

    def bind(self, claim: PersistentVolumeClaim) -> tuple[KubeObject, ...]:
        """Return a claim as the controller leaves it, preceded by its volume if it gets one."""
        if claim.status.phase or claim.spec.volume_name:
            return (claim,)  # A controller has seen it.
        document: Document = msgspec.to_builtins(claim)
        volume = None if self._waits(claim) else self._take(claim, document)
        if volume is None:
            return (_with_phase(document, "Pending", None),)
        volume = bound_volume(volume, document) or volume
        volume["status"] = {"phase": "Bound"}
        document = bound_claim(document, volume) or document
        return decode_as(PersistentVolume, volume), _with_phase(document, "Bound", volume)

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self._classes.get(class_of_claim(claim))
        return storage_class is not None and storage_class.volume_binding_mode == WAITS

    def _take(self, claim: PersistentVolumeClaim, document: Document) -> Document | None:
        reserved, free = (self._free.get(key, []) for key in (claim.key, class_of_claim(claim)))
        match = best_match(document, [*reserved, *free], delays=False)
        if match is None:
            return self._provisioned(claim, document)
        for volumes in (reserved, free):
            volumes[:] = [volume for volume in volumes if volume is not match]
        return match

    def _provisioned(self, claim: PersistentVolumeClaim, document: Document) -> Document | None:
        obj = self._classes.get(class_of_claim(claim))
        if obj is None:
            return None
        storage_class = msgspec.to_builtins(obj)
        try:
            by = provisioner_of(storage_class)
            return provisioned_volume(document, storage_class, by, Site(is_csi=by.is_external))
        except ProvisioningError:
            return None


def _with_phase(document: Document, phase: str, volume: Document | None) -> PersistentVolumeClaim:
    status = claim_status(document, phase, volume)
    return decode_as(PersistentVolumeClaim, {**document, "status": status})


def ephemeral_claims(pod: Pod, admission: Admission) -> list[PersistentVolumeClaim]:
    """Return the claims of a pod's ephemeral volumes, with defaults applied."""
    meta = pod.metadata
    # A handwritten pod may lack a uid; its key replaces it.
    metadata = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid or pod.key}
    owner = {"apiVersion": pod.api_version, "kind": pod.kind, "metadata": metadata}
    claims = []
    for volume in pod.spec.volumes:
        if volume.ephemeral is None:
            continue
        document = ephemeral_claim(owner, msgspec.to_builtins(volume))
        claim = admission.admit(decode_as(PersistentVolumeClaim, document))
        uid = f"persistentvolumeclaim/{claim.key}#{metadata['uid']}"
        status = PersistentVolumeClaimStatus()
        claims.append(replace(claim, metadata=replace(claim.metadata, uid=uid), status=status))
    return claims
