"""Validates volume mounts and block devices of containers.

Upstream: pkg/apis/core/validation/validation.go ValidateVolumeMounts, ValidateVolumeDevices
"""

from __future__ import annotations

from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.errors import (
    Problem,
    field_not_found,
    forbidden_field,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.kinds.checks import check_relative_path

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def check_mounts(
    container: Document, volumes: dict[str, Document], path: str, out: list[Problem]
) -> None:
    """Validate a container's mounts, adding errors."""
    devices = {
        device.get("name") or "": device.get("devicePath") or ""
        for device in container.get("volumeDevices") or ()
    }
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        name, point = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            out.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            out.append(field_not_found(f"{path}[{index}].name", name))
        if not point:
            out.append(required(f"{path}[{index}].mountPath"))
        if point in seen:
            out.append(invalid(f"{path}[{index}].mountPath", point, "must be unique"))
        seen.add(point)
        if devices:
            _check_beside_devices(name, point, devices, f"{path}[{index}]", out)
        _check_sub_paths(mount, path, index, out)
        _check_modes(mount, container, path, out)


def _check_beside_devices(
    name: str, point: str, devices: dict[str, str], path: str, out: list[Problem]
) -> None:
    if name in devices:
        out.append(invalid(f"{path}.name", name, "must not already exist in volumeDevices"))
    if point in devices.values():
        text = "must not already exist as a path in volumeDevices"
        out.append(invalid(f"{path}.mountPath", point, text))


def _check_sub_paths(mount: Document, path: str, index: int, out: list[Problem]) -> None:
    # Parity: upstream's path is that of the list, not of the mount.
    if mount.get("subPath"):
        check_relative_path(mount["subPath"], f"{path}.subPath", out)
    expression = mount.get("subPathExpr")
    if expression:
        if mount.get("subPath"):
            text = "subPathExpr and subPath are mutually exclusive"
            out.append(invalid(f"{path}[{index}].subPathExpr", expression, text))
        check_relative_path(expression, f"{path}.subPathExpr", out)


def _check_modes(mount: Document, container: Document, path: str, out: list[Problem]) -> None:
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        child = f"{path}.mountPropagation"
        if propagation not in _PROPAGATIONS:
            out.append(not_supported(child, propagation, _PROPAGATIONS))
        if propagation == "Bidirectional" and not dig(container, "securityContext", "privileged"):
            text = "Bidirectional mount propagation is available only to privileged containers"
            out.append(forbidden_field(child, text))
    recursive = mount.get("recursiveReadOnly")
    if recursive is None or recursive == "Disabled":
        return
    child = f"{path}.recursiveReadOnly"
    if recursive not in _RECURSIVE:
        out.append(not_supported(child, recursive, _RECURSIVE))
        return
    if not mount.get("readOnly"):
        out.append(forbidden_field(child, "may only be specified when readOnly is true"))
    if propagation is not None and propagation != "None":
        text = "may only be specified when mountPropagation is None or not specified"
        out.append(forbidden_field(child, text))


def check_devices(
    container: Document, volumes: dict[str, Document], path: str, out: list[Problem]
) -> None:
    """Validate a container's block devices, adding errors."""
    mounts = {
        mount.get("name") or "": mount.get("mountPath") or ""
        for mount in container.get("volumeMounts") or ()
    }
    points: set[str] = set()
    names: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        name, point = device.get("name") or "", device.get("devicePath") or ""
        child = f"{path}[{index}]"
        _check_device_name(name, names, volumes, child, out)
        if not point:
            out.append(required(f"{child}.devicePath"))
        if point in points:
            out.append(invalid(f"{child}.devicePath", point, "must be unique"))
        if ".." in point.split("/"):
            out.append(invalid(f"{child}.devicePath", point, "can not contain backsteps ('..')"))
        else:
            points.add(point)
        if name in mounts:
            out.append(invalid(f"{child}.name", name, "must not already exist in volumeMounts"))
        if point in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            out.append(invalid(f"{child}.devicePath", point, text))
        if name:
            names.add(name)


def _check_device_name(
    name: str, seen: set[str], volumes: dict[str, Document], path: str, out: list[Problem]
) -> None:
    if not name:
        out.append(required(f"{path}.name"))
    if name in seen:
        out.append(invalid(f"{path}.name", name, "must be unique"))
    source = volumes.get(name)
    if source is None:
        out.append(field_not_found(f"{path}.name", name))
    elif source.get("persistentVolumeClaim") is None and source.get("ephemeral") is None:
        text = (
            "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        )
        out.append(invalid(f"{path}.name", name, text))
