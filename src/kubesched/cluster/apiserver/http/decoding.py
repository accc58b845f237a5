"""Decodes request bodies to documents.

Media types, duplicate fields, nesting limits, and Go's messages for invalid JSON or YAML.
Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/{json,meta}.go,
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,rest}.go
"""

from __future__ import annotations

import json
import logging
import re
import sys
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import msgspec

from kubesched.api.schema.conform import WrongTypeError, conform_or_raise
from kubesched.api.schema.load import schema_for
from kubesched.cluster.apiserver.documents import Document, dig
from kubesched.cluster.apiserver.errors import (
    ApiError,
    bad_request,
    invalid,
    invalid_object,
    unsupported_media_type,
)
from kubesched.cluster.apiserver.http import protobuf
from kubesched.golang.json import json_syntax_error
from kubesched.golang.strconv import go_quote
from kubesched.golang.yaml import YamlError, decode_yaml

MEDIA_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_log = logging.getLogger(__name__)
# Recursive functions need two frames per level, and Python allows a thousand frames.
# Differs: upstream allows 10,000 levels.
_DEPTH_MAX: Final = 300
_DIGITS_MAX: Final = 1000
_FLOAT_MAX: Final = sys.float_info.max


@dataclass(slots=True)
class Decoded:
    """A document, and the strict decoding errors of duplicate fields."""

    document: Document
    duplicates: list[str] = field(default_factory=list)


class NotJsonError(Exception):
    """Invalid JSON; the message is Go's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def decode_body(data: bytes, content_type: str, *, kind: str = "") -> Decoded:
    """Return the document in a request body; messages name the kind."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == protobuf.MEDIA_TYPE:
        return Decoded(_decode_protobuf(data))
    if media_type not in {"application/json", "application/yaml", ""}:
        raise unsupported_media_type(MEDIA_TYPES)
    try:
        if media_type == "application/yaml":
            value, duplicates = decode_yaml(data)
        else:
            value, duplicates = decode_json(data)
    except YamlError as error:
        raise unrecognized(data, kind, str(error)) from error
    except NotJsonError as error:
        why = f"couldn't get version/kind; json parse error: {error.text}"
        raise unrecognized(data, kind, why) from error
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise unrecognized(data, kind, not_an_object(value))
    _check_names(value, data, kind)
    return Decoded(value, duplicates)


def _decode_protobuf(data: bytes) -> Document:
    try:
        return protobuf.decode_protobuf(data)
    except protobuf.NotProtobufError as error:
        _log.info("protobuf refused: %s", error)
        # Differs: upstream can decode every kind, and reports decoding errors of the message.
        raise unsupported_media_type(MEDIA_TYPES[:2]) from error


def strict_problems(
    duplicates: list[str], unknown: list[str], *, is_custom: bool = False
) -> list[str]:
    """Return strict decoding errors about duplicate and unknown fields, in upstream's order."""
    if not duplicates or is_custom or duplicates[0].startswith("yaml: "):
        return duplicates + unknown
    # Fields below an unknown field are not checked.
    skipped = tuple(text.removeprefix("unknown field ")[:-1] for text in unknown)
    return unknown + [
        text
        for text in duplicates
        if not text.removeprefix("duplicate field ").startswith(skipped or ("\n",))
    ]


def unrecognized(data: bytes, kind: str, why: str) -> ApiError:
    """Return BadRequest for a body whose kind cannot be read."""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(data)})"
    )


def _summary(data: bytes) -> str:
    # Parity: rest.go summarizeData, v1.36
    if not data:
        return "<empty>"
    text = data[:30].decode("utf-8", "replace") if data[:1] == b"{" else data[:30].hex()
    return f"{text} ..." if len(data) > 30 else text


def not_an_object(value: Any) -> str:
    """Return the message for a body that is JSON but not an object."""
    names = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}
    go = (
        r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
        r'Kind string "json:\"kind,omitempty\"" }'
    )
    return (
        "couldn't get version/kind; json parse error: "
        f"json: cannot unmarshal {names[type(value)]} into Go value of type {go}"
    )


def _check_names(document: Document, data: bytes, kind: str) -> None:
    """Reject a kind or version that is not a string."""
    if problem := names_problem(document):
        raise unrecognized(data, kind, problem)


def names_problem(document: Document) -> str:
    """Return why kind and apiVersion are not valid strings; empty if they are."""
    for name in ("apiVersion", "kind"):
        value = document.get(name)
        if value is None or isinstance(value, str):
            continue
        found = {bool: "bool", dict: "object", list: "array"}.get(type(value), "number")
        why = f"json: cannot unmarshal {found} into Go struct field .{name} of type string"
        return f"couldn't get version/kind; json parse error: {why}"
    version = document.get("apiVersion") or ""
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


# Parity: staging/src/k8s.io/api/*/register.go, v1.36: versions that are no longer served, but that
# the server still recognizes in a body.
_RETIRED: Final = {
    ("apps", "v1beta1"): {"ControllerRevision", "Deployment", "StatefulSet"},
    ("apps", "v1beta2"): {
        "ControllerRevision",
        "DaemonSet",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
    },
    ("batch", "v1beta1"): {"CronJob"},
    ("discovery.k8s.io", "v1beta1"): {"EndpointSlice"},
    ("events.k8s.io", "v1beta1"): {"Event"},
    ("extensions", "v1beta1"): {
        "DaemonSet",
        "Deployment",
        "Ingress",
        "NetworkPolicy",
        "ReplicaSet",
    },
    ("networking.k8s.io", "v1beta1"): {"Ingress", "IngressClass", "IPAddress", "ServiceCIDR"},
    ("node.k8s.io", "v1beta1"): {"RuntimeClass"},
    ("policy", "v1beta1"): {"Eviction", "PodDisruptionBudget"},
    ("rbac.authorization.k8s.io", "v1beta1"): {
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    },
    ("scheduling.k8s.io", "v1beta1"): {"PriorityClass"},
}


def check_kind(document: Document, group: str, version: str, kind: str) -> None:
    """Reject a document of another kind than the path; set a missing kind."""
    body_kind = document.get("kind") or kind
    body_group, _, body_version = (document.get("apiVersion") or "").rpartition("/")
    if not body_version:
        body_group, body_version = group, version
    document["kind"] = body_kind
    document["apiVersion"] = f"{body_group}/{body_version}" if body_group else body_version
    if (body_group, body_version, body_kind) == (group, version, kind):
        return
    api_version = document["apiVersion"]
    is_retired = body_kind in _RETIRED.get((body_group, body_version), ())
    if not is_retired and schema_for(body_group, body_version, body_kind) is None:
        why = (
            f"no kind {go_quote(body_kind)} is registered for version {go_quote(api_version)} "
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    elif body_kind == kind and (is_retired or _internal(body_group) == _internal(group)):
        expected = f"{group}/{version}" if group else version
        raise bad_request(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({expected})"
        )
    elif wrong := _wrong_type(document, body_group, body_version, body_kind):
        why = wrong
    else:
        why = (
            f"converting ({body_version}.{body_kind}) to ({_internal(group)}.{kind}): "
            "unknown conversion"
        )
    raise bad_request(
        f"{body_kind} in version {go_quote(body_version)} cannot be handled as a {kind}: {why}"
    )


def check_custom_kind(document: Document, data: bytes, group: str, version: str, kind: str) -> None:
    """Reject a document that does not name the custom kind and its version."""
    body_kind = document.get("kind") or ""
    if not body_kind:
        text = data.decode("utf-8", "replace")
        raise unrecognized(data, kind, f"Object 'Kind' is missing in '{text}'")
    api_version = document.get("apiVersion") or ""
    if api_version != f"{group}/{version}":
        raise bad_request(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({group}/{version})"
        )
    if body_kind != kind:
        problem = invalid("kind", body_kind, f"must be {kind}")
        name = dig(document, "metadata", "name")
        raise invalid_object(group, body_kind, name if isinstance(name, str) else "", [problem])


def _wrong_type(document: Document, group: str, version: str, kind: str) -> str:
    """Return why a document is not of its declared kind."""
    schema = schema_for(group, version, kind)
    try:
        if schema is not None:
            conform_or_raise(schema, document)
    except WrongTypeError as error:
        return error.text
    return ""


def _internal(group: str) -> str:
    """Return the Go package of the internal types of a group."""
    return "core" if group in {"", "events.k8s.io"} else group.partition(".")[0]


def decode_json(data: bytes) -> tuple[Any, list[str]]:
    """Return a JSON value and errors about duplicate fields, or raise NotJsonError."""
    try:
        value = msgspec.json.decode(data)
        _check_depth(data)
        # Compact JSON that is as long as its canonical form has no duplicate fields.
        if len(msgspec.json.encode(value)) == len(data.rstrip()):
            return value, []
    except RecursionError as error:
        raise NotJsonError("exceeded max depth") from error
    except (ValueError, OverflowError):
        pass  # _decode_carefully decodes it or reports the error.
    return _decode_carefully(data)


def _check_depth(data: bytes) -> None:
    """Reject JSON that is nested too deeply for recursive code."""
    if data.count(b"{") + data.count(b"[") <= _DEPTH_MAX:
        return
    brackets = _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS)
    if max(accumulate(1 if char in b"{[" else -1 for char in brackets)) > _DEPTH_MAX:
        raise NotJsonError("exceeded max depth")


_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS: Final = bytes(char for char in range(256) if char not in b"[]{}")


def _decode_carefully(data: bytes) -> tuple[Any, list[str]]:
    """Decode as Go does: replace invalid UTF-8, and decode long integers as floats."""
    doubled: list[tuple[Document, str]] = []

    def collect(pairs: list[tuple[str, Any]]) -> Document:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen = set()
            for key, _ in pairs:
                if key in seen:
                    doubled.append((made, key))
                seen.add(key)
        return made

    try:
        value = json.loads(
            data.decode("utf-8", "replace"),
            object_pairs_hook=collect,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_no_constant,
        )
    except RecursionError as error:
        raise NotJsonError("exceeded max depth") from error
    except ValueError as error:
        raise NotJsonError(json_syntax_error(data) or str(error)) from error
    _check_depth(data)
    if b"\\u" in data:
        value = _without_lone_surrogates(value)
    return value, _paths_of(value, doubled) if doubled else []


def _no_constant(name: str) -> None:
    """Reject NaN and Infinity, which only Python accepts in JSON."""
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int | float:
    # Python parses no longer integers. The type of the field rejects a number that is too large.
    return int(text) if len(text) < _DIGITS_MAX else _float(text)


def _float(text: str) -> float:
    # A number beyond float64 is an error only in a numeric field, whose type rejects it
    # for its size.
    return min(max(float(text), -_FLOAT_MAX), _FLOAT_MAX)


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, list):
        for index, one in enumerate(value):
            value[index] = _without_lone_surrogates(one)
    if isinstance(value, dict):
        for key in list(value):
            value[key] = _without_lone_surrogates(value[key])
            clean = _without_lone_surrogates(key)
            if clean != key:
                value[clean] = value.pop(key)
    return value


def _paths_of(value: Any, doubled: list[tuple[Document, str]]) -> list[str]:
    """Return errors about duplicate fields, by the path of their objects."""
    paths: dict[int, str] = {}
    duplicated = {id(made) for made, _ in doubled}

    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict):
            if id(part) in duplicated:
                paths[id(part)] = f"{path}." if path else ""
            for key, inner in part.items():
                walk(inner, f"{path}.{key}" if path else key)
        elif isinstance(part, list):
            for index, inner in enumerate(part):
                walk(inner, f"{path}[{index}]")

    walk(value, "")
    # An object that is itself a duplicate is not part of the document.
    found = (paths[id(made)] + key for made, key in doubled if id(made) in paths)
    return list(dict.fromkeys(f"duplicate field {go_quote(path)}" for path in found))[:100]
