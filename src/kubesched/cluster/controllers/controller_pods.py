"""Pods of a controller: creation from a template, and the order of deletion when scaling down.

Upstream: pkg/controller/controller_utils.go ActivePodsWithRanks, GetPodFromTemplate
"""

from __future__ import annotations

import copy
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    controller_ref,
    is_active,
    is_ready,
    name_of,
    namespace_of,
    seconds_of,
)

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = re.compile(r"0|-?[1-9][0-9]*")
_INT32: Final = 2**31


def pods_to_delete(
    pods: Iterable[Document], related: Iterable[Document], count: int, *, now_s: float
) -> list[Document]:
    """Return the pods to delete first when a set is scaled down.

    Parity: replica_set.go getPodsToDelete, v1.36.

    Args:
        pods: The active pods of the set.
        related: All pods of the sets with the same owner, which count as neighbours on a node.
        count: Number of pods to delete.
        now_s: The current time; ages are compared by their order of magnitude.
    """
    all_pods = list(pods)
    if count >= len(all_pods):
        return all_pods
    crowds = Counter(_node_of(pod) for pod in related if is_active(pod))
    facts = [_Facts.of(pod, crowds[_node_of(pod)], now_s) for pod in all_pods]
    facts.sort(key=cmp_to_key(_compare))
    return [fact.pod for fact in facts[:count]]


def deletion_cost(annotations: Mapping[str, str] | None) -> int:
    """Return the deletion cost of a pod by its annotation; 0 if it is absent or invalid.

    Parity: pkg/apis/core/helper/helpers.go GetDeletionCostFromPodAnnotations, v1.36.
    """
    value = (annotations or {}).get(DELETION_COST, "")
    if not _COST.fullmatch(value):
        return 0
    cost = int(value)
    return cost if -_INT32 <= cost < _INT32 else 0


@dataclass(frozen=True, slots=True)
class _Facts:
    """The sort criteria of a pod."""

    pod: Document
    stage: tuple[bool, int, bool, int, int]
    """Criteria before times: assigned, phase, ready, cost, and number of neighbours (negative)."""
    ready_since: str
    ready_rank: int | None
    restarts: tuple[int, int]
    created: str
    created_rank: int | None
    uid: str

    @staticmethod
    def of(pod: Document, crowd: int, now_s: float) -> _Facts:
        meta = pod["metadata"]
        status = pod.get("status") or {}
        ready = is_ready(pod)
        ready_since = _ready_since(status) if ready else ""
        created = meta.get("creationTimestamp") or ""
        return _Facts(
            pod=pod,
            stage=(
                bool(_node_of(pod)),
                _PHASES.get(status.get("phase") or "", 0),
                ready,
                deletion_cost(meta.get("annotations")),
                -crowd,
            ),
            ready_since=ready_since,
            ready_rank=_logarithmic_rank(ready_since, now_s),
            restarts=container_restarts(pod),
            created=created,
            created_rank=_logarithmic_rank(created, now_s),
            uid=meta.get("uid", ""),
        )


def _compare(one: _Facts, other: _Facts) -> int:
    """Return a negative number if the first pod is deleted first."""
    if one.stage != other.stage:
        return -1 if one.stage < other.stage else 1
    if one.ready_since != other.ready_since:
        return _compare_ages(one, other, one.ready_rank, other.ready_rank)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    if one.created != other.created:
        return _compare_ages(one, other, one.created_rank, other.created_rank)
    return 0


def _compare_ages(one: _Facts, other: _Facts, rank: int | None, other_rank: int | None) -> int:
    # A missing time counts as the latest; younger pods are deleted first.
    if rank is None or other_rank is None:
        return -1 if rank is None else 1
    if rank != other_rank:
        return rank - other_rank
    return -1 if one.uid < other.uid else 1


def _logarithmic_rank(since: str, now_s: float) -> int | None:
    """Return the order of magnitude of an age; None if there is no time.

    Parity: controller_utils.go logarithmicRankDiff, v1.36: log2 of nanoseconds, truncated, so that
    pods of similar age are ordered by uid, that is, randomly.
    """
    if not since:
        return None
    age_ns = (now_s - seconds_of(since)) * 1e9
    return int(math.log2(age_ns)) if age_ns > 0 else -1


def _node_of(pod: Document) -> str:
    name: str = pod["spec"].get("nodeName") or ""
    return name


def _ready_since(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            since: str = condition.get("lastTransitionTime") or ""
            return since
    return ""


def container_restarts(pod: Document) -> tuple[int, int]:
    """Return the maximum number of restarts of a container, and of a sidecar.

    Parity: controller_utils.go maxContainerRestarts, v1.36.
    """
    status = pod.get("status") or {}
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    regular = (c.get("restartCount", 0) for c in status.get("containerStatuses") or ())
    beside = (
        c.get("restartCount", 0)
        for c in status.get("initContainerStatuses") or ()
        if c["name"] in sidecars
    )
    return max(regular, default=0), max(beside, default=0)


def pod_from_template(template: Mapping[str, Any], owner: Mapping[str, Any]) -> Document:
    """Return a pod of a template with a generated name.

    Parity: controller_utils.go GetPodFromTemplate, v1.36.
    """
    source = template.get("metadata") or {}
    metadata: Document = {
        "generateName": f"{name_of(owner)}-",
        "namespace": namespace_of(owner),
        "ownerReferences": [controller_ref(owner)],
    }
    for field in ("labels", "annotations"):
        if source.get(field):
            metadata[field] = dict(source[field])
    if source.get("finalizers"):
        metadata["finalizers"] = list(source["finalizers"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": copy.deepcopy(template["spec"]),
    }
