"""Builders of claims and volumes."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def a_claim(
    name: str = "data", request: str = "1Gi", *, annotations: Document | None = None, **spec: Any
) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "annotations": annotations or {},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": request}},
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def a_volume(
    name: str = "disk",
    capacity: str = "1Gi",
    *,
    phase: str = "Available",
    annotations: Document | None = None,
    labels: Document | None = None,
    **spec: Any,
) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "annotations": annotations or {},
            "labels": labels or {},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": capacity},
            **spec,
        },
        "status": {"phase": phase},
    }


def reserved_for(claim: Document, *, uid: str | None = None) -> Document:
    metadata = claim["metadata"]
    reference = {"namespace": metadata["namespace"], "name": metadata["name"]}
    return reference if uid == "" else {**reference, "uid": uid or metadata["uid"]}
