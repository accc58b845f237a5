"""Translates the OpenAPI schema of a custom resource to `api.schema` types, for patches.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/typeconverter.go,
k8s.io/kube-openapi pkg/schemaconv
"""

from __future__ import annotations

from typing import Any

from kubesched.api.schema.load import named_schema
from kubesched.api.schema.types import (
    Field,
    ListOf,
    MapOf,
    Scalar,
    ScalarKind,
    Struct,
    Type,
)
from kubesched.cluster.apiserver.crd.structure import conformer_of

Schema = dict[str, Any]
_ANY = Scalar(ScalarKind.ANY)
_STRING = Scalar(ScalarKind.STRING, "string")
_SCALARS = {
    "string": ScalarKind.STRING,
    "boolean": ScalarKind.BOOL,
    "integer": ScalarKind.INT64,
    "number": ScalarKind.FLOAT,
}


def struct_of(group: str, kind: str, schema: Schema) -> Struct:
    """Return the type of a custom kind, which prunes and coerces its instances."""
    made = Struct(kind, conformer=conformer_of(group, kind, schema), go=kind)
    root = _object(schema, kind)
    fields = dict(root.fields) if isinstance(root, Struct) else {}
    fields |= _resource_fields()
    made.fields = fields
    made.keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return made


def _resource_fields() -> dict[str, Field]:
    return {
        "apiVersion": Field(_STRING),
        "kind": Field(_STRING),
        "metadata": Field(named_schema("meta/v1.ObjectMeta")),
    }


def _type(schema: Schema, name: str) -> Type:
    if schema.get("x-kubernetes-int-or-string"):
        return Scalar(ScalarKind.INT_OR_STRING)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema, name)
    if kind == "object":
        return _object(schema, name)
    if kind in _SCALARS:
        return Scalar(_SCALARS[kind], kind)
    return _ANY


def _object(schema: Schema, name: str) -> Type:
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    properties = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    is_resource = bool(schema.get("x-kubernetes-embedded-resource"))
    if not properties and not is_resource:
        if isinstance(extra, dict):
            return MapOf(_type(extra, name), is_atomic=is_atomic)
        if not is_atomic and extra and not keeps_unknown:
            return MapOf(_ANY)
    # Absent fields stay absent, as if every field were a pointer.
    fields = {key: Field(_type(part, key), is_pointer=True) for key, part in properties.items()}
    if is_resource:
        fields |= _resource_fields()
    return Struct(
        name,
        fields,
        is_atomic=is_atomic,
        embeds_resource=is_resource,
        keeps_unknown=keeps_unknown,
    )


def _list(schema: Schema, name: str) -> ListOf:
    items = schema.get("items") or {}
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    properties = items.get("properties") or {}
    return ListOf(
        _type(items, name),
        list_type=schema.get("x-kubernetes-list-type") or "atomic",
        keys=keys,
        key_defaults={
            key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})
        },
    )
