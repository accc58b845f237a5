"""Volumes, claims, classes and what CSI drivers tell about themselves.

Owns the storage kinds. Never binds a claim or translates an in-tree volume.
Upstream: staging/src/k8s.io/api/core/v1/types.go, staging/src/k8s.io/api/storage/v1/types.go
"""

from typing import ClassVar

import msgspec

from kubesched.objects.affinity import (
    NodeSelector,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
)
from kubesched.objects.meta import Condition, KubeResource, LabelSelector, ObjectReference
from kubesched.objects.volumes import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CinderVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
    HostPathVolumeSource,
    ISCSIVolumeSource,
    LocalVolumeSource,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PortworxVolumeSource,
    RBDVolumeSource,
    VolumeResourceRequirements,
    VsphereVirtualDiskVolumeSource,
)
from kubesched.objects.wire import Empty, Int32, Int64, Quantities, QuantityText, Wire

# Volume sources and selectors are modules of their own for their size; they are parts of a volume.
__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "AzureDiskVolumeSource",
    "AzureFileVolumeSource",
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIPersistentVolumeSource",
    "CSIStorageCapacity",
    "CinderVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "HostPathVolumeSource",
    "ISCSIVolumeSource",
    "LocalVolumeSource",
    "NodeSelector",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "PortworxVolumeSource",
    "RBDVolumeSource",
    "StorageClass",
    "TopologySelectorLabelRequirement",
    "TopologySelectorTerm",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeNodeAffinity",
    "VolumeNodeResources",
    "VolumeResourceRequirements",
    "VsphereVirtualDiskVolumeSource",
]


class VolumeNodeAffinity(Wire, frozen=True, kw_only=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire, frozen=True, kw_only=True):
    """What a volume is and whose it is."""

    capacity: Quantities = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    nfs: Empty | None = None


class PersistentVolumeStatus(Wire, frozen=True, kw_only=True):
    """Whether the volume is free."""

    phase: str = ""


class PersistentVolume(KubeResource, frozen=True, kw_only=True):
    """A piece of storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"
    namespaced: ClassVar[bool] = False

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Wire, frozen=True, kw_only=True):
    """Whether the claim has a volume."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Quantities = {}
    allocated_resources: Quantities = {}
    allocated_resource_statuses: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()


class PersistentVolumeClaim(KubeResource, frozen=True, kw_only=True):
    """A wish for storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class StorageClass(KubeResource, frozen=True, kw_only=True):
    """A way to get storage."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "StorageClass"
    namespaced: ClassVar[bool] = False

    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Wire, frozen=True, kw_only=True):
    """How many volumes a driver can attach to a node."""

    count: Int32 | None = None


class CSINodeDriver(Wire, frozen=True, kw_only=True):
    """A driver that runs on a node."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire, frozen=True, kw_only=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeResource, frozen=True, kw_only=True):
    """What drivers say about a node of the same name."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSINode"
    namespaced: ClassVar[bool] = False

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Wire, frozen=True, kw_only=True):
    """What a driver can do."""

    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] = ()
    storage_capacity: bool | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    node_allocatable_update_period_seconds: Int64 | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeResource, frozen=True, kw_only=True):
    """A driver."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIDriver"
    namespaced: ClassVar[bool] = False

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeResource, frozen=True, kw_only=True):
    """How much of a class is left in a part of the cluster."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIStorageCapacity"

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class VolumeAttachmentSource(Wire, frozen=True, kw_only=True):
    """What is attached."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Wire, frozen=True, kw_only=True):
    """Who attaches what to which node."""

    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachmentStatus(Wire, frozen=True, kw_only=True):
    """Whether it is done."""

    attached: bool = False
    attachment_metadata: dict[str, str] = {}


class VolumeAttachment(KubeResource, frozen=True, kw_only=True):
    """The intent to attach a volume to a node."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "VolumeAttachment"
    namespaced: ClassVar[bool] = False

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
