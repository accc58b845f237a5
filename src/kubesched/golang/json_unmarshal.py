"""JSON unmarshalled into a struct by Go's rules: keys in any case, unknown keys, nulls.

Owns Go's errors for values of the wrong type. Returns a document that a strict decoder accepts,
not a struct.
Upstream: Go's encoding/json decode.go and stream.go, as pkg/scheduler/extender.go send uses them
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from kubesched.golang.json import DEPTH_MAX, go_text, json_syntax_error, json_type

_SPACE: Final = " \t\r\n"
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: Final = msgspec.json.Decoder(list[Raw])
_INT64_END: Final = 1 << 63
END_OF_FILE: Final = "EOF"
UNEXPECTED_END: Final = "unexpected EOF"


class WireError(ValueError):
    """A malformed body; the message is Go's."""

    @property
    def is_incomplete(self) -> bool:
        """Return whether the body ends too early."""
        return str(self) in (END_OF_FILE, UNEXPECTED_END)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text or a whole number."""

    go_type: str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """A list."""

    go_type: str
    elem: GoType


@dataclass(frozen=True, slots=True)
class Map:
    """A map with string keys."""

    go_type: str
    elem: GoType


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with known fields; the fields of an opaque object are not checked."""

    name: str
    go_type: str
    fields: Mapping[str, GoType]
    opaque: bool = False


GoType: TypeAlias = Scalar | Slice | Map | Struct
TEXT: Final = Scalar("string")
INT64: Final = Scalar("int64", is_number=True)


class _Decimal(float):
    """A number with a fraction or an exponent, and its literal."""

    literal: str

    @classmethod
    def read(cls, literal: str) -> _Decimal:
        decimal = cls(literal)
        decimal.literal = literal
        return decimal


def respelled(data: bytes, shape: GoType) -> bytes:
    """Return a text with the keys of its fields in their exact case; ValueError if it is malformed.

    This is the fast path for extenders that return thousands of nodes with lower-case keys, as in
    early versions of the protocol.
    """
    return msgspec.json.encode(_respelled(Raw(data), shape))


def _respelled(raw: Raw, shape: GoType) -> Any:
    if isinstance(shape, Struct) and not shape.opaque:
        by_fold = {name.casefold(): name for name in shape.fields}
        fields = ((by_fold.get(key.casefold()), item) for key, item in _FIELDS.decode(raw).items())
        return {name: _respelled(item, shape.fields[name]) for name, item in fields if name}
    if isinstance(shape, Slice) and isinstance(shape.elem, Struct) and not shape.elem.opaque:
        return [_respelled(item, shape.elem) for item in _ITEMS.decode(raw)]
    return raw


def normalized(data: bytes, shape: GoType) -> bytes:
    """Return the first value of a text in the form that a strict decoder accepts.

    Raises:
        WireError: With the text of Go's decoder.
    """
    value = _Reading().value(_first_value(data), shape)
    if value is None:
        value = [] if isinstance(shape, Slice) else {}
    return json.dumps(value, separators=(",", ":")).encode()


def _first_value(data: bytes) -> Any:
    text = data.decode("utf-8", "replace").lstrip(_SPACE)
    if not text:
        raise WireError(END_OF_FILE)
    try:
        return _DECODER.raw_decode(text)[0]
    except json.JSONDecodeError as problem:
        # Text that ends too early is detected directly; other errors need the scanner.
        if problem.pos >= len(text) or problem.msg.startswith("Unterminated string"):
            raise WireError(UNEXPECTED_END) from None
        raise WireError(_syntax_error(data)) from None
    except ValueError:
        raise WireError(_syntax_error(data)) from None
    except RecursionError:
        raise WireError("exceeded max depth") from None


def _syntax_error(data: bytes) -> str:
    """Return Go's error for a text that is not JSON, or that ends too early."""
    error = json_syntax_error(data, DEPTH_MAX)
    return error if error == json_syntax_error(data + b"\0", DEPTH_MAX) else UNEXPECTED_END


def _rejected_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(parse_float=_Decimal.read, parse_constant=_rejected_constant)


class _Reading:
    """One run of the decoder, with its position in the document."""

    def __init__(self) -> None:
        self._struct_name = ""
        self._fields: list[str] = []

    def value(self, value: Any, shape: GoType) -> Any:
        """Return the decoded value; None if it sets nothing."""
        if value is None:
            return None
        if isinstance(shape, Scalar):
            return self._scalar(value, shape)
        if isinstance(shape, Slice):
            if isinstance(value, list):
                return [_or_zero(self.value(item, shape.elem), shape) for item in value]
        elif isinstance(value, dict):
            if isinstance(shape, Map):
                pairs = (
                    (go_text(key), self.value(item, shape.elem)) for key, item in value.items()
                )
                return {key: _or_zero(item, shape) for key, item in pairs}
            return value if shape.opaque else self._struct(value, shape)
        raise self._mismatch(value, shape)

    def _struct(self, value: dict[str, Any], shape: Struct) -> dict[str, Any]:
        outer = self._struct_name, self._fields
        by_fold = {name.casefold(): name for name in shape.fields}
        fields: dict[str, Any] = {}
        for key, item in value.items():
            name = key if key in shape.fields else by_fold.get(key.casefold())
            if name is None:
                continue
            self._struct_name, self._fields = shape.name, [*outer[1], name]
            read = self.value(item, shape.fields[name])
            if read is not None:
                fields[name] = read
            elif not isinstance(shape.fields[name], Scalar):
                fields.pop(
                    name, None
                )  # A null clears an earlier value of a list or struct, but not of a scalar.
            self._struct_name, self._fields = outer
        return fields

    def _scalar(self, value: Any, shape: Scalar) -> Any:
        if shape.is_number:
            if isinstance(value, int) and not isinstance(value, bool):
                if -_INT64_END <= value < _INT64_END:
                    return value
                raise self._mismatch(value, shape, f"number {value}")
            if isinstance(value, _Decimal):
                raise self._mismatch(value, shape, f"number {value.literal}")
        elif isinstance(value, str):
            return go_text(value)
        raise self._mismatch(value, shape)

    def _mismatch(self, value: Any, shape: GoType, kind: str = "") -> WireError:
        where = "Go value"
        if self._struct_name:
            where = f"Go struct field {self._struct_name}.{'.'.join(self._fields)}"
        kind = kind or json_type(value)
        return WireError(f"json: cannot unmarshal {kind} into {where} of type {shape.go_type}")


def _or_zero(value: Any, holder: Slice | Map) -> Any:
    """Return a value, or Go's zero value for a null in a list or map."""
    if value is not None or "*" in holder.go_type:
        return value
    if isinstance(holder.elem, Scalar):
        return 0 if holder.elem.is_number else ""
    return {}
