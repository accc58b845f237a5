"""Values as Go's fmt prints them, for messages that show a patch.

Owns the spelling of `%v`, `%#v` and of type names for decoded JSON.
Upstream: Go's fmt and reflect packages, as strategicpatch and structured-merge-diff use them
"""

from __future__ import annotations

from typing import Any

from kubesched.objects.field_errors import go_quote


def plain(value: Any) -> str:
    """Return `%v` of decoded JSON."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(plain(part) for part in value) + "]"
    return str(value)


def source(value: Any) -> str:
    """Return `%#v` of decoded JSON."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, dict):
        parts = ", ".join(f"{go_quote(key)}:{source(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{parts}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(source(part) for part in value)}}}"
    return str(value)


def type_name(value: Any) -> str:
    """Return the Go type that decoding JSON gives a value."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    for kind, name in (
        (str, "string"),
        (int, "int64"),
        (float, "float64"),
        (dict, "map[string]interface {}"),
    ):
        if isinstance(value, kind):
            return name
    return "[]interface {}"


def json_type(value: Any) -> str:
    """Return what Go's JSON decoder calls a value it cannot use."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((str, "string"), (dict, "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "number"
