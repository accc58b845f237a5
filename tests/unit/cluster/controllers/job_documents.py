"""Builders of Jobs and their pods."""

from __future__ import annotations

from typing import Any

from kubesched.api.times import time_text
from kubesched.workloads.job_pods import COMPLETION_INDEX, FAILURE_COUNT, TRACKING_FINALIZER

Document = dict[str, Any]
NOW_S = 1_800_000_000.0


def a_job(*, status: Document | None = None, **spec: Any) -> Document:
    """Return a Job with the defaults of the API server."""
    restart = spec.pop("restartPolicy", "Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sum", "namespace": "ns", "uid": "job-uid", "generation": 1},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "completionMode": "NonIndexed",
            "suspend": False,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"job": "sum"}},
            "template": {
                "metadata": {"labels": {"job": "sum"}},
                "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]},
            },
            **spec,
        },
        "status": status or {},
    }


def a_job_pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    failures: int | None = None,
    ended_s: float | None = None,
    exit_code: int | None = None,
    is_counted: bool = False,
    is_deleted: bool = False,
    is_ready: bool = False,
) -> Document:
    """Return a pod of the Job."""
    annotations = {}
    if index is not None:
        annotations[COMPLETION_INDEX] = str(index)
    if failures is not None:
        annotations[FAILURE_COUNT] = str(failures)
    metadata: Document = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "labels": {"job": "sum"},
        "annotations": annotations,
        "finalizers": [] if is_counted else [TRACKING_FINALIZER],
        "creationTimestamp": time_text(NOW_S - 600),
    }
    if is_deleted:
        metadata["deletionTimestamp"] = time_text(NOW_S)
    status: Document = {"phase": phase}
    if ended_s is not None or exit_code is not None:
        terminated: Document = {"exitCode": exit_code or 0}
        if ended_s is not None:
            terminated["finishedAt"] = time_text(ended_s)
        status["containerStatuses"] = [{"name": "c", "state": {"terminated": terminated}}]
    if is_ready:
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    return {"metadata": metadata, "spec": {"containers": []}, "status": status}
