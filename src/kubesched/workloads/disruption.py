"""Status of a PodDisruptionBudget, computed from the pods it covers.

Computes counters and the condition DisruptionAllowed, given the expected number of pods.
Upstream: pkg/controller/disruption/disruption.go,
staging/src/k8s.io/component-helpers/apps/poddisruptionbudget/helpers.go
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    condition_of,
    is_ready,
    is_terminating,
    name_of,
    seconds_of,
)
from kubesched.api.times import time_text

ALLOWED: Final = "DisruptionAllowed"
DELETION_TIMEOUT_S: Final = 120.0

_PERCENT: Final = re.compile(r"[0-9]+%")


def healthy_count(pods: Iterable[Document], awaited: Mapping[str, str], now_s: float) -> int:
    """Return the number of ready pods that are not being deleted."""
    return sum(
        is_ready(pod) and not is_terminating(pod) and not _is_awaited(pod, awaited, now_s)
        for pod in pods
    )


def _is_awaited(pod: Document, awaited: Mapping[str, str], now_s: float) -> bool:
    since = awaited.get(name_of(pod))
    return since is not None and seconds_of(since) + DELETION_TIMEOUT_S > now_s


def scaled(value: int | str, total: int) -> int:
    """Return a number or a percentage of the total, rounded up; ValueError if it is neither."""
    if isinstance(value, int):
        return value
    if not _PERCENT.fullmatch(value):
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    return math.ceil(int(value[:-1]) * total / 100)


def depends_on_scale(spec: Mapping[str, Any]) -> bool:
    """Return whether a budget depends on the scale of the pods' controllers."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def desired_healthy(spec: Mapping[str, Any], expected: int) -> int:
    """Return the desired number of healthy pods.

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
    """Return the new status of a budget; None if it is unchanged.

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
    if (
        is_same
        and dict(disrupted) == (old.get("disruptedPods") or {})
        and _condition_agrees(old, allowed)
    ):
        return None
    if disrupted:
        status["disruptedPods"] = dict(disrupted)
    kept = old.get("conditions") or []
    status["conditions"] = with_condition(kept, _summary(allowed, generation), now_s)
    return status


def _summary(allowed: int, generation: int) -> Document:
    return {
        "type": ALLOWED,
        "status": "True" if allowed > 0 else "False",
        "reason": "SufficientPods" if allowed > 0 else "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
    }


def _condition_agrees(status: Document, allowed: int) -> bool:
    """Return whether the condition agrees with the number of allowed disruptions."""
    condition = condition_of({"status": status}, ALLOWED)
    if condition is None:
        return False
    expected = _summary(allowed, 0)
    return all(condition.get(field) == expected[field] for field in ("status", "reason"))


def with_condition(
    conditions: Iterable[Mapping[str, Any]], condition: Document, now_s: float
) -> list[Document]:
    """Return conditions with one condition replaced or added.

    Parity: apimachinery/pkg/api/meta/conditions.go SetStatusCondition, v1.36.
    """
    by_type = {old.get("type"): dict(old) for old in conditions}
    old = by_type.get(condition["type"], {})
    is_same = old.get("status") == condition["status"]
    since = old.get("lastTransitionTime") if is_same else None
    by_type[condition["type"]] = {"lastTransitionTime": since or time_text(now_s), **condition}
    return list(by_type.values())
