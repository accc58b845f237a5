"""JSON text read as Go reads it, with nothing lost: key order, repeated keys, number literals.

Owns the tree that the decoder walks and Go's syntax messages. Never knows a field by name.
Upstream: sigs.k8s.io/json internal/golang/encoding/json/scanner.go
"""

import math
import re
from typing import NamedTuple, TypeAlias

from kubesched.config.gotext import format_float64
from kubesched.objects.field_errors import go_quote

# Upstream stops at 10,000 levels. No document that deep is valid, so this only has to stay
# far from Python's own limit; the text is the same.
DEPTH_MAX = 200


class Number(NamedTuple):
    """A JSON number, as it was written."""

    literal: str


class Object:
    """A JSON object: its pairs in order of writing, repeated keys included."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[str, "Json"]]) -> None:
        self.items = items


Json: TypeAlias = bool | str | Number | list["Json"] | Object | None


class JsonSyntaxError(ValueError):
    """Text that is not JSON; the message is Go's."""


_SPACE = b" \t\r\n"
_LITERALS: dict[int, tuple[bytes, bool | None]] = {
    ord("t"): (b"true", True),
    ord("f"): (b"false", False),
    ord("n"): (b"null", None),
}
_ESCAPES = {
    ord("b"): "\b",
    ord("f"): "\f",
    ord("n"): "\n",
    ord("r"): "\r",
    ord("t"): "\t",
    ord("\\"): "\\",
    ord("/"): "/",
    ord('"'): '"',
}
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = frozenset(b"0123456789.eE+-")
_HEX = frozenset(b"0123456789abcdefABCDEF")


def parse_json(data: bytes) -> Json:
    """Return the tree of one JSON document.

    Raises:
        JsonSyntaxError: With the text of Go's scanner.
    """
    reader = _Reader(data)
    value = reader.value(0)
    reader.skip_space()
    if reader.at < len(data):
        raise reader.invalid("after top-level value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def peek(self) -> int:
        """Return the byte at hand, or fail as Go does at the end of the text."""
        if self.at >= len(self.data):
            raise JsonSyntaxError("unexpected end of JSON input")
        return self.data[self.at]

    def inside(self) -> int:
        """Return the byte at hand within a literal, where Go reads the end as a space."""
        return self.data[self.at] if self.at < len(self.data) else ord(" ")

    def skip_space(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in _SPACE:
            self.at += 1

    def invalid(self, context: str) -> JsonSyntaxError:
        char = chr(self.inside())
        shown = {"'": "'\\''", '"': "'\"'"}.get(char, "'" + go_quote(char)[1:-1] + "'")
        return JsonSyntaxError(f"invalid character {shown} {context}")

    def value(self, depth: int) -> Json:
        self.skip_space()
        first = self.peek()
        if first in b"{[" and depth >= DEPTH_MAX:
            raise JsonSyntaxError("exceeded max depth")
        if first == ord("{"):
            return self.object(depth + 1)
        if first == ord("["):
            return self.array(depth + 1)
        if first == ord('"'):
            return self.string()
        if first in _LITERALS:
            return self.literal(*_LITERALS[first])
        if first == ord("-") or first in b"0123456789":
            return self.number()
        raise self.invalid("looking for beginning of value")

    def object(self, depth: int) -> Object:
        items: list[tuple[str, Json]] = []
        self.at += 1
        self.skip_space()
        if self.peek() == ord("}"):
            self.at += 1
            return Object(items)
        while True:
            self.skip_space()
            if self.peek() != ord('"'):
                raise self.invalid("looking for beginning of object key string")
            key = self.string()
            self.skip_space()
            if self.peek() != ord(":"):
                raise self.invalid("after object key")
            self.at += 1
            items.append((key, self.value(depth)))
            self.skip_space()
            closing = self.peek()
            if closing not in b",}":
                raise self.invalid("after object key:value pair")
            self.at += 1
            if closing == ord("}"):
                return Object(items)

    def array(self, depth: int) -> list[Json]:
        items: list[Json] = []
        self.at += 1
        self.skip_space()
        if self.peek() == ord("]"):
            self.at += 1
            return items
        while True:
            items.append(self.value(depth))
            self.skip_space()
            closing = self.peek()
            if closing not in b",]":
                raise self.invalid("after array element")
            self.at += 1
            if closing == ord("]"):
                return items

    def literal(self, word: bytes, value: bool | None) -> bool | None:
        for expected in word:
            if self.inside() != expected:
                raise self.invalid(f"in literal {word.decode()} (expecting {chr(expected)!r})")
            self.at += 1
        return value

    def number(self) -> Number:
        start = self.at
        if self.data[self.at] == ord("-"):
            self.at += 1
            if self.inside() not in b"0123456789":
                raise self.invalid("in numeric literal")
        if self.data[self.at] == ord("0"):
            self.at += 1
        else:
            self.digits()
        if self.following() == ord("."):
            self.at += 1
            if self.inside() not in b"0123456789":
                raise self.invalid("after decimal point in numeric literal")
            self.digits()
        if self.following() in (ord("e"), ord("E")):
            self.at += 1
            if self.inside() in b"+-":
                self.at += 1
            if self.inside() not in b"0123456789":
                raise self.invalid("in exponent of numeric literal")
            self.digits()
        return Number(self.data[start : self.at].decode())

    def following(self) -> int | None:
        return self.data[self.at] if self.at < len(self.data) else None

    def digits(self) -> None:
        while self.at < len(self.data) and self.data[self.at] in b"0123456789":
            self.at += 1

    def string(self) -> str:
        self.at += 1
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(self.data, self.at)
            assert plain is not None
            parts.append(plain.group().decode("utf-8", "replace"))
            self.at = plain.end()
            char = self.peek()
            if char == ord('"'):
                self.at += 1
                return "".join(parts)
            if char != ord("\\"):
                raise self.invalid("in string literal")
            self.at += 1
            parts.append(self.escape())

    def escape(self) -> str:
        char = self.inside()
        if char in _ESCAPES:
            self.at += 1
            return _ESCAPES[char]
        if char != ord("u"):
            raise self.invalid("in string escape code")
        unit = self.hex4()
        if not 0xD800 <= unit < 0xE000:
            return chr(unit)
        if unit < 0xDC00 and self.data[self.at : self.at + 2] == b"\\u":
            mark = self.at
            self.at += 1
            low = self.hex4()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
            self.at = mark
        return "\ufffd"

    def hex4(self) -> int:
        self.at += 1
        start = self.at
        for _ in range(4):
            if self.inside() not in _HEX:
                raise self.invalid("in \\u hexadecimal character escape")
            self.at += 1
        return int(self.data[start : self.at], 16)


def from_builtins(value: object, depth: int = 0) -> Json:
    """Return the tree of an already parsed document, keys in their order.

    Raises:
        JsonSyntaxError: A value that JSON does not have, or too deep a nesting.
    """
    if depth > DEPTH_MAX:
        raise JsonSyntaxError("exceeded max depth")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return Number(str(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise JsonSyntaxError(f"json: unsupported value: {value}")
        return Number(format_float64(value))
    if isinstance(value, dict):
        return Object([(str(k), from_builtins(v, depth + 1)) for k, v in value.items()])
    if isinstance(value, list | tuple):
        return [from_builtins(item, depth + 1) for item in value]
    raise JsonSyntaxError(f"json: unsupported type: {type(value).__name__}")


def to_builtins(value: Json) -> object:
    """Return a tree as dicts, lists and plain values; the last of repeated keys wins."""
    if isinstance(value, Number):
        try:
            return int(value.literal)
        except ValueError:
            return float(value.literal)
    if isinstance(value, Object):
        return {key: to_builtins(item) for key, item in value.items}
    if isinstance(value, list):
        return [to_builtins(item) for item in value]
    return value
