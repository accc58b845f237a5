"""ControllerRevisions: earlier templates of StatefulSets and DaemonSets.

Their content, names, comparison and restoration; the controllers write them.
Upstream: pkg/controller/history/controller_history.go, and getPatch and ApplyRevision of
pkg/controller/{statefulset/stateful_set_utils,daemon/update}.go
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kubesched.api.documents import Document, controller_ref, name_of, namespace_of
from kubesched.golang.json import go_json

HASH_LABEL: Final = "controller.kubernetes.io/hash"
REVISION_LABEL: Final = "controller-revision-hash"

_PREFIX_CHARS_MAX: Final = 223
# No vowels and no digits that look like them: such a name is no rude word.
_SAFE_CHARS: Final = "bcdfghjklmnpqrstvwxz2456789"
_HASH_CHARS: Final = 10
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193


def template_patch(parent: Document) -> Document:
    """Return the strategic merge patch that puts a parent's template back.

    Keys are sorted, as Go writes a map: kubectl compares its own patch with these bytes.
    """
    template = _sorted(parent["spec"]["template"])
    template["$patch"] = "replace"
    return {"spec": {"template": dict(sorted(template.items()))}}


def with_revision(parent: Document, revision: Document) -> Document:
    """Return a parent with the template of a revision.

    Parity: stateful_set_utils.go ApplyRevision, v1.36; the only patch that controllers make
    replaces the template.
    """
    template = (revision.get("data") or {}).get("spec", {}).get("template")
    if template is None:
        return parent
    kept = {key: value for key, value in template.items() if key != "$patch"}
    return {**parent, "spec": {**parent["spec"], "template": kept}}


def revision_number(revision: Document) -> int:
    """Return the number of a revision."""
    return int(revision.get("revision") or 0)


def sorted_revisions(revisions: Iterable[Document]) -> list[Document]:
    """Return revisions from the oldest to the newest.

    Parity: controller_history.go byRevision, v1.36.
    """
    return sorted(
        revisions,
        key=lambda one: (
            revision_number(one),
            one["metadata"].get("creationTimestamp") or "",
            name_of(one),
        ),
    )


def same_data(one: Document, other: Document) -> bool:
    """Return whether two revisions hold the same template.

    Null and absent fields are equal: API servers of different versions write them
    differently. Parity: statefulset's setMatchesLatestExistingRevision, v1.36.
    """
    mine, theirs = one.get("data"), other.get("data")
    return mine == theirs or _without_nulls(mine) == _without_nulls(theirs)


def data_hash(data: Mapping[str, Any], collision_count: int | None = None) -> str:
    """Return the hash in the name of a revision.

    Parity: controller_history.go HashControllerRevision, v1.36: FNV-1 of Go's JSON.
    """
    body = go_json(data).encode()
    if collision_count is not None:
        body += str(collision_count).encode()
    value = _FNV_OFFSET
    for byte in body:
        value = (value * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return "".join(_SAFE_CHARS[ord(char) % len(_SAFE_CHARS)] for char in str(value))


def revision_name(prefix: str, hash_: str) -> str:
    """Return the name of a revision of a parent."""
    return f"{prefix[:_PREFIX_CHARS_MAX]}-{hash_}"


def new_revision(
    parent: Document, data: Document, number: int, *, name: str, labels: Mapping[str, str]
) -> Document:
    """Return a new revision of a parent.

    Args:
        parent: The owner, whose annotations are copied for `rollout history`.
        data: The template patch.
        number: The revision number.
        name: The name of the revision.
        labels: Labels in addition to those of the template.
    """
    template = parent["spec"]["template"].get("metadata") or {}
    metadata: Document = {
        "name": name,
        "namespace": namespace_of(parent),
        "labels": {**(template.get("labels") or {}), **labels},
        "ownerReferences": [controller_ref(parent)],
    }
    annotations = parent["metadata"].get("annotations")
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": data,
        "revision": number,
    }


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def pod_template_hash(template: Mapping[str, Any], collision_count: int | None = None) -> str:
    """Return a short hash of a template."""
    body = msgspec.json.encode(template, order="sorted")
    if collision_count is not None:
        body += str(collision_count).encode()
    number = int.from_bytes(hashlib.sha256(body).digest()[:8])
    text = ""
    for _ in range(_HASH_CHARS):
        number, index = divmod(number, len(_SAFE_CHARS))
        text += _SAFE_CHARS[index]
    return text
