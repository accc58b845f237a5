"""Decodes protobuf request bodies, by the field numbers of the schemas.

Never encodes: clients that send protobuf also accept JSON.
Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go,
the generated.proto files of staging/src/k8s.io/api
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from kubesched.api.schema.load import named_schema, schema_for
from kubesched.api.schema.types import ListOf, MapOf, Scalar, ScalarKind, Struct, Type
from kubesched.cluster.apiserver.documents import Document

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DEPTH_MAX: Final = 100


class NotProtobufError(Exception):
    """A body that is no protobuf object or has an unknown kind; the message says why."""


def decode_protobuf(data: bytes) -> Document:
    """Return the document in a protobuf body.

    Raises:
        NotProtobufError: The body is invalid.
    """
    if not data.startswith(_MAGIC):
        raise NotProtobufError("provided data does not appear to be a protobuf message")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(data[len(_MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            names = {key: part.decode() for key, part in _fields(value) if isinstance(part, bytes)}
            api_version, kind = names.get(1, ""), names.get(2, "")
        elif number == 2 and isinstance(value, bytes):
            raw = value
    group, _, version = api_version.rpartition("/")
    schema = schema_for(group, version, kind) or schema_for("", "v1", kind)
    if schema is None:
        raise NotProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    try:
        document = _message(schema, raw, 0)
    except (ValueError, TypeError, struct.error, RecursionError) as problem:
        raise NotProtobufError(f"{kind} is malformed: {problem}") from problem
    return {"apiVersion": api_version, "kind": kind, **document}


# -- the wire ---------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        value: int | bytes
        if kind == _VARINT:
            value, position = _varint(data, position)
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
            value, position = data[position : position + size], position + size
        elif kind == _BYTES:
            size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
        else:
            raise NotProtobufError(f"wire type {kind} is not known")
        if position > len(data):
            raise NotProtobufError("unexpected EOF")
        yield number, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise NotProtobufError("unexpected EOF")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise TypeError("a number is expected")
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(value: int | bytes) -> str:
    if not isinstance(value, bytes):
        raise TypeError("a text is expected")
    return value.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()


def _parts(value: int | bytes) -> dict[int, int | bytes]:
    """Return the fields of a flat message by number; the last occurrence wins."""
    if not isinstance(value, bytes):
        raise TypeError("a message is expected")
    return dict(_fields(value))


# -- messages ---------------------------------------------------------------------------------


class _Layout:
    """The fields of a message by number; an inlined struct has its own layout."""

    def __init__(self) -> None:
        self.fields: dict[int, tuple[str, Type]] = {}
        self.inlined: dict[int, _Layout] = {}

    def add(self, numbers: tuple[int, ...], name: str, kind: Type) -> None:
        """Record the position of a field."""
        if len(numbers) == 1:
            self.fields[numbers[0]] = (name, kind)
        else:
            self.inlined.setdefault(numbers[0], _Layout()).add(numbers[1:], name, kind)


def _layout(schema: Struct) -> _Layout:
    found: _Layout | None = schema.message
    if found is None:
        found = schema.message = _Layout()
        for name, field in schema.fields.items():
            if field.numbers:
                found.add(field.numbers, name, field.type)
    return found


def _message(schema: Struct, data: bytes, depth: int) -> Document:
    document: Document = {}
    _fill(document, _layout(schema), data, depth)
    return document


def _fill(document: Document, layout: _Layout, data: bytes, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise NotProtobufError("nested too deep")
    for number, value in _fields(data):
        found = layout.fields.get(number)
        if found is None:
            below = layout.inlined.get(number)
            if below is not None and isinstance(value, bytes):
                _fill(document, below, value, depth + 1)
            continue  # A field of a newer version.
        name, kind = found
        if isinstance(kind, ListOf):
            document.setdefault(name, []).append(_value(kind.element, value, depth))
        elif isinstance(kind, MapOf):
            parts = _parts(value)
            key = _text(parts.get(1, b""))
            document.setdefault(name, {})[key] = _map_value(kind.value, parts, depth)
        else:
            document[name] = _value(kind, value, depth)


def _map_value(kind: Type, parts: dict[int, int | bytes], depth: int) -> Any:
    if 2 in parts:
        return _value(kind, parts[2], depth)
    is_number = isinstance(kind, Scalar) and kind.kind in {
        ScalarKind.BOOL, ScalarKind.INT32, ScalarKind.INT64
    }  # fmt: skip
    return _value(kind, 0 if is_number else b"", depth)


def _value(kind: Type, value: int | bytes, depth: int) -> Any:
    if isinstance(kind, Struct):
        if not isinstance(value, bytes):
            raise TypeError("a message is expected")
        return _message(kind, value, depth + 1)
    if isinstance(kind, Scalar):
        if "JSONSchemaPropsOr" in kind.go:
            return _schema_or(kind.go, value, depth)
        return _SCALARS[kind.kind](value)
    # A list or map nested in a list or map is a message with it as field 1.
    below = [part for number, part in _fields(value if isinstance(value, bytes) else b"")
             if number == 1]  # fmt: skip
    if isinstance(kind, ListOf):
        return [_value(kind.element, part, depth + 1) for part in below]
    pairs = [_parts(part) for part in below]
    return {_text(pair.get(1, b"")): _map_value(kind.value, pair, depth + 1) for pair in pairs}


def _schema_or(go: str, value: int | bytes, depth: int) -> Any:
    """Return a JSONSchemaProps, or its alternatives: a bool or a list."""
    if not isinstance(value, bytes):
        raise TypeError("a message is expected")
    schema = named_schema("apiextensions/v1.JSONSchemaProps")
    is_bool = go.endswith("OrBool")
    fields = list(_fields(value))
    for number, part in fields:
        if number == (2 if is_bool else 1) and isinstance(part, bytes):
            return _message(schema, part, depth + 1)
    if is_bool:
        return any(number == 1 and bool(part) for number, part in fields)
    if go.endswith("OrStringArray"):
        return [_text(part) for number, part in fields if number == 2]
    return [_value(schema, part, depth) for number, part in fields if number == 2]


def _float(value: int | bytes) -> float:
    if not isinstance(value, bytes):
        raise TypeError("a floating point number is expected")
    found: float = struct.unpack("<d" if len(value) == 8 else "<f", value)[0]
    return found


def _int_or_string(value: int | bytes) -> int | str:
    parts = _parts(value)
    if parts.get(1, 0) == 1:
        return _text(parts.get(3, b""))
    return _signed(parts.get(2, 0))


def _time(value: int | bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: int | bytes) -> str | None:
    moment = _moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(value: int | bytes) -> datetime.datetime | None:
    parts = _parts(value)
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if seconds == 0 and nanos == 0:
        return None
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        return start + datetime.timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ValueError(f"{seconds} s is not a time") from None


def _raw_json(value: int | bytes) -> Any:
    raw = _parts(value).get(1, b"")
    return msgspec.json.decode(raw) if isinstance(raw, bytes) and raw else None


def _base64(value: int | bytes) -> str:
    if not isinstance(value, bytes):
        raise TypeError("bytes are expected")
    return base64.b64encode(value).decode()


_SCALARS: Final[dict[ScalarKind, Callable[[int | bytes], Any]]] = {
    ScalarKind.STRING: _text,
    ScalarKind.BOOL: lambda value: bool(_signed(value)),
    ScalarKind.INT32: _signed,
    ScalarKind.INT64: _signed,
    ScalarKind.FLOAT: _float,
    ScalarKind.QUANTITY: lambda value: _text(_parts(value).get(1, b"")) or "0",
    ScalarKind.INT_OR_STRING: _int_or_string,
    ScalarKind.TIME: _time,
    ScalarKind.MICRO_TIME: _micro_time,
    ScalarKind.DURATION: lambda value: f"{_signed(_parts(value).get(1, 0))}ns",
    ScalarKind.BYTES: _base64,
    ScalarKind.ANY: _raw_json,
}
