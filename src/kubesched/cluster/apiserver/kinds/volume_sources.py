"""Validates volume sources that pods and persistent volumes share.

Upstream: pkg/apis/core/validation/validation.go validate...VolumeSource
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubesched.cluster.apiserver.kinds.checks import (
    check_dns_label,
    check_no_parent_references,
    check_relative_path,
    check_subdomain,
    range_text,
)
from kubesched.cluster.apiserver.names import label_problems, subdomain_problems

ISCSI_LENGTH = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
    "iscsi.initiatorName is specified."
)
_MANAGED_DISK = (
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/"
    "{disk-id}"
)
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
)  # fmt: skip
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z.-]+)(:[^,;*&$|\s]+)$", re.ASCII)
_EUI = re.compile(r"eui.[0-9A-Za-z]{16}")
_NAA = re.compile(r"naa.[0-9A-Za-z]{32}")


def needs(*names: str) -> Callable[[Document, str, list[Problem]], None]:
    """Return a check that fields are not empty."""

    def check(source: Document, path: str, out: list[Problem]) -> None:
        out.extend(required(f"{path}.{name}") for name in names if not source.get(name))

    return check


def check_host_path(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a hostPath, adding errors."""
    if not source.get("path"):
        out.append(required(f"{path}.path"))
        return
    check_no_parent_references(source["path"], f"{path}.path", out)
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        out.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))


def check_git_repo(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a git repository, adding errors."""
    if not source.get("repository"):
        out.append(required(f"{path}.repository"))
    check_relative_path(source.get("directory") or "", f"{path}.directory", out)


def _check_partition(source: Document, path: str, out: list[Problem]) -> None:
    partition = source.get("partition") or 0
    if not 0 <= partition <= 255:
        out.append(invalid(f"{path}.partition", partition, range_text(1, 255)))


def check_gce_disk(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a GCE disk, adding errors."""
    if not source.get("pdName"):
        out.append(required(f"{path}.pdName"))
    _check_partition(source, path, out)


def check_aws_disk(source: Document, path: str, out: list[Problem]) -> None:
    """Validate an EBS volume, adding errors."""
    if not source.get("volumeID"):
        out.append(required(f"{path}.volumeID"))
    _check_partition(source, path, out)


def check_nfs(source: Document, path: str, out: list[Problem]) -> None:
    """Validate an NFS export, adding errors."""
    needs("server", "path")(source, path, out)
    exported = source.get("path") or ""
    if not exported.startswith("/"):
        out.append(invalid(f"{path}.path", exported, "must be an absolute path"))


def check_iscsi(
    source: Document,
    path: str,
    out: list[Problem],
    *,
    start: str = " starting with iqn, eui, or naa",
) -> None:
    """Validate an iSCSI target, adding errors."""
    needs("targetPortal")(source, path, out)
    if not source.get("iqn"):
        out.append(required(f"{path}.iqn"))
    else:
        _check_iscsi_name(source["iqn"], f"{path}.iqn", start, out)
    lun = source.get("lun") or 0
    if not 0 <= lun <= 255:
        out.append(invalid(f"{path}.lun", lun, range_text(0, 255)))
    chap = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if chap and source.get("secretRef") is None:
        out.append(required(f"{path}.secretRef"))
    if not start and source.get("secretRef") is not None and not source["secretRef"].get("name"):
        out.append(required(f"{path}.secretRef.name"))
    if source.get("initiatorName") is not None:
        _check_iscsi_name(source["initiatorName"], f"{path}.initiatorname", start, out)


def _check_iscsi_name(name: str, path: str, start: str, out: list[Problem]) -> None:
    if not name.startswith(("iqn", "eui", "naa")):
        out.append(invalid(path, name, f"must be valid format{start}"))
    elif (
        (name.startswith("iqn") and not _IQN.search(name))
        or (name.startswith("eui") and not _EUI.fullmatch(name))
        or (name.startswith("naa") and not _NAA.fullmatch(name))
    ):
        out.append(invalid(path, name, "must be valid format"))


def check_persistent_iscsi(source: Document, path: str, out: list[Problem]) -> None:
    """Validate an iSCSI target of a persistent volume, adding errors."""
    check_iscsi(source, path, out, start="")


def check_flocker(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a Flocker dataset, adding errors."""
    name, uuid = source.get("datasetName") or "", source.get("datasetUUID")
    if not name and not uuid:
        out.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        out.append(invalid(path, "resource", text))
    if "/" in name:
        out.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))


def check_cinder(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a Cinder volume, adding errors."""
    needs("volumeID")(source, path, out)
    if source.get("secretRef") is not None and not source["secretRef"].get("name"):
        out.append(required(f"{path}.secretRef.name"))


def check_persistent_cinder(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a Cinder volume of a persistent volume, adding errors."""
    check_cinder(source, path, out)
    if source.get("secretRef") is not None and not source["secretRef"].get("namespace"):
        out.append(required(f"{path}.secretRef.namespace"))


def check_quobyte(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a Quobyte volume, adding errors."""
    pairs = "must be a host:port pair or multiple pairs separated by commas"
    registry = source.get("registry") or ""
    if not registry:
        out.append(required(f"{path}.registry", pairs))
    elif len(source.get("tenant") or "") >= 65:
        text = "must be a UUID and may not exceed a length of 64 characters"
        out.append(required(f"{path}.tenant", text))
    else:
        wrong = sum(not _is_host_port(pair) for pair in registry.split(","))
        out.extend(invalid(f"{path}.registry", registry, pairs) for _ in range(wrong))
    if not source.get("volume"):
        out.append(required(f"{path}.volume"))


def _is_host_port(pair: str) -> bool:
    host, colon, _ = pair.rpartition(":")
    if not colon:
        return False
    if host.startswith("["):
        return host.endswith("]") and "[" not in host[1:-1]
    return not any(char in host for char in ":[]")


def check_fc(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a Fibre Channel target, adding errors."""
    names, ids = source.get("targetWWNs") or [], source.get("wwids") or []
    if not names and not ids:
        text = "must specify either targetWWNs or wwids, but not both"
        out.append(required(f"{path}.targetWWNs", text))
    if names and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        out.append(invalid(f"{path}.targetWWNs", names, text))
    if names:
        lun = source.get("lun")
        if lun is None:
            text = "lun is required if targetWWNs is specified"
            out.append(required(f"{path}.lun", text))
        elif not 0 <= lun <= 255:
            out.append(invalid(f"{path}.lun", lun, range_text(0, 255)))


def check_flex_volume(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a FlexVolume, adding errors."""
    needs("driver")(source, path, out)
    for key in source.get("options") or {}:
        namespace = "." + key.partition("/")[0].lower()
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            out.append(invalid(f"{path}.options[{key}]", key, text))


def check_azure_disk(source: Document, path: str, out: list[Problem]) -> None:
    """Validate an Azure disk, adding errors."""
    needs("diskName", "diskURI")(source, path, out)
    uri = source.get("diskURI") or ""
    caching, kind = source.get("cachingMode"), source.get("kind")
    for name, value, known in (
        ("cachingMode", caching, ("None", "ReadOnly", "ReadWrite")),
        ("kind", kind, ("Dedicated", "Managed", "Shared")),
    ):
        if value is not None and value not in known:
            out.append(not_supported(f"{path}.{name}", value, known))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        out.append(not_supported(f"{path}.diskURI", uri, [_MANAGED_DISK]))
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        out.append(not_supported(f"{path}.diskURI", uri, [_BLOB_DISK]))


def check_storage_os(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a StorageOS volume, adding errors."""
    if not source.get("volumeName"):
        out.append(required(f"{path}.volumeName"))
    else:
        check_dns_label(source["volumeName"], f"{path}.volumeName", out)
    if source.get("volumeNamespace"):
        check_dns_label(source["volumeNamespace"], f"{path}.volumeNamespace", out)
    if source.get("secretRef") is not None and not source["secretRef"].get("name"):
        out.append(required(f"{path}.secretRef.name"))


def check_persistent_storage_os(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a StorageOS volume of a persistent volume, adding errors."""
    check_storage_os(source, path, out)
    if source.get("secretRef") is not None and not source["secretRef"].get("namespace"):
        out.append(required(f"{path}.secretRef.namespace"))


def check_csi_driver_name(name: str, path: str, out: list[Problem]) -> None:
    """Validate the name of a CSI driver, adding errors."""
    if not name:
        out.append(required(path))
        return
    if len(name.encode()) > 63:
        out.append(too_long(path, 63))
    out.extend(invalid(path, name, text) for text in subdomain_problems(name.lower()))


def check_csi(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a CSI volume of a pod, adding errors."""
    check_csi_driver_name(source.get("driver") or "", f"{path}.driver", out)
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    name = secret.get("name") or ""
    if not name:
        out.append(required(f"{path}.nodePublishSecretRef.name"))
        return
    out.extend(invalid(f"{path}.name", name, text) for text in subdomain_problems(name))


def check_persistent_csi(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a CSI volume of a persistent volume, adding errors."""
    check_csi_driver_name(source.get("driver") or "", f"{path}.driver", out)
    needs("volumeHandle")(source, path, out)
    for name in (
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ):
        if source.get(name) is not None:
            _check_secret_reference(source[name], f"{path}.{name}", out)


def _check_secret_reference(ref: Document, path: str, out: list[Problem]) -> None:
    if not ref.get("name"):
        out.append(required(f"{path}.name"))
    else:
        check_subdomain(ref["name"], f"{path}.name", out)
    if not ref.get("namespace"):
        out.append(required(f"{path}.namespace"))
    else:
        check_dns_label(ref["namespace"], f"{path}.namespace", out)


def check_persistent_glusterfs(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a Gluster volume of a persistent volume, adding errors."""
    needs("endpoints", "path")(source, path, out)
    namespace = source.get("endpointsNamespace")
    if namespace is None:
        return
    child = f"{path}.endpointsNamespace"
    if not namespace:
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        out.append(invalid(child, namespace, text))
        return
    out.extend(invalid(child, namespace, text) for text in label_problems(namespace))


def check_persistent_azure_file(source: Document, path: str, out: list[Problem]) -> None:
    """Validate an Azure share of a persistent volume, adding errors."""
    needs("secretName", "shareName")(source, path, out)
    namespace = source.get("secretNamespace")
    if namespace is not None and not namespace:
        out.append(required(f"{path}.secretNamespace"))


def check_local_volume(source: Document, path: str, out: list[Problem]) -> None:
    """Validate a local volume, adding errors."""
    if not source.get("path"):
        out.append(required(f"{path}.path"))
        return
    check_no_parent_references(source["path"], f"{path}.path", out)
