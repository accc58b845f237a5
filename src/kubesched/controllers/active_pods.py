"""Which pods of a set go first when there are too many.

Owns the order in which pods are given up, and how crowded their nodes are. Never deletes anything.
Upstream: pkg/controller/controller_utils.go ActivePodsWithRanks
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final

from kubesched.client.cached.documents import Document, is_active, is_ready, seconds_of

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST: Final = re.compile(r"0|-?[1-9][0-9]*")
_INT32: Final = 2**31


def pods_to_delete(
    pods: Iterable[Document], related: Iterable[Document], count: int, *, now_s: float
) -> list[Document]:
    """Return the pods that a set can spare best.

    Parity: replica_set.go getPodsToDelete, v1.36.

    Args:
        pods: The active pods of the set.
        related: All pods of the sets with the same owner; they crowd a node together.
        count: How many are to go.
        now_s: The time now: ages are compared by their order of magnitude.
    """
    all_pods = list(pods)
    if count >= len(all_pods):
        return all_pods
    crowds = Counter(_node_of(pod) for pod in related if is_active(pod))
    facts = [_Facts.of(pod, crowds[_node_of(pod)], now_s) for pod in all_pods]
    facts.sort(key=cmp_to_key(_compare))
    return [fact.pod for fact in facts[:count]]


def deletion_cost(annotations: Mapping[str, str] | None) -> int:
    """Return what giving up a pod costs, by its annotation; 0 for none and for one that is wrong.

    Parity: pkg/apis/core/helper/helpers.go GetDeletionCostFromPodAnnotations, v1.36.
    """
    value = (annotations or {}).get(DELETION_COST, "")
    if not _COST.fullmatch(value):
        return 0
    cost = int(value)
    return cost if -_INT32 <= cost < _INT32 else 0


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the order of two pods depends on."""

    pod: Document
    stage: tuple[bool, int, bool, int, int]
    """Decides before all times: assigned, phase, ready, cost, and how empty its node is."""
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
    """Return below 0 where the first pod goes first."""
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
    # No time at all counts as later than any; the younger goes first.
    if rank is None or other_rank is None:
        return -1 if rank is None else 1
    if rank != other_rank:
        return rank - other_rank
    return -1 if one.uid < other.uid else 1


def _logarithmic_rank(since: str, now_s: float) -> int | None:
    """Return the order of magnitude of an age; None where there is no time.

    Parity: controller_utils.go logarithmicRankDiff, v1.36: of nanoseconds, and truncated, so that
    pods of about the same age are told apart by their uids: by chance, and not by age.
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
    """Return the most restarts of a container, and of a sidecar.

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
