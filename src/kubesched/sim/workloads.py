"""Workloads: from a controller and its pod template to the pods it would make.

Owns which kinds have a template, how many pods they want, and what names, labels, owners and claims
those pods get. Never decides where a pod goes, and never reads a file.
Upstream: pkg/controller/controller_utils.go GetPodFromTemplate,
pkg/controller/statefulset/stateful_set_utils.go, pkg/controller/job/job_controller.go
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.objects.check import check_object
from kubesched.objects.decode import decode_as
from kubesched.objects.errors import MalformedObject, short_repr
from kubesched.objects.meta import KubeResource, ObjectMeta, OwnerReference
from kubesched.objects.pod import Pod
from kubesched.objects.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from kubesched.objects.volumes import PersistentVolumeClaimVolumeSource, Volume
from kubesched.objects.wire import Int32, Wire

WORKLOAD_KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("", "ReplicationController"),
    }
)
_POD_COUNT_MAX = 1_000_000
_HASH_LABEL = "pod-template-hash"


class WorkloadStatus(Wire, frozen=True, kw_only=True):
    """How far a job has come."""

    succeeded: Int32 = 0


class WorkloadSpec(Wire, frozen=True, kw_only=True):
    """What the kinds of workloads say, together; each kind fills its own part."""

    replicas: Int32 | None = None
    selector: dict[str, Any] = {}
    template: dict[str, Any] = {}
    volume_claim_templates: tuple[dict[str, Any], ...] = ()
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str = ""
    suspend: bool = False


class WorkloadObject(KubeResource, frozen=True, kw_only=True):
    """A controller of any kind, read for its template."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


@dataclass(frozen=True, slots=True)
class Workload:
    """A controller, and what its pods have in common."""

    kind: str
    """The kind as the user wrote it; a Deployment's pods belong to its ReplicaSet."""
    name: str
    namespace: str
    owner: OwnerReference
    spec: WorkloadSpec
    succeeded: int = 0

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_indexed(self) -> bool:
        """Return whether its pods differ by more than their names."""
        return self.kind == "StatefulSet" or self.spec.completion_mode == "Indexed"

    @property
    def pod_uid(self) -> str:
        """Return the uid that marks the template among objects."""
        return f"template/{self.kind}/{self.key}"

    def missing(self, pods: Iterable[Pod]) -> int:
        """Return how many pods the controller still has to make, given those there are."""
        live = done = 0
        for pod in pods:
            if not self._owns(pod):
                continue
            live += pod.status.phase not in ("Succeeded", "Failed")
            done += pod.status.phase == "Succeeded"
        return max(0, self._wanted(max(done, self.succeeded)) - live)

    def _wanted(self, done: int) -> int:
        spec = self.spec
        if self.kind != "Job":
            return 1 if spec.replicas is None else spec.replicas
        if spec.suspend:
            return 0
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        left = parallelism if spec.completions is None else max(0, spec.completions - done)
        return min(parallelism, left)

    def _owns(self, pod: Pod) -> bool:
        owner = next((one for one in pod.metadata.owner_references if one.controller), None)
        if owner is None or pod.metadata.namespace != self.namespace:
            return False
        if owner.uid and owner.uid == self.owner.uid:
            return True
        return (owner.kind, owner.name) == (self.owner.kind, self.owner.name)

    def pod(self, template: Pod, index: int) -> Pod:
        """Return the pod of an index, made from the template."""
        name = f"{self.owner.name}-{index}"
        labels = {**template.metadata.labels, **self._own_labels(name, index)}
        meta = replace(template.metadata, name=name, uid=f"pod/{self.namespace}/{name}")
        pod = replace(template, metadata=replace(meta, labels=labels))
        if not self.spec.volume_claim_templates:
            return pod
        # Parity: stateful_set_utils.go updateStorage, v1.36: a claim takes the place of a volume
        # of the same name.
        claimed = {_name_of(one): one for one in self.spec.volume_claim_templates}
        kept = [one for one in pod.spec.volumes if one.name not in claimed]
        made = [
            Volume(
                name=one,
                persistent_volume_claim=PersistentVolumeClaimVolumeSource(
                    claim_name=f"{one}-{name}"
                ),
            )
            for one in claimed
        ]
        return replace(pod, spec=replace(pod.spec, volumes=(*made, *kept)))

    def _own_labels(self, name: str, index: int) -> dict[str, str]:
        if self.kind == "StatefulSet":
            return {
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(index),
            }
        if self.kind == "Job" and self.is_indexed:
            return {"batch.kubernetes.io/job-completion-index": str(index)}
        return {}

    def claims(self, index: int) -> list[PersistentVolumeClaim]:
        """Return the claims made for the pod of an index."""
        made = []
        for template in self.spec.volume_claim_templates:
            name = f"{_name_of(template)}-{self.owner.name}-{index}"
            claim = decode_as(PersistentVolumeClaim, template)
            meta = ObjectMeta(
                name=name,
                namespace=self.namespace,
                uid=f"persistentvolumeclaim/{self.namespace}/{name}",
                labels=claim.metadata.labels,
                annotations=claim.metadata.annotations,
            )
            status = PersistentVolumeClaimStatus(phase="Pending")
            claim = replace(claim, metadata=meta, status=status)
            check_object(claim)
            made.append(claim)
        return made


def is_workload(tree: Mapping[str, Any]) -> bool:
    """Return whether a document is a controller that has a pod template worth the name."""
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return False
    if (version.rpartition("/")[0], kind) not in WORKLOAD_KINDS:
        return False
    spec = tree.get("spec")
    template = spec.get("template") if isinstance(spec, Mapping) else None
    inner = template.get("spec") if isinstance(template, Mapping) else None
    return isinstance(inner, Mapping) and bool(inner.get("containers"))


def workload_of(tree: Mapping[str, Any], default_namespace: str) -> Workload:
    """Return the controller a document describes; raise MalformedObject if it is none."""
    kind = str(tree["kind"])
    obj = decode_as(WorkloadObject, tree)
    namespace = obj.metadata.namespace or default_namespace
    if not obj.metadata.name:
        raise MalformedObject(
            kind=kind, field="metadata.name", problem="Required value: name is required"
        )
    _check_counts(kind, f"{namespace}/{obj.metadata.name}", obj.spec)
    owner = OwnerReference(
        api_version=str(tree["apiVersion"]),
        kind=kind,
        name=obj.metadata.name,
        uid=obj.metadata.uid,
        controller=True,
    )
    if kind == "Deployment":
        name = f"{obj.metadata.name}-{_template_hash(obj.spec.template)}"
        owner = replace(owner, kind="ReplicaSet", name=name, uid="")
    return Workload(
        kind, obj.metadata.name, namespace, owner, obj.spec, succeeded=obj.status.succeeded
    )


def template_pod(workload: Workload) -> Pod:
    """Return the template as a pod; raise MalformedObject in the workload's name."""
    template = workload.spec.template
    try:
        pod = decode_as(Pod, {part: template.get(part) for part in ("metadata", "spec")})
        labels = {**pod.metadata.labels, **_template_labels(workload)}
        meta = ObjectMeta(
            name=workload.owner.name,
            namespace=workload.namespace,
            uid=workload.pod_uid,
            labels=labels,
            annotations=pod.metadata.annotations,
            owner_references=(workload.owner,),
        )
        pod = replace(pod, metadata=meta)
        check_object(pod)
    except MalformedObject as problem:
        raise MalformedObject(
            kind=workload.kind,
            key=workload.key,
            field=f"spec.template.{problem.field}" if problem.field else "spec.template",
            value=problem.value,
            problem=problem.problem,
        ) from None
    return pod


def replica_set_of(workload: Workload) -> dict[str, Any]:
    """Return the document of the ReplicaSet a Deployment makes."""
    label = {_HASH_LABEL: _template_hash(workload.spec.template)}
    selector = dict(workload.spec.selector)
    matched = selector.get("matchLabels")
    if matched is None or isinstance(matched, Mapping):
        selector["matchLabels"] = {**(matched or {}), **label}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": workload.owner.name, "namespace": workload.namespace},
        "spec": {"replicas": workload.spec.replicas, "selector": selector},
    }


def _template_labels(workload: Workload) -> dict[str, str]:
    if workload.kind == "Deployment":
        return {_HASH_LABEL: _template_hash(workload.spec.template)}
    if workload.kind == "Job":
        # Parity: job_controller.go newControllerRefManager's labels, v1.36, both spellings.
        return {"batch.kubernetes.io/job-name": workload.name, "job-name": workload.name}
    return {}


def _template_hash(template: Mapping[str, Any]) -> str:
    # Differs: upstream hashes its own struct; any value that follows the template will do.
    return f"{zlib.crc32(msgspec.json.encode(template, order='sorted')):08x}"


def _name_of(template: Mapping[str, Any]) -> str:
    metadata = template.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _check_counts(kind: str, key: str, spec: WorkloadSpec) -> None:
    for field in ("replicas", "parallelism", "completions"):
        value = getattr(spec, field)
        if value is None or 0 <= value <= _POD_COUNT_MAX:
            continue
        limit = "greater than or equal to 0" if value < 0 else f"at most {_POD_COUNT_MAX} here"
        raise MalformedObject(
            kind=kind,
            key=key,
            field=f"spec.{field}",
            value=short_repr(value),
            problem=f"Invalid value: must be {limit}",
        )
    for number, template in enumerate(spec.volume_claim_templates):
        if not _name_of(template):
            raise MalformedObject(
                kind=kind,
                key=key,
                field=f"spec.volumeClaimTemplates[{number}].metadata.name",
                problem="Required value: name is required",
            )
