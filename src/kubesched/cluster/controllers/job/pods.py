"""Pods of a Job: which active pods to remove first, and new pods.

Upstream: pkg/controller/job/{job_controller,indexed_job_utils}.go
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kubesched.api.documents import Document, condition_of, is_ready, name_of, seconds_of
from kubesched.cluster.controllers.controller_pods import container_restarts, pod_from_template
from kubesched.workloads.job_pods import (
    COMPLETION_INDEX,
    FAILURE_COUNT,
    IGNORED_COUNT,
    NO_INDEX,
    TRACKING_FINALIZER,
    annotated_count,
    completion_index,
    failure_count,
    has_backoff_per_index,
    is_indexed,
    match_pod_failure_policy,
    phase_of,
)

_INDEX_ENV: Final = "JOB_COMPLETION_INDEX"
# A generated name has 63 characters, five of which are random.
_PREFIX_CHARS_MAX: Final = 58
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def active_pods_for_removal(
    job: Document, pods: Sequence[Document], at_least: int
) -> list[Document]:
    """Return active pods to remove: duplicate and invalid indexes first, then the least advanced.

    Parity: job_controller.go activePodsForRemoval, v1.36.
    """
    removed: list[Document] = []
    left = list(pods)
    if is_indexed(job):
        removed, left = _without_duplicates(left, job["spec"]["completions"])
    if len(removed) < at_least:
        removed += _least_advanced_first(left)[: at_least - len(removed)]
    return removed


def _without_duplicates(
    pods: Iterable[Document], completions: int
) -> tuple[list[Document], list[Document]]:
    by_index: dict[int, list[Document]] = {}
    for pod in sorted(pods, key=completion_index):
        by_index.setdefault(completion_index(pod), []).append(pod)
    removed: list[Document] = []
    left: list[Document] = []
    for index, same in by_index.items():
        if index == NO_INDEX or index >= completions:
            removed += same
            continue
        *duplicates, kept = _least_advanced_first(same)
        removed += duplicates
        left.append(kept)
    return removed, left


def _least_advanced_first(pods: Sequence[Document]) -> list[Document]:
    return sorted(pods, key=_progress)


def _progress(pod: Document) -> tuple[object, ...]:
    """Return the sort key of a pod; lower ones are removed first.

    Parity: pkg/controller/controller_utils.go ActivePods, v1.36: no deletion cost, no ranks.
    """
    ready = condition_of(pod, "Ready") or {}
    ready_time = ready.get("lastTransitionTime") if ready.get("status") == "True" else None
    restarts, sidecar_restarts = container_restarts(pod)
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(phase_of(pod), 0),
        is_ready(pod),
        _latest_first(ready_time),
        -restarts,
        -sidecar_restarts,
        _latest_first(pod["metadata"].get("creationTimestamp")),
    )


def _latest_first(time: str | None) -> float:
    return -seconds_of(time) or -math.inf  # A missing time counts as the latest.


def new_pod(job: Document, index: int, replaced: Document | None) -> Document:
    """Return a pod to create.

    Args:
        job: The Job.
        index: The completion index in an Indexed Job; NO_INDEX otherwise.
        replaced: The failed pod of the same index.
    """
    pod = pod_from_template(job["spec"]["template"], job)
    metadata, spec = pod["metadata"], pod["spec"]
    finalizers = metadata.setdefault("finalizers", [])
    if TRACKING_FINALIZER not in finalizers:
        finalizers.append(TRACKING_FINALIZER)
    if is_indexed(job):
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            _add_index_variable(container)
    if index != NO_INDEX:
        annotations = metadata.setdefault("annotations", {})
        annotations[COMPLETION_INDEX] = str(index)
        metadata.setdefault("labels", {})[COMPLETION_INDEX] = str(index)
        spec["hostname"] = f"{name_of(job)}-{index}"
        metadata["generateName"] = _name_prefix(name_of(job), index)
        if has_backoff_per_index(job):
            annotations.update(_counts_after(job, replaced))
    return pod


def _add_index_variable(container: dict[str, Any]) -> None:
    variables = container.setdefault("env", [])
    if any(variable["name"] == _INDEX_ENV for variable in variables):
        return
    path = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    variables.append({"name": _INDEX_ENV, "valueFrom": path})


def _name_prefix(name: str, index: int) -> str:
    ending = f"-{index}-"
    return f"{name[: _PREFIX_CHARS_MAX - len(ending)]}{ending}"


def _counts_after(job: Document, replaced: Document | None) -> Mapping[str, str]:
    """Return the annotations that count earlier failures."""
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    counted = failure_count(replaced)
    ignored = annotated_count(replaced, IGNORED_COUNT)
    if match_pod_failure_policy(job["spec"].get("podFailurePolicy"), replaced).is_counted:
        counted += 1
    else:
        ignored += 1
    counts = {FAILURE_COUNT: str(counted)}
    if ignored:
        counts[IGNORED_COUNT] = str(ignored)
    return counts
