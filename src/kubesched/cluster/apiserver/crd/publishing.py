"""OpenAPI documents of custom resources.

Derives the paths from those of Deployments: verbs and parameters are the same.
Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder/builder.go
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from kubesched.cluster.apiserver.crd.definition import Definition, Version
from kubesched.cluster.apiserver.data import read_data
from kubesched.cluster.apiserver.documents import copy_of
from kubesched.cluster.apiserver.http.openapi import Published

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LIST_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"


def published(definition: Definition, version: Version) -> Published:
    """Return the definitions and paths of a version."""
    package = ".".join(reversed(definition.group.split(".")))
    name = f"{package}.{version.name}.{definition.kind}"
    list_name = f"{package}.{version.name}.{definition.list_kind}"
    second = {
        name: _kind_schema(definition, version, "#/definitions/", is_second=True),
        list_name: _list_schema(definition, version, f"#/definitions/{name}", "#/definitions/"),
    }
    prefix = "#/components/schemas/"
    third = {
        name: _kind_schema(definition, version, prefix, is_second=False),
        list_name: _list_schema(definition, version, f"{prefix}{name}", prefix),
    }
    return Published(
        second,
        third,
        _paths(_template_v2(), definition, version, name),
        _paths(_template_v3(), definition, version, name),
    )


def _reference(prefix: str, name: str) -> dict[str, Any]:
    target = {"$ref": f"{prefix}{name}"}
    return target if prefix == "#/definitions/" else {"allOf": [target]}


def _group_version_kind(definition: Definition, version: Version, kind: str) -> list[Any]:
    return [{"group": definition.group, "kind": kind, "version": version.name}]


def _kind_schema(
    definition: Definition, version: Version, prefix: str, *, is_second: bool
) -> dict[str, Any]:
    schema = copy_of(version.schema)
    keeps_all = schema.get("x-kubernetes-preserve-unknown-fields")
    made: dict[str, Any] = _for_v2(schema) if is_second else _for_v3(schema, prefix)
    if not (is_second and keeps_all):
        made.setdefault("properties", {})
        made["properties"] |= {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _reference(prefix, _OBJECT_META),
        }
    if is_second:
        made.pop("x-kubernetes-preserve-unknown-fields", None)
    made["type"] = "object"
    made["x-kubernetes-group-version-kind"] = _group_version_kind(
        definition, version, definition.kind
    )
    if version.selectable_fields:
        made["x-kubernetes-selectable-fields"] = [
            {"fieldPath": field["jsonPath"].removeprefix(".")}
            for field in version.selectable_fields
        ]
    return made


def _list_schema(
    definition: Definition, version: Version, item: str, prefix: str
) -> dict[str, Any]:
    return {
        "type": "object",
        "description": f"{definition.list_kind} is a list of {definition.kind}",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": item}},
            "kind": {"type": "string"},
            "metadata": _reference(prefix, _LIST_META),
        },
        "x-kubernetes-group-version-kind": _group_version_kind(
            definition, version, definition.list_kind
        ),
    }


def _for_v3(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    made = _mapped(schema, lambda part: _for_v3(part, prefix))
    if made.get("x-kubernetes-int-or-string") and "anyOf" not in made:
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if made.get("x-kubernetes-embedded-resource"):
        made["required"] = sorted({*made.get("required", ()), "kind", "apiVersion"}, reverse=True)
        made["properties"] = made.get("properties", {}) | {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _reference(prefix, _OBJECT_META),
        }
    return made


def _for_v2(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the keywords that client-side validation in old kubectl rejects."""
    # Parity: openapi/v2/conversion.go ToStructuralOpenAPIV2, v1.36
    made = _mapped(schema, _for_v2)
    for name in ("default", "allOf", "anyOf", "oneOf", "not"):
        made.pop(name, None)
    if made.get("nullable") or made.get("x-kubernetes-preserve-unknown-fields"):
        for name in ("type", "items", "properties", "nullable"):
            made.pop(name, None)
        if "x-kubernetes-preserve-unknown-fields" in made:
            made.pop("required", None)
    if made.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def _mapped(schema: dict[str, Any], convert: Any) -> dict[str, Any]:
    made = {key: value for key, value in schema.items() if key != "x-kubernetes-validations"}
    if "properties" in made:
        made["properties"] = {name: convert(part) for name, part in made["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = convert(made[key])
    return made


def _paths(
    template: dict[str, Any], definition: Definition, version: Version, name: str
) -> dict[str, Any]:
    """Return the template with the names of the custom kind."""
    text = msgspec.json.encode(template).decode()
    words = "".join(part[:1].upper() + part[1:] for part in definition.group.split("."))
    tag = words[:1].lower() + words[1:]
    upper_version = version.name[:1].upper() + version.name[1:]
    group_version = {"group": definition.group, "kind": definition.kind, "version": version.name}
    for old, new in (
        ("io.k8s.api.apps.v1.Deployment", name),
        ("/apis/apps/v1/", f"/apis/{definition.group}/{version.name}/"),
        ("AppsV1", f"{words}{upper_version}"),
        ("apps_v1", f"{tag}_{version.name}"),
        (
            '{"group":"apps","kind":"Deployment","version":"v1"}',
            msgspec.json.encode(group_version).decode(),
        ),
        ("deployments", definition.plural),
        ("Deployment", definition.kind),
    ):
        text = text.replace(old, new)
    if definition.scope == "Cluster":
        text = text.replace("Namespaced", "")
    made: dict[str, Any] = msgspec.json.decode(text)
    return {
        path: operations
        for path, operations in _scoped(made, definition.scope).items()
        if not (path.endswith("/{name}/scale") and version.scale is None)
        and not (path.endswith("/{name}/status") and not version.has_status)
    }


def _scoped(paths: dict[str, Any], scope: str) -> dict[str, Any]:
    if scope == "Namespaced":
        return paths
    made = {}
    for path, operations in paths.items():
        if "/namespaces/{namespace}" not in path:
            continue
        operations["parameters"] = [
            parameter
            for parameter in operations.get("parameters", ())
            if "namespace-" not in parameter.get("$ref", "")
            and parameter.get("name") != "namespace"
        ]
        made[path.replace("/namespaces/{namespace}", "")] = operations
    return made


@lru_cache(maxsize=1)
def _template_v2() -> dict[str, Any]:
    return _template(msgspec.json.decode(read_data("openapi-v2.json.gz")))


@lru_cache(maxsize=1)
def _template_v3() -> dict[str, Any]:
    return _template(msgspec.json.decode(read_data("openapi-v3/apis__apps__v1.json.gz")))


def _template(document: dict[str, Any]) -> dict[str, Any]:
    start = "/apis/apps/v1/"
    kept = {
        path: operations
        for path, operations in document["paths"].items()
        if path.startswith(start) and "/deployments" in path and "/watch/" not in path
    }
    # Instances support neither protobuf nor strategic merge patch.
    dropped = (
        "application/vnd.kubernetes.protobuf",
        "application/strategic-merge-patch+json",
        "application/json;stream=watch",
    )
    made: dict[str, Any] = _without(kept, dropped)
    listing = made[f"{start}namespaces/{{namespace}}/deployments"]["get"]["parameters"]
    for operations in made.values():
        for operation in operations.values():
            if isinstance(operation, dict):
                _adapt(operation, listing)
    return made


def _adapt(operation: dict[str, Any], listing: list[Any]) -> None:
    """Replace Deployment by the custom kind in a part of the template."""
    action = operation["x-kubernetes-action"]
    operation["x-kubernetes-group-version-kind"] = {
        "group": "apps",
        "kind": "Deployment",
        "version": "v1",
    }
    content = operation.get("requestBody", {}).get("content", {})
    if "*/*" in content:
        schema = content.pop("*/*")
        content |= {"application/json": schema, "application/yaml": schema}
    if operation.get("consumes") == ["*/*"]:
        operation["consumes"] = ["application/json", "application/yaml"]
    if action == "patch":
        operation["responses"].pop("201", None)
    elif action == "get":
        name, reference = "resourceVersion", "#/parameters/resourceVersion-"
        operation["parameters"] = [
            parameter
            for parameter in listing
            if parameter.get("name") == name or parameter.get("$ref", "").startswith(reference)
        ]
    elif action == "deletecollection":
        operation["parameters"] = listing
        operation.pop("requestBody", None)


def _without(value: Any, dropped: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [
            _without(part, dropped)
            for part in value
            if not (isinstance(part, str) and part.startswith(dropped))
        ]
    if not isinstance(value, dict):
        return value
    return {
        key: _without(part, dropped) for key, part in value.items() if not key.startswith(dropped)
    }
