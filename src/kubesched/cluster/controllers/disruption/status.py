"""Evictions in progress, and the status of an invalid PodDisruptionBudget.

The status of a valid budget is in `kubesched.workloads.disruption`.
Upstream: pkg/controller/disruption/disruption.go buildDisruptedPodMap, failSafe
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubesched.api.documents import Document, is_terminating, name_of, seconds_of
from kubesched.workloads.disruption import ALLOWED, DELETION_TIMEOUT_S, with_condition

_REQUIRED: Final = ("currentHealthy", "desiredHealthy", "expectedPods")


@dataclass(frozen=True, slots=True)
class Disrupted:
    """Pods whose eviction was accepted."""

    awaited: Mapping[str, str]
    """Pods that will be deleted soon: name to time of the eviction."""
    overdue: Sequence[Document]
    """Pods that still exist and will not be deleted."""
    recheck_s: float | None
    """When the next one is overdue."""


def disrupted_pods(budget: Document, pods: Iterable[Document], now_s: float) -> Disrupted:
    """Return the accepted evictions that are still in progress.

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


def failed_status(budget: Document, message: str, now_s: float) -> Document:
    """Return the status of an invalid budget, which allows no disruption."""
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
