"""Prunes, coerces and defaults an instance by its structural schema.

Validation of values is in crd.values.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{pruning,defaulting,
objectmeta}/algorithm.go, coerce.go; customresource_handler.go unstructuredSchemaCoercer
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from kubesched.api.schema.conform import Conformed, WrongTypeError, conform_or_raise
from kubesched.api.schema.load import named_schema
from kubesched.cluster.apiserver.documents import Document, copy_of
from kubesched.cluster.apiserver.errors import invalid

Schema = dict[str, Any]
_META: Final = ("apiVersion", "kind", "metadata")


def conformer_of(group: str, kind: str, schema: Schema) -> Callable[[Document], Conformed]:
    """Return the hook with which schema.conform prunes and coerces an instance."""

    def conform(raw: Document) -> Conformed:
        document: Document = _rewritten(raw)
        problems: list[str] = []
        if "metadata" in document:
            document["metadata"], unknown = _metadata(document["metadata"], "metadata")
            problems += unknown
        body_group = str(document.get("apiVersion") or "").rpartition("/")[0]
        if body_group == group and document.get("kind") == kind:
            pruned: list[str] = []
            _prune(document, {**schema, "x-kubernetes-embedded-resource": True}, "", pruned)
            problems += sorted(pruned)
            drop_nulls(document, schema)
            problems += _coerce(document, schema, "")
        texts = [f'unknown field "{path}"' for path in problems]
        return Conformed(document, texts, is_custom=True)

    return conform


def _rewritten(value: Any) -> Any:
    """Return a copy with numbers as Go writes them: 2.0 becomes 2."""
    if isinstance(value, dict):
        return {key: _rewritten(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rewritten(part) for part in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if type(value) is int and not -(2**63) <= value < 2**63:
        return _rewritten(float(value)) if value.bit_length() < 1024 else sys.float_info.max
    return value


def _metadata(raw: Any, path: str) -> tuple[Any, list[str]]:
    """Return metadata coerced to its type, and the paths of unknown fields."""
    if not isinstance(raw, dict):
        # Go's message, with the name of the Go type.
        name = {str: "string", bool: "bool", list: "array"}.get(type(raw), "number")
        if raw is None:
            return {}, []
        raise WrongTypeError(f"json: cannot unmarshal {name} into Go value of type v1.ObjectMeta")
    found = conform_or_raise(named_schema("meta/v1.ObjectMeta"), raw)
    unknown = [text.removeprefix('unknown field "')[:-1] for text in found.problems]
    return found.document, [f"{path}.{one}" for one in unknown]


def _child(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _extra(schema: Schema) -> Schema | None:
    """Return the schema of additional properties; empty if it is `true`."""
    extra = schema.get("additionalProperties")
    if extra is None or extra is False:
        return None
    # Parity: pruning with `additionalProperties: true` has no schema below, and drops fields.
    return extra if isinstance(extra, dict) else {}


def _prune(value: Any, schema: Schema | None, path: str, found: list[str]) -> None:
    if schema is not None and schema.get("x-kubernetes-preserve-unknown-fields"):
        _skip(value, schema, path, found)
    elif isinstance(value, dict):
        _prune_object(value, schema, path, found)
    elif isinstance(value, list):
        items = None if schema is None else schema.get("items")
        for index, one in enumerate(value):
            _prune(one, items, f"{path}[{index}]", found)


def _prune_object(value: Document, schema: Schema | None, path: str, found: list[str]) -> None:
    properties: Schema = {} if schema is None else schema.get("properties") or {}
    is_resource = schema is not None and schema.get("x-kubernetes-embedded-resource")
    extra = None if schema is None else _extra(schema)
    for key in list(value):
        if is_resource and key in _META:
            continue
        if key in properties:
            _prune(value[key], properties[key], _child(path, key), found)
        elif extra is not None:
            _prune(value[key], extra or None, _child(path, key), found)
        else:
            if path or key not in _META:
                found.append(_child(path, key))
            del value[key]


def _skip(value: Any, schema: Schema | None, path: str, found: list[str]) -> None:
    """Prune below a value whose schema preserves unknown fields."""
    if schema is None:
        return
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        extra = _extra(schema)
        for key, one in value.items():
            if schema.get("x-kubernetes-embedded-resource") and key in _META:
                continue
            if key in properties:
                _prune(one, properties[key], _child(path, key), found)
            elif extra is not None:
                _prune(one, extra or None, _child(path, key), found)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _skip(one, schema.get("items"), f"{path}[{index}]", found)


def _below(schema: Schema | None, key: str) -> Schema | None:
    if schema is None:
        return None
    properties = schema.get("properties") or {}
    if key in properties:
        found: Schema = properties[key]
        return found
    return _extra(schema) or None


def prune(value: Any, schema: Schema) -> list[str]:
    """Prune unknown fields; return their paths."""
    found: list[str] = []
    _prune(value, schema, "", found)
    return found


def drop_nulls(value: Any, schema: Schema | None) -> None:
    """Drop nulls of non-nullable fields without a default."""
    # Parity: defaulting/prunenulls.go PruneNonNullableNullsWithoutDefaults, v1.36
    if isinstance(value, dict):
        for key in list(value):
            below = _below(schema, key)
            is_plain = below is not None and not below.get("nullable") and "default" not in below
            if value[key] is None and is_plain:
                del value[key]
            else:
                drop_nulls(value[key], below)
    elif isinstance(value, list):
        items = None if schema is None else schema.get("items")
        for one in value:
            drop_nulls(one, items)


def _coerce(value: Any, schema: Schema | None, path: str) -> list[str]:
    """Coerce the metadata of embedded objects; return unknown fields."""
    if schema is None:
        return []
    problems: list[str] = []
    if isinstance(value, dict):
        if path and schema.get("x-kubernetes-embedded-resource"):
            problems += _coerce_resource(value, path)
        for key in sorted(value):
            problems += _coerce(value[key], _below(schema, key), _child(path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            problems += _coerce(one, schema.get("items"), f"{path}[{index}]")
    return problems


def _coerce_resource(value: Document, path: str) -> list[str]:
    for key in ("apiVersion", "kind"):
        if key in value and not isinstance(value[key], str):
            raise WrongTypeError(str(invalid(f"{path}.{key}", value[key], "must be a string")))
    if "metadata" not in value:
        return []
    place = f"{path}.metadata"
    try:
        value["metadata"], unknown = _metadata(value["metadata"], place)
    except WrongTypeError as wrong:
        raise WrongTypeError(str(invalid(place, value["metadata"], wrong.text))) from wrong
    return unknown


def fill_defaults(value: Any, schema: Schema | None) -> None:
    """Apply defaults recursively."""
    # Parity: defaulting/algorithm.go Default, v1.36
    if not schema:
        return
    if isinstance(value, dict):
        _fill_object(value, schema)
    elif isinstance(value, list):
        items = schema.get("items")
        for index, one in enumerate(value):
            if _is_wrong_null(one, items):
                value[index] = copy_of((items or {}).get("default"))
            fill_defaults(value[index], items)


def _fill_object(value: Document, schema: Schema) -> None:
    properties = schema.get("properties") or {}
    for key, part in properties.items():
        default = part.get("default")
        if default is not None and (key not in value or _is_wrong_null(value[key], part)):
            value[key] = copy_of(default)
    extra = schema.get("additionalProperties")
    extra = extra if isinstance(extra, dict) else None
    for key in list(value):
        if key in properties:
            fill_defaults(value[key], properties[key])
        elif extra is not None:
            if _is_wrong_null(value[key], extra):
                value[key] = copy_of(extra.get("default"))
            fill_defaults(value[key], extra)


def _is_wrong_null(value: Any, schema: Schema | None) -> bool:
    return value is None and schema is not None and not schema.get("nullable")
