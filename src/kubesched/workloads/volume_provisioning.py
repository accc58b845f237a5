"""Claims of ephemeral volumes, and dynamic provisioning of volumes for claims.

Returns documents only: nothing is written, and no storage exists.
Upstream: pkg/volume/hostpath/host_path.go, pkg/volume/plugins.go,
pkg/controller/volume/persistentvolume/pv_controller.go provisionClaimOperation,
findProvisionablePlugin; kubernetes-csi/external-provisioner for all others
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    controller_ref,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from kubesched.workloads.volume_matching import (
    BOUND_BY_CONTROLLER,
    claim_reference,
    class_of,
    volume_mode_of,
)

PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
IN_TREE_FINALIZER: Final = "kubernetes.io/pv-controller"
HOST_PATH: Final = "kubernetes.io/host-path"
_CREATED_BY: Final = "kubernetes.io/createdby"
IN_TREE_PREFIX: Final = "kubernetes.io/"
_HOSTNAME: Final = "kubernetes.io/hostname"
IN_TREE_SOURCES: Final = {
    "hostPath": HOST_PATH,
    "nfs": "kubernetes.io/nfs",
    "fc": "kubernetes.io/fc",
    "iscsi": "kubernetes.io/iscsi",
}
# Parity: staging/src/k8s.io/csi-translation-lib/plugins, v1.36.
MIGRATED: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


class ProvisioningError(Exception):
    """No volume can be provisioned for a claim; the message is that of the event."""


class RescheduleError(ProvisioningError):
    """No volume can be provisioned on the selected node; the scheduler must select another."""


@dataclass(frozen=True, slots=True)
class Provisioner:
    """The provisioner of a storage class."""

    name: str
    is_external: bool


@dataclass(frozen=True, slots=True)
class Site:
    """The location of a new volume."""

    node: Document | None = None
    """The node that the scheduler selected; None for immediate binding."""
    is_csi: bool = False
    """Whether a CSI driver has the provisioner's name."""
    topology_keys: tuple[str, ...] = ()
    """The topology keys of the driver on the node."""


def provisioner_of(storage_class: Mapping[str, Any]) -> Provisioner:
    """Return the provisioner of a storage class; ProvisioningError if there is none."""
    name = str(storage_class["provisioner"])
    migrated = MIGRATED.get(name)
    if migrated is not None:
        return Provisioner(migrated, is_external=True)
    if name == HOST_PATH:
        return Provisioner(name, is_external=False)
    if name.startswith(IN_TREE_PREFIX):
        if name in IN_TREE_SOURCES.values():
            raise ProvisioningError("no provisionable volume plugin matched")
        raise ProvisioningError(f"no volume plugin matched name: {name}")
    return Provisioner(name, is_external=True)


def provisioned_volume(
    claim: Mapping[str, Any], storage_class: Mapping[str, Any], by: Provisioner, site: Site
) -> Document:
    """Return the new volume for a claim, already bound to it."""
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
    """Return the name of the new volume for a claim."""
    return f"pvc-{uid_of(claim)}"


def _source(name: str, by: Provisioner, site: Site) -> Document:
    if site.is_csi:
        return {"csi": {"driver": by.name, "volumeHandle": name}}
    if not by.is_external:
        return {"hostPath": {"path": f"/tmp/hostpath_pv/{name}", "type": ""}}
    return {"hostPath": {"path": f"/var/lib/volumes/{name}", "type": "DirectoryOrCreate"}}


def _topology(storage_class: Mapping[str, Any], by: Provisioner, site: Site) -> list[Document]:
    """Return the node selector terms of a new volume; empty if every node can use it."""
    # Parity: host_path.go Provision, v1.36: upstream's own provisioner ignores topology.
    if not by.is_external:
        return []
    allowed = storage_class.get("allowedTopologies") or ()
    if site.node is None:
        return [_term(term.get("matchLabelExpressions") or ()) for term in allowed]
    labels = labels_of(site.node)
    if allowed:
        for term in allowed:
            expressions = term.get("matchLabelExpressions") or ()
            if all(
                labels.get(expression["key"]) in expression["values"] for expression in expressions
            ):
                return [_labels_term(labels, [expression["key"] for expression in expressions])]
        raise RescheduleError("no topology key found for the selected node in allowedTopologies")
    if site.is_csi:
        keys = [key for key in site.topology_keys if key in labels]
        return [_labels_term(labels, keys)] if keys else []
    # A directory is on one node.
    return [_labels_term({_HOSTNAME: name_of(site.node), **labels}, [_HOSTNAME])]


def _term(expressions: Any) -> Document:
    return {
        "matchExpressions": [
            {"key": expression["key"], "operator": "In", "values": list(expression["values"])}
            for expression in expressions
        ]
    }


def _labels_term(labels: Mapping[str, str], keys: list[str]) -> Document:
    return _term([{"key": key, "values": [labels[key]]} for key in keys])


def ephemeral_claim_name(pod: Mapping[str, Any], volume: Mapping[str, Any]) -> str:
    """Return the name of the claim of an ephemeral volume."""
    return f"{name_of(pod)}-{volume['name']}"


def ephemeral_claim(pod: Mapping[str, Any], volume: Mapping[str, Any]) -> Document:
    """Return the claim of an ephemeral volume.

    Parity: pkg/controller/volume/ephemeral/controller.go handleVolume, v1.36.
    """
    template = copy.deepcopy(volume["ephemeral"].get("volumeClaimTemplate") or {})
    source = template.get("metadata") or {}
    metadata: Document = {
        "name": ephemeral_claim_name(pod, volume),
        "namespace": namespace_of(pod),
        "ownerReferences": [controller_ref(pod)],
    }
    for field in ("annotations", "labels"):
        if source.get(field):
            metadata[field] = source[field]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
