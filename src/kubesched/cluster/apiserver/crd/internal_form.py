"""A CustomResourceDefinition in upstream's internal form, as shown in its error messages.

Moves fields that all versions share to the top level, and uses Go's field names.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/conversion.go
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.documents import Document

_LIFTED: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_GO_NAMES: Final = (
    ("Name", "name", ""),
    ("Served", "served", False),
    ("Storage", "storage", False),
    ("Deprecated", "deprecated", False),
    ("DeprecationWarning", "deprecationWarning", None),
    ("Schema", "schema", None),
    ("Subresources", "subresources", None),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", None),
    ("SelectableFields", "selectableFields", None),
)

_SCHEMA_NAMES: Final[tuple[tuple[str, str, Any], ...]] = (
    ("ID", "id", ""), ("Schema", "$schema", ""), ("Ref", "$ref", None),
    ("Description", "description", ""), ("Type", "type", ""), ("Nullable", "nullable", False),
    ("Format", "format", ""), ("Title", "title", ""), ("Default", "default", None),
    ("Maximum", "maximum", None), ("ExclusiveMaximum", "exclusiveMaximum", False),
    ("Minimum", "minimum", None), ("ExclusiveMinimum", "exclusiveMinimum", False),
    ("MaxLength", "maxLength", None), ("MinLength", "minLength", None), ("Pattern", "pattern", ""),
    ("MaxItems", "maxItems", None), ("MinItems", "minItems", None),
    ("UniqueItems", "uniqueItems", False), ("MultipleOf", "multipleOf", None),
    ("Enum", "enum", None), ("MaxProperties", "maxProperties", None),
    ("MinProperties", "minProperties", None), ("Required", "required", None),
    ("Items", "items", None), ("AllOf", "allOf", None), ("OneOf", "oneOf", None),
    ("AnyOf", "anyOf", None), ("Not", "not", None), ("Properties", "properties", None),
    ("AdditionalProperties", "additionalProperties", None),
    ("PatternProperties", "patternProperties", None), ("Dependencies", "dependencies", None),
    ("AdditionalItems", "additionalItems", None), ("Definitions", "definitions", None),
    ("ExternalDocs", "externalDocs", None), ("Example", "example", None),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", None),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", False),
    ("XIntOrString", "x-kubernetes-int-or-string", False),
    ("XListMapKeys", "x-kubernetes-list-map-keys", None),
    ("XListType", "x-kubernetes-list-type", None), ("XMapType", "x-kubernetes-map-type", None),
    ("XValidations", "x-kubernetes-validations", None),
)  # fmt: skip


def to_internal(spec: Document) -> Document:
    """Return a copy of a spec with fields that all versions share at the top level."""
    versions = [dict(version) for version in spec.get("versions") or ()]
    made: Document = {**spec, "names": spec.get("names") or {}, "versions": versions}
    for name, top in _LIFTED.items():
        values = [version.get(name) for version in versions]
        is_shared = bool(values) and all(
            value not in (None, []) and value == values[0] for value in values
        )
        made[top] = values[0] if is_shared else None
        if is_shared:
            for version in versions:
                del version[name]
    return made


def internal_versions(versions: list[Document]) -> msgspec.Raw:
    """Return versions as an error prints them."""
    return _printed([_go_version(version) for version in versions])


def internal_schema(schema: Document) -> msgspec.Raw:
    """Return a schema as an error prints it."""
    return _printed(_go_schema(schema))


def _printed(value: Any) -> msgspec.Raw:
    # Go prints fields in the order of their declaration.
    return msgspec.Raw(msgspec.json.encode(value))


def _go_version(version: Document) -> dict[str, Any]:
    made = {go: version.get(name, zero) for go, name, zero in _GO_NAMES}
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if made["Schema"] is not None:
        made["Schema"] = {"OpenAPIV3Schema": None if schema is None else _go_schema(schema)}
    return made


def _go_schema(schema: Document) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for go, name, zero in _SCHEMA_NAMES:
        value = schema.get(name, zero)
        if name in {"properties", "patternProperties", "definitions"} and value:
            value = {key: _go_schema(value[key]) for key in sorted(value)}
        elif name in {"allOf", "oneOf", "anyOf"} and value:
            value = [_go_schema(part) for part in value]
        elif name == "not" and value is not None:
            value = _go_schema(value)
        elif name == "items" and isinstance(value, dict):
            value = {"Schema": _go_schema(value), "JSONSchemas": None}
        elif name in {"additionalProperties", "additionalItems"} and value is not None:
            inner = _go_schema(value) if isinstance(value, dict) else None
            value = {"Allows": value is not False, "Schema": inner}
        made[go] = value
    return made
