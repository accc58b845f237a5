"""What a Job reads from its pods, and the pods it makes.

Owns which pods count as failed, whose index is whose, which active pods are too many, and what a
new pod takes over from the template and from the one it replaces. Never asks the API server.
Upstream: pkg/controller/job/{job_controller,indexed_job_utils,tracking_utils}.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Final

from kubesched.client.cached.documents import (
    Document,
    condition_of,
    is_ready,
    is_terminating,
    name_of,
    seconds_of,
)
from kubesched.controllers.active_pods import container_restarts
from kubesched.controllers.job_policies import match_pod_failure_policy
from kubesched.controllers.pod_control import pod_from_template

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
NO_INDEX: Final = -1

_INDEX_ENV: Final = "JOB_COMPLETION_INDEX"
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_INT32_MAX: Final = 2**31 - 1
# A generated name has 63 characters, five of which are made up.
_PREFIX_CHARS_MAX: Final = 58
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


# -- what a Job says ------------------------------------------------------------------------------


def is_indexed(job: Document) -> bool:
    """Return whether each pod stands for one index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def has_backoff_per_index(job: Document) -> bool:
    """Return whether failures are counted for each index of its own."""
    return job["spec"].get("backoffLimitPerIndex") is not None


def is_suspended(job: Document) -> bool:
    """Return whether no pods should run for now."""
    return bool(job["spec"].get("suspend"))


def only_replaces_failed(job: Document) -> bool:
    """Return whether a pod is replaced when it has ended, and not when its deletion begins."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def is_managed_elsewhere(job: Document) -> bool:
    """Return whether another controller looks after it."""
    return job["spec"].get("managedBy") not in (None, JOB_CONTROLLER)


def end_of(job: Document) -> str:
    """Return Complete or Failed for a Job that has ended; empty before."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


# -- what pods say --------------------------------------------------------------------------------


def phase_of(pod: Document) -> str:
    """Return the pod's phase."""
    return str((pod.get("status") or {}).get("phase") or "")


def has_finalizer(pod: Document) -> bool:
    """Return whether a pod has not been counted to the end."""
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


def completion_index(pod: Document) -> int:
    """Return which index a pod stands for; NO_INDEX if none."""
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
    return max(int(text), NO_INDEX) if _NUMBER.fullmatch(text) else NO_INDEX


def is_leaving(pod: Document) -> bool:
    """Return whether a pod has not ended and is being deleted."""
    return phase_of(pod) not in ("Succeeded", "Failed") and is_terminating(pod)


def is_failed(pod: Document, job: Document) -> bool:
    """Return whether a pod counts as failed.

    Parity: job_controller.go isPodFailed, v1.36: a pod that is deleted before it ends may never
    get to say that it failed, if its node is gone.
    """
    if phase_of(pod) == "Failed":
        return True
    if only_replaces_failed(job):
        return False
    return is_terminating(pod) and phase_of(pod) != "Succeeded"


def indexes_of(pods: Iterable[Document]) -> set[int]:
    """Return the indexes that pods stand for."""
    return {index for pod in pods if (index := completion_index(pod)) != NO_INDEX}


def failure_count(pod: Document) -> int:
    """Return how many pods of this index failed before this one."""
    return _annotated_count(pod, FAILURE_COUNT)


def absolute_failure_count(pod: Document) -> int:
    """Return the same, with the failures that a policy had ignored."""
    return failure_count(pod) + _annotated_count(pod, IGNORED_COUNT)


def _annotated_count(pod: Document, annotation: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    number = int(text) if _NUMBER.fullmatch(text) else 0
    return number if 0 <= number <= _INT32_MAX else 0


def is_index_failed(pod: Document, job: Document) -> bool:
    """Return whether the failure of a pod ends its index.

    Parity: indexed_job_utils.go isIndexFailed, v1.36.
    """
    if not is_failed(pod, job):
        return False
    matched = match_pod_failure_policy(job["spec"].get("podFailurePolicy"), pod)
    if matched.action == "FailIndex":
        return True
    return matched.is_counted and failure_count(pod) >= job["spec"]["backoffLimitPerIndex"]


def restarts_in_place(pods: Iterable[Document]) -> int:
    """Return how often containers were restarted in pods that have not ended."""
    return sum(
        status.get("restartCount") or 0
        for pod in pods
        if phase_of(pod) in ("Running", "Pending")
        for field in ("initContainerStatuses", "containerStatuses")
        for status in pod["status"].get(field) or ()
    )


# -- too many -------------------------------------------------------------------------------------


def active_pods_for_removal(
    job: Document, pods: Sequence[Document], at_least: int
) -> list[Document]:
    """Return active pods that should go: doubles and strangers first, then the least advanced.

    Parity: job_controller.go activePodsForRemoval, v1.36.
    """
    removed: list[Document] = []
    left = list(pods)
    if is_indexed(job):
        removed, left = _without_doubles(left, job["spec"]["completions"])
    if len(removed) < at_least:
        removed += _least_advanced_first(left)[: at_least - len(removed)]
    return removed


def _without_doubles(
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
        *doubles, kept = _least_advanced_first(same)
        removed += doubles
        left.append(kept)
    return removed, left


def _least_advanced_first(pods: Sequence[Document]) -> list[Document]:
    return sorted(pods, key=cmp_to_key(_compare))


def _compare(one: Document, other: Document) -> int:
    """Return below 0 where the first pod goes first.

    Parity: pkg/controller/controller_utils.go ActivePods, v1.36: no deletion cost, no ranks.
    """
    for mine, theirs in (
        (_stage(one), _stage(other)),
        (_latest_first(_ready_s(one)), _latest_first(_ready_s(other))),
        (_most_first(container_restarts(one)), _most_first(container_restarts(other))),
        (_latest_first(_created_s(one)), _latest_first(_created_s(other))),
    ):
        if mine != theirs:
            return -1 if mine < theirs else 1
    return 0


def _stage(pod: Document) -> tuple[int, ...]:
    is_assigned = bool(pod["spec"].get("nodeName"))
    return (int(is_assigned), _PHASES.get(phase_of(pod), 0), int(is_ready(pod)))


def _most_first(counts: tuple[int, int]) -> tuple[int, ...]:
    return tuple(-count for count in counts)


def _latest_first(at_s: float) -> tuple[float, ...]:
    # No time at all counts as later than any.
    return (float("-inf"),) if not at_s else (-at_s,)


def _ready_s(pod: Document) -> float:
    ready = condition_of(pod, "Ready") or {}
    return seconds_of(ready.get("lastTransitionTime")) if ready.get("status") == "True" else 0.0


def _created_s(pod: Document) -> float:
    return seconds_of(pod["metadata"].get("creationTimestamp"))


# -- new pods -------------------------------------------------------------------------------------


def new_pod(job: Document, index: int, replaced: Document | None) -> Document:
    """Return a pod to create.

    Args:
        job: Whose it is.
        index: What it stands for in an Indexed Job; NO_INDEX otherwise.
        replaced: The pod of this index that failed before.
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
    """Return what a pod tells of the failures before it."""
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    counted = failure_count(replaced)
    ignored = _annotated_count(replaced, IGNORED_COUNT)
    if match_pod_failure_policy(job["spec"].get("podFailurePolicy"), replaced).is_counted:
        counted += 1
    else:
        ignored += 1
    counts = {FAILURE_COUNT: str(counted)}
    if ignored:
        counts[IGNORED_COUNT] = str(ignored)
    return counts
