"""Storage objects for plugin tests, from the wire form up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api.decode import decode_as
from kubesched.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kubesched.framework.handle import Handle
from kubesched.framework.interface import EventRegistration, HintFunction
from kubesched.snapshot.view import ClusterView

HOSTNAME = "kubernetes.io/hostname"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


class SnapshotHandle(Handle):
    """An offline handle over a view."""

    def __init__(self, view: ClusterView) -> None:
        super().__init__("default-scheduler")
        self.view = view


def uses_claim(name: str, volume: str = "data") -> dict[str, Any]:
    """Return a volume that names a claim."""
    return {"name": volume, "persistentVolumeClaim": {"claimName": name}}


def ephemeral(volume: str = "scratch") -> dict[str, Any]:
    """Return an ephemeral volume."""
    return {"name": volume, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def a_claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    volume: str = "",
    size: str = "1Gi",
    storage_class: str | None = "wait",
    metadata: Mapping[str, Any] | None = None,
    phase: str = "",
    **spec: Any,
) -> PersistentVolumeClaim:
    """Return a claim; one that names a volume is completely bound to it."""
    annotations = BOUND if volume else {}
    wire = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "resourceVersion": "7",
            "annotations": annotations,
            **(metadata or {}),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}} if size else {},
            "storageClassName": storage_class,
            "volumeName": volume,
            **spec,
        },
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }
    return decode_as(PersistentVolumeClaim, wire)


def a_volume(
    name: str = "pv",
    *,
    size: str = "10Gi",
    storage_class: str = "wait",
    labels: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    phase: str = "Available",
    **spec: Any,
) -> PersistentVolume:
    """Return a free volume; `hosts` are the only nodes that can use it."""
    if hosts:
        requirement = {"key": HOSTNAME, "operator": "In", "values": list(hosts)}
        spec["nodeAffinity"] = {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
        }
    wire = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "3",
            "labels": dict(labels or {}),
            **(metadata or {}),
        },
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            **spec,
        },
        "status": {"phase": phase},
    }
    return decode_as(PersistentVolume, wire)


def a_csi_volume(name: str, handle: str, driver: str = "csi.example.com") -> PersistentVolume:
    """Return a volume of a driver."""
    return a_volume(name, csi={"driver": driver, "volumeHandle": handle})


def a_class(
    name: str = "wait",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str | None = "WaitForFirstConsumer",
    **fields: Any,
) -> StorageClass:
    """Return a storage class."""
    wire = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        **fields,
    }
    return decode_as(StorageClass, wire)


def a_csi_node(
    name: str, limits: Mapping[str, int | None] | None = None, migrated: str | None = None
) -> CSINode:
    """Return a CSINode with the attach limits of drivers; None for no limit."""
    drivers = [
        {"name": driver, "nodeID": name}
        | ({} if count is None else {"allocatable": {"count": count}})
        for driver, count in (limits or {}).items()
    ]
    annotations = {} if migrated is None else {MIGRATED: migrated}
    wire = {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}
    return decode_as(CSINode, wire)


def a_driver(name: str = "csi.example.com", storage_capacity: bool | None = True) -> CSIDriver:
    """Return a driver."""
    spec = {"storageCapacity": storage_capacity}
    return decode_as(CSIDriver, {"metadata": {"name": name}, "spec": spec})


def a_capacity(name: str = "capacity", **fields: Any) -> CSIStorageCapacity:
    """Return a storage capacity of the class `wait`."""
    wire = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": "wait",
        **fields,
    }
    return decode_as(CSIStorageCapacity, wire)


def an_attachment(name: str, node: str, volume: str | None, attacher: str) -> VolumeAttachment:
    """Return the attachment of a volume to a node."""
    wire = {
        "metadata": {"name": name},
        "spec": {
            "attacher": attacher,
            "nodeName": node,
            "source": {"persistentVolumeName": volume},
        },
    }
    return decode_as(VolumeAttachment, wire)


def hint_for(registrations: Sequence[EventRegistration], resource: str) -> HintFunction:
    """Return the one hint that is registered for a resource."""
    hints = [r.hint for r in registrations if r.event.resource == resource and r.hint is not None]
    assert len(hints) == 1
    return hints[0]
