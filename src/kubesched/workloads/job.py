"""The state of a Job: counters, indexes, backoff, and whether and how the Job ends.

Counts pods, checks end conditions in upstream's order, and computes the delay before failed pods
are replaced. Works on a copy of the status; never sends a request.
Upstream: pkg/controller/job/{job_controller.go syncJob,backoff_utils.go}
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.documents import Document, condition_of, is_active, is_ready, seconds_of, uid_of
from kubesched.api.times import time_text
from kubesched.workloads.job_pods import (
    NO_INDEX,
    Indexes,
    absolute_failure_count,
    completion_index,
    has_backoff_per_index,
    has_finalizer,
    indexes_of,
    is_failed,
    is_index_failed,
    is_indexed,
    is_pod_terminating,
    is_suspended,
    match_pod_failure_policy,
    match_success_policy,
    only_replaces_failed,
    phase_of,
    restarts_in_place,
)

_FIRST_S: Final = 10.0
_LAST_S: Final = 600.0

SUCCESS_CRITERIA_MET: Final = "SuccessCriteriaMet"
FAILURE_TARGET: Final = "FailureTarget"
FAILED: Final = "Failed"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures of one Job since its last success."""

    failures: int = 0
    last_failure_s: float = 0.0

    def after(self, succeeded: Sequence[Document], failed: Sequence[Document]) -> Backoff:
        """Return the record after these pods have terminated, too."""
        failed_s = sorted(finished_s(pod) for pod in failed)
        if succeeded:
            last_s = max(finished_s(pod) for pod in succeeded)
            failed_s = [at_s for at_s in failed_s if at_s > last_s]
            return Backoff(len(failed_s), failed_s[-1] if failed_s else 0.0)
        if not failed_s:
            return self
        return Backoff(self.failures + len(failed_s), failed_s[-1])

    def remaining_s(self, now_s: float, speed: float = 1.0) -> float:
        """Return the remaining delay before a pod is replaced; failures double it, up to a cap."""
        if self.failures == 0:
            return 0.0
        # The exponent is capped to avoid an overflow; the delay is capped long before.
        wait_s = min(_FIRST_S * 2.0 ** min(self.failures - 1, 30), _LAST_S) / speed
        return max(0.0, wait_s - (now_s - self.last_failure_s))


def finished_s(pod: Document) -> float:
    """Return the best estimate of when a pod terminated.

    Parity: backoff_utils.go getFinishedTime, v1.36.
    """
    finished = _containers_finished_s(pod)
    if finished is not None:
        return finished
    ready = condition_of(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return seconds_of(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        grace_s = metadata.get("deletionGracePeriodSeconds") or 0
        return seconds_of(metadata["deletionTimestamp"]) - float(grace_s)
    return seconds_of(metadata.get("creationTimestamp"))


def _containers_finished_s(pod: Document) -> float | None:
    status = pod.get("status") or {}
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    # Parity: a running sidecar makes the time unknown, regardless of other containers.
    latest_s = _latest_s(None, status.get("containerStatuses") or ())
    started = status.get("initContainerStatuses") or ()
    return _latest_s(latest_s, [init for init in started if init["name"] in sidecars])


def _latest_s(latest_s: float | None, containers: Iterable[dict[str, Any]]) -> float | None:
    for container in containers:
        terminated = (container.get("state") or {}).get("terminated") or {}
        if not terminated.get("finishedAt"):
            return None
        at_s = seconds_of(terminated["finishedAt"])
        latest_s = at_s if latest_s is None else max(latest_s, at_s)
    return latest_s


class JobState:
    """A Job and its pods at one moment."""

    def __init__(
        self, job: Document, pods: Sequence[Document], backoff: Backoff, now_s: float
    ) -> None:
        self.now_s = now_s
        self.pods = list(pods)
        self.active_pods = [pod for pod in self.pods if is_active(pod)]
        self.ready = sum(is_ready(pod) for pod in self.active_pods)
        self.terminating = sum(is_pod_terminating(pod) for pod in self.pods)
        self.finished: Document | None = None
        """The condition that the Job ends with, once its pods have terminated."""
        self.resync_s: float | None = None
        """Seconds until the deadline."""
        self.before_succeeded = Indexes()
        self.succeeded_indexes = Indexes()
        self.failed_indexes: Indexes | None = None
        self.delayed: dict[int, Document] = {}
        """The failed pod of each index that is kept until its replacement exists."""
        self.take_job(job)
        self._count(backoff)

    def take_job(self, job: Document) -> None:
        """Continue with the current version of the Job."""
        self.job: Document = {**job, "status": copy.deepcopy(job.get("status") or {})}
        self.uncounted.setdefault("succeeded", [])
        self.uncounted.setdefault("failed", [])

    @property
    def spec(self) -> Document:
        """Return the Job's spec."""
        return self.job["spec"]

    @property
    def status(self) -> Document:
        """Return the mutable status."""
        return self.job["status"]

    @property
    def uncounted(self) -> dict[str, list[str]]:
        """Return the uids of terminated pods that are not in the counters yet."""
        return self.status.setdefault("uncountedTerminatedPods", {})

    @property
    def completions(self) -> int | None:
        """Return the required number of successful pods; None if one is enough."""
        return self.spec.get("completions")

    def condition(self, type_: str, reason: str, message: str, status: str = "True") -> Document:
        """Return a condition with the current time."""
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
                return condition
        return None

    def set_condition(self, condition: Document) -> bool:
        """Set a condition; return whether the status changed.

        Parity: job_controller.go ensureJobConditionStatus, v1.36: an absent condition is not added
        as False.
        """
        conditions: list[Document] = self.status.setdefault("conditions", [])
        for position, old in enumerate(conditions):
            if old["type"] == condition["type"]:
                compared = ("status", "reason", "message")
                if all(old.get(field, "") == condition[field] for field in compared):
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

    def _uncounted_pods(
        self, counted_as: str, ended_so: Callable[[Document], bool]
    ) -> list[Document]:
        counted = set(self.uncounted[counted_as])
        return [pod for pod in self._valid_pods() if uid_of(pod) not in counted and ended_so(pod)]

    def _valid_pods(self) -> list[Document]:
        """Return the pods that are not in the counters and have a valid index."""
        return [pod for pod in self.pods if has_finalizer(pod) and self.has_valid_index(pod)]

    def has_valid_index(self, pod: Document) -> bool:
        """Return whether a pod counts: in an Indexed Job it needs a valid index."""
        if not is_indexed(self.job):
            return True
        return NO_INDEX < completion_index(pod) < (self.completions or 0)

    # -- end conditions ---------------------------------------------------------------------------

    def evaluate(self) -> None:
        """Determine whether and how the Job ends.

        Parity: job_controller.go syncJob, v1.36: an earlier condition stays, then failures are
        checked, then the success policy; completions are checked after pods were managed.
        """
        self.finished = (
            self.true_condition(SUCCESS_CRITERIA_MET)
            or self._declared_failure()
            or self._new_failure()
        )
        if is_indexed(self.job):
            self._evaluate_indexes()

    def _declared_failure(self) -> Document | None:
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

    def _new_failure(self) -> Document | None:
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

    # -- desired pods -----------------------------------------------------------------------------

    @property
    def desired_active(self) -> int:
        """Return the desired number of running pods."""
        parallelism: int = self.spec["parallelism"]
        if self.completions is None:
            # Once one pod has succeeded, the others run to completion.
            return len(self.active_pods) if self.succeeded > 0 else parallelism
        return max(0, min(self.completions - self.succeeded, parallelism))

    @property
    def missing(self) -> int:
        """Return the number of pods to create; negative if there are too many."""
        leaving = self.terminating if only_replaces_failed(self.job) else 0
        return self.desired_active - leaving - len(self.active_pods)

    def pending_indexes(self, count: int) -> list[int]:
        """Return the lowest indexes without a pod.

        Parity: indexed_job_utils.go firstPendingIndexes, v1.36.
        """
        taken = self.succeeded_indexes.merge(Indexes.of(indexes_of(self.active_pods)))
        if only_replaces_failed(self.job):
            leaving = (pod for pod in self.pods if is_pod_terminating(pod))
            taken = taken.merge(Indexes.of(indexes_of(leaving)))
        if self.failed_indexes is not None:
            taken = taken.merge(self.failed_indexes)
        missing = taken.missing(self.completions or 0)
        return [index for index, _ in zip(missing, range(count), strict=False)]

    def is_complete(self, active: int) -> bool:
        """Return whether enough pods have succeeded and none is running."""
        needed = 1 if self.completions is None else self.completions
        return self.succeeded >= needed and active == 0


def count_of(status: Document, field: str) -> int:
    """Return a counter of a status, which is absent if it is 0."""
    return int(status.get(field) or 0)
