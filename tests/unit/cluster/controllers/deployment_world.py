"""Deployments and ReplicaSets as their controllers read them."""

from __future__ import annotations

import copy
from typing import Any

Document = dict[str, Any]

NOW_S = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""


def a_template(image: str = "web:1", **labels: str) -> Document:
    return {
        "metadata": {"labels": {"app": "web", **labels}},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }


def a_deployment(
    replicas: int,
    *,
    surge: int | str = 0,
    unavailable: int | str = 0,
    strategy: str = "RollingUpdate",
    template: Document | None = None,
    status: Document | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Document:
    update_strategy: Document = {"type": strategy}
    if strategy == "RollingUpdate":
        update_strategy["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "the-deployment",
            "generation": 1,
            "annotations": annotations or {},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": update_strategy,
            "template": copy.deepcopy(template or a_template()),
            **spec,
        },
        "status": status or {},
    }


def a_replica_set(
    name: str,
    replicas: int,
    *,
    age: int = 0,
    available: int = 0,
    annotations: dict[str, str] | None = None,
    template: Document | None = None,
    status: Document | None = None,
) -> Document:
    """Return a ReplicaSet; of two, the one with the higher age was created earlier."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "creationTimestamp": f"2025-12-{31 - age:02}T00:00:00Z",
            "annotations": annotations or {},
        },
        "spec": {"replicas": replicas, "template": template or a_template()},
        "status": {"availableReplicas": available, **(status or {})},
    }


def noted(replica_set: Document, desired: int, surge: int = 0) -> Document:
    """Return a ReplicaSet that a Deployment with `desired` replicas scaled."""
    replica_set["metadata"]["annotations"] |= {
        "deployment.kubernetes.io/desired-replicas": str(desired),
        "deployment.kubernetes.io/max-replicas": str(desired + surge),
    }
    return replica_set
