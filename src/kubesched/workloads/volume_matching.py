"""Matching of claims and volumes, and their fields when they are bound.

The rules for one claim and the existing volumes. Never writes, and never provisions a volume.
Upstream: staging/src/k8s.io/component-helpers/storage/volume/{pv_helpers,helpers}.go,
pkg/controller/volume/persistentvolume/{index,pv_controller}.go
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubesched.api.documents import (
    Document,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    selector_of,
    uid_of,
    version_of,
)
from kubesched.api.quantity import parse_quantity

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_ACCESS_MODES: Final[tuple[str, ...]] = (
    "ReadWriteOnce",
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOncePod",
)


def annotations_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the annotations of a document."""
    return document["metadata"].get("annotations") or {}


def has_class(claim: Mapping[str, Any]) -> bool:
    """Return whether a claim names a storage class, possibly the empty one."""
    return _BETA_CLASS in annotations_of(claim) or claim["spec"].get("storageClassName") is not None


def class_of(document: Mapping[str, Any]) -> str:
    """Return the storage class of a claim or a volume; empty if it has none."""
    beta = annotations_of(document).get(_BETA_CLASS)
    return beta if beta is not None else document["spec"].get("storageClassName") or ""


def claim_key_of(volume: Mapping[str, Any]) -> str:
    """Return the key of the claim that a volume is reserved for; empty if there is none."""
    reference = volume["spec"].get("claimRef")
    return f"{reference['namespace']}/{reference['name']}" if reference else ""


def is_bound_to(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Return whether a volume is bound to a claim or reserved for its name."""
    reference = volume["spec"].get("claimRef")
    if not reference:
        return False
    if reference.get("name") != name_of(claim) or reference.get("namespace") != namespace_of(claim):
        return False
    return reference.get("uid", "") in ("", uid_of(claim))


def volume_mismatch(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> str | None:
    """Return why a claim cannot use the volume it names; None if it can.

    Parity: pv_controller.go checkVolumeSatisfyClaim, v1.36.
    """
    if is_terminating(volume):
        return f'the volume is marked for deletion "{name_of(volume)}"'
    if parse_quantity(_capacity(volume)).value() < parse_quantity(_request(claim)).value():
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _attributes_class(volume) != _attributes_class(claim):
        return "volumeAttributesClassName does not match"
    if volume_mode_of(volume) != volume_mode_of(claim):
        return "incompatible volumeMode"
    if not set(_modes(claim)) <= set(_modes(volume)):
        return "incompatible accessMode"
    return None


def best_match(
    claim: Mapping[str, Any], volumes: Iterable[Document], *, delays: bool
) -> Document | None:
    """Return the best volume for a claim: the smallest one with the fewest access modes.

    Args:
        claim: The claim.
        volumes: The volumes reserved for it, and the free volumes of its class.
        delays: Whether binding waits for a pod; then only reserved volumes match.
    """
    # Parity: index.go findByClaim, v1.36.
    required = set(_modes(claim))
    by_modes: dict[tuple[str, ...], list[Document]] = {}
    for volume in volumes:
        modes = tuple(mode for mode in _ACCESS_MODES if mode in _modes(volume))
        if required <= set(modes):
            by_modes.setdefault(modes, []).append(volume)
    for modes in sorted(by_modes, key=lambda modes: (len(modes), modes)):
        best = _best_of(claim, by_modes[modes], delays=delays)
        if best is not None:
            return best
    return None


def _best_of(claim: Mapping[str, Any], volumes: list[Document], *, delays: bool) -> Document | None:
    # Parity: pv_helpers.go FindMatchingVolume without a node, v1.36.
    request = parse_quantity(_request(claim))
    selector = claim["spec"].get("selector")
    labels = None if selector is None else selector_of(selector)
    best: Document | None = None
    for volume in volumes:
        if not _may_hold(volume, claim) or parse_quantity(_capacity(volume)) < request:
            continue
        if is_bound_to(volume, claim):
            return volume
        if delays or volume.get("status", {}).get("phase") != "Available":
            continue
        if labels is not None and not labels.matches(labels_of(volume)):
            continue
        if class_of(volume) != class_of(claim):
            continue
        if best is None or parse_quantity(_capacity(volume)) < parse_quantity(_capacity(best)):
            best = volume
    return best


def _may_hold(volume: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    if volume["spec"].get("claimRef") and not is_bound_to(volume, claim):
        return False
    return (
        volume_mode_of(volume) == volume_mode_of(claim)
        and _attributes_class(volume) == _attributes_class(claim)
        and not is_terminating(volume)
    )


def volume_mode_of(document: Mapping[str, Any]) -> str:
    """Return the volume mode of a volume or a claim."""
    return document["spec"].get("volumeMode") or "Filesystem"


# -- bound claims and volumes ---------------------------------------------------------------------


def claim_reference(claim: Mapping[str, Any]) -> Document:
    """Return the claimRef of a volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace_of(claim),
        "name": name_of(claim),
        "uid": uid_of(claim),
        "resourceVersion": version_of(claim),
    }


def bound_volume(volume: Document, claim: Mapping[str, Any]) -> Document | None:
    """Return a volume bound to a claim; None if it is bound already.

    Parity: pv_helpers.go GetBindVolumeToClaim, v1.36.
    """
    reference = volume["spec"].get("claimRef") or {}
    ours = (reference.get("namespace"), reference.get("name"), reference.get("uid")) == (
        namespace_of(claim),
        name_of(claim),
        uid_of(claim),
    )
    marks = not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in annotations_of(volume)
    if ours and not marks:
        return None
    changed = copy.deepcopy(volume)
    if not ours:
        changed["spec"]["claimRef"] = claim_reference(claim)
    if marks:
        annotate(changed, BOUND_BY_CONTROLLER, "yes")
    return changed


def bound_claim(claim: Document, volume: Mapping[str, Any]) -> Document | None:
    """Return a claim bound to a volume; None if it is bound already.

    Parity: pv_controller.go bindClaimToVolume, v1.36.
    """
    binds = claim["spec"].get("volumeName") != name_of(volume)
    if not binds and BIND_COMPLETED in annotations_of(claim):
        return None
    changed = copy.deepcopy(claim)
    if binds:
        changed["spec"]["volumeName"] = name_of(volume)
        annotate(changed, BOUND_BY_CONTROLLER, "yes")
    annotate(changed, BIND_COMPLETED, "yes")
    return changed


def claim_status(
    claim: Mapping[str, Any], phase: str, volume: Mapping[str, Any] | None
) -> Document | None:
    """Return the new status of a claim in a phase, with its volume if any; None if unchanged.

    Parity: pv_controller.go updateClaimStatus, v1.36.
    """
    status = claim.get("status") or {}
    changed = {**status, "phase": phase}
    if volume is None:
        for name in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
            changed.pop(name, None)
        return None if changed == status else changed
    changed["accessModes"] = volume["spec"].get("accessModes") or []
    if status.get("phase") != phase:
        # Later the capacities may differ: a file system may be smaller than its device.
        changed["capacity"] = _bound_capacity(status, volume)
    if (status.get("phase"), phase) == ("Pending", "Bound"):
        attributes = volume["spec"].get("volumeAttributesClassName")
        changed.pop("currentVolumeAttributesClassName", None)
        if attributes is not None:
            changed["currentVolumeAttributesClassName"] = attributes
    return None if changed == status else changed


def _bound_capacity(status: Mapping[str, Any], volume: Mapping[str, Any]) -> Document:
    before = annotations_of(volume).get(PRE_RESIZE_CAPACITY)
    if before is not None:
        return {**(status.get("capacity") or {}), "storage": before}
    return dict(volume["spec"].get("capacity") or {})


def annotate(document: Document, name: str, value: str) -> None:
    """Add an annotation to a mutable document unless it is present."""
    metadata = document["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {})}
    metadata["annotations"].setdefault(name, value)


def _modes(document: Mapping[str, Any]) -> list[str]:
    return document["spec"].get("accessModes") or []


def _attributes_class(document: Mapping[str, Any]) -> str:
    return document["spec"].get("volumeAttributesClassName") or ""


def _capacity(volume: Mapping[str, Any]) -> str:
    return str((volume["spec"].get("capacity") or {}).get("storage", "0"))


def _request(claim: Mapping[str, Any]) -> str:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return str(requests.get("storage", "0"))
