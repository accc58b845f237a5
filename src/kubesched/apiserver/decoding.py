"""Bodies of requests: bytes to a document.

Owns the media types that are read, the search for duplicate fields, what is refused because it is
nested too deep, and Go's words for what is not JSON or YAML. Never looks at what a field means.
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

from kubesched.apiserver import protobuf
from kubesched.apiserver.documents import Document, dig
from kubesched.apiserver.errors import (
    ApiError,
    bad_request,
    invalid,
    invalid_object,
    unsupported_media_type,
)
from kubesched.apiserver.json_syntax import json_syntax_error
from kubesched.apiserver.schema.conform import WrongTypeError, conform_or_raise
from kubesched.apiserver.schema.load import schema_for
from kubesched.apiserver.yaml_bodies import NotYamlError, decode_yaml
from kubesched.objects.field_errors import go_quote

MEDIA_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_log = logging.getLogger(__name__)
# What walks over a document takes two frames a level, and Python allows a thousand.
# Differs: upstream allows 10,000 levels.
_DEPTH_MAX: Final = 300
_DIGITS_MAX: Final = 1000
_FLOAT_MAX: Final = sys.float_info.max


@dataclass(slots=True)
class Decoded:
    """A document, and the texts of strict decoding about fields given twice."""

    document: Document
    duplicates: list[str] = field(default_factory=list)


class NotJsonError(Exception):
    """A text that is not JSON; the text says why in Go's words."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def decode_body(data: bytes, content_type: str, *, kind: str = "") -> Decoded:
    """Return the document in a body; the kind is only what a refusal names."""
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
    except NotYamlError as error:
        raise unrecognized(data, kind, error.text) from error
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
        # Differs: upstream reads every kind and says what is wrong with a message.
        raise unsupported_media_type(MEDIA_TYPES[:2]) from error


def strict_problems(
    duplicates: list[str], unknown: list[str], *, is_custom: bool = False
) -> list[str]:
    """Return what strict decoding says about fields given twice and unknown ones, in its order."""
    if not duplicates or is_custom or duplicates[0].startswith("yaml: "):
        return duplicates + unknown
    # What stands below an unknown field is not looked at.
    skipped = tuple(text.removeprefix("unknown field ")[:-1] for text in unknown)
    return unknown + [
        text
        for text in duplicates
        if not text.removeprefix("duplicate field ").startswith(skipped or ("\n",))
    ]


def unrecognized(data: bytes, kind: str, why: str) -> ApiError:
    """Return the BadRequest for a body of which not even the kind could be read."""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(data)})"
    )


def _summary(data: bytes) -> str:
    # Parity: rest.go summarizeData, v1.36
    if not data:
        return "<empty>"
    shown = data[:30].decode("utf-8", "replace") if data[:1] == b"{" else data[:30].hex()
    return f"{shown} ..." if len(data) > 30 else shown


def not_an_object(value: Any) -> str:
    """Return the complaint about a body that is JSON, and no object."""
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
    """Refuse a kind or version that is not even a text."""
    if problem := names_problem(document):
        raise unrecognized(data, kind, problem)


def names_problem(document: Document) -> str:
    """Return what keeps a document's kind and version from being read, empty if nothing does."""
    for name in ("apiVersion", "kind"):
        value = document.get(name)
        if value is None or isinstance(value, str):
            continue
        found = {bool: "bool", dict: "object", list: "array"}.get(type(value), "number")
        why = f"json: cannot unmarshal {found} into Go struct field .{name} of type string"
        return f"couldn't get version/kind; json parse error: {why}"
    version = document.get("apiVersion") or ""
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


# Parity: staging/src/k8s.io/api/*/register.go, v1.36: versions that are served no more, and that
# the server still knows when it reads one.
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
    """Refuse a document of another kind than the path says; fill in what it leaves out."""
    given_kind = document.get("kind") or kind
    given_group, _, given_version = (document.get("apiVersion") or "").rpartition("/")
    if not given_version:
        given_group, given_version = group, version
    document["kind"] = given_kind
    document["apiVersion"] = f"{given_group}/{given_version}" if given_group else given_version
    if (given_group, given_version, given_kind) == (group, version, kind):
        return
    api_version = document["apiVersion"]
    is_retired = given_kind in _RETIRED.get((given_group, given_version), ())
    if not is_retired and schema_for(given_group, given_version, given_kind) is None:
        why = (
            f"no kind {go_quote(given_kind)} is registered for version {go_quote(api_version)} "
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    elif given_kind == kind and (is_retired or _internal(given_group) == _internal(group)):
        expected = f"{group}/{version}" if group else version
        raise bad_request(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({expected})"
        )
    elif wrong := _wrong_type(document, given_group, given_version, given_kind):
        why = wrong
    else:
        why = (
            f"converting ({given_version}.{given_kind}) to ({_internal(group)}.{kind}): "
            "unknown conversion"
        )
    raise bad_request(
        f"{given_kind} in version {go_quote(given_version)} cannot be handled as a {kind}: {why}"
    )


def check_custom_kind(document: Document, data: bytes, group: str, version: str, kind: str) -> None:
    """Refuse a document that is not an instance of a custom kind: those must name it in full."""
    given_kind = document.get("kind") or ""
    if not given_kind:
        shown = data.decode("utf-8", "replace")
        raise unrecognized(data, kind, f"Object 'Kind' is missing in '{shown}'")
    api_version = document.get("apiVersion") or ""
    if api_version != f"{group}/{version}":
        raise bad_request(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({group}/{version})"
        )
    if given_kind != kind:
        problem = invalid("kind", given_kind, f"must be {kind}")
        name = dig(document, "metadata", "name")
        raise invalid_object(group, given_kind, name if isinstance(name, str) else "", [problem])


def _wrong_type(document: Document, group: str, version: str, kind: str) -> str:
    """Return what keeps a document from being of the kind it says it is."""
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
    """Return a JSON value, and the texts about fields given twice; NotJsonError if it is none."""
    try:
        value = msgspec.json.decode(data)
        _check_depth(data)
        # Written compactly, as most clients write, a text has no room for a field given twice.
        if len(msgspec.json.encode(value)) == len(data.rstrip()):
            return value, []
    except RecursionError as error:
        raise NotJsonError("exceeded max depth") from error
    except (ValueError, OverflowError):
        pass  # The careful way below reads it, or knows what is wrong with it.
    return _decode_carefully(data)


def _check_depth(data: bytes) -> None:
    """Refuse a text that is JSON, and nested deeper than what walks over documents can follow."""
    if data.count(b"{") + data.count(b"[") <= _DEPTH_MAX:
        return
    brackets = _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS)
    if max(accumulate(1 if char in b"{[" else -1 for char in brackets)) > _DEPTH_MAX:
        raise NotJsonError("exceeded max depth")


_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NO_BRACKETS: Final = bytes(char for char in range(256) if char not in b"[]{}")


def _decode_carefully(data: bytes) -> tuple[Any, list[str]]:
    """Decode as Go does: broken characters replaced, numbers too long become floats."""
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
    """Refuse NaN and Infinity, which only Python takes for JSON."""
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int | float:
    # Longer ones Python refuses to read. What fits nowhere is refused where a number may stand.
    return int(text) if len(text) < _DIGITS_MAX else _float(text)


def _float(text: str) -> float:
    # A number that no float holds is an error only where a number may stand, and there it is
    # refused for its size anyway.
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
    """Return the texts about fields given twice, by where their objects stand."""
    paths: dict[int, str] = {}
    wanted = {id(made) for made, _ in doubled}

    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict):
            if id(part) in wanted:
                paths[id(part)] = f"{path}." if path else ""
            for key, inner in part.items():
                walk(inner, f"{path}.{key}" if path else key)
        elif isinstance(part, list):
            for index, inner in enumerate(part):
                walk(inner, f"{path}[{index}]")

    walk(value, "")
    # An object that was given twice itself is no longer there.
    found = (paths[id(made)] + key for made, key in doubled if id(made) in paths)
    return list(dict.fromkeys(f"duplicate field {go_quote(path)}" for path in found))[:100]
