"""Accounting of finished pods: each is counted in the Job's status exactly once.

A pod is listed in `uncountedTerminatedPods`, then loses its finalizer, then is counted and removed
from the list. Modifies the copy of the status in a JobState.
Upstream: pkg/controller/job/job_controller.go trackJobStatusAndRemoveFinalizers
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.api.documents import Document, is_terminating, uid_of
from kubesched.api.times import time_text
from kubesched.workloads.job import FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET, JobState, count_of
from kubesched.workloads.job_pods import (
    Indexes,
    completion_index,
    has_backoff_per_index,
    has_finalizer,
    is_failed,
    is_indexed,
    match_pod_failure_policy,
    phase_of,
)

COMPLETE: Final = "Complete"
SUSPENDED: Final = "Suspended"
UNCOUNTED_MAX: Final = 500


@dataclass(slots=True)
class TrackingPlan:
    """What one sync has to write."""

    tracked: dict[str, None]
    """Uids of pods with the finalizer."""
    to_release: list[Document] = field(default_factory=list)
    """Pods whose finalizer is removed once the status lists them."""
    needs_flush: bool = False
    is_full: bool = False
    """Whether more pods have finished than one sync counts."""


def plan_tracking(state: JobState, *, needs_flush: bool) -> TrackingPlan:
    """Add finished pods to the status, and plan the removal of their finalizers."""
    if is_indexed(state.job):
        state.pods.sort(key=completion_index)
    tracked = [pod for pod in state.pods if has_finalizer(pod)]
    plan = TrackingPlan({uid_of(pod): None for pod in tracked}, needs_flush=needs_flush)
    # Listed pods without a finalizer are counted at once and leave the list; the previous list
    # still says which pods were counted already.
    counted_before = {name: set(uids) for name, uids in state.uncounted.items()}
    plan.needs_flush |= count_released(state, plan.tracked)
    new_indexes: list[int] = []
    for pod in tracked:
        if not _can_remove_finalizer(state, pod):
            continue
        plan.to_release.append(pod)
        if phase_of(pod) == "Succeeded" and uid_of(pod) not in counted_before["failed"]:
            plan.needs_flush |= _list_succeeded(state, pod, counted_before, new_indexes)
        elif is_failed(pod, state.job) or _is_failing(state):
            plan.needs_flush |= _list_failed(state, pod, counted_before)
        uncounted_count = len(state.uncounted["succeeded"]) + len(state.uncounted["failed"])
        if len(new_indexes) + uncounted_count >= UNCOUNTED_MAX:
            plan.is_full = True
            break
    if is_indexed(state.job):
        plan.needs_flush |= _write_indexes(state, new_indexes)
    plan.needs_flush |= _set_interim_condition(state)
    return plan


def _can_remove_finalizer(state: JobState, pod: Document) -> bool:
    # Parity: job_controller.go canRemoveFinalizer, v1.36.
    if is_terminating(state.job) or state.finished is not None or phase_of(pod) == "Succeeded":
        return True
    if not is_failed(pod, state.job):
        return False
    if not has_backoff_per_index(state.job):
        return True
    # The replacement pod takes over its failure count and must find it.
    kept = state.delayed.get(completion_index(pod))
    return kept is None or uid_of(kept) != uid_of(pod)


def _is_failing(state: JobState) -> bool:
    """Return whether unfinished pods count as failed."""
    return state.finished is not None and state.finished["type"] != SUCCESS_CRITERIA_MET


def _list_succeeded(
    state: JobState, pod: Document, counted_before: dict[str, set[str]], new_indexes: list[int]
) -> bool:
    if is_indexed(state.job):
        # The index identifies it.
        index = completion_index(pod)
        is_new = state.has_valid_index(pod) and index not in state.before_succeeded
        if is_new:
            new_indexes.append(index)
        return is_new
    if uid_of(pod) in counted_before["succeeded"]:
        return False
    state.uncounted["succeeded"].append(uid_of(pod))
    return True


def _list_failed(state: JobState, pod: Document, counted_before: dict[str, set[str]]) -> bool:
    if uid_of(pod) in counted_before["failed"] or not state.has_valid_index(pod):
        return False
    if not match_pod_failure_policy(state.spec.get("podFailurePolicy"), pod).is_counted:
        return False
    state.uncounted["failed"].append(uid_of(pod))
    return True


def _write_indexes(state: JobState, new_indexes: list[int]) -> bool:
    status = state.status
    before = (status.get("completedIndexes", ""), status.get("failedIndexes"))
    state.succeeded_indexes = state.succeeded_indexes.merge(Indexes.of(new_indexes))
    set_count(status, "succeeded", state.succeeded_indexes.total)
    if text := str(state.succeeded_indexes):
        status["completedIndexes"] = text
    else:
        status.pop("completedIndexes", None)
    if state.failed_indexes is not None:
        status["failedIndexes"] = str(state.failed_indexes)
    else:
        status.pop("failedIndexes", None)
    return before != (status.get("completedIndexes", ""), status.get("failedIndexes"))


def _set_interim_condition(state: JobState) -> bool:
    """Set the interim condition, and continue with the final one.

    The interim condition is written before pods lose their finalizers, so that the result is known
    even if the pods are gone; the final one once all pods are counted and gone.
    """
    finish = state.finished
    if finish is None or finish["type"] not in (FAILURE_TARGET, SUCCESS_CRITERIA_MET):
        return False
    is_new = state.true_condition(finish["type"]) is None
    if is_new:
        state.status.setdefault("conditions", []).append(finish)
    final = FAILED if finish["type"] == FAILURE_TARGET else COMPLETE
    state.finished = state.condition(final, finish.get("reason", ""), finish.get("message", ""))
    return is_new


def count_released(state: JobState, tracked: dict[str, None]) -> bool:
    """Count the listed pods that lost their finalizer; return whether there are any."""
    is_changed = False
    for name, uids in state.uncounted.items():
        remaining = [uid for uid in uids if uid in tracked]
        if len(remaining) != len(uids):
            is_changed = True
            count = count_of(state.status, name) + len(uids) - len(remaining)
            set_count(state.status, name, count)
            uids[:] = remaining
    return is_changed


def enact_finish(state: JobState) -> bool:
    """Set the final condition if nothing is pending; return whether it was set."""
    finish = state.finished
    if finish is None or any(state.uncounted.values()) or state.terminating > 0:
        return False
    state.set_condition(finish)
    if finish["type"] == COMPLETE:
        state.status["completionTime"] = time_text(state.now_s)
    return True


def set_count(status: dict[str, Any], field: str, count: int) -> None:
    """Set a counter of a status, or remove it if it is 0."""
    if count:
        status[field] = count
    else:
        status.pop(field, None)
