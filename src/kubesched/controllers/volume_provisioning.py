"""Volumes that are made for claims.

Owns which provisioners there are, what they make, where it can be used from, and who removes it.
Never writes, and makes nothing real: a volume here is a name.
Upstream: pkg/volume/hostpath/host_path.go, pkg/volume/plugins.go,
pkg/controller/volume/persistentvolume/pv_controller.go provisionClaimOperation,
findProvisionablePlugin, findDeletablePlugin; kubernetes-csi/external-provisioner for all others
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.cached.documents import Document, is_terminating, labels_of, name_of, uid_of
from kubesched.controllers.volume_matching import (
    BOUND_BY_CONTROLLER,
    annotations_of,
    claim_reference,
    class_of,
    volume_mode_of,
)

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
IN_TREE_FINALIZER: Final = "kubernetes.io/pv-controller"
HOST_PATH: Final = "kubernetes.io/host-path"
_CREATED_BY: Final = "kubernetes.io/createdby"
_IN_TREE_PREFIX: Final = "kubernetes.io/"
_HOSTNAME: Final = "kubernetes.io/hostname"
_DELETABLE_PATH: Final = re.compile("/tmp/.+")  # Upstream's rule; nothing is opened.
_IN_TREE_SOURCES: Final = {
    "hostPath": HOST_PATH,
    "nfs": "kubernetes.io/nfs",
    "fc": "kubernetes.io/fc",
    "iscsi": "kubernetes.io/iscsi",
}
RECYCLABLE_SOURCES: Final = ("hostPath", "nfs")
# Parity: staging/src/k8s.io/csi-translation-lib/plugins, v1.36.
_MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class ProvisioningError(Exception):
    """No volume can be made for a claim; the text is what its event says."""


class RescheduleError(ProvisioningError):
    """No volume can be made on the selected node: the scheduler should choose another."""


@dataclass(frozen=True, slots=True)
class Provisioner:
    """Who makes volumes of a class."""

    name: str
    is_external: bool


@dataclass(frozen=True, slots=True)
class Site:
    """Where a volume is to be made."""

    node: Document | None = None
    """The node the scheduler selected; None if a claim does not wait for a pod."""
    is_csi: bool = False
    """Whether a CSI driver has the provisioner's name."""
    topology_keys: tuple[str, ...] = ()
    """By which labels the driver on the node says where its volumes can be used."""


def provisioner_of(storage_class: Mapping[str, Any]) -> Provisioner:
    """Return who makes volumes of a class; ProvisioningError if nobody does."""
    name = str(storage_class["provisioner"])
    migrated = _MIGRATED.get(name)
    if migrated is not None:
        return Provisioner(migrated, is_external=True)
    if name == HOST_PATH:
        return Provisioner(name, is_external=False)
    if name.startswith(_IN_TREE_PREFIX):
        if name in _IN_TREE_SOURCES.values():
            raise ProvisioningError("no provisionable volume plugin matched")
        raise ProvisioningError(f"no volume plugin matched name: {name}")
    return Provisioner(name, is_external=True)


def provisioned_volume(
    claim: Mapping[str, Any], storage_class: Mapping[str, Any], by: Provisioner, site: Site
) -> Document:
    """Return the volume that is made for a claim, bound to it already."""
    name = volume_name_of(claim)
    if not by.is_external and volume_mode_of(claim) == "Block":
        raise ProvisioningError(f"{by.name} does not support block volume provisioning")
    policy = storage_class.get("reclaimPolicy") or "Delete"
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    spec: Document = {
        "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
        "capacity": {"storage": requests.get("storage", "0")},
        "claimRef": claim_reference(claim),
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": class_of(claim),
        "volumeMode": volume_mode_of(claim),
    }
    spec.update(_source(name, by, site))
    if storage_class.get("mountOptions"):
        spec["mountOptions"] = list(storage_class["mountOptions"])
    if claim["spec"].get("volumeAttributesClassName"):
        spec["volumeAttributesClassName"] = claim["spec"]["volumeAttributesClassName"]
    terms = _topology(storage_class, by, site)
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata: Document = {"name": name, "annotations": {PROVISIONED_BY: by.name}}
    if not by.is_external:
        metadata["annotations"][_CREATED_BY] = "hostpath-dynamic-provisioner"
        metadata["annotations"][BOUND_BY_CONTROLLER] = "yes"
        if policy == "Delete":
            metadata["finalizers"] = [IN_TREE_FINALIZER]
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def volume_name_of(claim: Mapping[str, Any]) -> str:
    """Return how the volume that is made for a claim is called."""
    return f"pvc-{uid_of(claim)}"


def _source(name: str, by: Provisioner, site: Site) -> Document:
    if site.is_csi:
        return {"csi": {"driver": by.name, "volumeHandle": name}}
    if not by.is_external:
        return {"hostPath": {"path": f"/tmp/hostpath_pv/{name}", "type": ""}}
    return {"hostPath": {"path": f"/var/lib/volumes/{name}", "type": "DirectoryOrCreate"}}


def _topology(storage_class: Mapping[str, Any], by: Provisioner, site: Site) -> list[Document]:
    """Return the node selector terms of a new volume; none if every node can use it."""
    # Parity: host_path.go Provision, v1.36: upstream's own provisioner looks at no topology.
    if not by.is_external:
        return []
    allowed = storage_class.get("allowedTopologies") or ()
    if site.node is None:
        return [_term(term.get("matchLabelExpressions") or ()) for term in allowed]
    labels = labels_of(site.node)
    if allowed:
        for term in allowed:
            wanted = term.get("matchLabelExpressions") or ()
            if all(labels.get(one["key"]) in one["values"] for one in wanted):
                return [_labels_term(labels, [one["key"] for one in wanted])]
        raise RescheduleError("no topology key found for the selected node in allowedTopologies")
    if site.is_csi:
        keys = [key for key in site.topology_keys if key in labels]
        return [_labels_term(labels, keys)] if keys else []
    # A directory is on one node.
    return [
        {
            "matchExpressions": [
                {
                    "key": _HOSTNAME,
                    "operator": "In",
                    "values": [labels.get(_HOSTNAME, name_of(site.node))],
                }
            ]
        }
    ]


def _term(wanted: Any) -> Document:
    return {
        "matchExpressions": [
            {"key": one["key"], "operator": "In", "values": list(one["values"])} for one in wanted
        ]
    }


def _labels_term(labels: Mapping[str, str], keys: list[str]) -> Document:
    return _term([{"key": key, "values": [labels[key]]} for key in keys])


# -- the end of a volume --------------------------------------------------------------------------


def is_deleted_by_others(volume: Mapping[str, Any]) -> bool:
    """Return whether a volume without a claim waits for somebody who is not there.

    A volume of ours says who made it, and that one is always there. A CSI volume that somebody
    wrote down waits for a driver.
    """
    if annotations_of(volume).get(PROVISIONED_BY):
        return False
    return MIGRATED_TO in annotations_of(volume) or "csi" in volume["spec"]


def why_not_deleted(volume: Mapping[str, Any]) -> str | None:
    """Return why a volume that should be deleted cannot be; None if it can.

    Parity: pv_controller.go findDeletablePlugin, host_path.go Delete, v1.36.
    """
    by = annotations_of(volume).get(PROVISIONED_BY, "")
    if by and (by in _MIGRATED or not by.startswith(_IN_TREE_PREFIX)):
        return None
    if by and by != HOST_PATH:
        known = by in _IN_TREE_SOURCES.values()
        return (
            "no deletable volume plugin matched"
            if known
            else f"no volume plugin matched name: {by}"
        )
    source = next((one for one in _IN_TREE_SOURCES if one in volume["spec"]), None)
    if source != "hostPath":
        told = (
            "no volume plugin matched" if source is None else "no deletable volume plugin matched"
        )
        return f'error getting deleter volume plugin for volume "{name_of(volume)}": {told}'
    path = str(volume["spec"]["hostPath"]["path"])
    if _DELETABLE_PATH.search(path) is None:
        return f"host_path deleter only supports /tmp/.+ but received provided {path}"
    return None


def with_deletion_finalizer(volume: Mapping[str, Any]) -> list[str] | None:
    """Return the finalizers of a volume that upstream's own provisioner made; None if they are so.

    Parity: pv_controller_base.go modifyDeletionFinalizers, v1.36.
    """
    finalizers = list(volume["metadata"].get("finalizers") or ())
    by = annotations_of(volume).get(PROVISIONED_BY, "")
    if not by.startswith(_IN_TREE_PREFIX) or by in _MIGRATED:
        return None
    wants = volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
    has = IN_TREE_FINALIZER in finalizers
    if wants == has:
        return None
    if wants:
        # Nothing can be added to what is being deleted.
        return None if is_terminating(volume) else [*finalizers, IN_TREE_FINALIZER]
    return [one for one in finalizers if one != IN_TREE_FINALIZER]
