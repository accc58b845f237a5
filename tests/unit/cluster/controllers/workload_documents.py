"""Builders of workloads, pods and nodes."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def a_template(image: str = "one", **spec: Any) -> Document:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}], **spec},
    }


def a_stateful_set(
    replicas: int = 3, *, status: Document | None = None, generation: int = 1, **spec: Any
) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "set-uid",
            "generation": generation,
        },
        "spec": {
            "replicas": replicas,
            "serviceName": "web-service",
            "selector": {"matchLabels": {"app": "web"}},
            "template": a_template(),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            **spec,
        },
        "status": status or {},
    }


def a_daemon_set(template: Document | None = None, **strategy: Any) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop", "uid": "set-uid", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": template or a_template(),
            "updateStrategy": strategy
            or {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        },
    }


def rolling(*, surge: int | str = 0, unavailable: int | str = 0) -> Document:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def a_pod(  # Parameters that tests vary.
    name: str,
    *,
    phase: str = "Running",
    ready: bool = True,
    ready_since: str = "2026-01-01T00:00:00Z",
    node: str = "",
    going: bool = False,
    created: str = "2026-01-01T00:00:00Z",
    **labels: str,
) -> Document:
    status: Document = {"phase": phase} if phase else {}
    if phase:
        output = "True" if ready and phase == "Running" else "False"
        status["conditions"] = [
            {"type": "Ready", "status": output, "lastTransitionTime": ready_since}
        ]
    metadata: Document = {
        "name": name,
        "namespace": "shop",
        "uid": f"{name}-uid",
        "creationTimestamp": created,
        "labels": {"app": "web", **{key.replace("_", "-"): value for key, value in labels.items()}},
    }
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }


def a_node(name: str, *taints: tuple[str, str], **labels: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": [{"key": key, "effect": effect} for key, effect in taints]},
    }
