"""Validates the volumes of pods.

Sources shared with persistent volumes are in volume_sources.
Upstream: pkg/apis/core/validation/validation.go ValidateVolumes, validateVolumeSource
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api.quantity import parse_quantity
from kubesched.cluster.apiserver.documents import Document
from kubesched.cluster.apiserver.errors import (
    Problem,
    duplicate,
    forbidden_field,
    invalid,
    required,
)
from kubesched.cluster.apiserver.kinds import volume_sources as sources
from kubesched.cluster.apiserver.kinds.checks import check_dns_label, check_local_path
from kubesched.cluster.apiserver.kinds.containers import check_pull_policy
from kubesched.cluster.apiserver.kinds.environment import (
    VOLUME_FIELDS,
    check_field_ref,
    check_resource_field_ref,
)
from kubesched.cluster.apiserver.kinds.pod_options import PodOptions
from kubesched.cluster.apiserver.kinds.volume_claims import check_claim_template
from kubesched.cluster.apiserver.names import subdomain_problems
from kubesched.golang.strconv import go_quote

Check = Callable[[Document, str, list[Problem]], None]
MODE = "must be a number between 0 and 0777 (octal), both inclusive"
SECOND = "may not specify more than 1 volume type"


def check_volumes(
    volumes: list[Document],
    pod_name: str,
    options: PodOptions,
    path: str,
    out: list[Problem],
) -> dict[str, Document]:
    """Validate volumes, adding errors; return the valid ones by name."""
    found: dict[str, Document] = {}
    created = {
        f"{pod_name}-{volume.get('name') or ''}"
        for volume in volumes
        if pod_name and volume.get("ephemeral") is not None
    }
    for index, volume in enumerate(volumes):
        child, name = f"{path}[{index}]", volume.get("name") or ""
        own: list[Problem] = []
        _check_source(volume, name, pod_name, options, child, own)
        if not name:
            own.append(required(f"{child}.name"))
        else:
            check_dns_label(name, f"{child}.name", own)
        if name in found:
            own.append(duplicate(f"{child}.name", name))
        if own:
            out.extend(own)
        else:
            found[name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim is not None and claim in created:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            out.append(invalid(f"{child}.persistentVolumeClaim.claimName", claim, text))
    return found


def _check_source(
    volume: Document,
    name: str,
    pod_name: str,
    options: PodOptions,
    path: str,
    out: list[Problem],
) -> None:
    count = 0
    for kind, (field, place, check) in _SOURCES.items():
        source = volume.get(kind)
        if source is None:
            continue
        count += 1
        if count > 1:
            out.append(forbidden_field(f"{path}.{field}", SECOND))
        else:
            check(source, f"{path}.{place}", out)
        if kind == "iscsi":
            _check_iscsi_length(source, name, path, out)
        elif kind == "ephemeral" and count == 1 and pod_name and name:
            _check_ephemeral_name(f"{pod_name}-{name}", name, path, out)
        elif kind == "image" and count == 1:
            if options.is_pod and not source.get("reference"):
                out.append(required(f"{path}.image.reference"))
            check_pull_policy(source.get("pullPolicy") or "", f"{path}.image.pullPolicy", out)
    if not count:
        out.append(required(path, "must specify a volume type"))


def _check_ephemeral_name(claim: str, name: str, path: str, out: list[Problem]) -> None:
    for text in subdomain_problems(claim):
        out.append(invalid(f"{path}.name", name, f"PVC name {go_quote(claim)}: {text}"))  # noqa: PERF401


def _check_iscsi_length(source: Document, name: str, path: str, out: list[Problem]) -> None:
    if source.get("initiatorName") is None:
        return
    if len(f"{name}:{source.get('targetPortal') or ''}") > 64:
        out.append(invalid(f"{path}.name", name, sources.ISCSI_LENGTH))


def _check_empty_dir(source: Document, path: str, out: list[Problem]) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit).unscaled < 0:
        text = "SizeLimit field must be a valid resource quantity"
        out.append(forbidden_field(f"{path}.sizeLimit", text))


def check_mode(source: Document, name: str, path: str, out: list[Problem]) -> None:
    """Append an error if permission bits are out of range."""
    mode = source.get(name)
    if mode is not None and not 0 <= mode <= 0o777:
        out.append(invalid(f"{path}.{name}", mode, MODE))


def _check_key_to_path(item: Document, path: str, out: list[Problem]) -> None:
    if not item.get("key"):
        out.append(required(f"{path}.key"))
    if not item.get("path"):
        out.append(required(f"{path}.path"))
    check_local_path(item.get("path") or "", f"{path}.path", out)
    check_mode(item, "mode", path, out)


def _check_secret(source: Document, path: str, out: list[Problem]) -> None:
    if not source.get("secretName"):
        out.append(required(f"{path}.secretName"))
    _check_files(source, path, out)


def _check_config_map(source: Document, path: str, out: list[Problem]) -> None:
    if not source.get("name"):
        out.append(required(f"{path}.name"))
    _check_files(source, path, out)


def _check_files(source: Document, path: str, out: list[Problem]) -> None:
    check_mode(source, "defaultMode", path, out)
    for index, item in enumerate(source.get("items") or ()):
        _check_key_to_path(item, f"{path}.items[{index}]", out)


def _check_downward_file(item: Document, path: str, out: list[Problem]) -> None:
    if not item.get("path"):
        out.append(required(f"{path}.path"))
    check_local_path(item.get("path") or "", f"{path}.path", out)
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        check_field_ref(field, VOLUME_FIELDS, f"{path}.fieldRef", out)
        if resource is not None:
            text = "fieldRef and resourceFieldRef can not be specified simultaneously"
            out.append(invalid(path, "resource", text))
    elif resource is not None:
        check_resource_field_ref(resource, f"{path}.resourceFieldRef", out, in_volume=True)
    else:
        out.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    check_mode(item, "mode", path, out)


def _check_downward(source: Document, path: str, out: list[Problem]) -> None:
    check_mode(source, "defaultMode", path, out)
    for item in source.get("items") or ():
        _check_downward_file(item, path, out)


def _check_projected(source: Document, path: str, out: list[Problem]) -> None:
    check_mode(source, "defaultMode", path, out)
    seen: set[str] = set()
    for index, one in enumerate(source.get("sources") or ()):
        child = f"{path}.sources[{index}]"
        count = 0
        for kind in ("secret", "configMap"):
            if one.get(kind) is not None:
                count += 1
                _check_projected_map(one[kind], seen, path, f"{child}.{kind}", out)
        if one.get("downwardAPI") is not None:
            count += 1
            for item in one["downwardAPI"].get("items") or ():
                _check_downward_file(item, f"{child}.downwardAPI", out)
                _check_new_path(item.get("path"), item.get("path") or "", seen, path, out)
        if one.get("serviceAccountToken") is not None:
            count += 1
            token_path = f"{child}.serviceAccountToken"
            _check_token(one["serviceAccountToken"], path, token_path, out)
        if count > 1:
            text = "may not specify more than 1 volume type per source"
            out.append(forbidden_field(child, text))


def _check_projected_map(
    source: Document, seen: set[str], volume_path: str, path: str, out: list[Problem]
) -> None:
    name = source.get("name") or ""
    if not name:
        out.append(required(f"{path}.name"))
    for index, item in enumerate(source.get("items") or ()):
        _check_key_to_path(item, f"{path}.items[{index}]", out)
        _check_new_path(item.get("path"), name, seen, volume_path, out)


def _check_new_path(
    file: str | None, source: str, seen: set[str], path: str, out: list[Problem]
) -> None:
    if not file:
        return
    if file in seen:
        out.append(invalid(path, source, "conflicting duplicate paths"))
    seen.add(file)


def _check_token(token: Document, volume_path: str, path: str, out: list[Problem]) -> None:
    seconds = token.get("expirationSeconds") or 0
    child = f"{path}.expirationSeconds"
    if seconds < 600:
        out.append(invalid(child, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        out.append(invalid(child, seconds, text))
    # Parity: upstream's path is that of the volume, not of the source.
    if not token.get("path"):
        out.append(required(f"{volume_path}.path"))
    else:
        check_local_path(token["path"], f"{volume_path}.path", out)


def _check_ephemeral(source: Document, path: str, out: list[Problem]) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        out.append(required(f"{path}.volumeClaimTemplate"))
    else:
        check_claim_template(template, f"{path}.volumeClaimTemplate", out)


def _check_image(source: Document, path: str, out: list[Problem]) -> None:
    """Do nothing: the caller validates images, since the rules depend on the kind of object."""


# By field: its name in the error about a second source, its name in paths, and the validation.
_SOURCES: dict[str, tuple[str, str, Check]] = {
    "emptyDir": ("emptyDir", "emptyDir", _check_empty_dir),
    "hostPath": ("hostPath", "hostPath", sources.check_host_path),
    "gitRepo": ("gitRepo", "gitRepo", sources.check_git_repo),
    "gcePersistentDisk": ("gcePersistentDisk", "persistentDisk", sources.check_gce_disk),
    "awsElasticBlockStore": (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        sources.check_aws_disk,
    ),
    "secret": ("secret", "secret", _check_secret),
    "nfs": ("nfs", "nfs", sources.check_nfs),
    "iscsi": ("iscsi", "iscsi", sources.check_iscsi),
    "glusterfs": ("glusterfs", "glusterfs", sources.needs("endpoints", "path")),
    "flocker": ("flocker", "flocker", sources.check_flocker),
    "persistentVolumeClaim": (
        "persistentVolumeClaim",
        "persistentVolumeClaim",
        sources.needs("claimName"),
    ),
    "rbd": ("rbd", "rbd", sources.needs("monitors", "image")),
    "cinder": ("cinder", "cinder", sources.check_cinder),
    "cephfs": ("cephFS", "cephfs", sources.needs("monitors")),
    "quobyte": ("quobyte", "quobyte", sources.check_quobyte),
    "downwardAPI": ("downwarAPI", "downwardAPI", _check_downward),
    "fc": ("fc", "fc", sources.check_fc),
    "flexVolume": ("flexVolume", "flexVolume", sources.check_flex_volume),
    "configMap": ("configMap", "configMap", _check_config_map),
    "azureFile": ("azureFile", "azureFile", sources.needs("secretName", "shareName")),
    "vsphereVolume": ("vsphereVolume", "vsphereVolume", sources.needs("volumePath")),
    "photonPersistentDisk": (
        "photonPersistentDisk",
        "photonPersistentDisk",
        sources.needs("pdID"),
    ),
    "portworxVolume": ("portworxVolume", "portworxVolume", sources.needs("volumeID")),
    "azureDisk": ("azureDisk", "azureDisk", sources.check_azure_disk),
    "storageos": ("storageos", "storageos", sources.check_storage_os),
    "projected": ("projected", "projected", _check_projected),
    "scaleIO": ("scaleIO", "scaleIO", sources.needs("gateway", "system", "volumeName")),
    "csi": ("csi", "csi", sources.check_csi),
    "ephemeral": ("ephemeral", "ephemeral", _check_ephemeral),
    "image": ("image", "image", _check_image),
}
