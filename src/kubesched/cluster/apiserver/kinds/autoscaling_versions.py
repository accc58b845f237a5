"""Converts HorizontalPodAutoscalers between v1 and v2. Stored as v2.

Upstream: pkg/apis/autoscaling/v1/conversion.go
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.documents import Document

_DEFAULT_SHARE = 80


def to_second(document: Document) -> Document:
    """Convert an autoscaler from v1 to v2, the stored version."""
    spec, status = dict(document.get("spec") or {}), dict(document.get("status") or {})
    share = spec.pop("targetCPUUtilizationPercentage", None)
    target = {"type": "Utilization", "averageUtilization": share or _DEFAULT_SHARE}
    spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    current = status.pop("currentCPUUtilizationPercentage", None)
    status["currentMetrics"] = None
    if current is not None:
        now = {"name": "cpu", "current": {"averageUtilization": current}}
        status["currentMetrics"] = [{"type": "Resource", "resource": now}]
    return {**document, "apiVersion": "autoscaling/v2", "spec": spec, "status": status}


def to_first(document: Document) -> Document:
    """Convert a stored autoscaler from v2 to v1."""
    spec, status = dict(document.get("spec") or {}), dict(document.get("status") or {})
    share = _share(spec.pop("metrics", None), "target")
    if share is not None:
        spec["targetCPUUtilizationPercentage"] = share
    spec.pop("behavior", None)
    current = _share(status.pop("currentMetrics", None), "current")
    if current is not None:
        status["currentCPUUtilizationPercentage"] = current
    status.pop("conditions", None)
    status.setdefault("currentReplicas", 0)
    status.setdefault("desiredReplicas", 0)
    return {**document, "apiVersion": "autoscaling/v1", "spec": spec, "status": status}


def _share(metrics: list[dict[str, Any]] | None, field: str) -> int | None:
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            found: int | None = (resource.get(field) or {}).get("averageUtilization")
            return found
    return None
