"""What controllers ask of any document.

Owns keys, owners, selectors, and when a pod counts as active, ready or available. Never changes
a document.
Upstream: pkg/controller/controller_utils.go, staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/
controller_ref.go, pkg/api/v1/pod/util.go, pkg/util/hash
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from kubesched.objects.label_selectors import Selector, label_selector, selector_from_set
from kubesched.objects.meta import LabelSelector
from kubesched.objects.times import parse_time, time_text

Document: TypeAlias = dict[str, Any]

__all__ = [
    "Document",
    "Selector",
    "condition_of",
    "controller_ref",
    "is_active",
    "is_available",
    "is_ready",
    "is_terminating",
    "key_of",
    "labels_of",
    "name_of",
    "namespace_of",
    "owner_of",
    "pod_template_hash",
    "seconds_of",
    "selector_of",
    "selector_of_labels",
    "time_text",
    "uid_of",
    "version_of",
]

# No vowels and no digits that look like them: a name made of these says nothing rude.
_SAFE_CHARS: Final = "bcdfghjklmnpqrstvwxz2456789"
_HASH_CHARS: Final = 10


def name_of(document: Mapping[str, Any]) -> str:
    """Return its name."""
    return str(document["metadata"]["name"])


def namespace_of(document: Mapping[str, Any]) -> str:
    """Return its namespace, empty for what has none."""
    return str(document["metadata"].get("namespace", ""))


def uid_of(document: Mapping[str, Any]) -> str:
    """Return its uid."""
    return str(document["metadata"].get("uid", ""))


def version_of(document: Mapping[str, Any]) -> str:
    """Return its resourceVersion."""
    return str(document["metadata"].get("resourceVersion", ""))


def labels_of(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return its labels."""
    return document["metadata"].get("labels") or {}


def key_of(document: Mapping[str, Any]) -> str:
    """Return `namespace/name`, or the name of what has no namespace."""
    metadata = document["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


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
    """Return a LabelSelector to match with; none matches nothing, an empty one everything."""
    if selector is None:
        return label_selector(None)
    return label_selector(msgspec.convert(selector, LabelSelector))


def selector_of_labels(labels: Mapping[str, str] | None) -> Selector:
    """Return a selector of exactly these labels, as Services and ReplicationControllers have it."""
    return selector_from_set(labels or {})


def is_terminating(document: Mapping[str, Any]) -> bool:
    """Return whether it is being deleted."""
    return bool(document["metadata"].get("deletionTimestamp"))


def is_active(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod runs or may yet, and is not being deleted."""
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
    """Return whether a pod has been ready for so long."""
    ready = condition_of(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return False
    if min_ready_s <= 0:
        return True
    since = ready.get("lastTransitionTime")
    return bool(since) and parse_time(str(since)) + min_ready_s <= now_s


def seconds_of(text: str | None) -> float:
    """Return a time of a document in seconds since the epoch; 0 for none."""
    return parse_time(text) if text else 0.0


def pod_template_hash(template: Mapping[str, Any], collision_count: int | None = None) -> str:
    """Return a short text that differs where templates do."""
    body = msgspec.json.encode(template, order="sorted")
    if collision_count is not None:
        body += str(collision_count).encode()
    number = int.from_bytes(hashlib.sha256(body).digest()[:8])
    text = ""
    for _ in range(_HASH_CHARS):
        number, index = divmod(number, len(_SAFE_CHARS))
        text += _SAFE_CHARS[index]
    return text
