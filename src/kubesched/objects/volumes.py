"""Volume sources, as pods and persistent volumes write them.

Owns the sources that scheduler plugins or the translation to CSI read. Never tells which of them
conflict.
Upstream: staging/src/k8s.io/api/core/v1/types.go
"""

import msgspec

from kubesched.objects.meta import (
    LabelSelector,
    LocalObjectReference,
    ObjectMeta,
    SecretReference,
    TypedObjectReference,
)
from kubesched.objects.wire import Empty, Int32, Quantities, QuantityText, Wire


class GCEPersistentDiskVolumeSource(Wire, frozen=True, kw_only=True):
    """A disk of Google's cloud."""

    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Wire, frozen=True, kw_only=True):
    """A disk of Amazon's cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AzureDiskVolumeSource(Wire, frozen=True, kw_only=True):
    """A disk of Microsoft's cloud."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFileVolumeSource(Wire, frozen=True, kw_only=True):
    """A file share of Microsoft's cloud; the namespace is a persistent volume's alone."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class CinderVolumeSource(Wire, frozen=True, kw_only=True):
    """An OpenStack volume; the secret's namespace is a persistent volume's alone."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False
    secret_ref: SecretReference | None = None


class VsphereVirtualDiskVolumeSource(Wire, frozen=True, kw_only=True):
    """A vSphere disk."""

    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = msgspec.field(default="", name="storagePolicyID")


class PortworxVolumeSource(Wire, frozen=True, kw_only=True):
    """A Portworx volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class RBDVolumeSource(Wire, frozen=True, kw_only=True):
    """A Ceph block device."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False


class ISCSIVolumeSource(Wire, frozen=True, kw_only=True):
    """An iSCSI disk."""

    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: bool = False
    portals: tuple[str, ...] = ()
    initiator_name: str | None = None


class CSIVolumeSource(Wire, frozen=True, kw_only=True):
    """A volume a driver makes for one pod."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = {}
    node_publish_secret_ref: LocalObjectReference | None = None


class CSIPersistentVolumeSource(Wire, frozen=True, kw_only=True):
    """A persistent volume of a driver."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] = {}
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class LocalVolumeSource(Wire, frozen=True, kw_only=True):
    """A disk of one node."""

    path: str = ""
    fs_type: str | None = None


class HostPathVolumeSource(Wire, frozen=True, kw_only=True):
    """A path of the node the pod runs on."""

    path: str = ""
    type: str | None = None


class EmptyDirVolumeSource(Wire, frozen=True, kw_only=True):
    """Scratch space."""

    medium: str = ""
    size_limit: QuantityText | None = None


class ImageVolumeSource(Wire, frozen=True, kw_only=True):
    """An image mounted as a volume."""

    reference: str = ""
    pull_policy: str = ""


class PersistentVolumeClaimVolumeSource(Wire, frozen=True, kw_only=True):
    """A claim by name."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResourceRequirements(Wire, frozen=True, kw_only=True):
    """How large a claim must be."""

    limits: Quantities = {}
    requests: Quantities = {}


class PersistentVolumeClaimSpec(Wire, frozen=True, kw_only=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Wire, frozen=True, kw_only=True):
    """The claim that an ephemeral volume makes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire, frozen=True, kw_only=True):
    """A claim that lives and dies with the pod."""

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
