"""How pods that ended get into a Job's counters, each of them once.

Owns the way of a pod through `uncountedTerminatedPods`: it is listed there, then loses its
finalizer, then is counted and listed no more. Works on the copy of the status that a JobState has.
Upstream: pkg/controller/job/job_controller.go trackJobStatusAndRemoveFinalizers
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kubesched.client.cached.documents import Document, is_terminating, time_text, uid_of
from kubesched.controllers.job_indexes import Indexes
from kubesched.controllers.job_pods import (
    completion_index,
    has_backoff_per_index,
    has_finalizer,
    is_failed,
    is_indexed,
    phase_of,
)
from kubesched.controllers.job_policies import match_pod_failure_policy
from kubesched.controllers.job_state import (
    COMPLETE,
    FAILED,
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    JobState,
    count_of,
    set_count,
)

UNCOUNTED_MAX: Final = 500


@dataclass(slots=True)
class Tracking:
    """What one look has to write."""

    held: dict[str, None]
    """The uids of pods that have the finalizer."""
    released: list[Document] = field(default_factory=list)
    """The pods that lose it, once the status lists them."""
    needs_flush: bool = False
    is_full: bool = False
    """Whether more pods have ended than are counted in one go."""


def plan_tracking(state: JobState, *, needs_flush: bool) -> Tracking:
    """Put what ended into the status, and say which pods can be let go after it is written."""
    if is_indexed(state.job):
        state.pods.sort(key=completion_index)
    held = [pod for pod in state.pods if has_finalizer(pod)]
    plan = Tracking({uid_of(pod): None for pod in held}, needs_flush=needs_flush)
    # Those found without a finalizer are counted and leave the list at once; what the list said
    # before still tells which pods are counted already.
    known = {name: set(uids) for name, uids in state.uncounted.items()}
    plan.needs_flush |= count_released(state, plan.held)
    new_indexes: list[int] = []
    for pod in held:
        if not _can_be_released(state, pod):
            continue
        plan.released.append(pod)
        if phase_of(pod) == "Succeeded" and uid_of(pod) not in known["failed"]:
            plan.needs_flush |= _list_succeeded(state, pod, known, new_indexes)
        elif is_failed(pod, state.job) or _ends_badly(state):
            plan.needs_flush |= _list_failed(state, pod, known)
        listed = len(state.uncounted["succeeded"]) + len(state.uncounted["failed"])
        if len(new_indexes) + listed >= UNCOUNTED_MAX:
            plan.is_full = True
            break
    if is_indexed(state.job):
        plan.needs_flush |= _write_indexes(state, new_indexes)
    plan.needs_flush |= _announce_end(state)
    return plan


def _can_be_released(state: JobState, pod: Document) -> bool:
    # Parity: job_controller.go canRemoveFinalizer, v1.36.
    if is_terminating(state.job) or state.finished is not None or phase_of(pod) == "Succeeded":
        return True
    if not is_failed(pod, state.job):
        return False
    if not has_backoff_per_index(state.job):
        return True
    # Its successor takes over its count of failures, and has to find it.
    kept = state.delayed.get(completion_index(pod))
    return kept is None or uid_of(kept) != uid_of(pod)


def _ends_badly(state: JobState) -> bool:
    """Return whether every pod that has not ended counts as failed."""
    return state.finished is not None and state.finished["type"] != SUCCESS_CRITERIA_MET


def _list_succeeded(
    state: JobState, pod: Document, known: dict[str, set[str]], new_indexes: list[int]
) -> bool:
    if is_indexed(state.job):
        # The index is enough to count it once.
        index = completion_index(pod)
        is_new = state.has_valid_index(pod) and index not in state.before_succeeded
        if is_new:
            new_indexes.append(index)
        return is_new
    if uid_of(pod) in known["succeeded"]:
        return False
    state.uncounted["succeeded"].append(uid_of(pod))
    return True


def _list_failed(state: JobState, pod: Document, known: dict[str, set[str]]) -> bool:
    if uid_of(pod) in known["failed"] or not state.has_valid_index(pod):
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


def _announce_end(state: JobState) -> bool:
    """Write the interim condition, and go on with the one that follows it.

    The interim one is written before the pods lose their finalizers, so that what the Job came to
    is known even if nothing of them is left; the last one when all of them are counted and gone.
    """
    end = state.finished
    if end is None or end["type"] not in (FAILURE_TARGET, SUCCESS_CRITERIA_MET):
        return False
    is_new = state.true_condition(end["type"]) is None
    if is_new:
        state.status.setdefault("conditions", []).append(end)
    last = FAILED if end["type"] == FAILURE_TARGET else COMPLETE
    state.finished = state.condition(last, end.get("reason", ""), end.get("message", ""))
    return is_new


def count_released(state: JobState, held: dict[str, None]) -> bool:
    """Count the listed pods that have lost the finalizer; return whether there are any."""
    is_changed = False
    for name, uids in state.uncounted.items():
        left = [uid for uid in uids if uid in held]
        if len(left) != len(uids):
            is_changed = True
            count = count_of(state.status, name) + len(uids) - len(left)
            set_count(state.status, name, count)
            uids[:] = left
    return is_changed


def enact_end(state: JobState) -> bool:
    """Write the last condition if nothing is left to wait for; return whether it was."""
    end = state.finished
    if end is None or any(state.uncounted.values()) or state.terminating > 0:
        return False
    state.set_condition(end)
    if end["type"] == COMPLETE:
        state.status["completionTime"] = time_text(state.now_s)
    return True
