"""What a PodDisruptionBudget allows, from the pods it covers.

Owns the numbers of its status, the condition that sums them up, and which disrupted pods are still
waited for. Never finds out how many pods there should be: disruption does.
Upstream: pkg/controller/disruption/disruption.go,
staging/src/k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.cached.documents import (
    Document,
    condition_of,
    is_ready,
    is_terminating,
    name_of,
    seconds_of,
    time_text,
)

ALLOWED: Final = "DisruptionAllowed"
DELETION_TIMEOUT_S: Final = 120.0

_REQUIRED: Final = ("currentHealthy", "desiredHealthy", "expectedPods")
_PERCENT: Final = re.compile(r"[0-9]+%")


@dataclass(frozen=True, slots=True)
class Disrupted:
    """Pods that were to be evicted."""

    awaited: Mapping[str, str]
    """Those that will go soon, by name, with when that was said."""
    overdue: Sequence[Document]
    """Those that are still there, and will not go by themselves."""
    recheck_s: float | None
    """When the next of them is overdue."""


def disrupted_pods(budget: Document, pods: Iterable[Document], now_s: float) -> Disrupted:
    """Return which pods that were to be evicted are still waited for.

    Parity: disruption.go buildDisruptedPodMap, v1.36.
    """
    listed: Mapping[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    awaited: dict[str, str] = {}
    overdue: list[Document] = []
    recheck_s: float | None = None
    for pod in pods if listed else ():
        since = listed.get(name_of(pod))
        if since is None or is_terminating(pod):
            continue
        until_s = seconds_of(since) + DELETION_TIMEOUT_S
        if until_s < now_s:
            overdue.append(pod)
            continue
        awaited[name_of(pod)] = since
        recheck_s = until_s if recheck_s is None else min(recheck_s, until_s)
    return Disrupted(awaited, overdue, recheck_s)


def healthy_count(pods: Iterable[Document], awaited: Mapping[str, str], now_s: float) -> int:
    """Return how many pods are ready and there to stay."""
    return sum(
        is_ready(pod) and not is_terminating(pod) and not _is_awaited(pod, awaited, now_s)
        for pod in pods
    )


def _is_awaited(pod: Document, awaited: Mapping[str, str], now_s: float) -> bool:
    since = awaited.get(name_of(pod))
    return since is not None and seconds_of(since) + DELETION_TIMEOUT_S > now_s


def scaled(value: int | str, total: int) -> int:
    """Return a number, or so many percent of the total, rounded up; ValueError for neither."""
    if isinstance(value, int):
        return value
    if not _PERCENT.fullmatch(value):
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    return math.ceil(int(value[:-1]) * total / 100)


def goes_by_scale(spec: Mapping[str, Any]) -> bool:
    """Return whether a budget asks how many pods those who control them mean to have."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def desired_healthy(spec: Mapping[str, Any], expected: int) -> int:
    """Return how many of the expected pods a budget wants healthy.

    Parity: disruption.go getExpectedPodCount, v1.36.
    """
    lost, kept = spec.get("maxUnavailable"), spec.get("minAvailable")
    if lost is not None:
        return max(0, expected - scaled(lost, expected))
    return 0 if kept is None else scaled(kept, expected)


def new_status(
    budget: Document,
    *,
    healthy: int,
    desired: int,
    expected: int,
    disrupted: Mapping[str, str],
    now_s: float,
) -> Document | None:
    """Return the status that a budget should have; None if it has it.

    Parity: disruption.go updatePdbStatus, v1.36.
    """
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget["metadata"].get("generation") or 0
    old = budget.get("status") or {}
    status: Document = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": generation,
    }
    is_same = all((old.get(field) or 0) == value for field, value in status.items())
    if is_same and dict(disrupted) == (old.get("disruptedPods") or {}) and _is_said(old, allowed):
        return None
    if disrupted:
        status["disruptedPods"] = dict(disrupted)
    kept = old.get("conditions") or []
    status["conditions"] = with_condition(kept, _summary(allowed, generation), now_s)
    return status


def failed_status(budget: Document, message: str, now_s: float) -> Document:
    """Return the status of a budget of which nothing is known: nothing is allowed."""
    old = budget.get("status") or {}
    condition = {
        "type": ALLOWED,
        "status": "False",
        "reason": "SyncFailed",
        "message": message,
        "observedGeneration": old.get("observedGeneration") or 0,
    }
    kept = old.get("conditions") or []
    needed = {field: old.get(field) or 0 for field in _REQUIRED}
    return {
        **old,
        **needed,
        "disruptionsAllowed": 0,
        "conditions": with_condition(kept, condition, now_s),
    }


def _summary(allowed: int, generation: int) -> Document:
    return {
        "type": ALLOWED,
        "status": "True" if allowed > 0 else "False",
        "reason": "SufficientPods" if allowed > 0 else "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
    }


def _is_said(status: Document, allowed: int) -> bool:
    """Return whether the condition says what the number does."""
    condition = condition_of({"status": status}, ALLOWED)
    if condition is None:
        return False
    wanted = _summary(allowed, 0)
    return all(condition.get(field) == wanted[field] for field in ("status", "reason"))


def with_condition(
    conditions: Iterable[Mapping[str, Any]], condition: Document, now_s: float
) -> list[Document]:
    """Return conditions with this one in its place.

    Parity: apimachinery/pkg/api/meta/conditions.go SetStatusCondition, v1.36.
    """
    fresh = {"lastTransitionTime": time_text(now_s), **condition}
    out: list[Document] = []
    is_placed = False
    for old in conditions:
        if old.get("type") != condition["type"]:
            out.append(dict(old))
            continue
        if old.get("status") == condition["status"] and old.get("lastTransitionTime"):
            fresh["lastTransitionTime"] = old["lastTransitionTime"]
        out.append(fresh)
        is_placed = True
    return out if is_placed else [*out, fresh]
