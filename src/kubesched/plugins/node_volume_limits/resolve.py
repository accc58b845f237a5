"""Which volumes of a driver a pod's volumes and a node's attachments stand for.

Owns the way from a volume through claim, persistent volume and class to driver and handle. Never
counts them.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go filterAttachableVolumes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kubesched.columns.object_store import ObjectStores
from kubesched.framework.status import Status, StatusError, error, unresolvable
from kubesched.model.pod_info import PodInfo
from kubesched.objects.pod import Volume
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim
from kubesched.plugins.csi_translation import (
    MIGRATED_PLUGIN_NAMES,
    InTreePlugin,
    plugin_named,
    plugin_of_inline,
    plugin_of_volume,
)
from kubesched.plugins.pod_volumes import (
    NO_NAME,
    ClaimUse,
    NamedPod,
    claim_not_found_text,
    claim_use,
    class_of_claim,
    not_owner_text,
)

# Upstream draws 32 random letters once, so that a claim without a volume cannot be taken for a
# volume; no handle can hold this one either.
_UNBOUND_PREFIX: Final = "\0"

Volumes = Mapping[str, str]
"""Driver by unique name of a volume: `<driver>/<handle>`."""


def may_be_attached(volume: Volume) -> bool:
    """Tell whether a volume of a pod could be one that a driver attaches."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or plugin_of_inline(volume) is not None
    )


def new_volumes(pod: PodInfo, objects: ObjectStores, has_csi_node: bool) -> Volumes | Status:
    """Return the volumes a pod would bring, on nodes with or without a CSINode."""
    volumes: Sequence[Volume] = pod.shape.volumes
    if any(plugin_of_inline(volume) is not None for volume in volumes):
        # Texts name the pod's own volumes; those of its shape may be another pod's.
        volumes = pod.spec.volumes or ()
    try:
        return _resolve(pod, volumes, objects, has_csi_node=has_csi_node, is_new=True)
    except StatusError as problem:
        return problem.status


def _resolve(
    pod: NamedPod,
    volumes: Iterable[Volume],
    objects: ObjectStores,
    *,
    has_csi_node: bool,
    is_new: bool,
) -> Volumes:
    """Return the volumes of a pod that count, on a node with or without a CSINode."""
    # Parity: csi.go filterAttachableVolumes, v1.36.
    found: dict[str, str] = {}
    for volume in volumes:
        use = claim_use(pod.name, volume)
        if use is None:
            handle = _inline_handle(volume, pod.namespace, has_csi_node)
        else:
            claim = _claim(pod, use, objects, is_new)
            handle = None if claim is None else _claim_handle(claim, objects, has_csi_node)
        if handle is not None:
            driver, name = handle
            found[f"{driver}/{name}"] = driver
    return found


def _claim(
    pod: NamedPod, use: ClaimUse, objects: ObjectStores, is_new: bool
) -> PersistentVolumeClaim | None:
    if not use.claim_name:
        raise StatusError(error(NO_NAME))
    key = f"{pod.namespace}/{use.claim_name}"
    claim = objects.persistent_volume_claims.get(key)
    if claim is None:
        if is_new:
            missing = claim_not_found_text(use.claim_name)
            raise StatusError(unresolvable(f"looking up PVC {key}: {missing}"))
        return None
    problem = not_owner_text(pod, claim) if use.is_ephemeral else None
    if problem is not None:
        raise StatusError(error(problem))
    return claim


def _inline_handle(volume: Volume, namespace: str, has_csi_node: bool) -> tuple[str, str] | None:
    plugin = plugin_of_inline(volume)
    if plugin is None or not _is_migrated(plugin, has_csi_node):
        return None
    try:
        translated = plugin.translate_inline(volume, namespace)
    except ValueError as problem:
        text = f"converting volume({volume.name}) from inline to csi: {problem}"
        raise StatusError(error(text)) from problem
    return translated.driver, translated.volume_handle


def _claim_handle(
    claim: PersistentVolumeClaim, objects: ObjectStores, has_csi_node: bool
) -> tuple[str, str] | None:
    # Parity: csi.go getCSIDriverInfo, v1.36. A claim whose volume is not there yet counts by class.
    volume = objects.persistent_volumes.get(claim.spec.volume_name)
    if volume is None:
        driver = _driver_of_class(claim, objects, has_csi_node)
        handle = f"{_UNBOUND_PREFIX}-{claim.metadata.namespace}/{claim.metadata.name}"
    else:
        driver, handle = _volume_handle(volume, has_csi_node)
    return (driver, handle) if driver and handle else None


def _volume_handle(volume: PersistentVolume, has_csi_node: bool) -> tuple[str, str]:
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    plugin = plugin_of_volume(volume)
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
    storage_class = objects.storage_classes.get(class_of_claim(claim))
    if storage_class is None:
        return ""
    plugin = plugin_named(storage_class.provisioner)
    if plugin is None:
        return storage_class.provisioner
    return plugin.driver if _is_migrated(plugin, has_csi_node) else ""


def _is_migrated(plugin: InTreePlugin, has_csi_node: bool) -> bool:
    # Parity: nodevolumelimits/utils.go isCSIMigrationOn, v1.36: any CSINode will do here, whatever
    # its annotation of migrated plugins says.
    return has_csi_node and plugin.name in MIGRATED_PLUGIN_NAMES


def resolve_or_text(pod: NamedPod, objects: ObjectStores) -> Volumes | str:
    """Return the volumes a bound pod holds, or why they cannot be told."""
    # Nodes are asked for their pods' volumes only where they have limits, hence a CSINode.
    try:
        return _resolve(pod, pod.shape.volumes, objects, has_csi_node=True, is_new=False)
    except StatusError as problem:
        return problem.status.message


def attachments_by_node(objects: ObjectStores) -> dict[str, dict[str, str]]:
    """Return the volumes that attachments tell of, by node name."""
    # Parity: csi.go getNodeVolumeAttachmentInfo, v1.36: in-tree volumes are not translated here.
    found: dict[str, dict[str, str]] = {}
    for attachment in objects.volume_attachments:
        spec = attachment.spec
        volume_name = spec.source.persistent_volume_name
        if not spec.attacher or volume_name is None:
            continue
        volume = objects.persistent_volumes.get(volume_name)
        if volume is None or volume.spec.csi is None:
            continue
        unique_name = f"{spec.attacher}/{volume.spec.csi.volume_handle}"
        found.setdefault(spec.node_name, {})[unique_name] = spec.attacher
    return found
