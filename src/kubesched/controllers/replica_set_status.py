"""What a ReplicaSet or a ReplicationController says of its pods.

Owns the counts and the condition ReplicaFailure. Never writes anything.
Upstream: pkg/controller/replicaset/replica_set_utils.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubesched.client.cached.documents import (
    Document,
    condition_of,
    is_available,
    is_ready,
    labels_of,
    seconds_of,
    time_text,
)

REPLICA_FAILURE: Final = "ReplicaFailure"

# The numbers that the API leaves out where they are 0.
_OPTIONAL: Final = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def replicas_of(document: Mapping[str, Any]) -> int:
    """Return how many pods a set should have."""
    wanted = document["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def min_ready_s_of(document: Mapping[str, Any]) -> int:
    """Return for how long a pod of a set has to be ready before it counts as available."""
    return int(document["spec"].get("minReadySeconds") or 0)


def replica_set_status(
    document: Mapping[str, Any],
    pods: Sequence[Document],
    *,
    terminating_count: int | None,
    failure: Exception | None,
    now_s: float,
) -> Document:
    """Return the status that a set should have.

    Parity: replica_set_utils.go calculateStatus, v1.36.

    Args:
        document: The set.
        pods: Its active pods.
        terminating_count: How many of its pods are on their way out; None where it does not say.
        failure: What went wrong when pods were created or deleted.
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
    told = condition_of(document, REPLICA_FAILURE)
    if failure is not None and told is None:
        condition: Document = {
            "type": REPLICA_FAILURE,
            "status": "True",
            "lastTransitionTime": time_text(now_s),
        }
        if surplus:
            condition["reason"] = "FailedCreate" if surplus < 0 else "FailedDelete"
        return [*conditions, {**condition, "message": str(failure)}]
    if failure is None and told is not None:
        return [one for one in conditions if one.get("type") != REPLICA_FAILURE]
    return conditions


def _set_or_drop(status: Document, field: str, value: object) -> None:
    if value is None:
        status.pop(field, None)
    else:
        status[field] = value
