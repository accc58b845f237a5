"""Pods of a Job: completion indexes, failure and success policies.

Upstream: pkg/controller/job/{job_controller,indexed_job_utils,tracking_utils,pod_failure_policy,
success_policy}.go
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeAlias

from kubesched.api.documents import Document, is_terminating, name_of, namespace_of

Interval: TypeAlias = tuple[int, int]
"""The first and the last index."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of completion indexes, as ordered, separate intervals; written as `1,3-5,7`."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def parse(cls, text: str, completions: int) -> Indexes:
        """Parse the indexes below `completions`; invalid intervals are skipped."""
        intervals: list[Interval] = []
        for part in text.split(",") if text else ():
            limits = part.split("-")[:2]
            if not all(_NUMBER.fullmatch(limit) for limit in limits):
                continue
            first, last = int(limits[0]), int(limits[-1])
            if first >= completions:
                break
            last = min(last, completions - 1)
            if intervals and intervals[-1][1] == first - 1:
                intervals[-1] = (intervals[-1][0], last)
            else:
                intervals.append((first, last))
        return cls(tuple(intervals))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> Indexes:
        """Return the set of these indexes."""
        return cls(_merged((index, index) for index in sorted(indexes)))

    def merge(self, other: Indexes) -> Indexes:
        """Return the union."""
        return Indexes(_merged(sorted((*self.intervals, *other.intervals))))

    @property
    def total(self) -> int:
        """Return the number of indexes."""
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        position = bisect_left(self.intervals, index, key=itemgetter(1))
        return position < len(self.intervals) and self.intervals[position][0] <= index

    def __str__(self) -> str:
        """Return the text in a status: two neighbors are listed, more are a range."""
        return ",".join(_shown(first, last) for first, last in self.intervals)

    def missing(self, below: int) -> Iterator[int]:
        """Return the indexes that are not in the set, the lowest first."""
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, below))
            candidate = max(candidate, last + 1)
        yield from range(candidate, below)

    def overlap(self, other: Indexes) -> int:
        """Return the size of the intersection."""
        return self.total + other.total - self.merge(other).total


def _merged(ordered: Iterable[Interval]) -> tuple[Interval, ...]:
    out: list[Interval] = []
    for first, last in ordered:
        if not out or first > out[-1][1] + 1:
            out.append((first, last))
        elif out[-1][1] < last:
            out[-1] = (out[-1][0], last)
    return tuple(out)


def _shown(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"
IGNORE: Final = "Ignore"
COUNT: Final = "Count"

_ACTIONS: Final = (FAIL_JOB, FAIL_INDEX, IGNORE, COUNT)


@dataclass(frozen=True, slots=True)
class FailureMatch:
    """The result of a pod failure policy for one pod."""

    action: str = ""
    """The action of the matching rule; empty if no rule matches."""
    message: str = ""
    """Why the whole Job fails, if the action is FailJob."""

    @property
    def is_counted(self) -> bool:
        """Return whether the failure counts towards the limits."""
        return self.action != IGNORE


def match_pod_failure_policy(policy: Mapping[str, Any] | None, pod: Document) -> FailureMatch:
    """Return the result of the first rule that matches a failed pod."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule.get("action", "")
        match = _match(rule, pod)
        if match and action in _ACTIONS:
            text = f"{match} matching {action} rule at index {index}"
            return FailureMatch(action, text if action == FAIL_JOB else "")
    return FailureMatch()


def _match(rule: Mapping[str, Any], pod: Document) -> str:
    """Return a description of the match, empty if the rule does not match."""
    where = f"{namespace_of(pod)}/{name_of(pod)}"
    status = pod.get("status") or {}
    if (codes := rule.get("onExitCodes")) is not None:
        for field in ("containerStatuses", "initContainerStatuses"):
            for container in status.get(field) or ():
                code, name = _exit_code(container), container["name"]
                if code and _code_matches(code, name, codes):
                    return f"Container {name} for pod {where} failed with exit code {code}"
        return ""
    patterns: Sequence[Mapping[str, str]] = rule.get("onPodConditions") or ()
    for condition in status.get("conditions") or ():
        for pattern in patterns:
            if all(condition.get(field) == pattern.get(field) for field in ("type", "status")):
                return f"Pod {where} has condition {condition['type']}"
    return ""


def _exit_code(container: Mapping[str, Any]) -> int:
    """Return the exit code of a container; 0 if it is still running."""
    terminated = (container.get("state") or {}).get("terminated") or {}
    return int(terminated.get("exitCode") or 0)


def _code_matches(code: int, name: str, requirement: Mapping[str, Any]) -> bool:
    if requirement.get("containerName") not in (None, name):
        return False
    is_listed = code in (requirement.get("values") or ())
    operator = requirement.get("operator")
    return is_listed if operator == "In" else operator == "NotIn" and not is_listed


def match_success_policy(
    policy: Mapping[str, Any] | None, completions: int, succeeded: Indexes
) -> str:
    """Return a message about the rule that the succeeded indexes fulfil; empty if none."""
    if not succeeded.intervals:
        return ""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        if _fulfils(rule, completions, succeeded):
            return f"Matched rules at index {index}"
    return ""


def _fulfils(rule: Mapping[str, Any], completions: int, succeeded: Indexes) -> bool:
    count = rule.get("succeededCount")
    text = rule.get("succeededIndexes")
    if text is None:
        return count is not None and succeeded.total >= count
    required = Indexes.parse(text, completions)
    if not required.intervals:
        return False
    reached = required.overlap(succeeded)
    return reached == required.total or (count is not None and reached >= count)


TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
NO_INDEX: Final = -1

_INT32_MAX: Final = 2**31 - 1


# -- fields of a Job ------------------------------------------------------------------------------


def is_indexed(job: Document) -> bool:
    """Return whether each pod has a completion index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def has_backoff_per_index(job: Document) -> bool:
    """Return whether failures are counted per index."""
    return job["spec"].get("backoffLimitPerIndex") is not None


def is_suspended(job: Document) -> bool:
    """Return whether the Job is suspended."""
    return bool(job["spec"].get("suspend"))


def only_replaces_failed(job: Document) -> bool:
    """Return whether a pod is replaced only after it has terminated."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def is_managed_elsewhere(job: Document) -> bool:
    """Return whether another controller manages the Job."""
    return job["spec"].get("managedBy") not in (None, JOB_CONTROLLER)


def end_of(job: Document) -> str:
    """Return Complete or Failed for a finished Job; empty otherwise."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


# -- fields of pods -------------------------------------------------------------------------------


def phase_of(pod: Document) -> str:
    """Return the pod's phase."""
    return str((pod.get("status") or {}).get("phase") or "")


def has_finalizer(pod: Document) -> bool:
    """Return whether a pod still has the tracking finalizer."""
    return TRACKING_FINALIZER in (pod["metadata"].get("finalizers") or ())


def completion_index(pod: Document) -> int:
    """Return the completion index of a pod, or NO_INDEX."""
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
    return max(int(text), NO_INDEX) if _NUMBER.fullmatch(text) else NO_INDEX


def is_pod_terminating(pod: Document) -> bool:
    """Return whether a pod is terminating."""
    return phase_of(pod) not in ("Succeeded", "Failed") and is_terminating(pod)


def is_failed(pod: Document, job: Document) -> bool:
    """Return whether a pod counts as failed.

    Parity: job_controller.go isPodFailed, v1.36: a pod that is deleted while it runs may never
    report a phase if its node is gone.
    """
    if phase_of(pod) == "Failed":
        return True
    if only_replaces_failed(job):
        return False
    return is_terminating(pod) and phase_of(pod) != "Succeeded"


def indexes_of(pods: Iterable[Document]) -> set[int]:
    """Return the completion indexes of pods."""
    return {index for pod in pods if (index := completion_index(pod)) != NO_INDEX}


def failure_count(pod: Document) -> int:
    """Return the number of earlier failures of this index."""
    return annotated_count(pod, FAILURE_COUNT)


def absolute_failure_count(pod: Document) -> int:
    """Return the number of earlier failures, ignored ones included."""
    return failure_count(pod) + annotated_count(pod, IGNORED_COUNT)


def annotated_count(pod: Document, annotation: str) -> int:
    """Return the count in an annotation; 0 if it is absent or invalid."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    number = int(text) if _NUMBER.fullmatch(text) else 0
    return number if 0 <= number <= _INT32_MAX else 0


def is_index_failed(pod: Document, job: Document) -> bool:
    """Return whether the failure of a pod makes its index fail.

    Parity: indexed_job_utils.go isIndexFailed, v1.36.
    """
    if not is_failed(pod, job):
        return False
    matched = match_pod_failure_policy(job["spec"].get("podFailurePolicy"), pod)
    if matched.action == "FailIndex":
        return True
    return matched.is_counted and failure_count(pod) >= job["spec"]["backoffLimitPerIndex"]


def restarts_in_place(pods: Iterable[Document]) -> int:
    """Return the number of container restarts in active pods."""
    return sum(
        status.get("restartCount") or 0
        for pod in pods
        if phase_of(pod) in ("Running", "Pending")
        for field in ("initContainerStatuses", "containerStatuses")
        for status in pod["status"].get(field) or ()
    )
