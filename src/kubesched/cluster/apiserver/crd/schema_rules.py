"""Validates the schemas of a CustomResourceDefinition: structural schema rules.

CEL rules are not compiled.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{validation,convert}.go,
pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionOpenAPISchema
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from kubesched.cluster.apiserver.crd.embedded_resources import embedded_problems
from kubesched.cluster.apiserver.crd.internal_form import internal_schema
from kubesched.cluster.apiserver.crd.structure import prune
from kubesched.cluster.apiserver.crd.values import value_problems
from kubesched.cluster.apiserver.documents import copy_of
from kubesched.cluster.apiserver.errors import (
    Problem,
    forbidden_field,
    invalid,
    not_supported,
    required,
)

Schema = dict[str, Any]
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META: Final = ("metadata", "kind", "apiVersion")
_ALLOWED_AT_ROOT: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum",
    "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems",
    "UniqueItems", "MultipleOf", "Required", "Items", "Properties", "ExternalDocs", "Example",
    "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_NOT_NESTED: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies")


def schema_problems(schema: Schema, path: str, *, has_status: bool) -> list[Problem]:
    """Validate an openAPIV3Schema; return the errors. The path is that of its parent."""
    problems = _root_problems(schema, path) if has_status else []
    if schema.get("nullable"):
        text = "nullable cannot be true at the root"
        problems.append(forbidden_field(f"{path}.openAPIV3Schema.nullable", text))
    place = f"{path}.openAPIV3Schema"
    found = sorted(structural_problems(schema, place), key=str)
    problems += found or default_problems(schema, place)
    problems += openapi_problems(schema, place)
    return problems


def _root_problems(schema: Schema, path: str) -> list[Problem]:
    for name, value in schema.items():
        if value in (None, "", [], {}, False, 0):
            continue
        if name == "type":
            if value != "object":
                text = (
                    'only "object" is allowed as the type at the root of the schema '
                    "if the status subresource is enabled"
                )
                return [invalid(f"{path}.openAPIV3Schema.type", value, text)]
        elif _go_name(name) not in _ALLOWED_AT_ROOT:
            text = (
                f"only [{' '.join(_ALLOWED_AT_ROOT)}] fields are allowed at the root of the "
                "schema if the status subresource is enabled"
            )
            return [invalid(f"{path}.openAPIV3Schema", internal_schema(schema), text)]
    return []


def _go_name(name: str) -> str:
    plain = name.replace("x-kubernetes", "x")
    return "".join(part[:1].upper() + part[1:] for part in plain.split("-"))


def structural_problems(schema: Schema, path: str) -> list[Problem]:
    """Return why a schema is not a valid structural schema."""
    problems = _invariants(schema, "root", path)
    problems += _completeness(schema, schema, path, path)
    return problems


_EMPTY_TYPE: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def _invariants(schema: Schema, level: str, path: str) -> list[Problem]:
    kind = schema.get("type") or ""
    items, extra = schema.get("items"), schema.get("additionalProperties")
    problems: list[Problem] = []
    if kind == "array" and not isinstance(items, dict):
        problems.append(required(f"{path}.items", "must be specified"))
    if isinstance(items, dict):
        problems += _invariants(items, "item", f"{path}.items")
    for key, part in (schema.get("properties") or {}).items():
        problems += _invariants(part, "field", f"{path}.properties[{key}]")
    if extra is not None and level == "root":
        problems.append(
            forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
        )
    if isinstance(extra, dict):
        problems += _invariants(extra, "field", f"{path}.additionalProperties")
    problems += _extension_problems(schema, path)
    problems += _value_rules(schema, path, skips_any_of=schema.get("anyOf") == _INT_OR_STRING)
    problems += _type_problems(schema, level, path)
    problems += _metadata_problems(schema, level, path)
    return problems


def _extension_problems(schema: Schema, path: str) -> list[Problem]:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    names = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
    text = "must be false if x-kubernetes-int-or-string is true"
    return [invalid(f"{path}.{name}", True, text) for name in names if schema.get(name)]


def _type_problems(schema: Schema, level: str, path: str) -> list[Problem]:
    kind = schema.get("type") or ""
    is_resource = bool(schema.get("x-kubernetes-embedded-resource"))
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    problems: list[Problem] = []
    if is_resource and kind != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        place = f"{path}.type"
        problems.append(invalid(place, kind, text) if kind else required(place, text))
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not keeps:
        problems.append(required(f"{path}.type", _EMPTY_TYPE[level]))
    if is_resource and schema.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        problems.append(forbidden_field(f"{path}.additionalProperties", text))
    if level == "root" and kind and kind != "object":
        problems.append(invalid(f"{path}.type", kind, "must be object at the root"))
    if is_resource and not keeps and not schema.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        problems.append(required(f"{path}.properties", text))
    return problems


def _metadata_problems(schema: Schema, level: str, path: str) -> list[Problem]:
    properties = schema.get("properties") or {}
    checks = level == "root" or bool(schema.get("x-kubernetes-embedded-resource"))
    problems: list[Problem] = []
    for key in ("kind", "apiVersion"):
        if checks and key in properties and properties[key].get("type") != "string":
            kind = properties[key].get("type") or ""
            problems.append(invalid(f"{path}.properties[{key}].type", kind, "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return problems
    place = f"{path}.properties[metadata]"
    if checks and metadata.get("type") != "object":
        problems.append(invalid(f"{place}.type", metadata.get("type") or "", "must be object"))
    if level == "root":
        names = set(metadata.get("properties") or {})
        rest = {
            key: value
            for key, value in metadata.items()
            if key not in {"type", "default", "properties"} and value not in (None, "", [], {})
        }
        if rest or not names <= {"name", "generateName"}:
            text = (
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            )
            problems.append(forbidden_field(place, text))
    return problems


def _value_rules(schema: Schema, path: str, *, skips_any_of: bool) -> list[Problem]:
    problems: list[Problem] = []
    if not skips_any_of:
        for index, part in enumerate(schema.get("anyOf") or ()):
            problems += _nested_rules(part, f"{path}.anyOf[{index}]")
    all_of = schema.get("allOf") or ()
    for index, part in enumerate(all_of):
        skips = index == 0 and part.get("anyOf") == _INT_OR_STRING
        problems += _nested_rules(part, f"{path}.allOf[{index}]", skips_any_of=skips)
    for index, part in enumerate(schema.get("oneOf") or ()):
        problems += _nested_rules(part, f"{path}.oneOf[{index}]")
    if schema.get("not") is not None:
        problems += _nested_rules(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    if pattern and (wrong := _pattern_error(pattern)):
        text = f"must be a valid regular expression, but isn't: {wrong}"
        problems.append(invalid(f"{path}.pattern", pattern, text))
    return problems


def _pattern_error(pattern: str) -> str:
    # Differs: only the most common error has Go's message.
    try:
        re.compile(pattern.replace(r"\z", r"\Z"))
    except re.error as error:
        if "unterminated subpattern" in str(error):
            return f"error parsing regexp: missing closing ): `{pattern}`"
        if "unterminated character set" in str(error):
            return f"error parsing regexp: missing closing ]: `{pattern[error.pos or 0 :]}`"
        if "nothing to repeat" in str(error):
            operator = pattern[error.pos or 0 : (error.pos or 0) + 1]
            return f"error parsing regexp: missing argument to repetition operator: `{operator}`"
        if "[[:" in pattern or r"\p" in pattern:
            return ""
        return f"error parsing regexp: {error}"
    return ""


def _nested_rules(schema: Schema, path: str, *, skips_any_of: bool = False) -> list[Problem]:
    problems = _value_rules(schema, path, skips_any_of=skips_any_of)
    if isinstance(schema.get("items"), dict):
        problems += _nested_rules(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for key, part in properties.items():
        problems += _nested_rules(part, f"{path}.properties[{key}]")
    problems += [
        forbidden_field(f"{path}.{name}", text)
        for name, text in _NOT_NESTED.items()
        if schema.get(name) not in (None, "", [], {}, False)
    ]
    if "metadata" in properties:
        text = "must not be specified in a nested context"
        problems.append(forbidden_field(f"{path}.properties[metadata]", text))
    return problems


def _completeness(
    nested: Schema, schema: Schema | None, place: str, nested_place: str
) -> list[Problem]:
    """Return fields that only allOf, anyOf, oneOf or not mention."""
    problems: list[Problem] = []
    parts = [("not", nested["not"])] if nested.get("not") is not None else []
    for name in ("allOf", "anyOf", "oneOf"):
        parts += [(f"{name}[{index}]", one) for index, one in enumerate(nested.get(name) or ())]
    for name, part in parts:
        problems += _nested_completeness(part, schema, place, f"{nested_place}.{name}")
    return problems


def _nested_completeness(
    nested: Schema, schema: Schema | None, place: str, nested_place: str
) -> list[Problem]:
    if schema is None:
        return [required(place, f"because it is defined in {nested_place}")]
    problems = _completeness(nested, schema, place, nested_place)
    if isinstance(nested.get("items"), dict):
        items = schema.get("items")
        items = items if isinstance(items, dict) else None
        problems += _nested_completeness(
            nested["items"], items, f"{place}.items", f"{nested_place}.items"
        )
    properties = schema.get("properties") or {}
    for key, part in (nested.get("properties") or {}).items():
        below, nested_below = f"{place}.properties[{key}]", f"{nested_place}.properties[{key}]"
        if key in properties:
            problems += _nested_completeness(part, properties[key], below, nested_below)
        else:
            problems.append(required(below, f"because it is defined in {nested_below}"))
    return problems


def default_problems(schema: Schema, path: str) -> list[Problem]:
    """Return the errors of defaults that are not valid against their schema."""
    # Parity: schema/defaulting/validation.go ValidateDefaults, v1.36
    problems: list[Problem] = []
    default = schema.get("default")
    if default is not None:
        place = f"{path}.default"
        pruned = copy_of(default)
        prune(pruned, schema)
        if pruned != default:
            problems.append(invalid(place, default, "must not have unknown fields"))
        found = [
            Problem(
                problem.type, problem.path.replace("x", place, 1), problem.value, problem.detail
            )
            for problem in embedded_problems({"x": default}, {"properties": {"x": schema}})
        ]
        problems += found or value_problems(default, schema, root=place)
    for key, part in (schema.get("properties") or {}).items():
        problems += default_problems(part, f"{path}.properties[{key}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            problems += default_problems(schema[key], f"{path}.{key}")
    return problems


@dataclass(frozen=True, slots=True)
class _Place:
    """The context of a schema within the root schema."""

    is_root: bool = True
    is_in_metadata: bool = False
    no_defaults: str | None = None
    """Why a default is forbidden here, or None."""


def openapi_problems(schema: Schema, path: str, at: _Place | None = None) -> list[Problem]:
    """Return the errors of unsupported and contradictory fields."""
    at = at or _Place()
    problems = _standard_problems(schema, path, at)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        problems.append(forbidden_field(f"{path}.uniqueItems", text))
    below = replace(at, is_root=False)
    problems += _extra_problems(schema, path, below)
    problems += _property_problems(schema, path, at)
    if schema.get("not") is not None:
        problems += openapi_problems(schema["not"], f"{path}.not", below)
    for name in ("allOf", "oneOf", "anyOf"):
        for index, part in enumerate(schema.get(name) or ()):
            problems += openapi_problems(part, f"{path}.{name}[{index}]", below)
    if isinstance(schema.get("items"), dict):
        problems += openapi_problems(schema["items"], f"{path}.items", below)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        place = f"{path}.x-kubernetes-preserve-unknown-fields"
        problems.append(invalid(place, False, "must be true or undefined"))
    problems += _map_type_problems(schema, path)
    problems += _list_type_problems(schema, path)
    problems += _rule_problems(schema, path)
    return problems


def _standard_problems(schema: Schema, path: str, at: _Place) -> list[Problem]:
    kind = schema.get("type") or ""
    problems: list[Problem] = []
    if kind and kind not in _TYPES:
        problems.append(not_supported(f"{path}.type", kind, _TYPES))
    if schema.get("default") is not None and at.no_defaults is not None:
        problems.append(forbidden_field(f"{path}.default", f"must not be set {at.no_defaults}"))
    problems += [
        forbidden_field(f"{path}.{name}", f"{name} is not supported")
        for name in _UNSUPPORTED
        if schema.get(name) not in (None, "", {})
    ]
    if schema.get("$ref") is not None:
        problems.append(forbidden_field(f"{path}.$ref", "$ref is not supported"))
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        problems.append(forbidden_field(f"{path}.type", text))
    if isinstance(schema.get("items"), list) and schema["items"]:
        text = "items must be a schema object and not an array"
        problems.append(forbidden_field(f"{path}.items", text))
    if at.is_in_metadata and schema.get("x-kubernetes-embedded-resource"):
        text = "must not be used inside of resource meta"
        problems.append(forbidden_field(f"{path}.x-kubernetes-embedded-resource", text))
    return problems


def _extra_problems(schema: Schema, path: str, below: _Place) -> list[Problem]:
    extra = schema.get("additionalProperties")
    problems: list[Problem] = []
    if extra is not None and schema.get("properties") and extra is not True:
        text = "additionalProperties and properties are mutual exclusive"
        problems.append(forbidden_field(f"{path}.additionalProperties", text))
    if isinstance(extra, dict):
        if below.is_in_metadata:
            text = "inside additionalProperties applying to object metadata"
            below = replace(below, no_defaults=text)
        problems += openapi_problems(extra, f"{path}.additionalProperties", below)
    return problems


def _property_problems(schema: Schema, path: str, at: _Place) -> list[Problem]:
    problems: list[Problem] = []
    is_resource = at.is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    for key, part in (schema.get("properties") or {}).items():
        below = replace(at, is_root=False)
        if is_resource and key in _META:
            below = replace(below, is_in_metadata=True)
            if at.is_root:
                below = replace(below, no_defaults=f"in top-level {key}")
        problems += openapi_problems(part, f"{path}.properties[{key}]", below)
    return problems


def _map_type_problems(schema: Schema, path: str) -> list[Problem]:
    map_type, kind = schema.get("x-kubernetes-map-type"), schema.get("type") or ""
    if map_type is None:
        return []
    problems: list[Problem] = []
    if kind != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        place = f"{path}.type"
        problems.append(invalid(place, kind, text) if kind else required(place, text))
    if map_type not in {"atomic", "granular"}:
        place = f"{path}.x-kubernetes-map-type"
        problems.append(not_supported(place, map_type, ("atomic", "granular")))
    return problems


def _list_type_problems(schema: Schema, path: str) -> list[Problem]:
    list_type, kind = schema.get("x-kubernetes-list-type"), schema.get("type") or ""
    keys = schema.get("x-kubernetes-list-map-keys") or []
    problems: list[Problem] = []
    if list_type is not None and kind != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        place = f"{path}.type"
        problems.append(invalid(place, kind, text) if kind else required(place, text))
    elif list_type == "set":
        problems += _set_problems(schema, path)
    if list_type not in {None, "atomic", "set", "map"}:
        place = f"{path}.x-kubernetes-list-type"
        problems.append(not_supported(place, list_type, ("atomic", "set", "map")))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{path}.x-kubernetes-list-type"
        problems.append(
            required(place, text) if list_type is None else invalid(place, list_type, text)
        )
    if list_type == "map":
        problems += _map_list_problems(schema, path, keys)
    return problems + _key_problems(schema, path)


def _set_problems(schema: Schema, path: str) -> list[Problem]:
    items = schema.get("items")
    if not isinstance(items, dict):
        return []
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner_list, inner_map = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and inner_list not in {None, "atomic"}:
        return [invalid(f"{path}.items.x-kubernetes-list-type", inner_list, text)]
    if items.get("type") == "object" and inner_map != "atomic":
        return [invalid(f"{path}.items.x-kubernetes-map-type", inner_list, text)]
    return []


def _map_list_problems(schema: Schema, path: str, keys: list[str]) -> list[Problem]:
    items = schema.get("items")
    problems: list[Problem] = []
    if not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        problems.append(required(f"{path}.x-kubernetes-list-map-keys", text))
    if items is None:
        text = "must have a schema if x-kubernetes-list-type is map"
        return [*problems, required(f"{path}.items", text)]
    if not isinstance(items, dict):
        text = "must only have a single schema if x-kubernetes-list-type is map"
        return [*problems, invalid(f"{path}.items", items, text)]
    kind = items.get("type") or ""
    if kind != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        return [*problems, invalid(f"{path}.items.type", kind, text)]
    place = f"{path}.x-kubernetes-list-map-keys"
    for index, key in enumerate(keys):
        part = (items.get("properties") or {}).get(key)
        if part is None:
            text = "entries must all be names of item properties"
            problems.append(invalid(place, keys, text))
        elif part.get("type") in {"array", "object"}:
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            problems.append(invalid(f"{path}.items.properties[{key}].type", kind, text))
        if key in keys[:index]:
            problems.append(invalid(place, keys, "must not contain duplicate entries"))
    return problems


def _key_problems(schema: Schema, path: str) -> list[Problem]:
    items, list_type = schema.get("items"), schema.get("x-kubernetes-list-type")
    if not isinstance(items, dict) or list_type not in {"set", "map"}:
        return []
    problems: list[Problem] = []
    if items.get("nullable"):
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        problems.append(forbidden_field(f"{path}.items.nullable", text))
    if list_type == "set":
        return problems
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        part = (items.get("properties") or {}).get(key)
        if part is None:
            continue
        place, why = (
            f"{path}.items.properties[{key}]",
            "this property is in x-kubernetes-list-map-keys",
        )
        if key not in (items.get("required") or ()) and part.get("default") is None:
            text = f"{why}, so it must have a default or be a required property"
            problems.append(required(f"{place}.default", text))
        if part.get("nullable"):
            problems.append(
                forbidden_field(f"{place}.nullable", f"{why}, so it cannot be nullable")
            )
    return problems


def _rule_problems(schema: Schema, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        place = f"{path}.x-kubernetes-validations[{index}]"
        text, message = (rule.get("rule") or "").strip(), rule.get("message") or ""
        if not text:
            problems.append(required(f"{place}.rule", "rule is not specified"))
        elif message and not message.strip():
            problems.append(invalid(f"{place}.message", message, "must be non-empty if specified"))
        elif "\n" in message.strip():
            problems.append(invalid(f"{place}.message", message, "must not contain line breaks"))
        elif "\n" in text and not message.strip():
            why = "message must be specified if rule contains line breaks"
            problems.append(required(f"{place}.message", why))
    return problems
