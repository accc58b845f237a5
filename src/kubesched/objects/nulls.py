"""Go's meaning of null, and of what YAML can write that JSON cannot.

Owns the clean-up of a decoded document beside its type. Never reports what does not fit: that
stays in place for decode to find.
Upstream: sigs.k8s.io/json and sigs.k8s.io/yaml, as used by the API machinery
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from kubesched.objects.shapes import Shape


def without_nulls(value: Any, shape: Shape) -> Any:
    """Return the value with nulls gone: a field is absent, an element or entry is zero."""
    if shape.fields and isinstance(value, Mapping):
        return {
            name: without_nulls(part, shape.fields[name][1])
            for name, part in value.items()
            if part is not None and isinstance(name, str) and name in shape.fields
        }
    if shape.item is not None and shape.is_map and isinstance(value, Mapping):
        return {_key_text(key): _element(part, shape.item) for key, part in value.items()}
    if shape.item is not None and isinstance(value, list | tuple):
        return [_element(part, shape.item) for part in value]
    if shape.mark and isinstance(value, date):
        return _time_text(value)
    return value


def _element(part: Any, shape: Shape) -> Any:
    return shape.zero if part is None else without_nulls(part, shape)


def _key_text(key: Any) -> Any:
    """Return a key as JSON would hold it: YAML reads `1: a` with a number for a key."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, int | float) else key


def _time_text(value: date) -> str:
    """Return the text of a time that a YAML reader has already recognised."""
    if not isinstance(value, datetime):
        return value.isoformat()
    if value.tzinfo is None:
        return value.isoformat() + "Z"
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
