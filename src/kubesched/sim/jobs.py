"""Jobs: how many pods one still starts, and for which indexes.

Owns the step from objects of files to what the rule of the Job controller asks for. The rule itself
is `controllers.job_state`'s, which a running cluster follows. There is no time here: no deadline,
no backoff. Policies are not read: what they decide stands in the status.
Upstream: pkg/controller/job/job_controller.go manageJob
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.controllers.job_backoff import Backoff
from kubesched.controllers.job_pods import (
    TRACKING_FINALIZER,
    end_of,
    is_indexed,
    is_managed_elsewhere,
    is_suspended,
)
from kubesched.controllers.job_state import JobState
from kubesched.objects.meta import Condition
from kubesched.objects.pod import Pod
from kubesched.objects.wire import Empty, Int32, Wire

# Parity: pkg/apis/batch/v1/defaults.go SetDefaults_Job, v1.36.
_BACKOFF_LIMIT = 6
_BACKOFF_LIMIT_PER_INDEX = 2**31 - 1


class JobSpec(Wire, frozen=True, kw_only=True):
    """What a Job says about its pods."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str = ""
    suspend: bool = False
    managed_by: str | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    pod_replacement_policy: str = ""
    pod_failure_policy: Empty | None = None


class UncountedPods(Wire, frozen=True, kw_only=True):
    """The uids of pods that ended and are not in the counters yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire, frozen=True, kw_only=True):
    """How far a Job has come."""

    succeeded: Int32 = 0
    failed: Int32 = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Lack:
    """The pods that a Job is to start now."""

    count: int = 0
    indexes: Sequence[int] = ()
    """What they stand for, if the Job is indexed."""


def job_lack(spec: JobSpec, status: JobStatus, pods: Sequence[Pod]) -> Lack:
    """Return the pods that a Job is to start, given those it has."""
    job = {"spec": _spec_document(spec), "status": _status_document(status)}
    if end_of(job) or is_managed_elsewhere(job) or is_suspended(job):
        return Lack()
    # A Job without a status was written by hand: none of its pods has been counted.
    is_counted = status != JobStatus()
    state = JobState(job, [_pod_document(pod, is_counted) for pod in pods], Backoff(), now_s=0.0)
    state.evaluate()
    if state.finished is not None:
        return Lack()
    count = max(0, state.missing)
    if not is_indexed(job):
        return Lack(count)
    indexes = state.pending_indexes(count)
    return Lack(len(indexes), indexes)


def _spec_document(spec: JobSpec) -> dict[str, Any]:
    # Parity: defaults.go SetDefaults_Job, v1.36: one pod is enough where neither number is said.
    completions = 1 if spec.parallelism is None and spec.completions is None else spec.completions
    limit = _BACKOFF_LIMIT if spec.backoff_limit_per_index is None else _BACKOFF_LIMIT_PER_INDEX
    return {
        "parallelism": 1 if spec.parallelism is None else spec.parallelism,
        "completions": completions,
        "completionMode": spec.completion_mode,
        "suspend": spec.suspend,
        "managedBy": spec.managed_by,
        "backoffLimit": limit if spec.backoff_limit is None else spec.backoff_limit,
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
        "maxFailedIndexes": spec.max_failed_indexes,
        "podReplacementPolicy": spec.pod_replacement_policy,
        "podFailurePolicy": None if spec.pod_failure_policy is None else {},
        "template": {"spec": {}},
    }


def _status_document(status: JobStatus) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(status)
    conditions = [{"type": one.type, "status": one.status} for one in status.conditions]
    uncounted = status.uncounted_terminated_pods or UncountedPods()
    lists = {"succeeded": [*uncounted.succeeded], "failed": [*uncounted.failed]}
    return {**told, "conditions": conditions, "uncountedTerminatedPods": lists}


def _pod_document(pod: Pod, is_counted: bool) -> dict[str, Any]:
    meta = pod.metadata
    return {
        "metadata": {
            "name": meta.name,
            "uid": meta.uid,
            "annotations": meta.annotations,
            "creationTimestamp": meta.creation_timestamp,
            "deletionTimestamp": meta.deletion_timestamp,
            "finalizers": meta.finalizers if is_counted else (TRACKING_FINALIZER,),
        },
        "spec": {},
        "status": {"phase": pod.status.phase},
    }
