"""Deletion of released volumes: the finalizer, and which volumes can be deleted.

Decides only; the reclaimer writes.
Upstream: pkg/controller/volume/persistentvolume/{pv_controller.go findDeletablePlugin,
pv_controller_base.go modifyDeletionFinalizers}, pkg/volume/hostpath/host_path.go
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kubesched.api.documents import is_terminating, name_of
from kubesched.workloads.volume_matching import annotations_of
from kubesched.workloads.volume_provisioning import (
    HOST_PATH,
    IN_TREE_FINALIZER,
    IN_TREE_PREFIX,
    IN_TREE_SOURCES,
    MIGRATED,
    PROVISIONED_BY,
)

MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"
_DELETABLE_PATH: Final = re.compile("/tmp/.+")  # Upstream's rule; nothing is opened.
RECYCLABLE_SOURCES: Final = ("hostPath", "nfs")


def is_deleted_externally(volume: Mapping[str, Any]) -> bool:
    """Return whether an unclaimed volume waits for an external provisioner that is absent.

    A provisioned volume never waits, since its provisioner is embedded. A CSI volume that a user
    wrote waits for its driver.
    """
    if annotations_of(volume).get(PROVISIONED_BY):
        return False
    return MIGRATED_TO in annotations_of(volume) or "csi" in volume["spec"]


def deletion_problem(volume: Mapping[str, Any]) -> str | None:
    """Return why a released volume cannot be deleted; None if it can.

    Parity: pv_controller.go findDeletablePlugin, host_path.go Delete, v1.36.
    """
    by = annotations_of(volume).get(PROVISIONED_BY, "")
    if by and (by in MIGRATED or not by.startswith(IN_TREE_PREFIX)):
        return None
    if by and by != HOST_PATH:
        known = by in IN_TREE_SOURCES.values()
        return (
            "no deletable volume plugin matched"
            if known
            else f"no volume plugin matched name: {by}"
        )
    source = next((source for source in IN_TREE_SOURCES if source in volume["spec"]), None)
    if source != "hostPath":
        detail = (
            "no volume plugin matched" if source is None else "no deletable volume plugin matched"
        )
        return f'error getting deleter volume plugin for volume "{name_of(volume)}": {detail}'
    path = str(volume["spec"]["hostPath"]["path"])
    if _DELETABLE_PATH.search(path) is None:
        return f"host_path deleter only supports /tmp/.+ but received provided {path}"
    return None


def with_deletion_finalizer(volume: Mapping[str, Any]) -> list[str] | None:
    """Return the finalizers of a volume of the in-tree provisioner; None if unchanged.

    Parity: pv_controller_base.go modifyDeletionFinalizers, v1.36.
    """
    finalizers = list(volume["metadata"].get("finalizers") or ())
    by = annotations_of(volume).get(PROVISIONED_BY, "")
    if not by.startswith(IN_TREE_PREFIX) or by in MIGRATED:
        return None
    wants = volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
    has = IN_TREE_FINALIZER in finalizers
    if wants == has:
        return None
    if wants:
        # No finalizer can be added to a terminating volume.
        return None if is_terminating(volume) else [*finalizers, IN_TREE_FINALIZER]
    return [finalizer for finalizer in finalizers if finalizer != IN_TREE_FINALIZER]
