"""Wire types of volume sources that plugins or the translation to CSI read.

Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

import msgspec

from kubesched.api.meta import LabelSelector, ObjectMeta
from kubesched.api.wire import Empty, Quantities, QuantityText, Wire


class GCEPersistentDiskVolumeSource(Wire, frozen=True, kw_only=True):
    """A GCE persistent disk."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Wire, frozen=True, kw_only=True):
    """An AWS EBS volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class AzureDiskVolumeSource(Wire, frozen=True, kw_only=True):
    """An Azure disk."""

    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class AzureFileVolumeSource(Wire, frozen=True, kw_only=True):
    """An Azure file share; only persistent volumes have the namespace."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class CinderVolumeSource(Wire, frozen=True, kw_only=True):
    """An OpenStack volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Wire, frozen=True, kw_only=True):
    """A vSphere disk."""

    volume_path: str = ""


class PortworxVolumeSource(Wire, frozen=True, kw_only=True):
    """A Portworx volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class RBDVolumeSource(Wire, frozen=True, kw_only=True):
    """A Ceph block device."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class ISCSIVolumeSource(Wire, frozen=True, kw_only=True):
    """An iSCSI disk."""

    iqn: str = ""
    read_only: bool = False


class CSIVolumeSource(Wire, frozen=True, kw_only=True):
    """A CSI volume inlined into a pod."""

    driver: str = ""
    read_only: bool | None = None
    volume_attributes: dict[str, str] = {}


class CSIPersistentVolumeSource(Wire, frozen=True, kw_only=True):
    """A CSI persistent volume."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    volume_attributes: dict[str, str] = {}


class LocalVolumeSource(Wire, frozen=True, kw_only=True):
    """A local disk of a node."""

    path: str = ""


class HostPathVolumeSource(Wire, frozen=True, kw_only=True):
    """A path of the pod's node."""

    path: str = ""
    type: str | None = None


class EmptyDirVolumeSource(Wire, frozen=True, kw_only=True):
    """An empty directory."""

    medium: str = ""
    size_limit: QuantityText | None = None


class ImageVolumeSource(Wire, frozen=True, kw_only=True):
    """An image mounted as a volume."""

    reference: str = ""


class PersistentVolumeClaimVolumeSource(Wire, frozen=True, kw_only=True):
    """A claim by name."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResourceRequirements(Wire, frozen=True, kw_only=True):
    """The resources of a claim."""

    limits: Quantities = {}
    requests: Quantities = {}


class PersistentVolumeClaimSpec(Wire, frozen=True, kw_only=True):
    """The spec of a claim."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Wire, frozen=True, kw_only=True):
    """The claim template of an ephemeral volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire, frozen=True, kw_only=True):
    """An ephemeral volume, with a claim that is deleted with the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Wire, frozen=True, kw_only=True):
    """One volume of a pod: a name and one source."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    image: ImageVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    config_map: Empty | None = None
    secret: Empty | None = None
    projected: Empty | None = None
    downward_api: Empty | None = msgspec.field(default=None, name="downwardAPI")
    nfs: Empty | None = None
