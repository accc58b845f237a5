"""Deployments: which ReplicaSet the pods that they lack belong to.

Owns the comparison of templates, as far as decisions read them, and the ReplicaSet that a new
template gets. Never simulates a rollout: the pods that are there stay.
Upstream: pkg/controller/deployment/util/deployment_util.go FindNewReplicaSet
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from dataclasses import replace as replace_fields
from typing import Any

from msgspec.structs import replace

from kubesched.app.admission import Admission
from kubesched.model.pod_info import PodFamily, PodShape, compile_shape
from kubesched.objects.meta import OwnerReference
from kubesched.objects.pod import Pod
from kubesched.objects.workloads import ReplicaSet
from kubesched.sim.workloads import HASH_LABEL, Workload

_REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
_READ_PARTS = tuple(one.name for one in fields(PodShape) if one.name != "unnamed")


def is_same_template(one: Pod, other: Pod, admission: Admission) -> bool:
    """Return whether decisions find no difference between the pods of two templates.

    Differs: deployment_util.go EqualIgnoreHash compares all of two stored templates. What a user
    wrote lacks most defaults of a stored one, and none of them concerns a decision.
    """
    family = PodFamily()
    return _read_of(one, family, admission) == _read_of(other, family, admission)


def _read_of(pod: Pod, family: PodFamily, admission: Admission) -> list[object]:
    """Return what decisions read of a template, the hash aside."""
    labels = {key: text for key, text in pod.metadata.labels.items() if key != HASH_LABEL}
    admitted = admission.admit(replace(pod, metadata=replace(pod.metadata, labels=labels)))
    assert isinstance(admitted, Pod)
    spec = admitted.spec
    claims = [
        (one.name, one.persistent_volume_claim, one.ephemeral is None)
        for one in spec.volumes
        if one.persistent_volume_claim is not None or one.ephemeral is not None
    ]
    # Of other volumes nothing is compared: their defaults are not filled in.
    shape = compile_shape(replace(admitted, spec=replace(spec, volumes=())), family)
    parts = (getattr(shape, name) for name in _READ_PARTS)
    return [labels, spec.priority, spec.scheduling_gates, claims, *parts]


def adopting(
    workload: Workload, sets: Iterable[ReplicaSet], same: Iterable[ReplicaSet]
) -> Workload:
    """Return a Deployment as the owner of the ReplicaSets it has.

    Pods that it lacks belong to the newest of the sets that have its template; if there is none, to
    a set of their own.
    """
    owners = {
        one.key: OwnerReference(
            api_version=one.api_version,
            kind=one.kind,
            name=one.metadata.name,
            uid=one.metadata.uid,
            controller=True,
        )
        for one in sets
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
    """Return the set of the highest revision."""
    return max(sets, key=_revision)


def _revision(replica_set: ReplicaSet) -> tuple[int, int]:
    # Parity: deployment/util/deployment_util.go Revision, v1.36.
    text = replica_set.metadata.annotations.get(_REVISION_ANNOTATION, "")
    revision = int(text) if text.isascii() and text.isdigit() else 0
    return revision, replica_set.spec.replicas or 0


def replica_set_of(workload: Workload) -> dict[str, Any]:
    """Return the document of the ReplicaSet a Deployment makes."""
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
