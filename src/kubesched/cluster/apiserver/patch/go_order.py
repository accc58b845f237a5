"""Field order of documents, as Go writes them.

Only error messages depend on it.
Upstream: encoding/json; gopkg.in/evanphx/json-patch.v4, which sorts the containers that it decodes
"""

from __future__ import annotations

from typing import Any

from kubesched.api.schema.types import ListOf, MapOf, Struct, Type


def go_ordered(of: Type | None, value: Any, opened: Any = None) -> Any:
    """Return a value in order: fields of structs as declared, keys of maps sorted.

    Args:
        of: the type of the value; None if it is unknown.
        value: decoded JSON.
        opened: the containers that a patch decodes, as nested dicts; Go sorts them like maps.
    """
    if isinstance(value, list):
        element = of.element if isinstance(of, ListOf) else None
        return [
            go_ordered(element, item, _part(opened, str(index))) for index, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    names = sorted(value)
    if isinstance(of, Struct) and opened is None:
        place = {name: index for index, name in enumerate(of.fields)}
        names.sort(key=lambda name: place.get(name, len(place)))
    return {
        name: go_ordered(_field_type(of, name), value[name], _part(opened, name)) for name in names
    }


def _field_type(of: Type | None, name: str) -> Type | None:
    if isinstance(of, Struct):
        found = of.fields.get(name)
        return None if found is None else found.type
    return of.value if isinstance(of, MapOf) else None


def _part(opened: Any, name: str) -> Any:
    return opened.get(name) if isinstance(opened, dict) else None


def opened_by_operations(operations: Any) -> dict[str, Any]:
    """Return the containers that a JSON patch decodes: those on the path to a value."""
    opened: dict[str, Any] = {}
    for operation in operations if isinstance(operations, list) else ():
        for name in ("path", "from"):
            path = operation.get(name) if isinstance(operation, dict) else None
            if isinstance(path, str):
                _open(opened, path.split("/")[1:-1])
    return opened


def _open(opened: dict[str, Any], steps: list[str]) -> None:
    for step in steps:
        opened = opened.setdefault(step.replace("~1", "/").replace("~0", "~"), {})


def opened_by_merge(patch: Any) -> dict[str, Any]:
    """Return the containers that a merge patch decodes: every map that it merges into."""
    if not isinstance(patch, dict):
        return {}
    return {name: opened_by_merge(part) for name, part in patch.items() if isinstance(part, dict)}
