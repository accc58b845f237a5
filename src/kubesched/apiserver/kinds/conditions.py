"""Conditions in a pod's status.

Owns how one is set: appended, or replaced with its time kept while the status stays.
Upstream: pkg/api/pod/util.go UpdatePodCondition
"""

from __future__ import annotations

from kubesched.apiserver.documents import Document


def find_condition(status: Document, kind: str) -> Document | None:
    """Return a condition, None if the status has none of that type."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            found: Document = condition
            return found
    return None


def set_condition(status: Document, condition: Document, now: str) -> None:
    """Set a condition; `now` is when its status changed, if it did."""
    conditions = status.setdefault("conditions", [])
    fresh = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            if old.get("status") == condition["status"]:
                fresh["lastTransitionTime"] = old.get("lastTransitionTime")
            conditions[index] = fresh
            return
    conditions.append(fresh)
