"""Workloads: from a controller and its pod template to the pods it would make.

Owns which kinds have a template, how many pods they want, and what names, labels, owners and claims
those pods get. Never decides where a pod goes, and never reads a file.
Upstream: pkg/controller/controller_utils.go GetPodFromTemplate,
pkg/controller/statefulset/stateful_set_utils.go, pkg/controller/job/job_controller.go,
pkg/controller/cronjob/utils.go getJobFromTemplate2,
pkg/controller/daemon/util/daemonset_util.go CreatePodTemplate
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.cache.cache import TERMINAL_PHASES
from kubesched.controllers.stateful_set_identity import ordinal_of
from kubesched.objects.check import check_object
from kubesched.objects.decode import decode_as
from kubesched.objects.errors import MalformedObject, short_repr
from kubesched.objects.meta import KubeResource, ObjectMeta, OwnerReference
from kubesched.objects.pod import Pod
from kubesched.objects.storage import PersistentVolumeClaim, PersistentVolumeClaimStatus
from kubesched.objects.volumes import PersistentVolumeClaimVolumeSource, Volume
from kubesched.objects.wire import Int32, Wire
from kubesched.sim.daemons import aimed_at, daemon_template
from kubesched.sim.jobs import JobSpec, JobStatus, job_lack

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
    """What the kinds of workloads say, together; each kind fills its own part."""

    replicas: Int32 | None = None
    selector: dict[str, Any] = {}
    template: dict[str, Any] = {}
    volume_claim_templates: tuple[dict[str, Any], ...] = ()
    ordinals: Ordinals = Ordinals()


class WorkloadObject(KubeResource, frozen=True, kw_only=True):
    """A controller of any kind, read for its template."""

    spec: WorkloadSpec = WorkloadSpec()
    status: JobStatus = JobStatus()


@dataclass(frozen=True, slots=True)
class ToMake:
    """The pods a controller still has to make."""

    count: int
    indexes: Iterable[int]
    """Theirs come first, then those it would go on with."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A controller, and what its pods have in common."""

    kind: str
    """The kind as the user wrote it; a Deployment's pods belong to its ReplicaSet."""
    name: str
    namespace: str
    owner: OwnerReference
    """Whose the pods are that it makes now: a Deployment's newest ReplicaSet, or itself."""
    spec: WorkloadSpec
    status: JobStatus
    is_terminating: bool = False
    """Whether it is being deleted, and makes no more pods."""
    template_hash: str = ""
    """Of a Deployment or a DaemonSet: what pods of the template as it is now are marked with."""
    other_owners: tuple[OwnerReference, ...] = ()
    """Whose pods are its own besides: a Deployment's older ReplicaSets."""

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_indexed(self) -> bool:
        """Return whether its pods differ by more than their names."""
        by_kind = self.kind in ("StatefulSet", "DaemonSet")
        return by_kind or self.spec.completion_mode == "Indexed"

    @property
    def pod_uid(self) -> str:
        """Return the uid that marks the template among objects."""
        return template_uid(self.kind, self.key)

    def missing(self, pods: OwnedPods) -> ToMake:
        """Return the pods the controller still has to make, given those there are.

        Of a DaemonSet the nodes tell that, see `daemons`; of a Job its own rule, see `jobs`.
        """
        there = pods.of(self.namespace, (self.owner, *self.other_owners))
        wanted = 1 if self.spec.replicas is None else self.spec.replicas
        if self.kind == "CronJob" or self.is_terminating:
            # A CronJob makes jobs by the clock, and nothing happens at a time here.
            return ToMake(0, itertools.count())
        if self.kind == "Job":
            lack = job_lack(self.spec, self.status, there)
            first_beyond = self.spec.completions or 0 if self.is_indexed else 0
            indexes = itertools.chain(lack.indexes, itertools.count(first_beyond))
            return ToMake(lack.count, indexes)
        if self.kind == "StatefulSet":
            return self._missing_ordinals(wanted, there)
        active = sum(not has_ended(pod) and not is_terminating(pod) for pod in there)
        return ToMake(max(0, wanted - active), itertools.count())

    def _missing_ordinals(self, wanted: int, there: Iterable[Pod]) -> ToMake:
        # Parity: stateful_set_control.go processReplica, v1.36: a pod that has ended is replaced
        # under its own name, one that is being deleted keeps it until it is gone.
        first = self.spec.ordinals.start
        names = (pod.metadata.name for pod in there if not has_ended(pod))
        taken = {ordinal_of({"metadata": {"name": name}}) for name in names}
        count = wanted - sum(first <= one < first + wanted for one in taken)
        return ToMake(count, (at for at in itertools.count(first) if at not in taken))

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

    def pod_for(self, template: Pod, node_name: str) -> Pod:
        """Return the pod of a DaemonSet for a node, made from the template."""
        name = f"{self.name}-{node_name}"
        meta = replace(template.metadata, name=name, uid=f"pod/{self.namespace}/{name}")
        return aimed_at(replace(template, metadata=meta), node_name)

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
            claim = replace(claim, metadata=meta, status=PersistentVolumeClaimStatus())
            check_object(claim)
            made.append(claim)
        return made


def template_uid(kind: str, key: str) -> str:
    """Return the uid that marks a controller's template among objects."""
    return f"template/{kind}/{key}"


def has_ended(pod: Pod) -> bool:
    """Return whether nothing of a pod runs, nor will."""
    return pod.status.phase in TERMINAL_PHASES


def is_terminating(pod: Pod) -> bool:
    """Return whether a pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return who controls a pod."""
    return next((one for one in pod.metadata.owner_references if one.controller), None)


class OwnedPods:
    """The pods of a cluster by who controls them."""

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
        """Return the pods that any of the owners controls, known by uid or by kind and name."""
        found: dict[str, Pod] = {}
        for owner in owners:
            named = self._by_name.get((namespace, owner.kind, owner.name), ())
            same = self._by_uid.get((namespace, owner.uid), ()) if owner.uid else ()
            found |= {pod.key: pod for pod in (*named, *same)}
        return list(found.values())


def is_of_workload_kind(tree: Mapping[str, Any]) -> bool:
    """Return whether a document is a controller of pods."""
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return False
    return (version.rpartition("/")[0], kind) in WORKLOAD_KINDS


def is_workload(tree: Mapping[str, Any]) -> bool:
    """Return whether a document is a controller that has a pod template worth the name."""
    if not is_of_workload_kind(tree):
        return False
    part: Any = tree
    for name in (*_spec_path(tree["kind"]), "template", "spec"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return isinstance(part, Mapping) and bool(part.get("containers"))


def workload_of(tree: Mapping[str, Any], default_namespace: str) -> Workload:
    """Return the controller a document describes; raise MalformedObject if it is none."""
    kind = str(tree["kind"])
    obj = _decoded(kind, tree)
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
    """Return where a kind keeps what the others have in `spec`."""
    return ("spec", "jobTemplate", "spec") if kind == "CronJob" else ("spec",)


def _decoded(kind: str, tree: Mapping[str, Any]) -> WorkloadObject:
    if kind != "CronJob":
        return decode_as(WorkloadObject, tree)
    # Its own status counts jobs, not pods.
    inner = {**tree, "spec": tree["spec"]["jobTemplate"]["spec"], "status": {}}
    try:
        return decode_as(WorkloadObject, inner)
    except MalformedObject as problem:
        if not problem.field.startswith("spec"):
            raise
        raise MalformedObject(
            kind=kind,
            key=problem.key,
            field=problem.field.replace("spec", "spec.jobTemplate.spec", 1),
            value=problem.value,
            problem=problem.problem,
        ) from None


def template_pod(workload: Workload) -> Pod:
    """Return the template as a pod; raise MalformedObject in the workload's name."""
    template = workload.spec.template
    try:
        pod = decode_as(Pod, {part: template.get(part) for part in ("metadata", "spec")})
        if workload.kind == "DaemonSet":
            made = daemon_template(template)
            pod = decode_as(Pod, {part: made.get(part) for part in ("metadata", "spec")})
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
        raise MalformedObject(
            kind=workload.kind,
            key=workload.key,
            field=f"{where}.{problem.field}" if problem.field else where,
            value=problem.value,
            problem=problem.problem,
        ) from None
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
    # Differs: upstream hashes its own struct; any value that follows the template will do.
    return f"{zlib.crc32(msgspec.json.encode(template, order='sorted')):08x}"


def _name_of(template: Mapping[str, Any]) -> str:
    metadata = template.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""


def _check_indexed(kind: str, key: str, spec: JobSpec) -> None:
    # Parity: pkg/apis/batch/validation/validation.go validateJobSpec, v1.36.
    where = ".".join(_spec_path(kind))
    if spec.completions is None and spec.parallelism:
        raise MalformedObject(
            kind=kind,
            key=key,
            field=f"{where}.completions",
            problem="Required value: when completion mode is Indexed",
        )
    if spec.parallelism is not None and spec.parallelism > _INDEXED_AT_ONCE_MAX:
        raise MalformedObject(
            kind=kind,
            key=key,
            field=f"{where}.parallelism",
            value=short_repr(spec.parallelism),
            problem=f"Invalid value: must be less than or equal to {_INDEXED_AT_ONCE_MAX} when "
            "completion mode is Indexed",
        )


def _check_counts(kind: str, key: str, spec: WorkloadSpec) -> None:
    for field in ("replicas", "parallelism", "completions"):
        value = getattr(spec, field)
        if value is None or value >= 0:
            continue
        raise MalformedObject(
            kind=kind,
            key=key,
            field=".".join((*_spec_path(kind), field)),
            value=short_repr(value),
            problem="Invalid value: must be greater than or equal to 0",
        )
    if spec.completion_mode == "Indexed":
        _check_indexed(kind, key, spec)
    for number, template in enumerate(spec.volume_claim_templates):
        if not _name_of(template):
            raise MalformedObject(
                kind=kind,
                key=key,
                field=f"spec.volumeClaimTemplates[{number}].metadata.name",
                problem="Required value: name is required",
            )
