"""Resolves the volumes of a pod, through claim, persistent volume and class, to driver and handle.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go filterAttachableVolumes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.api.volumes import Volume
from kubesched.framework.status import Status, StatusError, error, unresolvable
from kubesched.plugins.csi_translation import (
    MIGRATED_PLUGIN_NAMES,
    PLUGIN_BY_NAME,
    InTreePlugin,
    plugin_of,
)
from kubesched.plugins.pod_volumes import (
    CLAIM,
    NO_NAME,
    ClaimUse,
    claim_use,
    class_of_claim,
    not_found_text,
    not_owner_text,
)
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_info import PodInfo

# Upstream draws 32 random letters once, so that a claim without a volume cannot be taken for a
# volume; no handle can hold this one either.
_UNBOUND_PREFIX: Final = "\0"

Volumes = Mapping[str, str]
"""Driver by unique name of a volume: `<driver>/<handle>`."""


def may_be_attached(volume: Volume) -> bool:
    """Return whether a volume of a pod may have to be attached by a driver."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or plugin_of(volume) is not None
    )


def new_volumes(pod: PodInfo, objects: ObjectStores, has_csi_node: bool) -> Volumes | Status:
    """Return the volumes that a pod adds to a node, with or without a CSINode."""
    volumes: Sequence[Volume] = pod.shape.volumes
    if any(plugin_of(volume) is not None for volume in volumes):
        # Texts name the pod's own volumes; those of its shape may be another pod's.
        volumes = pod.spec.volumes or ()
    try:
        return _resolve(pod, volumes, objects, has_csi_node)
    except StatusError as problem:
        return problem.status


def _resolve(
    pod: PodInfo, volumes: Sequence[Volume], objects: ObjectStores, has_csi_node: bool
) -> Volumes:
    # Parity: csi.go filterAttachableVolumes, v1.36.
    found: dict[str, str] = {}
    for volume in volumes:
        use = claim_use(pod.name, volume)
        if use is None:
            handle = inline_handle(volume, pod.namespace, has_csi_node)
        else:
            claim = _claim(pod, use, objects)
            volume_name = claim.spec.volume_name
            bound = objects.store_of(PersistentVolume).get(volume_name) if volume_name else None
            handle = claim_handle(claim, bound, objects, has_csi_node)
        if handle is not None:
            driver, name = handle
            found[f"{driver}/{name}"] = driver
    return found


def _claim(pod: PodInfo, use: ClaimUse, objects: ObjectStores) -> PersistentVolumeClaim:
    if not use.claim_name:
        raise StatusError(error(NO_NAME))
    key = f"{pod.namespace}/{use.claim_name}"
    claim = objects.store_of(PersistentVolumeClaim).get(key)
    if claim is None:
        missing = not_found_text(CLAIM, use.claim_name)
        raise StatusError(unresolvable(f"looking up PVC {key}: {missing}"))
    problem = not_owner_text(pod, claim) if use.is_ephemeral else None
    if problem is not None:
        raise StatusError(error(problem))
    return claim


def inline_handle(volume: Volume, namespace: str, has_csi_node: bool) -> tuple[str, str] | None:
    """Return driver and handle of a volume that names no claim; StatusError if it is wrong."""
    plugin = plugin_of(volume)
    if plugin is None or not _is_migrated(plugin, has_csi_node):
        return None
    try:
        translated = plugin.translate_inline(volume, namespace)
    except ValueError as problem:
        text = f"converting volume({volume.name}) from inline to csi: {problem}"
        raise StatusError(error(text)) from problem
    return translated.driver, translated.volume_handle


def claim_handle(
    claim: PersistentVolumeClaim,
    volume: PersistentVolume | None,
    objects: ObjectStores,
    has_csi_node: bool,
) -> tuple[str, str] | None:
    """Return driver and handle of a claim, with its volume; None if it does not count."""
    # Parity: csi.go getCSIDriverInfo, v1.36. A claim whose volume is not there yet counts by class.
    if volume is None:
        driver = _driver_of_class(claim, objects, has_csi_node)
        handle = f"{_UNBOUND_PREFIX}-{claim.metadata.namespace}/{claim.metadata.name}"
    else:
        driver, handle = _volume_handle(volume, has_csi_node)
    return (driver, handle) if driver and handle else None


def _volume_handle(volume: PersistentVolume, has_csi_node: bool) -> tuple[str, str]:
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    plugin = plugin_of(volume.spec)
    if plugin is None or not _is_migrated(plugin, has_csi_node):
        return "", ""
    try:
        translated = plugin.translate(volume)
    except ValueError:
        # Parity: csi.go getCSIDriverInfo, v1.36: what cannot be translated is not counted.
        return "", ""
    return translated.driver, translated.volume_handle


def _driver_of_class(
    claim: PersistentVolumeClaim, objects: ObjectStores, has_csi_node: bool
) -> str:
    storage_class = objects.store_of(StorageClass).get(class_of_claim(claim))
    if storage_class is None:
        return ""
    plugin = PLUGIN_BY_NAME.get(storage_class.provisioner)
    if plugin is None:
        return storage_class.provisioner
    return plugin.driver if _is_migrated(plugin, has_csi_node) else ""


def _is_migrated(plugin: InTreePlugin, has_csi_node: bool) -> bool:
    # Parity: nodevolumelimits/utils.go isCSIMigrationOn, v1.36: any CSINode will do here, whatever
    # its annotation of migrated plugins says.
    return has_csi_node and plugin.name in MIGRATED_PLUGIN_NAMES
