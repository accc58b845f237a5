"""A Job and its pods at one moment: how many count as what, and whether that is the end.

Owns the counts, the indexes, and the order in which the ways a Job can end are looked at. Works on
a copy of the status and never asks the API server.
Upstream: pkg/controller/job/job_controller.go syncJob
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

from kubesched.client.cached.documents import (
    Document,
    is_active,
    is_ready,
    seconds_of,
    time_text,
    uid_of,
)
from kubesched.controllers.job_backoff import Backoff, finished_s
from kubesched.controllers.job_indexes import Indexes
from kubesched.controllers.job_pods import (
    NO_INDEX,
    absolute_failure_count,
    completion_index,
    has_backoff_per_index,
    has_finalizer,
    indexes_of,
    is_failed,
    is_index_failed,
    is_indexed,
    is_leaving,
    is_suspended,
    only_replaces_failed,
    phase_of,
    restarts_in_place,
)
from kubesched.controllers.job_policies import match_pod_failure_policy, match_success_policy

SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
FAILURE_TARGET: Final = "FailureTarget"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"


class JobState:
    """What one look at a Job finds."""

    def __init__(
        self, job: Document, pods: Sequence[Document], backoff: Backoff, now_s: float
    ) -> None:
        self.now_s = now_s
        self.pods = list(pods)
        self.active_pods = [pod for pod in self.pods if is_active(pod)]
        self.ready = sum(is_ready(pod) for pod in self.active_pods)
        self.terminating = sum(is_leaving(pod) for pod in self.pods)
        self.finished: Document | None = None
        """The condition that the Job ends with, once its pods are settled."""
        self.resync_s: float | None = None
        """When the deadline is to be looked at again."""
        self.before_succeeded = Indexes()
        self.succeeded_indexes = Indexes()
        self.failed_indexes: Indexes | None = None
        self.delayed: dict[int, Document] = {}
        """The failed pod of each index that is kept until its successor is there."""
        self.take_job(job)
        self._count(backoff)

    def take_job(self, job: Document) -> None:
        """Go on with the Job as the API server has it now."""
        self.job: Document = {**job, "status": copy.deepcopy(job.get("status") or {})}
        self.uncounted.setdefault("succeeded", [])
        self.uncounted.setdefault("failed", [])

    @property
    def spec(self) -> Document:
        """Return the Job's spec."""
        spec: Document = self.job["spec"]
        return spec

    @property
    def status(self) -> Document:
        """Return the status, to be changed."""
        status: Document = self.job["status"]
        return status

    @property
    def uncounted(self) -> dict[str, list[str]]:
        """Return the uids of pods that ended and are not in the counters yet."""
        lists: dict[str, list[str]] = self.status.setdefault("uncountedTerminatedPods", {})
        return lists

    @property
    def completions(self) -> int | None:
        """Return how many pods must succeed; None if one is enough."""
        return self.spec.get("completions")

    def condition(self, type_: str, reason: str, message: str, status: str = "True") -> Document:
        """Return a condition that holds from now on."""
        now = time_text(self.now_s)
        return {
            "type": type_,
            "status": status,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    def true_condition(self, type_: str) -> Document | None:
        """Return a condition of the status that is True."""
        for condition in self.status.get("conditions") or ():
            if condition["type"] == type_ and condition["status"] == "True":
                found: Document = condition
                return found
        return None

    def set_condition(self, condition: Document) -> bool:
        """Put a condition into the status; return whether that changes anything.

        Parity: job_controller.go ensureJobConditionStatus, v1.36: what never was need not be
        said to be false.
        """
        conditions: list[Document] = self.status.setdefault("conditions", [])
        for position, old in enumerate(conditions):
            if old["type"] == condition["type"]:
                told = ("status", "reason", "message")
                if all(old.get(field, "") == condition[field] for field in told):
                    return False
                conditions[position] = condition
                return True
        if condition["status"] != "False":
            conditions.append(condition)
            return True
        if not conditions:
            del self.status["conditions"]
        return False

    # -- counting ---------------------------------------------------------------------------------

    def _count(self, backoff: Backoff) -> None:
        status = self.status
        succeeded = self._uncounted_pods("succeeded", lambda pod: phase_of(pod) == "Succeeded")
        failed = self._uncounted_pods("failed", lambda pod: is_failed(pod, self.job))
        policy = self.spec.get("podFailurePolicy")
        counted = sum(match_pod_failure_policy(policy, pod).is_counted for pod in failed)
        self.succeeded = (
            count_of(status, "succeeded") + len(succeeded) + len(self.uncounted["succeeded"])
        )
        self.failed = count_of(status, "failed") + counted + len(self.uncounted["failed"])
        self.backoff = backoff.after(succeeded, failed)
        if not status.get("startTime") and not is_suspended(self.job):
            status["startTime"] = time_text(self.now_s)

    def _uncounted_pods(self, counted_as: str, is_so: Callable[[Document], bool]) -> list[Document]:
        known = set(self.uncounted[counted_as])
        return [pod for pod in self._valid_pods() if uid_of(pod) not in known and is_so(pod)]

    def _valid_pods(self) -> list[Document]:
        """Return the pods that are not in the counters, with an index that there is."""
        return [pod for pod in self.pods if has_finalizer(pod) and self.has_valid_index(pod)]

    def has_valid_index(self, pod: Document) -> bool:
        """Return whether a pod counts: one of an Indexed Job needs an index that there is."""
        if not is_indexed(self.job):
            return True
        return NO_INDEX < completion_index(pod) < (self.completions or 0)

    # -- the end ----------------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Find out whether the Job is to end, and how.

        Parity: job_controller.go syncJob, v1.36: an end that was said before stays, then come
        failures, then success by policy; success by number is seen after pods were managed.
        """
        self.finished = (
            self.true_condition(SUCCESS_CRITERIA_MET) or self._said_failure() or self._failure()
        )
        if is_indexed(self.job):
            self._evaluate_indexes()

    def _said_failure(self) -> Document | None:
        target = self.true_condition(FAILURE_TARGET)
        if target is not None:
            return self.condition(FAILED, target.get("reason", ""), target.get("message", ""))
        policy = self.spec.get("podFailurePolicy")
        for pod in self.pods if policy else ():
            if is_failed(pod, self.job):
                message = match_pod_failure_policy(policy, pod).message
                if message:
                    return self.condition(FAILURE_TARGET, "PodFailurePolicy", message)
        return None

    def _failure(self) -> Document | None:
        if self.failed > self.spec["backoffLimit"] or self._is_past_limit_in_place():
            text = "Job has reached the specified backoff limit"
            return self.condition(FAILURE_TARGET, "BackoffLimitExceeded", text)
        deadline_s = self.spec.get("activeDeadlineSeconds")
        if deadline_s is None or is_suspended(self.job):
            return None
        left_s = seconds_of(self.status["startTime"]) + deadline_s - self.now_s
        if left_s <= 0:
            text = "Job was active longer than specified deadline"
            return self.condition(FAILURE_TARGET, "DeadlineExceeded", text)
        self.resync_s = left_s
        return None

    def _is_past_limit_in_place(self) -> bool:
        if self.spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        limit: int = self.spec["backoffLimit"]
        return restarts_in_place(self.pods) >= max(limit, 1)

    def _evaluate_indexes(self) -> None:
        completions = self.completions or 0
        status = self.status
        self.before_succeeded = Indexes.parse(status.get("completedIndexes", ""), completions)
        ended = [pod for pod in self._valid_pods() if phase_of(pod) == "Succeeded"]
        self.succeeded_indexes = self.before_succeeded.merge(Indexes.of(indexes_of(ended)))
        self.succeeded = self.succeeded_indexes.total
        if has_backoff_per_index(self.job):
            self._evaluate_failed_indexes(completions)
        if self.finished is None:
            policy = self.spec.get("successPolicy")
            message = match_success_policy(policy, completions, self.succeeded_indexes)
            if message:
                self.finished = self.condition(SUCCESS_CRITERIA_MET, "SuccessPolicy", message)

    def _evaluate_failed_indexes(self, completions: int) -> None:
        before = Indexes.parse(self.status.get("failedIndexes") or "", completions)
        failed = [pod for pod in self._valid_pods() if is_index_failed(pod, self.job)]
        self.failed_indexes = before.merge(Indexes.of(indexes_of(failed)))
        count, limit = self.failed_indexes.total, self.spec.get("maxFailedIndexes")
        if self.finished is None:
            if limit is not None and count > limit:
                text = "Job has exceeded the specified maximal number of failed indexes"
                self.finished = self.condition(FAILURE_TARGET, "MaxFailedIndexesExceeded", text)
            elif count > 0 and count + self.succeeded_indexes.total >= completions:
                self.finished = self.condition(
                    FAILURE_TARGET, "FailedIndexes", "Job has failed indexes"
                )
        self.delayed = self._pods_with_delayed_deletion(self.failed_indexes)

    def _pods_with_delayed_deletion(self, failed: Indexes) -> dict[int, Document]:
        # Parity: indexed_job_utils.go getPodsWithDelayedDeletionPerIndex, v1.36.
        active = indexes_of(self.active_pods)
        delayed: dict[int, Document] = {}
        for pod in self._valid_pods():
            index = completion_index(pod)
            is_over = index in self.succeeded_indexes or index in failed or index in active
            if not is_failed(pod, self.job) or is_over:
                continue
            last = delayed.get(index)
            if last is None or (
                absolute_failure_count(last) <= absolute_failure_count(pod)
                and finished_s(pod) >= finished_s(last)
            ):
                delayed[index] = pod
        return delayed

    # -- pods wanted ------------------------------------------------------------------------------

    @property
    def wanted_active(self) -> int:
        """Return how many pods should run."""
        parallelism: int = self.spec["parallelism"]
        if self.completions is None:
            # Once one has succeeded the others are left to end by themselves.
            return len(self.active_pods) if self.succeeded > 0 else parallelism
        return max(0, min(self.completions - self.succeeded, parallelism))

    @property
    def missing(self) -> int:
        """Return how many pods are to be created; below 0 if there are too many."""
        leaving = self.terminating if only_replaces_failed(self.job) else 0
        return self.wanted_active - leaving - len(self.active_pods)

    def pending_indexes(self, count: int) -> list[int]:
        """Return the lowest indexes that no pod stands for yet.

        Parity: indexed_job_utils.go firstPendingIndexes, v1.36.
        """
        taken = self.succeeded_indexes.merge(Indexes.of(indexes_of(self.active_pods)))
        if only_replaces_failed(self.job):
            leaving = (pod for pod in self.pods if is_leaving(pod))
            taken = taken.merge(Indexes.of(indexes_of(leaving)))
        if self.failed_indexes is not None:
            taken = taken.merge(self.failed_indexes)
        missing = taken.missing(self.completions or 0)
        return [index for index, _ in zip(missing, range(count), strict=False)]

    def is_complete(self, active: int) -> bool:
        """Return whether enough pods have succeeded and none runs any more."""
        needed = 1 if self.completions is None else self.completions
        return self.succeeded >= needed and active == 0


def count_of(status: Document, field: str) -> int:
    """Return a counter, which is left out where it is 0."""
    return int(status.get(field) or 0)


def set_count(status: dict[str, Any], field: str, count: int) -> None:
    """Set a counter, left out where it is 0."""
    if count:
        status[field] = count
    else:
        status.pop(field, None)
