"""Custom kinds: invalid definitions, and a session with a valid one.

Owns the documents and requests; record.py records a real server's responses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
OLD_WIDGETS = "/apis/example.com/v1beta1/namespaces/default/widgets"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
KEEP = {"x-kubernetes-preserve-unknown-fields": True}


def a_definition(
    versions: list[Document] | None = None,
    *,
    schema: Document | None = None,
    spec: Document | None = None,
    name: str = "",
    names: Document | None = None,
) -> Document:
    """Return a definition of gadgets."""
    if schema is None:
        schema = {"type": "object", "properties": {"spec": {"type": "object", **KEEP}}}
    if versions is None:
        versions = [a_version("v1", storage=True, schema={"openAPIV3Schema": schema})]
    names = {"plural": "gadgets", "kind": "Gadget", **(names or {})}
    whole = {
        "group": "ex.io", "scope": "Namespaced", "names": names, "versions": versions,
        **(spec or {}),
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name or f"{names['plural']}.{whole['group']}"},
        "spec": whole,
    }


def a_version(name: str, **more: Any) -> Document:
    """Return a version that is served and not stored."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {"name": name, "served": True, "storage": False, "schema": schema, **more}


def with_spec(**schema: Any) -> Document:
    """Return a definition whose spec has this schema."""
    return a_definition(schema={"type": "object", "properties": {"spec": schema}})


def with_field(**schema: Any) -> Document:
    """Return a definition whose spec has a field with this schema."""
    return with_spec(type="object", properties={"a": schema})


def with_root(**schema: Any) -> Document:
    """Return a definition with this schema at the root."""
    return a_definition(schema=schema)


def stored(**more: Any) -> Document:
    """Return a definition with one version, which has more than a schema."""
    return a_definition([a_version("v1", storage=True, **more)])


def wrong() -> Iterator[Document]:
    """Yield definitions, nearly all of them wrong."""
    yield from _wrong_names()
    yield from _wrong_versions()
    yield from _wrong_schemas()
    yield from _wrong_extensions()


def _wrong_names() -> Iterator[Document]:
    yield a_definition()
    yield a_definition(name="foo")
    for group in ("foo", "A_b.c", "", "foo.k8s.io"):
        yield a_definition(spec={"group": group})
    for scope in ("x", ""):
        yield a_definition(spec={"scope": scope})
    yield a_definition(names={"plural": "Gad_gets"}, name="x.ex.io")
    wrong_names: list[Document] = [
        {"kind": "9x"}, {"kind": ""}, {"singular": "A"}, {"shortNames": ["A", "b c"]},
        {"categories": ["A"]}, {"listKind": "Gadget"},
    ]  # fmt: skip
    for names in wrong_names:
        yield a_definition(names=names)
    yield a_definition(spec={"preserveUnknownFields": True})
    for conversion in (
        {"strategy": "x"},
        {"strategy": "Webhook"},
        {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
    ):
        yield a_definition(spec={"conversion": conversion})


def _wrong_versions() -> Iterator[Document]:
    first = a_version("v1", storage=True)
    yield a_definition([])
    yield a_definition([a_version("v1")])
    yield a_definition([first, first])
    yield a_definition([first, a_version("V2")])
    yield stored(schema=None)
    yield stored(deprecationWarning="x")
    yield stored(deprecated=True, deprecationWarning="")
    other = {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}
    yield a_definition([first, a_version("v2", schema=other)])
    columns = [
        {"name": "", "type": "x", "jsonPath": "a", "format": "y"},
        {"name": "a", "type": "", "jsonPath": ""},
    ]
    yield stored(additionalPrinterColumns=columns)
    for paths in (("a", ".spec.a", ".x"), ("", "", "")):
        keys = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
        scale = {key: path for key, path in zip(keys, paths, strict=True) if path or paths[0]}
        yield stored(subresources={"scale": scale})
    bounded = {"openAPIV3Schema": {"type": "object", "maxProperties": 3}}
    yield stored(subresources={"status": {}}, schema=bounded)
    fields = [".spec.x", "spec", "", ".metadata.name"]
    yield stored(selectableFields=[{"jsonPath": path} for path in fields])


def _wrong_schemas() -> Iterator[Document]:
    text = {"type": "string"}
    yield with_root()
    yield with_root(type="string")
    yield with_root(properties={"a": {}})
    yield with_root(type="object", nullable=True)
    yield with_root(type="object", additionalProperties=True)
    yield with_spec()
    yield with_spec(type="foo")
    yield with_spec(type="array")
    yield with_spec(type="array", items={})
    yield with_field(type="null")
    yield with_spec(type="object", properties={"a": text}, additionalProperties=text)
    yield with_spec(type="object", anyOf=[{"required": ["a"]}, {"properties": {"b": text}}])
    nested = {"description": "x", "properties": {"a": {"minLength": 1, "default": "x"}}}
    yield with_spec(type="object", properties={"a": text}, allOf=[nested])
    for pattern in ("(", "[a", "*"):
        yield with_field(type="string", pattern=pattern)
    yield with_spec(type="object", **{"$ref": "x"})
    yield with_spec(type="object", uniqueItems=True)
    yield with_spec(type="object", definitions={"a": text})
    yield with_field(type="integer", default="x")
    integer = {"a": {"type": "integer"}}
    yield with_spec(type="object", default={"b": 1}, properties=integer)
    yield with_spec(type="object", default={"a": "1"}, properties=integer)
    yield with_spec(type="string", format="foo-bar")
    yield with_spec(type="integer", format="int32")
    labels = {"type": "object", "properties": {"labels": {"type": "object"}}}
    for properties in (
        {"metadata": labels},
        {"metadata": text},
        {"kind": {"type": "integer"}, "apiVersion": {"type": "string", "default": "x"}},
        {"metadata": {"type": "object", "properties": {"name": {**text, "maxLength": 3}}}},
    ):
        yield with_root(type="object", properties=properties)


def _wrong_extensions() -> Iterator[Document]:
    list_type, map_type = "x-kubernetes-list-type", "x-kubernetes-map-type"
    keys, either = "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string"
    embedded = "x-kubernetes-embedded-resource"
    for kind in ("set", "map"):
        yield with_spec(type="array", items={"type": "object"}, **{list_type: kind})
    items = {"type": "object", "properties": {"a": {"type": "string"}}}
    yield with_spec(type="array", items=items, **{list_type: "map", keys: ["a", "b", "a"]})
    yield with_spec(type="array", items={"type": "string"}, **{list_type: "foo"})
    yield with_spec(type="string", **{list_type: "atomic", keys: ["a"]})
    optional = {"type": "string", "nullable": True}
    yield with_field(type="array", items=optional, **{list_type: "set"})
    yield with_spec(type="object", **{map_type: "foo"})
    yield with_spec(type="string", **{map_type: "atomic"})
    yield with_spec(**{either: True}, **KEEP)
    yield with_spec(**{either: True, "type": "string"})
    both = [{"type": "integer"}, {"type": "string"}]
    yield with_spec(**{either: True, "anyOf": both})
    yield with_spec(**{either: True, "allOf": [{"anyOf": both}, {"pattern": "a"}]})
    yield with_spec(**{embedded: True})
    yield with_spec(type="object", **{embedded: True})
    yield with_spec(type="object", **{"x-kubernetes-preserve-unknown-fields": False})


def widget_definition() -> Document:
    """Return the definition of the session: two versions, every extension, all subresources."""
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
        "items": {
            "type": "object",
            "required": ["port"],
            "properties": {
                "port": {"type": "integer"},
                "name": {"type": "string", "default": "x"},
            },
        },
    }
    two = {"a": {"type": "string"}, "b": {"type": "string"}}
    either = [{"required": ["a"]}, {"required": ["b"]}]
    inner = {"type": "object", "properties": {"x": {"type": "integer", "default": 5}}}
    spec = {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "ports": ports,
        "free": {"type": "object", "properties": {"known": {"type": "string"}}, **KEEP},
        "ios": {"x-kubernetes-int-or-string": True},
        "nul": {"type": "string", "nullable": True},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": True, **KEEP},
        "mapp": {"type": "object", "additionalProperties": {"type": "integer"}},
        "replicas": {"type": "integer"},
        "min": {"type": "number", "minimum": 1.5, "exclusiveMinimum": True, "multipleOf": 0.5},
        "str": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a"},
        "fmt": {"type": "string", "format": "date-time"},
        "ip": {"type": "string", "format": "ipv4"},
        "i32": {"type": "integer", "format": "int32"},
        "arr": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        "obj": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 2,
            "additionalProperties": {"type": "string"},
        },
        "one": {"type": "object", "properties": two, "oneOf": either},
        "anyy": {"type": "object", "properties": two, "anyOf": either},
        "no": {"type": "string", "not": {"enum": ["x"]}},
        "all": {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 3}]},
        "en": {"type": "integer", "enum": [1, 2]},
        "iosr": {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^x",
        },
        "bool": {"type": "boolean"},
        "deep": {
            "type": "object",
            "properties": {
                "d": {
                    "type": "object",
                    "default": {},
                    "properties": {"e": {"type": "string", "default": "ee"}},
                }
            },
        },
        "mapd": {"type": "object", "additionalProperties": inner},
    }
    status = {"replicas": {"type": "integer"}, "sel": {"type": "string"}}
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {"type": "object", "required": ["size"], "properties": spec},
            "status": {"type": "object", "properties": status},
        },
    }
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.sel",
    }
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    ]
    versions = [
        a_version(
            "v1",
            storage=True,
            schema={"openAPIV3Schema": schema},
            subresources={"status": {}, "scale": scale},
            additionalPrinterColumns=columns,
        ),
        a_version(
            "v1beta1", deprecated=True, schema={"openAPIV3Schema": {"type": "object", **KEEP}}
        ),
    ]
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}
    return a_definition(versions, spec={"group": "example.com"}, names=names)


def a_widget(name: str, spec: Any, **more: Any) -> Document:
    """Return an instance."""
    made = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}
    return {**made, "spec": spec, **more}


FIELDS: list[Document] = [
    {"size": 11}, {"size": 0}, {"size": 1.5}, {"size": 2.0}, {"size": "x"}, {"size": None},
    {"color": "green"}, {"color": None}, {"tags": ["a", "a", "a"]}, {"tags": [1]},
    {"ports": [{"port": 1}, {"port": 1}]}, {"ports": [{}]}, {"ports": ["x"]}, {"ios": True},
    {"ios": "x"}, {"ios": 3}, {"iosr": "y"}, {"iosr": True}, {"mapp": {"a": "b", "c": 1}},
    {"emb": {}}, {"emb": {"apiVersion": "", "kind": "9_"}},
    {"emb": {"apiVersion": "v1", "kind": 5}},
    {"emb": {"apiVersion": "a/b/c", "kind": "Pod", "metadata": {"name": "A/b"}}},
    {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}}},
    {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": "x"}},
    {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q", "foo": 1}, "x": 1}},
    {"replicas": -1}, {"replicas": "x"}, {"replicas": 2**31}, {"min": 1.5}, {"min": 1},
    {"min": 1.75}, {"str": "a"}, {"str": "bbb"}, {"str": "aaaaa"}, {"fmt": "x"},
    {"fmt": "2020-01-01T00:00:00Z"}, {"ip": "1.2.3"}, {"i32": 2**31}, {"arr": []},
    {"arr": [1, 2, 3]}, {"arr": ["a"]}, {"arr": {}}, {"obj": {}},
    {"obj": {"a": "1", "b": "2", "c": "3"}}, {"obj": {"a": 1}}, {"one": {}},
    {"one": {"a": "1", "b": "1"}}, {"one": {"a": 1}}, {"anyy": {}}, {"no": "x"}, {"all": "x"},
    {"all": "xxxx"}, {"en": 3}, {"en": "1"}, {"bool": "true"}, {"bool": 1}, {"deep": {}},
    {"deep": {"d": None}}, {"mapd": {"a": {}, "b": {"x": 1, "y": 2}, "c": None}}, {"nul": None},
    {"free": None}, {"free": {"a": None, "known": None}}, {"size": "x", "color": 5, "tags": "x"},
    {"bogus": {"a": 1}}, {"ports": [{"port": 1, "zz": {"a": 1}}]},
]  # fmt: skip
BODIES = [
    '{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"x"}}',
    '{"apiVersion":"example.com/v2","kind":"Widget"}',
    '{"kind":"Widget"}',
    '{"apiVersion":"example.com/v1"}',
    "{",
    "[]",
    "",
    (
        '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","name":"y","foo":1},'
        '"spec":{"size":1,"size":2}}'
    ),
    (
        '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","finalizers":'
        '["foo","a.b","x.y/z"]},"spec":{"size":1}}'
    ),
    '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":5}}',
    '{"apiVersion":"example.com/v1","kind":"Widget","metadata":"x"}',
    '{"apiVersion":"example.com/v1","kind":"Widget","metadata":null}',
    '{"apiVersion":"example.com/v1","kind":"Widget","spec":{"size":1}}',
]


def session() -> Iterator[Document]:
    """Yield requests in the order in which they are to be sent."""
    yield _request("POST", DEFINITIONS, widget_definition())
    yield _request("GET", f"{DEFINITIONS}/widgets.example.com")
    specs: list[Any] = [{"size": 1, **one} for one in FIELDS]
    specs += [{}, "x", None, []]
    for index, spec in enumerate(specs):
        for query in ("dryRun=All", "dryRun=All&fieldValidation=Strict"):
            yield _request("POST", f"{WIDGETS}?{query}", a_widget(f"t{index}", spec))
    for body in BODIES:
        yield _request("POST", f"{WIDGETS}?dryRun=All", body)
        yield _request("POST", f"{WIDGETS}?dryRun=All&fieldValidation=Strict", body)
    yield from _life()
    yield _request("DELETE", f"{DEFINITIONS}/widgets.example.com")
    yield _request("GET", f"{DEFINITIONS}/widgets.example.com")


def _life() -> Iterator[Document]:
    """Yield the requests of one instance's life."""
    one, scale, status = f"{WIDGETS}/a", f"{WIDGETS}/a/scale", f"{WIDGETS}/a/status"
    spec = {"size": 1, "ports": [{"port": 1}, {"port": 2}], "tags": ["x"]}
    yield _request("POST", WIDGETS, a_widget("a", spec, status={"replicas": 1}))
    yield _request("GET", scale)
    yield _request("PATCH", one, {"spec": {"size": 5, "replicas": 2}}, MERGE)
    yield _request("PATCH", one, [{"op": "replace", "path": "/spec/size", "value": 12}], JSON_PATCH)
    yield _request("PATCH", one, [{"op": "replace", "path": "/spec/size", "value": 6}], JSON_PATCH)
    changed = {"status": {"replicas": 3, "sel": "a=b", "x": 1}, "spec": {"size": 9}}
    yield _request("PATCH", status, changed, MERGE)
    yield _request("PATCH", status, {"status": {"replicas": "x"}}, MERGE)
    yield _request("PATCH", status, {"status": {"replicas": -3}}, MERGE)
    yield _request("GET", scale)
    yield _request("PATCH", scale, {"spec": {"replicas": 7}}, MERGE)
    yield _request("PATCH", scale, {"spec": {"replicas": -7}}, MERGE)
    head = "apiVersion: example.com/v1\nkind: Widget\n"
    applied = f"{head}spec: {{size: 4, ports: [{{port: 3}}], tags: [y]}}"
    yield _request("PATCH", f"{one}?fieldManager=m1", applied, APPLY)
    yield _request("PATCH", f"{one}?fieldManager=m1&force=true", applied, APPLY)
    yield _request("PATCH", f"{WIDGETS}/b?fieldManager=m1", f"{head}spec: {{size: 40}}", APPLY)
    yield _request("PATCH", f"{WIDGETS}/b?fieldManager=m1", f"{head}spec: {{size: x}}", APPLY)
    yield _request("PUT", one, a_widget("a", {"size": 1}))
    yield _request("GET", f"{OLD_WIDGETS}/a")
    old = a_widget("old", {"size": 3, "any": 1}, apiVersion="example.com/v1beta1")
    yield _request("POST", OLD_WIDGETS, old)
    for path in (f"{WIDGETS}/old", WIDGETS, f"{WIDGETS}?fieldSelector=metadata.name=a"):
        yield _request("GET", path)
    yield _request("GET", f"{WIDGETS}?fieldSelector=spec.size=4")
    yield _request("DELETE", f"{WIDGETS}/old")
    yield _request("DELETE", f"{WIDGETS}/nope")
    names = {"kind": "X", "plural": "y"}
    forbidden = {"spec": {"scope": "Cluster", "names": names, "group": "z.com"}}
    yield _request("PATCH", f"{DEFINITIONS}/widgets.example.com", forbidden, MERGE)
    more = {"spec": {"names": {"shortNames": ["w2"]}}}
    yield _request("PATCH", f"{DEFINITIONS}/widgets.example.com", more, MERGE)
    yield _request("GET", f"{DEFINITIONS}/widgets.example.com")
    other = {"plural": "others", "kind": "Widget", "shortNames": ["w2", "zz"]}
    yield _request("POST", DEFINITIONS, a_definition(spec={"group": "example.com"}, names=other))
    yield _request("GET", f"{DEFINITIONS}/others.example.com")
    yield _request("DELETE", f"{DEFINITIONS}/others.example.com")


def _request(method: str, path: str, body: Any = None, content_type: str = "") -> Document:
    made: Document = {"method": method, "path": path}
    if body is not None:
        made["body"] = body if isinstance(body, str) else json.dumps(body)
    if content_type:
        made["content_type"] = content_type
    return made
