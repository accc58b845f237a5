"""Status of a ReplicaSet or a ReplicationController.

The counts and the condition ReplicaFailure.
Upstream: pkg/controller/replicaset/replica_set_utils.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    condition_of,
    is_available,
    is_ready,
    labels_of,
    seconds_of,
)
from kubesched.api.times import time_text

REPLICA_FAILURE: Final = "ReplicaFailure"

# Counts that the API omits if they are 0.
_OPTIONAL: Final = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def replicas_of(document: Mapping[str, Any]) -> int:
    """Return the desired number of pods."""
    replicas = document["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def min_ready_s_of(document: Mapping[str, Any]) -> int:
    """Return how long a pod has to be ready before it counts as available."""
    return int(document["spec"].get("minReadySeconds") or 0)


def replica_set_status(
    document: Mapping[str, Any],
    pods: Sequence[Document],
    *,
    terminating_count: int | None,
    failure: Exception | None,
    now_s: float,
) -> Document:
    """Return the new status of a set.

    Parity: replica_set_utils.go calculateStatus, v1.36.

    Args:
        document: The set.
        pods: Its active pods.
        terminating_count: The number of its terminating pods; None if it is not reported.
        failure: The error of creating or deleting pods.
        now_s: The time now.
    """
    status: Document = dict(document.get("status") or {})
    labels = (document["spec"]["template"].get("metadata") or {}).get("labels") or {}
    min_ready_s = min_ready_s_of(document)
    ready = [pod for pod in pods if is_ready(pod)]
    counts = {
        "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in pods),
        "readyReplicas": len(ready),
        "availableReplicas": sum(is_available(pod, min_ready_s, now_s) for pod in ready),
    }
    status["replicas"] = len(pods)
    for field in _OPTIONAL:
        _set_or_drop(status, field, counts[field] or None)
    _set_or_drop(status, "terminatingReplicas", terminating_count)
    _set_or_drop(status, "observedGeneration", document["metadata"].get("generation") or None)
    surplus = len(pods) - replicas_of(document)
    _set_or_drop(status, "conditions", _conditions(document, surplus, failure, now_s) or None)
    return status


def next_availability_check_s(
    pods: Iterable[Document], min_ready_s: int, now_s: float
) -> float | None:
    """Return in how many seconds the next ready pod becomes available; None if none will.

    Parity: controller_utils.go FindMinNextPodAvailabilityCheck, v1.36.
    """
    waits_s = []
    for pod in pods:
        ready = condition_of(pod, "Ready")
        if ready is None or ready.get("status") != "True" or not ready.get("lastTransitionTime"):
            continue
        wait_s = seconds_of(ready["lastTransitionTime"]) + min_ready_s - now_s
        if wait_s > 0:
            waits_s.append(wait_s)
    return min(waits_s, default=None)


def _conditions(
    document: Mapping[str, Any], surplus: int, failure: Exception | None, now_s: float
) -> list[Document]:
    conditions = list((document.get("status") or {}).get("conditions") or ())
    existing = condition_of(document, REPLICA_FAILURE)
    if failure is not None and existing is None:
        condition: Document = {
            "type": REPLICA_FAILURE,
            "status": "True",
            "lastTransitionTime": time_text(now_s),
        }
        if surplus:
            condition["reason"] = "FailedCreate" if surplus < 0 else "FailedDelete"
        return [*conditions, {**condition, "message": str(failure)}]
    if failure is None and existing is not None:
        return [other for other in conditions if other.get("type") != REPLICA_FAILURE]
    return conditions


def _set_or_drop(status: Document, field: str, value: object) -> None:
    if value is None:
        status.pop(field, None)
    else:
        status[field] = value
