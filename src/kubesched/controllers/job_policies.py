"""What a Job's policies make of pods that ended: the one for failures, the one for success.

Owns the matching of rules and the messages of their matches. Never counts, never decides when.
Upstream: pkg/controller/job/{pod_failure_policy,success_policy}.go
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.cached.documents import Document, name_of, namespace_of
from kubesched.controllers.job_indexes import Indexes

FAIL_JOB: Final = "FailJob"
FAIL_INDEX: Final = "FailIndex"
IGNORE: Final = "Ignore"
COUNT: Final = "Count"

_ACTIONS: Final = (FAIL_JOB, FAIL_INDEX, IGNORE, COUNT)


@dataclass(frozen=True, slots=True)
class FailureMatch:
    """What the policy says of one failed pod."""

    action: str = ""
    """The action of the rule that matched; empty if none did."""
    message: str = ""
    """Why the whole Job fails, if it does."""

    @property
    def is_counted(self) -> bool:
        """Return whether the failure counts towards the limits."""
        return self.action != IGNORE


def match_pod_failure_policy(policy: Mapping[str, Any] | None, pod: Document) -> FailureMatch:
    """Return what the first rule that fits a failed pod says."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule.get("action", "")
        what = _match(rule, pod)
        if what and action in _ACTIONS:
            text = f"{what} matching {action} rule at index {index}"
            return FailureMatch(action, text if action == FAIL_JOB else "")
    return FailureMatch()


def _match(rule: Mapping[str, Any], pod: Document) -> str:
    """Return what a rule found in a pod, empty for nothing."""
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
    """Return with what a container ended; 0 also if it has not."""
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
    """Return which rule the succeeded indexes fulfil, in words; empty if none."""
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
    wanted = Indexes.parse(text, completions)
    if not wanted.intervals:
        return False
    reached = wanted.overlap(succeeded)
    return reached == wanted.total or (count is not None and reached >= count)
