"""Translates in-tree volumes to the CSI volumes that replaced them: driver, handle, node affinity.

Callers check whether a node has migrated.
Upstream: staging/src/k8s.io/csi-translation-lib/{translate.go,plugins}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from kubesched.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kubesched.api.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from kubesched.api.volumes import Volume

_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_MULTI_ZONE_DELIMITER: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"
_AZURE_RESOURCE_GROUP: Final = "kubernetes.io/azure-file-resource-group"
_AZURE_SECRET_NAME = re.compile(r"azure-storage-account-(.+)-secret")
_AWS_VOLUME_ID = re.compile(r"vol-[^/]*")


@dataclass(frozen=True, slots=True)
class CSIVolume:
    """A translated volume, as far as scheduling reads it."""

    driver: str
    volume_handle: str
    node_affinity: VolumeNodeAffinity | None = None


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """One in-tree volume plugin and the driver that superseded it."""

    name: str
    driver: str
    source: str
    """The field of a volume that holds this plugin's source."""
    volume_handle: Callable[[PersistentVolume, Any], str]
    inline_handle: Callable[[Volume, Any, str], str]
    topology: Callable[[PersistentVolume], VolumeNodeAffinity | None]

    def translate(self, volume: PersistentVolume) -> CSIVolume:
        """Return a persistent volume as its driver sees it; ValueError if it is malformed."""
        handle = self.volume_handle(volume, getattr(volume.spec, self.source))
        return CSIVolume(self.driver, handle, self.topology(volume))

    def translate_inline(self, volume: Volume, namespace: str) -> CSIVolume:
        """Return a pod's own volume as its driver sees it; ValueError if it is malformed."""
        return CSIVolume(
            self.driver, self.inline_handle(volume, getattr(volume, self.source), namespace)
        )


def plugin_of(volume: Volume | PersistentVolumeSpec) -> InTreePlugin | None:
    """Return the in-tree plugin of a volume, if it can be translated."""
    return next((p for p in IN_TREE_PLUGINS if getattr(volume, p.source) is not None), None)


# -- handles ---------------------------------------------------------------------------------------


def _gce_handle(volume: PersistentVolume, source: Any) -> str:
    # Parity: plugins/gce_pd.go TranslateInTreePVToCSI, v1.36.
    labels = volume.metadata.labels
    zones = (labels.get(_BETA_ZONE) or labels.get(_ZONE, "")).split(_MULTI_ZONE_DELIMITER)
    if len(zones) > 1:
        try:
            region = _gce_region(zones)
        except ValueError as problem:
            raise ValueError(f"failed to get region from zones: {problem}") from problem
        return f"projects/{_UNSPECIFIED}/regions/{region}/disks/{source.pd_name}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{source.pd_name}"


def _gce_region(zones: Sequence[str]) -> str:
    regions = []
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise ValueError(
                "zone in unexpected format, expected: {locale}-{region}-{zone}, got: " + zone
            )
        regions.append("-".join(parts[:2]))
    distinct = sorted(set(regions))
    if len(distinct) != 1:
        shown = " ".join(f"{region}:{{}}" for region in distinct)
        raise ValueError(f"multiple or no regions gotten from zones, got: map[{shown}]")
    return distinct[0]


def _gce_inline_handle(_volume: Volume, source: Any, _namespace: str) -> str:
    return f"projects/{_UNSPECIFIED}/zones/{_UNSPECIFIED}/disks/{source.pd_name}"


def _ebs_volume_id(kubernetes_id: str) -> str:
    # Parity: plugins/aws_ebs.go KubernetesVolumeIDToEBSVolumeID, v1.36.
    if not kubernetes_id.startswith("aws://"):
        return kubernetes_id
    try:
        path = _url_path(kubernetes_id)
        if _AWS_VOLUME_ID.fullmatch(path.strip("/")) is None:
            raise ValueError(f"Invalid format for AWS volume ({kubernetes_id})")
    except ValueError as problem:
        raise ValueError(
            f"failed to translate Kubernetes ID to EBS Volume ID {problem}"
        ) from problem
    return path.strip("/")


def _url_path(url: str) -> str:
    """Return the unescaped path of an `aws://` URL as Go's net/url reads it."""
    if any(ord(char) < 0x20 or char == "\x7f" for char in url):
        raise ValueError(
            f"Invalid disk name ({url}): parse {msgspec.json.encode(url).decode()}: "
            "net/url: invalid control character in URL"
        )
    rest = url.removeprefix("aws://").split("#", 1)[0].split("?", 1)[0]
    _, slash, path = rest.partition("/")
    bad = re.search(r"%(?![0-9A-Fa-f]{2}).{0,2}", path)
    if bad is not None:
        raise ValueError(
            f'Invalid disk name ({url}): parse "{url}": invalid URL escape "{bad.group()}"'
        )
    return unquote(slash + path)


def _azure_disk_handle(source: Any) -> str:
    # Parity: plugins/azure_disk.go, v1.36.
    if source.kind is not None and source.kind.casefold() != "managed":
        raise ValueError(f"kind({source.kind}) is not supported in csi migration")
    return str(source.disk_uri)


def _azure_file_handle(volume: PersistentVolume, source: Any) -> str:
    # Parity: plugins/azure_file.go TranslateInTreePVToCSI, v1.36.
    namespace = source.secret_namespace
    if namespace is None and volume.spec.claim_ref is not None:
        namespace = volume.spec.claim_ref.namespace
    if not namespace:
        raise ValueError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    group = volume.metadata.annotations.get(_AZURE_RESOURCE_GROUP, "")
    parts = (group, _azure_account(source), source.share_name, volume.metadata.name, namespace)
    return "#".join(parts)


def _azure_file_inline_handle(volume: Volume, source: Any, namespace: str) -> str:
    parts = ("", _azure_account(source), source.share_name, volume.name, namespace or "default")
    return "#".join(parts)


def _azure_account(source: Any) -> str:
    match = _AZURE_SECRET_NAME.search(source.secret_name)
    return match.group(1) if match is not None else str(source.secret_name)


# -- topology --------------------------------------------------------------------------------------


def _unchanged(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    return volume.spec.node_affinity


def _zonal(csi_zone_key: str) -> Callable[[PersistentVolume], VolumeNodeAffinity | None]:
    """Return the translation of a driver with a zone key of its own."""

    # Parity: plugins/in_tree_volume.go translateTopologyFromInTreeToCSI, v1.36.
    def translated(volume: PersistentVolume) -> VolumeNodeAffinity | None:
        zone_key, region_key = _topology_keys(volume)
        affinity, label = volume.spec.node_affinity, volume.metadata.labels.get(zone_key)
        if _has_values(affinity, zone_key):
            affinity = _with_key_replaced(affinity, zone_key, csi_zone_key)
        elif label is not None:
            affinity = _with_topology(affinity, csi_zone_key, label.split(_MULTI_ZONE_DELIMITER))
        if region_key == _BETA_REGION and _has_values(affinity, region_key):
            affinity = _with_key_replaced(affinity, region_key, _REGION)
        return affinity

    return translated


def _vsphere(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    # Parity: plugins/vsphere_volume.go translateTopologyFromInTreevSphereToCSI, v1.36.
    affinity = volume.spec.node_affinity
    csi_keys = ("topology.csi.vmware.com/zone", "topology.csi.vmware.com/region")
    for key, csi_key in zip(_topology_keys(volume), csi_keys, strict=True):
        label = volume.metadata.labels.get(key)
        if _has_values(affinity, key):
            affinity = _with_key_replaced(affinity, key, csi_key)
        elif label:
            affinity = _with_topology(affinity, csi_key, [label])
    return affinity


def _topology_keys(volume: PersistentVolume) -> tuple[str, str]:
    """Return the zone and region keys of a volume, beta or GA."""
    # Parity: plugins/in_tree_volume.go getTopologyLabel, v1.36.
    in_affinity = {
        requirement.key
        for term in _terms(volume.spec.node_affinity)
        for requirement in term.match_expressions
    }
    for keys in (in_affinity, volume.metadata.labels):
        if _ZONE in keys:
            break
        if _BETA_ZONE in keys:
            return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _terms(affinity: VolumeNodeAffinity | None) -> tuple[NodeSelectorTerm, ...]:
    if affinity is None or affinity.required is None:
        return ()
    return affinity.required.node_selector_terms


def _has_values(affinity: VolumeNodeAffinity | None, key: str) -> bool:
    return any(
        requirement.key == key and requirement.values
        for term in _terms(affinity)
        for requirement in term.match_expressions
    )


def _with_key_replaced(
    affinity: VolumeNodeAffinity | None, old: str, new: str
) -> VolumeNodeAffinity:
    def replaced(requirement: NodeSelectorRequirement) -> NodeSelectorRequirement:
        if requirement.key != old:
            return requirement
        return msgspec.structs.replace(requirement, key=new)

    return _with_expressions(affinity, lambda expressions: tuple(map(replaced, expressions)))


def _with_topology(
    affinity: VolumeNodeAffinity | None, key: str, zones: Sequence[str]
) -> VolumeNodeAffinity | None:
    # Parity: plugins/in_tree_volume.go addTopology, v1.36; its error is not looked at.
    names = tuple(sorted({zone.strip() for zone in zones} - {""}))
    if not names:
        return affinity
    topology = NodeSelectorRequirement(key=key, operator="In", values=names)
    return _with_expressions(affinity, lambda expressions: (*expressions, topology))


_Expressions = tuple[NodeSelectorRequirement, ...]


def _with_expressions(
    affinity: VolumeNodeAffinity | None, change: Callable[[_Expressions], _Expressions]
) -> VolumeNodeAffinity:
    terms = _terms(affinity) or (NodeSelectorTerm(),)
    return VolumeNodeAffinity(
        required=NodeSelector(
            node_selector_terms=tuple(
                msgspec.structs.replace(term, match_expressions=change(term.match_expressions))
                for term in terms
            )
        )
    )


IN_TREE_PLUGINS: Final = (
    InTreePlugin(
        name="kubernetes.io/gce-pd",
        driver="pd.csi.storage.gke.io",
        source="gce_persistent_disk",
        volume_handle=_gce_handle,
        inline_handle=_gce_inline_handle,
        topology=_zonal("topology.gke.io/zone"),
    ),
    InTreePlugin(
        name="kubernetes.io/aws-ebs",
        driver="ebs.csi.aws.com",
        source="aws_elastic_block_store",
        volume_handle=lambda _volume, source: _ebs_volume_id(source.volume_id),
        inline_handle=lambda _volume, source, _namespace: _ebs_volume_id(source.volume_id),
        topology=_zonal("topology.ebs.csi.aws.com/zone"),
    ),
    InTreePlugin(
        name="kubernetes.io/cinder",
        driver="cinder.csi.openstack.org",
        source="cinder",
        volume_handle=lambda _volume, source: str(source.volume_id),
        inline_handle=lambda _volume, source, _namespace: str(source.volume_id),
        topology=_zonal("topology.cinder.csi.openstack.org/zone"),
    ),
    InTreePlugin(
        name="kubernetes.io/azure-disk",
        driver="disk.csi.azure.com",
        source="azure_disk",
        volume_handle=lambda _volume, source: _azure_disk_handle(source),
        inline_handle=lambda _volume, source, _namespace: _azure_disk_handle(source),
        topology=_unchanged,
    ),
    InTreePlugin(
        name="kubernetes.io/azure-file",
        driver="file.csi.azure.com",
        source="azure_file",
        volume_handle=_azure_file_handle,
        inline_handle=_azure_file_inline_handle,
        topology=_unchanged,
    ),
    InTreePlugin(
        name="kubernetes.io/vsphere-volume",
        driver="csi.vsphere.vmware.com",
        source="vsphere_volume",
        volume_handle=lambda _volume, source: str(source.volume_path),
        inline_handle=lambda _volume, source, _namespace: str(source.volume_path),
        topology=_vsphere,
    ),
    InTreePlugin(
        name="kubernetes.io/portworx-volume",
        driver="pxd.portworx.com",
        source="portworx_volume",
        volume_handle=lambda _volume, source: str(source.volume_id),
        inline_handle=lambda _volume, source, _namespace: str(source.volume_id),
        topology=_unchanged,
    ),
)
PLUGIN_BY_NAME: Final = {plugin.name: plugin for plugin in IN_TREE_PLUGINS}

# The scheduler treats only these five of the seven as migrated.
# Parity: volumebinding/binder.go isCSIMigrationOnForPlugin and nodevolumelimits/utils.go, v1.36.
MIGRATED_PLUGIN_NAMES: Final = frozenset(
    f"kubernetes.io/{name}"
    for name in ("aws-ebs", "gce-pd", "azure-disk", "cinder", "portworx-volume")
)
