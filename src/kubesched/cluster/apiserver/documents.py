"""Documents: objects as decoded JSON.

Accessors for the metadata that all kinds share.
"""

from __future__ import annotations

from typing import Any

from kubesched.api.documents import Document, labels_of, name_of, namespace_of

__all__ = ["Document", "copy_of", "dig", "labels_of", "metadata_of", "name_of", "namespace_of"]


def metadata_of(document: Document) -> dict[str, Any]:
    """Return the document's metadata; create it if it is missing."""
    metadata = document.get("metadata")
    if metadata is None:
        metadata = document["metadata"] = {}
    found: dict[str, Any] = metadata
    return found


def dig(document: Any, *path: str | int) -> Any:
    """Return the value at a path, or None."""
    value = document
    for step in path:
        if isinstance(step, int):
            if not isinstance(value, list) or len(value) <= step:
                return None
            value = value[step]
        else:
            if not isinstance(value, dict):
                return None
            value = value.get(step)
    return value


def copy_of(value: Any) -> Any:
    """Return a deep copy of decoded JSON."""
    if isinstance(value, dict):
        return {key: copy_of(part) for key, part in value.items()}
    if isinstance(value, list):
        return [copy_of(part) for part in value]
    return value
