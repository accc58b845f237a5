"""JSON patch (RFC 6902).

Missing paths, indices out of range and failed tests give the same error.
Upstream: gopkg.in/evanphx/json-patch.v4/patch.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go applyJSPatch
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.documents import Document, copy_of
from kubesched.cluster.apiserver.errors import (
    ApiError,
    bad_request,
    invalid,
    invalid_object,
    rejected,
    too_large,
)
from kubesched.golang.json import json_type

MAX_OPERATIONS: Final = 10000
_INDEX: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FIELDS: Final = ("op", "path", "from", "value")
_TEXTS: Final = ("op", "path", "from")


def apply_json_patch(document: Document, patch: Any) -> Document:
    """Return a copy of the document with a decoded patch applied."""
    operations = _operations(patch)
    root: Any = copy_of(document)
    for operation in operations:
        root = _apply(root, operation)
    _sort_touched(root, operations)
    if not isinstance(root, dict):
        detail = (
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go "
            'value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind '
            'string "json:\\"kind,omitempty\\"" }'
        )
        raise invalid_result(root, detail)
    return root


def _sort_touched(root: Any, operations: list[dict[str, Any]]) -> None:
    """Sort the maps that operations decode, as Go does when it encodes them.

    The order decides which of several errors is reported.
    """
    for operation in [{"path": ""}, *operations]:
        for pointer in (operation.get("path"), operation.get("from")):
            container = root
            for part in (pointer or "").split("/")[1:]:
                _sort(container)
                try:
                    container = _get(container, _unescaped(part))
                except ApiError:
                    break
                if not isinstance(container, dict | list):
                    break
    _sort(root)


def _sort(container: Any) -> None:
    if isinstance(container, dict):
        items = [(key, container[key]) for key in sorted(container)]
        container.clear()
        container.update(items)


def unknown_fields(patch: Any) -> list[str]:
    """Return the strict decoding errors of a valid patch."""
    return [
        f'json patch unknown field "[{index}].{name}"'
        for index, operation in enumerate(patch if isinstance(patch, list) else [])
        for name in (operation or {})
        if name not in _FIELDS
    ]


def invalid_result(patched: Any, detail: str) -> ApiError:
    """Return the error for a patched document, in Go's order, that does not decode."""
    text = msgspec.json.encode(patched).decode()
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escaped)
    return invalid_object("", "", "", [invalid("patch", text, detail)])


def _operations(patch: Any) -> list[dict[str, Any]]:
    """Check the shape of a patch; parity: handlers/patch.go jsonPatchOp."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _undecodable(patch, "value", "[]handlers.jsonPatchOp")
    for operation in patch:
        if operation is not None and not isinstance(operation, dict):
            raise _undecodable(operation, "value", "handlers.jsonPatchOp")
        for name in _TEXTS:
            value = (operation or {}).get(name)
            if value is not None and not isinstance(value, str):
                raise _undecodable(value, f"struct field jsonPatchOp.{name}", "string")
    if len(patch) > MAX_OPERATIONS:
        raise too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        )
    return [operation or {} for operation in patch]


def _undecodable(value: Any, into: str, kind: str) -> ApiError:
    return bad_request(
        f"error decoding patch: json: cannot unmarshal {json_type(value)} into Go {into} "
        f"of type {kind}"
    )


def _apply(root: Any, operation: dict[str, Any]) -> Any:
    """Return the root after an operation."""
    kind, path = operation.get("op"), operation.get("path")
    value = copy_of(operation.get("value"))
    if path is None:
        raise rejected()
    if kind == "replace" and path == "":
        if not isinstance(value, dict | list):
            raise rejected()
        return value
    if kind == "test":
        if not _equal(root if path == "" else _get(*_find(root, path)), value):
            raise rejected()
    elif kind in {"move", "copy"}:
        _transfer(root, operation.get("from"), path, moves=kind == "move")
    else:
        _write(root, kind, path, value)
    return root


def _write(root: Any, kind: str | None, path: str, value: Any) -> None:
    if kind == "add":
        _add(root, path, value)
    elif kind == "replace":
        _set(*_find(root, path), value)
    elif kind == "remove":
        _remove(*_find(root, path))
    else:
        raise rejected()


def _transfer(root: Any, source: str | None, path: str, *, moves: bool) -> None:
    if source is None:
        raise rejected()
    container, key = _find(root, source)
    value = _get(container, key)
    if moves:
        _remove(container, key)
        _add(root, path, value)
    else:
        _add(root, path, copy_of(value))


def _find(root: Any, path: str) -> tuple[Any, str]:
    """Return the container and the key of a path."""
    parts = path.split("/")
    if len(parts) < 2:
        raise rejected()
    container = root
    for part in parts[1:-1]:
        container = _get(container, _unescaped(part))
        if not isinstance(container, dict | list):
            raise rejected()
    return container, _unescaped(parts[-1])


def _unescaped(part: str) -> str:
    return re.sub("~[01]", lambda found: "/" if found[0] == "~1" else "~", part)


def _index(container: list[Any], key: str, limit: int) -> int:
    """Return an index below a limit; negative ones count from the limit."""
    if not _INDEX.fullmatch(key):
        raise rejected()
    index = int(key)
    if index >= limit or index < -limit:
        raise rejected()
    return index + limit if index < 0 else index


def _get(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(container, key, len(container))]


def _set(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container[_index(container, key, len(container))] = value


def _add(root: Any, path: str, value: Any) -> None:
    container, key = _find(root, path)
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(container, key, len(container) + 1), value)


def _remove(container: Any, key: str) -> None:
    if isinstance(container, list):
        del container[_index(container, key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise rejected()


def _equal(one: Any, other: Any) -> bool:
    """Compare as upstream does: numbers by their text."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and bool(one == other)


def apply_merge_patch(document: Document, patch: Any) -> Document:
    """Return a copy of the document with a decoded patch merged into it."""
    if patch is None:
        raise bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} into Go value "
            "of type map[string]interface {}"
        )
    return _merged_maps(document, patch)


def _merged_maps(current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the merged map, sorted as Go encodes it; the order decides which error is first."""
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
    """Return a value without null fields; null elements of lists stay."""
    if isinstance(value, dict):
        kept = sorted(key for key, part in value.items() if part is not None)
        return {key: _without_nulls(value[key]) for key in kept}
    if isinstance(value, list):
        return [_without_nulls(part) for part in value]
    return value
