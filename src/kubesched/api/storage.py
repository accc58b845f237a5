"""Wire structs of storage: volumes, claims, classes, and the objects of CSI drivers.

Upstream: staging/src/k8s.io/api/core/v1/types.go, staging/src/k8s.io/api/storage/v1/types.go
"""

from typing import ClassVar

from kubesched.api.affinity import NodeSelector, TopologySelectorTerm
from kubesched.api.meta import Condition, KubeResource, LabelSelector, ObjectReference
from kubesched.api.volumes import (
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
    PortworxVolumeSource,
    RBDVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from kubesched.api.wire import Empty, Int32, Quantities, QuantityText, Wire


class VolumeNodeAffinity(Wire, frozen=True, kw_only=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire, frozen=True, kw_only=True):
    """The source of a volume and the claim it is bound to."""

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
    """The phase of a volume: available, bound, released."""

    phase: str = ""


class PersistentVolume(KubeResource, frozen=True, kw_only=True):
    """A piece of storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"
    namespaced: ClassVar[bool] = False

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Wire, frozen=True, kw_only=True):
    """The phase of a claim: pending, bound, lost."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Quantities = {}
    allocated_resources: Quantities = {}
    conditions: tuple[Condition, ...] = ()


class PersistentVolumeClaim(KubeResource, frozen=True, kw_only=True):
    """A request for storage."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class StorageClass(KubeResource, frozen=True, kw_only=True):
    """A class of storage: its provisioner and binding mode."""

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
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire, frozen=True, kw_only=True):
    """The drivers of a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeResource, frozen=True, kw_only=True):
    """The CSI drivers on the node of the same name."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSINode"
    namespaced: ClassVar[bool] = False

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Wire, frozen=True, kw_only=True):
    """The capabilities of a CSI driver."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeResource, frozen=True, kw_only=True):
    """A CSI driver."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIDriver"
    namespaced: ClassVar[bool] = False

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeResource, frozen=True, kw_only=True):
    """The capacity left for a class in a part of the cluster."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIStorageCapacity"

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityText | None = None
    maximum_volume_size: QuantityText | None = None


class VolumeAttachmentSource(Wire, frozen=True, kw_only=True):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire, frozen=True, kw_only=True):
    """The attacher, the volume and the node."""

    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachmentStatus(Wire, frozen=True, kw_only=True):
    """Whether the volume is attached."""

    attached: bool = False


class VolumeAttachment(KubeResource, frozen=True, kw_only=True):
    """The intent to attach a volume to a node."""

    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "VolumeAttachment"
    namespaced: ClassVar[bool] = False

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
