"""What controllers would have written into objects that somebody wrote by hand.

Owns the phase of volumes and the status of disruption budgets, where files leave them out. What has
a status keeps it. How a budget counts is `controllers.disruption_counts`', which a running cluster
follows.
Upstream: pkg/controller/disruption/disruption.go, volume/persistentvolume/pv_controller.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.controllers.disruption_counts import (
    desired_healthy,
    goes_by_scale,
    healthy_count,
    new_status,
)
from kubesched.objects.decode import KubeObject, decode_as
from kubesched.objects.label_selectors import label_selector
from kubesched.objects.pod import Pod
from kubesched.objects.policy import NO_STATUS, PodDisruptionBudget, PodDisruptionBudgetStatus
from kubesched.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeStatus,
)
from kubesched.sim.workloads import Workload, controller_of, has_ended

# Who controls pods and cannot say how many it means to have.
_WITHOUT_SCALE = ("DaemonSet", "Job", "Node")


def completed(
    objects: Sequence[KubeObject], pods: Sequence[Pod], workloads: Iterable[Workload]
) -> list[KubeObject]:
    """Return the objects with what controllers would have written.

    Args:
        objects: all objects of the files.
        pods: the pods among them that are there, and no templates.
        workloads: who says how many pods there should be.
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
    # Parity: pv_controller.go syncVolume, v1.36: a volume kept for a claim that does not name it
    # is Available, unless it says which very claim it had.
    kept_for = volume.spec.claim_ref
    if kept_for is None:
        return "Available"
    claim = claims.get(f"{kept_for.namespace}/{kept_for.name}")
    if claim is not None and claim.spec.volume_name == volume.metadata.name:
        return "Bound"
    return "Released" if kept_for.uid and claim is None else "Available"


# -- disruption budgets ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Scale:
    """Who controls pods, and how many it means to have."""

    uid: str
    replicas: int


class _Scales:
    """How many pods those who control them mean to have."""

    def __init__(self, workloads: Iterable[Workload], pods: Sequence[Pod]) -> None:
        self._by_owner: dict[tuple[str, str, str], _Scale] = {}
        for one in workloads:
            scale = _Scale(one.pod_uid, 1 if one.spec.replicas is None else one.spec.replicas)
            for owner in (one.owner, *one.other_owners):
                self._by_owner[one.namespace, owner.kind, owner.name] = scale
        self._pods = pods

    @cached_property
    def _counts(self) -> Counter[tuple[str, str, str] | None]:
        """Return how many pods each has: who is not in the files is taken to have what it wants."""
        return Counter(_owner_key(pod) for pod in self._pods)

    def expected(self, pods: Iterable[Pod]) -> int | None:
        """Return how many pods there should be; None if that cannot be said.

        Parity: disruption.go getExpectedScale, v1.36.
        """
        found: dict[str, int] = {}
        for pod in pods:
            key = _owner_key(pod)
            if key is None:
                continue
            if key[1] in _WITHOUT_SCALE:
                return None
            scale = self._by_owner.get(key) or _Scale("/".join(key), self._counts[key])
            found[scale.uid] = scale.replicas
        return sum(found.values())


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
        expected = scales.expected(covered) if goes_by_scale(spec) else len(covered)
        if expected is None:
            return NO_STATUS
        desired = desired_healthy(spec, expected)
    except ValueError:
        return NO_STATUS  # Nothing may be evicted while it is not known what may.
    status = new_status(
        {"metadata": {}},
        healthy=healthy_count(map(_document, covered), {}, now_s=0.0),
        desired=desired,
        expected=expected,
        disrupted={},
        now_s=0.0,
    )
    return decode_as(PodDisruptionBudgetStatus, status or {})


def _document(pod: Pod) -> dict[str, Any]:
    """Return what tells whether a pod is healthy; one with a node that says nothing is."""
    conditions = [{"type": one.type, "status": one.status} for one in pod.status.conditions]
    if not conditions and pod.spec.node_name and not has_ended(pod):
        conditions = [{"type": "Ready", "status": "True"}]
    meta = pod.metadata
    return {
        "metadata": {"name": meta.name, "deletionTimestamp": meta.deletion_timestamp},
        "status": {"conditions": conditions},
    }
