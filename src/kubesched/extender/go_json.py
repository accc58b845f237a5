"""JSON that only Go would take: keys in any case, unknown keys, nulls, text after the first value.

Owns Go's rules for reading a document into a struct, and what Go says of one that does not fit.
Never makes a struct: it gives back the document as a strict decoder takes it.
Upstream: Go's encoding/json decode.go and stream.go, as pkg/scheduler/extender.go send uses them
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from kubesched.config.gojson import JsonSyntaxError, parse_json

_SPACE: Final = " \t\r\n"
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: Final = msgspec.json.Decoder(list[Raw])
_INT64_END: Final = 1 << 63
END_OF_FILE: Final = "EOF"
UNEXPECTED_END: Final = "unexpected EOF"


class WireError(ValueError):
    """A body that is not what it should be; the message is Go's."""

    @property
    def is_incomplete(self) -> bool:
        """Return whether more text could make the body whole."""
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
    """Values by text."""

    go_type: str
    elem: GoType


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with known fields; of an opaque one, nothing but that it is an object matters."""

    name: str
    go_type: str
    fields: Mapping[str, GoType]
    opaque: bool = False


GoType: TypeAlias = Scalar | Slice | Map | Struct
TEXT: Final = Scalar("string")
INT64: Final = Scalar("int64", is_number=True)


class _Decimal(float):
    """A number with a fraction or an exponent, and how it was written."""

    literal: str

    @classmethod
    def read(cls, literal: str) -> _Decimal:
        made = cls(literal)
        made.literal = literal
        return made


def respelled(data: bytes, shape: GoType) -> bytes:
    """Return a text with its fields by their names, all else untouched; ValueError if it is odd.

    That is for extenders which write keys in lower case, as the protocol once did, and return
    thousands of nodes.
    """
    return msgspec.json.encode(_respelled(Raw(data), shape))


def _respelled(raw: Raw, shape: GoType) -> Any:
    if isinstance(shape, Struct) and not shape.opaque:
        by_fold = {name.casefold(): name for name in shape.fields}
        found = ((by_fold.get(key.casefold()), item) for key, item in _FIELDS.decode(raw).items())
        return {name: _respelled(item, shape.fields[name]) for name, item in found if name}
    if isinstance(shape, Slice) and isinstance(shape.elem, Struct) and not shape.elem.opaque:
        return [_respelled(item, shape.elem) for item in _ITEMS.decode(raw)]
    return raw


def normalized(data: bytes, shape: GoType) -> bytes:
    """Return the first value of a text as a strict decoder takes it, with fields by their names.

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
        # Whether a text breaks off is known at once; what else is wrong takes a closer look.
        if problem.pos >= len(text) or problem.msg.startswith("Unterminated string"):
            raise WireError(UNEXPECTED_END) from None
        raise WireError(_syntax_error(data)) from None
    except ValueError:
        raise WireError(_syntax_error(data)) from None
    except RecursionError:
        raise WireError("exceeded max depth") from None


def _syntax_error(data: bytes) -> str:
    """Return what Go says of a text that is not JSON; more could follow one that breaks off."""
    said = _said_of(data)
    return said if said == _said_of(data + b"\0") else UNEXPECTED_END


def _said_of(data: bytes) -> str:
    try:
        parse_json(data)
    except JsonSyntaxError as problem:
        return str(problem)
    return ""


def _refused_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(parse_float=_Decimal.read, parse_constant=_refused_constant)


class _Reading:
    """One document on its way into a struct: where it is."""

    def __init__(self) -> None:
        self._struct_name = ""
        self._fields: list[str] = []

    def value(self, value: Any, shape: GoType) -> Any:
        """Return what a value sets; None for nothing."""
        if value is None:
            return None
        if isinstance(shape, Scalar):
            return self._scalar(value, shape)
        if isinstance(shape, Slice):
            if isinstance(value, list):
                return [_or_zero(self.value(item, shape.elem), shape) for item in value]
        elif isinstance(value, dict):
            if isinstance(shape, Map):
                pairs = ((_text(key), self.value(item, shape.elem)) for key, item in value.items())
                return {key: _or_zero(item, shape) for key, item in pairs}
            return value if shape.opaque else self._struct(value, shape)
        raise self._mismatch(value, shape)

    def _struct(self, value: dict[str, Any], shape: Struct) -> dict[str, Any]:
        outer = self._struct_name, self._fields
        by_fold = {name.casefold(): name for name in shape.fields}
        found: dict[str, Any] = {}
        for key, item in value.items():
            name = key if key in shape.fields else by_fold.get(key.casefold())
            if name is None:
                continue
            self._struct_name, self._fields = shape.name, [*outer[1], name]
            read = self.value(item, shape.fields[name])
            if read is not None:
                found[name] = read
            elif not isinstance(shape.fields[name], Scalar):
                found.pop(name, None)  # A null empties what was set before; a text it leaves alone.
            self._struct_name, self._fields = outer
        return found

    def _scalar(self, value: Any, shape: Scalar) -> Any:
        if shape.is_number:
            if isinstance(value, int) and not isinstance(value, bool):
                if -_INT64_END <= value < _INT64_END:
                    return value
                raise self._mismatch(value, shape, f"number {value}")
            if isinstance(value, _Decimal):
                raise self._mismatch(value, shape, f"number {value.literal}")
        elif isinstance(value, str):
            return _text(value)
        raise self._mismatch(value, shape)

    def _mismatch(self, value: Any, shape: GoType, what: str = "") -> WireError:
        where = "Go value"
        if self._struct_name:
            where = f"Go struct field {self._struct_name}.{'.'.join(self._fields)}"
        what = what or _what(value)
        return WireError(f"json: cannot unmarshal {what} into {where} of type {shape.go_type}")


def _or_zero(value: Any, holder: Slice | Map) -> Any:
    """Return what Go has in a list or a map in place of a null."""
    if value is not None or "*" in holder.go_type:
        return value
    if isinstance(holder.elem, Scalar):
        return 0 if holder.elem.is_number else ""
    return {}


def _text(value: str) -> str:
    """Return a text without halves of surrogate pairs, which Go replaces."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _what(value: Any) -> str:
    """Return how Go's messages call a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "number"
