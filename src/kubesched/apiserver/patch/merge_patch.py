"""JSON merge patches (RFC 7386), as the API server applies them.

Owns the merge.
Upstream: gopkg.in/evanphx/json-patch.v4/merge.go
"""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.documents import Document, copy_of
from kubesched.apiserver.errors import bad_request
from kubesched.apiserver.patch.go_text import json_type


def apply_merge_patch(document: Document, patch: Any) -> Document:
    """Return the document with a decoded patch merged into it; the document stays as it is."""
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} into Go value "
            "of type map[string]interface {}"
        )
    return _merged_maps(document, patch)


def _merged_maps(current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the merged map, sorted as Go writes it: that decides which problem is seen first."""
    result = {key: value for key, value in current.items() if patch.get(key, "") is not None}
    for key, value in patch.items():
        if value is None:
            continue
        mine = result.get(key)
        if not isinstance(mine, dict):
            result[key] = _without_nulls(value)
        elif isinstance(value, dict):
            result[key] = _merged_maps(mine, value)
        else:
            result[key] = copy_of(value)
    return {key: result[key] for key in sorted(result)}


def _without_nulls(value: Any) -> Any:
    """Return a value without fields that are null; elements of lists stay."""
    if isinstance(value, dict):
        kept = sorted(key for key, part in value.items() if part is not None)
        return {key: _without_nulls(value[key]) for key in kept}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value
