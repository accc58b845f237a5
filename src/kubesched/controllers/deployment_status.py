"""What a deployment says of its rollout.

Owns its counts, its conditions, and when a rollout counts as complete, progressing or stuck. Never
writes anything.
Upstream: pkg/controller/deployment/progress.go, sync.go calculateStatus, util/deployment_util.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubesched.client.cached.documents import (
    Document,
    condition_of,
    name_of,
    seconds_of,
    time_text,
)
from kubesched.controllers.deployment_sizes import counted, max_unavailable, wanted_total
from kubesched.controllers.replica_set_status import REPLICA_FAILURE, replicas_of

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
    """Return within what time a rollout has to move; None if it need not."""
    deadline_s = deployment["spec"].get("progressDeadlineSeconds")
    return None if deadline_s in (None, _INT32_MAX) else int(deadline_s)


def history_limit(deployment: Mapping[str, Any]) -> int | None:
    """Return how many old ReplicaSets are kept; None for all of them."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    return None if limit in (None, _INT32_MAX) else int(limit)


def new_condition(
    type_: str, status: str, reason: str, message: str, now_s: float, since: str = ""
) -> Document:
    """Return a condition as of now; with `since`, one that came to be then."""
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
    """Return a status with a condition in it, unless it says the same already.

    Parity: deployment_util.go SetDeploymentCondition, v1.36.
    """
    known = condition_of({"status": status}, condition["type"])
    if known is not None and known.get("status") == condition["status"]:
        if known.get("reason") == condition["reason"]:
            return status
        condition = {**condition, "lastTransitionTime": known.get("lastTransitionTime")}
    left = without_condition(status, condition["type"])
    return {**left, "conditions": [*left.get("conditions", ()), condition]}


def without_condition(status: Document, type_: str) -> Document:
    """Return a status without a condition."""
    kept = [one for one in status.get("conditions") or () if one.get("type") != type_]
    left = {field: value for field, value in status.items() if field != "conditions"}
    return {**left, "conditions": kept} if kept else left


def paused_status(deployment: Document, now_s: float) -> Document | None:
    """Return the status that says of a deployment that it is paused or goes on; None if it does.

    The deadline begins anew with it: nothing can be expected of a deployment that is paused.

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
    told = new_condition(PROGRESSING, "Unknown", reason, f"Deployment is {word}", now_s)
    return with_condition(deployment.get("status") or {}, told)


def deployment_status(
    deployment: Document, sets: Sequence[Document], new: Document | None, now_s: float
) -> Document:
    """Return the counts of a deployment, and whether it is available.

    Parity: sync.go calculateStatus, v1.36.
    """
    before = deployment.get("status") or {}
    available = counted(sets, "availableReplicas")
    updated = [] if new is None else [new]
    counts = {
        "observedGeneration": deployment["metadata"].get("generation"),
        "replicas": counted(sets, "replicas"),
        "updatedReplicas": counted(updated, "replicas"),
        "readyReplicas": counted(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(wanted_total(sets) - available, 0),
    }
    status: Document = {field: count for field, count in counts.items() if count}
    terminating = _terminating_count(sets)
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    if before.get("collisionCount") is not None:
        status["collisionCount"] = before["collisionCount"]
    if before.get("conditions"):
        status["conditions"] = list(before["conditions"])
    least = replicas_of(deployment) - max_unavailable(deployment)
    return with_condition(status, _available_condition(available >= least, now_s))


def rollout_status(
    deployment: Document, sets: Sequence[Document], new: Document | None, now_s: float
) -> Document:
    """Return the status of a deployment while it rolls out: counts, progress and failures.

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
    """Return whether all pods are new and available, and no old ones are left.

    Parity: deployment_util.go DeploymentComplete, v1.36.
    """
    desired = replicas_of(deployment)
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    observed = status.get("observedGeneration") or 0
    return all((status.get(field) or 0) == desired for field in fields) and bool(
        observed >= (deployment["metadata"].get("generation") or 0)
    )


def is_progressing(deployment: Document, status: Mapping[str, Any]) -> bool:
    """Return whether a new status shows more new, ready or available pods, or fewer old ones.

    Parity: deployment_util.go DeploymentProgressing, v1.36.
    """
    before = deployment.get("status") or {}

    def old_count(told: Mapping[str, Any]) -> int:
        return (told.get("replicas") or 0) - (told.get("updatedReplicas") or 0)

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_count(status) < old_count(before) or any(
        (status.get(field) or 0) > (before.get(field) or 0) for field in grown
    )


def is_timed_out(deployment: Document, status: Mapping[str, Any], now_s: float) -> bool:
    """Return whether a rollout has not moved for too long.

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
    """Return in how many seconds a rollout could be found to be stuck; None if it cannot.

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
    """Return whether the last rollout has ended, so that there is nothing to make progress."""
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

    def told(value: str, reason: str, message: str, since: str = "") -> Document:
        text = f"{subject} {message}"
        return new_condition(PROGRESSING, value, reason, text, now_s, since)

    if is_complete(deployment, status):
        message = "has successfully progressed."
        return with_condition(status, told("True", NEW_AVAILABLE, message))
    if is_progressing(deployment, status):
        # The same condition again, at a later time: that is what the deadline counts from.
        known = condition_of(deployment, PROGRESSING) or {}
        since = known.get("lastTransitionTime") or "" if known.get("status") == "True" else ""
        condition = told("True", UPDATED, "is progressing.", since)
        return with_condition(without_condition(status, PROGRESSING), condition)
    if is_timed_out(deployment, status, now_s):
        return with_condition(status, told("False", TIMED_OUT, "has timed out progressing."))
    return status


def _available_condition(is_available: bool, now_s: float) -> Document:
    if is_available:
        text = "Deployment has minimum availability."
        return new_condition(AVAILABLE, "True", "MinimumReplicasAvailable", text, now_s)
    text = "Deployment does not have minimum availability."
    return new_condition(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now_s)


def _replica_failure(sets: Iterable[Document], new: Document | None) -> Document | None:
    """Return the failure of a ReplicaSet as a condition of the deployment; the new one's first.

    Parity: progress.go getReplicaFailures, v1.36.
    """
    first = [] if new is None else [new]
    for one in (*first, *sets):
        condition = condition_of(one, REPLICA_FAILURE)
        if condition is not None:
            return {**condition, "lastUpdateTime": condition.get("lastTransitionTime")}
    return None


def _terminating_count(sets: Iterable[Document]) -> int | None:
    """Return how many pods are on their way out; None if a ReplicaSet does not say.

    Parity: deployment_util.go GetTerminatingReplicaCountForReplicaSets, v1.36.
    """
    total = 0
    for one in sets:
        status = one.get("status") or {}
        count = status.get("terminatingReplicas")
        if count is None and status.get("observedGeneration"):
            return None
        total += count or 0
    return total
