"""Workloads of manifests: pod templates, and the pods that controllers would create.

Which kinds have a pod template, how many pods they still have to create, the names, labels, owners
and claims of these pods, and which ReplicaSet the pods of a Deployment belong to. Rollouts are not
simulated: existing pods stay.
Upstream: pkg/controller/controller_utils.go GetPodFromTemplate,
pkg/controller/statefulset/stateful_set_utils.go, pkg/controller/job/job_controller.go,
pkg/controller/cronjob/utils.go getJobFromTemplate2,
pkg/controller/daemon/util/daemonset_util.go CreatePodTemplate
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from dataclasses import replace as replace_fields
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api.check import check_object
from kubesched.api.decode import decode_as
from kubesched.api.errors import MalformedObject, short_repr
from kubesched.api.meta import KubeResource, ObjectMeta, OwnerReference
from kubesched.api.pod import Pod
from kubesched.api.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from kubesched.api.volumes import PersistentVolumeClaimVolumeSource, Volume
from kubesched.api.wire import Int32, Wire
from kubesched.api.workloads import ReplicaSet
from kubesched.cache.cache import TERMINAL_PHASES
from kubesched.manifests.defaulting import Admission
from kubesched.manifests.missing_pods import (
    JobSpec,
    JobStatus,
    MissingPods,
    daemon_template,
    for_node,
    missing_job_pods,
)
from kubesched.snapshot.pod_info import PodShape, compile_shape

WORKLOAD_KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("batch", "CronJob"),
        ("", "ReplicationController"),
    }
)
_INDEXED_AT_ONCE_MAX = 100_000
_JOBS = ("Job", "CronJob")
_HASHED = ("Deployment", "DaemonSet")
HASH_LABEL = "pod-template-hash"
_REVISION_LABEL = "controller-revision-hash"


class Ordinals(Wire, frozen=True, kw_only=True):
    """How the pods of a StatefulSet are numbered."""

    start: Int32 = 0


class WorkloadSpec(JobSpec, frozen=True, kw_only=True):
    """The fields of all workload kinds; each kind uses some of them."""

    replicas: Int32 | None = None
    selector: dict[str, Any] = {}
    template: dict[str, Any] = {}
    volume_claim_templates: tuple[dict[str, Any], ...] = ()
    ordinals: Ordinals = Ordinals()


class WorkloadObject(KubeResource, frozen=True, kw_only=True):
    """A workload of any kind, read for its template."""

    spec: WorkloadSpec = WorkloadSpec()
    status: JobStatus = JobStatus()


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload and the common properties of its pods."""

    kind: str
    """The kind in the manifest; a Deployment's pods belong to its ReplicaSet."""
    name: str
    namespace: str
    owner: OwnerReference
    """The owner of new pods: a Deployment's newest ReplicaSet, or the workload itself."""
    spec: WorkloadSpec
    status: JobStatus
    is_terminating: bool = False
    """Whether it is being deleted and creates no more pods."""
    template_hash: str = ""
    """The hash label of new pods of a Deployment or a DaemonSet."""
    other_owners: tuple[OwnerReference, ...] = ()
    """Other owners of its pods: a Deployment's older ReplicaSets."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_indexed(self) -> bool:
        """Return whether its pods differ in more than their names."""
        by_kind = self.kind in ("StatefulSet", "DaemonSet")
        return by_kind or self.spec.completion_mode == "Indexed"

    @property
    def pod_uid(self) -> str:
        """Return the uid of the template's pod among objects."""
        return template_uid(self.kind, self.key)

    def missing(self, pods: OwnedPods) -> MissingPods:
        """Return the pods that still have to be created, given the existing ones.

        For a DaemonSet that depends on the nodes, see `missing_pods.DaemonNodes`.
        """
        existing = pods.of(self.namespace, (self.owner, *self.other_owners))
        replicas = 1 if self.spec.replicas is None else self.spec.replicas
        if self.kind == "CronJob" or self.is_terminating:
            # A CronJob creates Jobs on a schedule, and time does not advance here.
            return MissingPods(0)
        if self.kind == "Job":
            return missing_job_pods(self.spec, self.status, existing)
        if self.kind == "StatefulSet":
            return self._missing_ordinals(replicas, existing)
        active = sum(not has_ended(pod) and not is_terminating(pod) for pod in existing)
        return MissingPods(max(0, replicas - active))

    def _missing_ordinals(self, replicas: int, existing: Iterable[Pod]) -> MissingPods:
        # Parity: stateful_set_control.go processReplica, v1.36: a terminated pod is replaced under
        # its name, a terminating one keeps the name until it is gone.
        first = self.spec.ordinals.start
        taken = {pod.metadata.name for pod in existing if not has_ended(pod)}
        free = (at for at in itertools.count(first) if f"{self.owner.name}-{at}" not in taken)
        desired = range(first, first + replicas)
        return MissingPods(sum(f"{self.owner.name}-{at}" not in taken for at in desired), free)

    def pod(self, template: Pod, index: int) -> Pod:
        """Return the pod with an index."""
        name = f"{self.owner.name}-{index}"
        labels = {**template.metadata.labels, **self._own_labels(name, index)}
        meta = replace(template.metadata, name=name, uid=f"pod/{self.namespace}/{name}")
        pod = replace(template, metadata=replace(meta, labels=labels))
        if not self.spec.volume_claim_templates:
            return pod
        # Parity: stateful_set_utils.go updateStorage, v1.36: a claim replaces a volume of the same
        # name.
        claimed = {_name_of(template): template for template in self.spec.volume_claim_templates}
        kept = [volume for volume in pod.spec.volumes if volume.name not in claimed]
        volumes = [
            Volume(
                name=volume,
                persistent_volume_claim=PersistentVolumeClaimVolumeSource(
                    claim_name=f"{volume}-{name}"
                ),
            )
            for volume in claimed
        ]
        return replace(pod, spec=replace(pod.spec, volumes=(*volumes, *kept)))

    def pod_for(self, template: Pod, node_name: str) -> Pod:
        """Return the pod of a DaemonSet for a node."""
        name = f"{self.name}-{node_name}"
        meta = replace(template.metadata, name=name, uid=f"pod/{self.namespace}/{name}")
        return for_node(replace(template, metadata=meta), node_name)

    def _own_labels(self, name: str, index: int) -> dict[str, str]:
        if self.kind == "StatefulSet":
            return {
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(index),
            }
        if self.kind in _JOBS and self.is_indexed:
            return {"batch.kubernetes.io/job-completion-index": str(index)}
        return {}

    def claims(self, index: int) -> list[PersistentVolumeClaim]:
        """Return the claims of the pod with an index."""
        claims = []
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
            claim = replace(claim, metadata=meta, status=PersistentVolumeClaimStatus())
            check_object(claim)
            claims.append(claim)
        return claims


def template_uid(kind: str, key: str) -> str:
    """Return the uid of a workload's template among objects."""
    return f"template/{kind}/{key}"


def has_ended(pod: Pod) -> bool:
    """Return whether a pod has terminated."""
    return pod.status.phase in TERMINAL_PHASES


def is_terminating(pod: Pod) -> bool:
    """Return whether a pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the controller of a pod."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


class OwnedPods:
    """The pods of a cluster by controller."""

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._by_name: dict[tuple[str, str, str], list[Pod]] = {}
        self._by_uid: dict[tuple[str, str], list[Pod]] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                continue
            namespace = pod.metadata.namespace
            self._by_name.setdefault((namespace, owner.kind, owner.name), []).append(pod)
            if owner.uid:
                self._by_uid.setdefault((namespace, owner.uid), []).append(pod)

    def of(self, namespace: str, owners: Iterable[OwnerReference]) -> list[Pod]:
        """Return the pods of any of the owners, matched by uid or by kind and name."""
        owned: dict[str, Pod] = {}
        for owner in owners:
            named = self._by_name.get((namespace, owner.kind, owner.name), ())
            same = self._by_uid.get((namespace, owner.uid), ()) if owner.uid else ()
            owned |= {pod.key: pod for pod in (*named, *same)}
        return list(owned.values())


def is_of_workload_kind(tree: Mapping[str, Any]) -> bool:
    """Return whether a document is of a workload kind."""
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return False
    return (version.rpartition("/")[0], kind) in WORKLOAD_KINDS


def is_workload(tree: Mapping[str, Any]) -> bool:
    """Return whether a document is a workload whose pod template has containers."""
    if not is_of_workload_kind(tree):
        return False
    value: Any = tree
    for name in (*_spec_path(tree["kind"]), "template", "spec"):
        value = value.get(name) if isinstance(value, Mapping) else None
    return isinstance(value, Mapping) and bool(value.get("containers"))


def workload_of(tree: Mapping[str, Any], default_namespace: str) -> Workload:
    """Return the workload of a document; raise MalformedObject if it is invalid."""
    kind = str(tree["kind"])
    obj = _decoded(kind, tree)
    namespace = obj.metadata.namespace or default_namespace
    if not obj.metadata.name:
        raise MalformedObject(
            kind=kind, field="metadata.name", problem="Required value: name is required"
        )
    for field, value, problem in _spec_problems(kind, obj.spec):
        raise MalformedObject(
            kind=kind,
            key=f"{namespace}/{obj.metadata.name}",
            field=field,
            value="" if value is None else short_repr(value),
            problem=problem,
        )
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
    if kind == "CronJob":
        owner = replace(owner, kind="Job", name=f"{obj.metadata.name}-next", uid="")
    return Workload(
        kind,
        obj.metadata.name,
        namespace,
        owner,
        obj.spec,
        status=obj.status,
        is_terminating=obj.metadata.deletion_timestamp is not None,
        template_hash=_template_hash(obj.spec.template) if kind in _HASHED else "",
    )


def _spec_path(kind: str) -> tuple[str, ...]:
    """Return the path of the spec that holds the pod template."""
    return ("spec", "jobTemplate", "spec") if kind == "CronJob" else ("spec",)


def _decoded(kind: str, tree: Mapping[str, Any]) -> WorkloadObject:
    if kind != "CronJob":
        return decode_as(WorkloadObject, tree)
    # The status of a CronJob counts Jobs, not pods.
    inner = {**tree, "spec": tree["spec"]["jobTemplate"]["spec"], "status": {}}
    try:
        return decode_as(WorkloadObject, inner)
    except MalformedObject as problem:
        if not problem.field.startswith("spec"):
            raise
        field = problem.field.replace("spec", "spec.jobTemplate.spec", 1)
        raise problem.replace(kind=kind, field=field) from None


def template_pod(workload: Workload) -> Pod:
    """Return the template as a pod; MalformedObject names the workload."""
    template = workload.spec.template
    try:
        pod = decode_as(Pod, {part: template.get(part) for part in ("metadata", "spec")})
        if workload.kind == "DaemonSet":
            template = daemon_template(template)
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
        where = ".".join((*_spec_path(workload.kind), "template"))
        field = f"{where}.{problem.field}" if problem.field else where
        raise problem.replace(kind=workload.kind, key=workload.key, field=field) from None
    return pod


def _template_labels(workload: Workload) -> dict[str, str]:
    if workload.kind == "DaemonSet":
        return {_REVISION_LABEL: workload.template_hash}
    if workload.template_hash:
        return {HASH_LABEL: workload.template_hash}
    if workload.kind in _JOBS:
        # Parity: job_controller.go newControllerRefManager's labels, v1.36, both spellings.
        name = workload.owner.name
        return {"batch.kubernetes.io/job-name": name, "job-name": name}
    return {}


def _template_hash(template: Mapping[str, Any]) -> str:
    # Differs: upstream hashes its own struct; any hash of the template will do.
    return f"{zlib.crc32(msgspec.json.encode(template, order='sorted')):08x}"


def _name_of(template: Mapping[str, Any]) -> str:
    metadata = template.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _spec_problems(kind: str, spec: WorkloadSpec) -> Iterator[tuple[str, int | None, str]]:
    """Yield field, value and problem of each invalid field."""
    where = ".".join(_spec_path(kind))
    for field in ("replicas", "parallelism", "completions"):
        value = getattr(spec, field)
        if value is not None and value < 0:
            yield f"{where}.{field}", value, "Invalid value: must be greater than or equal to 0"
    if spec.completion_mode == "Indexed":
        # Parity: pkg/apis/batch/validation/validation.go validateJobSpec, v1.36.
        mode = "when completion mode is Indexed"
        if spec.completions is None and spec.parallelism:
            yield f"{where}.completions", None, f"Required value: {mode}"
        if (spec.parallelism or 0) > _INDEXED_AT_ONCE_MAX:
            problem = f"Invalid value: must be less than or equal to {_INDEXED_AT_ONCE_MAX} {mode}"
            yield f"{where}.parallelism", spec.parallelism, problem
    for number, template in enumerate(spec.volume_claim_templates):
        if not _name_of(template):
            field = f"spec.volumeClaimTemplates[{number}].metadata.name"
            yield field, None, "Required value: name is required"


_REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
_SHAPE_FIELDS = tuple(field.name for field in fields(PodShape) if field.name != "unnamed")


def is_same_template(pod: Pod, other: Pod, admission: Admission) -> bool:
    """Return whether two templates are equal as far as scheduling reads them.

    Differs: deployment_util.go EqualIgnoreHash compares stored templates completely. A handwritten
    template lacks most defaults, none of which concerns scheduling.
    """
    return _scheduling_fields(pod, admission) == _scheduling_fields(other, admission)


def _scheduling_fields(pod: Pod, admission: Admission) -> list[object]:
    """Return the fields of a template that scheduling reads, without the hash label."""
    labels = {key: text for key, text in pod.metadata.labels.items() if key != HASH_LABEL}
    admitted = admission.admit(replace(pod, metadata=replace(pod.metadata, labels=labels)))
    spec = admitted.spec
    claims = [
        (volume.name, volume.persistent_volume_claim, volume.ephemeral is None)
        for volume in spec.volumes
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None
    ]
    # Other volumes are not compared: their defaults are not applied.
    shape = compile_shape(replace(admitted, spec=replace(spec, volumes=())))
    compiled = (getattr(shape, name) for name in _SHAPE_FIELDS)
    return [labels, spec.priority, spec.scheduling_gates, claims, *compiled]


def adopting(
    workload: Workload, sets: Iterable[ReplicaSet], same: Iterable[ReplicaSet]
) -> Workload:
    """Return a Deployment as the owner of its ReplicaSets.

    New pods belong to the newest ReplicaSet with its template, or else to a new ReplicaSet.
    """
    owners = {
        replica_set.key: OwnerReference(
            api_version=replica_set.api_version,
            kind=replica_set.kind,
            name=replica_set.metadata.name,
            uid=replica_set.metadata.uid,
            controller=True,
        )
        for replica_set in sets
    }
    newest = max(same, key=_revision, default=None)
    if newest is not None:
        workload = replace_fields(
            workload,
            owner=owners.pop(newest.key),
            template_hash=newest.metadata.labels.get(HASH_LABEL, ""),
        )
    return replace_fields(workload, other_owners=tuple(owners.values()))


def newest_of(sets: Iterable[ReplicaSet]) -> ReplicaSet:
    """Return the ReplicaSet with the highest revision."""
    return max(sets, key=_revision)


def _revision(replica_set: ReplicaSet) -> tuple[int, int]:
    # Parity: deployment/util/deployment_util.go Revision, v1.36.
    text = replica_set.metadata.annotations.get(_REVISION_ANNOTATION, "")
    revision = int(text) if text.isascii() and text.isdigit() else 0
    return revision, replica_set.spec.replicas or 0


def replica_set_of(workload: Workload) -> dict[str, Any]:
    """Return the document of the ReplicaSet that a Deployment creates."""
    label = {HASH_LABEL: workload.template_hash}
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
