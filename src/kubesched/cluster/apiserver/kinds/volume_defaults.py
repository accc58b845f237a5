"""Defaults of volume sources.

Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/core/v1/zz_generated.defaults.go
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.kinds.images import default_pull_policy
from kubesched.cluster.apiserver.kinds.quantities import round_list

_MODE = 0o644
_AZURE_DISK = (
    ("cachingMode", "ReadWrite"),
    ("fsType", "ext4"),
    ("readOnly", False),
    ("kind", "Shared"),
)


def default_volume(volume: Document) -> None:
    """Set the defaults of a pod volume."""
    if not any(value is not None for name, value in volume.items() if name != "name"):
        volume["emptyDir"] = {}
        return
    default_shared_sources(volume)
    image = volume.get("image")
    if image is not None and not image.get("pullPolicy"):
        image["pullPolicy"] = default_pull_policy(image.get("reference") or "")
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        source = volume.get(name)
        if source is not None and source.get("defaultMode") is None:
            source["defaultMode"] = _MODE
    _default_items(volume.get("downwardAPI"))
    if volume.get("projected"):
        _default_projected(volume["projected"])
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        default_claim_spec(template.setdefault("spec", {}))


def default_shared_sources(sources: Document) -> None:
    """Set the defaults of sources that pods and persistent volumes share."""
    host_path = sources.get("hostPath")
    if host_path is not None and host_path.get("type") is None:
        host_path["type"] = ""
    iscsi = sources.get("iscsi")
    if iscsi is not None and not iscsi.get("iscsiInterface"):
        iscsi["iscsiInterface"] = "default"
    rbd = sources.get("rbd")
    if rbd is not None:
        _fill(rbd, (("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")))
    azure = sources.get("azureDisk")
    if azure is not None:
        for name, value in _AZURE_DISK:
            if azure.get(name) is None:
                azure[name] = value
    scale_io = sources.get("scaleIO")
    if scale_io is not None:
        _fill(scale_io, (("storageMode", "ThinProvisioned"), ("fsType", "xfs")))


def default_claim_spec(spec: Document) -> None:
    """Set the defaults of a claim spec."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    resources = spec.get("resources") or {}
    round_list(resources.get("limits"))
    round_list(resources.get("requests"))


def _default_items(source: Document | None) -> None:
    for item in (source or {}).get("items") or ():
        field = item.get("fieldRef")
        if field is not None and not field.get("apiVersion"):
            field["apiVersion"] = "v1"


def _default_projected(projected: Document) -> None:
    for source in projected.get("sources") or ():
        _default_items(source.get("downwardAPI"))
        token = source.get("serviceAccountToken")
        if token is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600


def _fill(source: Document, values: tuple[tuple[str, str], ...]) -> None:
    for name, value in values:
        if not source.get(name):
            source[name] = value
