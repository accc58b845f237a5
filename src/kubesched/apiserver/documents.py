"""Documents: objects as decoded JSON, whole.

Owns the few ways in which every part of the server reads and writes the metadata all kinds share.
Never interprets a kind.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]


def metadata_of(document: Document) -> dict[str, Any]:
    """Return the document's metadata, made empty where there is none."""
    metadata = document.get("metadata")
    if metadata is None:
        metadata = document["metadata"] = {}
    found: dict[str, Any] = metadata
    return found


def name_of(document: Document) -> str:
    """Return the object's name, empty if it has none."""
    return str((document.get("metadata") or {}).get("name") or "")


def namespace_of(document: Document) -> str:
    """Return the object's namespace, empty if it has none."""
    return str((document.get("metadata") or {}).get("namespace") or "")


def labels_of(document: Document) -> dict[str, str]:
    """Return the object's labels; not to be written."""
    return (document.get("metadata") or {}).get("labels") or {}


def dig(document: Any, *path: str | int) -> Any:
    """Return what stands at a path, None where the path ends early."""
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
