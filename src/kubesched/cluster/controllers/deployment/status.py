"""Status of a Deployment: counts, conditions, and the progress of a rollout.

Never writes.
Upstream: pkg/controller/deployment/progress.go, sync.go calculateStatus, util/deployment_util.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubesched.api.documents import Document, condition_of, name_of, seconds_of
from kubesched.api.times import time_text
from kubesched.cluster.controllers.deployment.sizes import (
    max_unavailable,
    status_total,
    total_replicas,
)
from kubesched.cluster.controllers.replica_set.status import REPLICA_FAILURE, replicas_of

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"

FAILED_CREATE: Final = "ReplicaSetCreateError"
NEW_CREATED: Final = "NewReplicaSetCreated"
NEW_FOUND: Final = "FoundNewReplicaSet"
NEW_AVAILABLE: Final = "NewReplicaSetAvailable"
UPDATED: Final = "ReplicaSetUpdated"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"

_INT32_MAX: Final = 2**31 - 1


def progress_deadline_s(deployment: Mapping[str, Any]) -> int | None:
    """Return progressDeadlineSeconds; None if there is no deadline."""
    deadline_s = deployment["spec"].get("progressDeadlineSeconds")
    return None if deadline_s in (None, _INT32_MAX) else int(deadline_s)


def history_limit(deployment: Mapping[str, Any]) -> int | None:
    """Return the number of old ReplicaSets to keep; None for all."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    return None if limit in (None, _INT32_MAX) else int(limit)


def new_condition(
    type_: str, status: str, reason: str, message: str, now_s: float, since: str = ""
) -> Document:
    """Return a condition as of now; `since` sets its transition time."""
    now = time_text(now_s)
    return {
        "type": type_,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": since or now,
        "reason": reason,
        "message": message,
    }


def with_condition(status: Document, condition: Document) -> Document:
    """Return a status with a condition, unchanged if status and reason are the same.

    Parity: deployment_util.go SetDeploymentCondition, v1.36.
    """
    existing = condition_of({"status": status}, condition["type"])
    if existing is not None and existing.get("status") == condition["status"]:
        if existing.get("reason") == condition["reason"]:
            return status
        condition = {**condition, "lastTransitionTime": existing.get("lastTransitionTime")}
    rest = without_condition(status, condition["type"])
    return {**rest, "conditions": [*rest.get("conditions", ()), condition]}


def without_condition(status: Document, type_: str) -> Document:
    """Return a status without a condition."""
    kept = [
        condition for condition in status.get("conditions") or () if condition.get("type") != type_
    ]
    rest = {field: value for field, value in status.items() if field != "conditions"}
    return {**rest, "conditions": kept} if kept else rest


def paused_status(deployment: Document, now_s: float) -> Document | None:
    """Return the status with the condition of a paused or resumed Deployment; None if unchanged.

    It restarts the progress deadline: a paused Deployment makes no progress.

    Parity: sync.go checkPausedConditions, v1.36.
    """
    if progress_deadline_s(deployment) is None:
        return None
    condition = condition_of(deployment, PROGRESSING) or {}
    if condition.get("reason") == TIMED_OUT:
        return None
    is_paused = bool(deployment["spec"].get("paused"))
    if is_paused == (condition.get("reason") == PAUSED):
        return None
    reason, word = (PAUSED, "paused") if is_paused else (RESUMED, "resumed")
    progress_condition = new_condition(
        PROGRESSING, "Unknown", reason, f"Deployment is {word}", now_s
    )
    return with_condition(deployment.get("status") or {}, progress_condition)


def deployment_status(
    deployment: Document, sets: Sequence[Document], new: Document | None, now_s: float
) -> Document:
    """Return the counts and the Available condition.

    Parity: sync.go calculateStatus, v1.36.
    """
    before = deployment.get("status") or {}
    available = status_total(sets, "availableReplicas")
    updated = [] if new is None else [new]
    counts = {
        "observedGeneration": deployment["metadata"].get("generation"),
        "replicas": status_total(sets, "replicas"),
        "updatedReplicas": status_total(updated, "replicas"),
        "readyReplicas": status_total(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(total_replicas(sets) - available, 0),
    }
    status: Document = {field: count for field, count in counts.items() if count}
    terminating = _terminating_count(sets)
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    if before.get("collisionCount") is not None:
        status["collisionCount"] = before["collisionCount"]
    if before.get("conditions"):
        status["conditions"] = list(before["conditions"])
    min_available = replicas_of(deployment) - max_unavailable(deployment)
    return with_condition(status, _available_condition(available >= min_available, now_s))


def rollout_status(
    deployment: Document, sets: Sequence[Document], new: Document | None, now_s: float
) -> Document:
    """Return the status during a rollout: counts, progress and failures.

    Parity: progress.go syncRolloutStatus, v1.36.
    """
    status = deployment_status(deployment, sets, new, now_s)
    if progress_deadline_s(deployment) is None:
        status = without_condition(status, PROGRESSING)
    elif not _was_complete(deployment, status):
        status = _with_progress(deployment, status, new, now_s)
    failure = _replica_failure(sets, new)
    if failure is None:
        return without_condition(status, REPLICA_FAILURE)
    return with_condition(status, failure)


def is_complete(deployment: Document, status: Mapping[str, Any]) -> bool:
    """Return whether all pods are updated and available, and no old ones remain.

    Parity: deployment_util.go DeploymentComplete, v1.36.
    """
    desired = replicas_of(deployment)
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    observed = status.get("observedGeneration") or 0
    return all((status.get(field) or 0) == desired for field in fields) and bool(
        observed >= (deployment["metadata"].get("generation") or 0)
    )


def is_progressing(deployment: Document, status: Mapping[str, Any]) -> bool:
    """Return whether a new status shows more updated, ready or available pods, or fewer old.

    Parity: deployment_util.go DeploymentProgressing, v1.36.
    """
    before = deployment.get("status") or {}

    def old_count(progress_condition: Mapping[str, Any]) -> int:
        return (progress_condition.get("replicas") or 0) - (
            progress_condition.get("updatedReplicas") or 0
        )

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_count(status) < old_count(before) or any(
        (status.get(field) or 0) > (before.get(field) or 0) for field in grown
    )


def is_timed_out(deployment: Document, status: Mapping[str, Any], now_s: float) -> bool:
    """Return whether a rollout exceeded its progress deadline.

    Parity: deployment_util.go DeploymentTimedOut, v1.36.
    """
    deadline_s = progress_deadline_s(deployment)
    condition = condition_of({"status": status}, PROGRESSING)
    if deadline_s is None or condition is None or condition.get("reason") == NEW_AVAILABLE:
        return False
    if condition.get("reason") == TIMED_OUT:
        return True
    return seconds_of(condition.get("lastUpdateTime")) + deadline_s < now_s


def next_progress_check_s(deployment: Document, now_s: float) -> float | None:
    """Return the seconds until a rollout could exceed its deadline; None if it cannot.

    Parity: progress.go requeueStuckDeployment, v1.36.
    """
    deadline_s = progress_deadline_s(deployment)
    condition = condition_of(deployment, PROGRESSING)
    if deadline_s is None or condition is None or condition.get("reason") == TIMED_OUT:
        return None
    if is_complete(deployment, deployment.get("status") or {}):
        return None
    return max(seconds_of(condition.get("lastUpdateTime")) + deadline_s - now_s, 0.0)


def _was_complete(deployment: Document, status: Mapping[str, Any]) -> bool:
    """Return whether the last rollout has completed."""
    condition = condition_of(deployment, PROGRESSING) or {}
    is_all_new = (status.get("replicas") or 0) == (status.get("updatedReplicas") or 0)
    return is_all_new and condition.get("reason") == NEW_AVAILABLE


def _with_progress(
    deployment: Document, status: Document, new: Document | None, now_s: float
) -> Document:
    if new is None:
        subject = f'Deployment "{name_of(deployment)}"'
    else:
        subject = f'ReplicaSet "{name_of(new)}"'

    def progress_condition(value: str, reason: str, message: str, since: str = "") -> Document:
        text = f"{subject} {message}"
        return new_condition(PROGRESSING, value, reason, text, now_s, since)

    if is_complete(deployment, status):
        message = "has successfully progressed."
        return with_condition(status, progress_condition("True", NEW_AVAILABLE, message))
    if is_progressing(deployment, status):
        # The same condition with a later update time, which restarts the deadline.
        existing = condition_of(deployment, PROGRESSING) or {}
        since = existing.get("lastTransitionTime") or "" if existing.get("status") == "True" else ""
        condition = progress_condition("True", UPDATED, "is progressing.", since)
        return with_condition(without_condition(status, PROGRESSING), condition)
    if is_timed_out(deployment, status, now_s):
        return with_condition(
            status, progress_condition("False", TIMED_OUT, "has timed out progressing.")
        )
    return status


def _available_condition(is_available: bool, now_s: float) -> Document:
    if is_available:
        text = "Deployment has minimum availability."
        return new_condition(AVAILABLE, "True", "MinimumReplicasAvailable", text, now_s)
    text = "Deployment does not have minimum availability."
    return new_condition(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now_s)


def _replica_failure(sets: Iterable[Document], new: Document | None) -> Document | None:
    """Return a ReplicaSet's failure as a Deployment condition; the new one's first.

    Parity: progress.go getReplicaFailures, v1.36.
    """
    first = [] if new is None else [new]
    for one in (*first, *sets):
        condition = condition_of(one, REPLICA_FAILURE)
        if condition is not None:
            return {**condition, "lastUpdateTime": condition.get("lastTransitionTime")}
    return None


def _terminating_count(sets: Iterable[Document]) -> int | None:
    """Return the number of terminating pods; None if a ReplicaSet does not report it.

    Parity: deployment_util.go GetTerminatingReplicaCountForReplicaSets, v1.36.
    """
    total = 0
    for replica_set in sets:
        status = replica_set.get("status") or {}
        count = status.get("terminatingReplicas")
        if count is None and status.get("observedGeneration"):
            return None
        total += count or 0
    return total
