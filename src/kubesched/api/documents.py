"""Accessors for documents: API objects as decoded JSON.

Names, keys, owners, selectors, conditions, and whether a pod is active, ready or available.
Upstream: pkg/controller/controller_utils.go, staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/
controller_ref.go, pkg/api/v1/pod/util.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from kubesched.api.label_selectors import Selector, label_selector
from kubesched.api.meta import LabelSelector
from kubesched.api.times import parse_time

Document: TypeAlias = dict[str, Any]


def name_of(document: Mapping[str, Any]) -> str:
    """Return its name, empty if it has none."""
    return str((document.get("metadata") or {}).get("name") or "")


def namespace_of(document: Mapping[str, Any]) -> str:
    """Return its namespace, empty if it has none."""
    return str((document.get("metadata") or {}).get("namespace") or "")


def uid_of(document: Mapping[str, Any]) -> str:
    """Return its uid."""
    return str(document["metadata"].get("uid", ""))


def version_of(document: Mapping[str, Any]) -> str:
    """Return its resourceVersion."""
    return str(document["metadata"].get("resourceVersion", ""))


def labels_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return its labels; do not modify them."""
    return (document.get("metadata") or {}).get("labels") or {}


def key_of(document: Mapping[str, Any]) -> str:
    """Return `namespace/name`, or the name if it has no namespace."""
    namespace = namespace_of(document)
    return f"{namespace}/{name_of(document)}" if namespace else name_of(document)


def owner_of(document: Mapping[str, Any]) -> Document | None:
    """Return the reference to its controller."""
    for reference in document["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def controller_ref(document: Mapping[str, Any]) -> Document:
    """Return the reference that makes this document the controller of another."""
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": name_of(document),
        "uid": uid_of(document),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(selector: Mapping[str, Any] | None) -> Selector:
    """Return the selector of a LabelSelector; None matches nothing, an empty one everything."""
    if selector is None:
        return label_selector(None)
    return label_selector(msgspec.convert(selector, LabelSelector))


def is_terminating(document: Mapping[str, Any]) -> bool:
    """Return whether it is being deleted."""
    return bool(document["metadata"].get("deletionTimestamp"))


def is_active(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has not ended and is not being deleted."""
    phase = pod.get("status", {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not is_terminating(pod)


def condition_of(document: Mapping[str, Any], type_: str) -> Document | None:
    """Return a condition of its status."""
    for condition in document.get("status", {}).get("conditions") or ():
        if condition.get("type") == type_:
            return dict(condition)
    return None


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod's condition Ready is True."""
    ready = condition_of(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def is_available(pod: Mapping[str, Any], min_ready_s: float, now_s: float) -> bool:
    """Return whether a pod has been ready for at least `min_ready_s`."""
    ready = condition_of(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return False
    if min_ready_s <= 0:
        return True
    since = ready.get("lastTransitionTime")
    return bool(since) and parse_time(str(since)) + min_ready_s <= now_s


def seconds_of(text: str | None) -> float:
    """Return a timestamp as seconds since the epoch; 0 for None."""
    return parse_time(text) if text else 0.0
