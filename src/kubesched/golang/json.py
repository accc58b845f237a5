"""JSON, written and read as Go's encoding/json does.

Owns the writer; the reader that keeps key order, repeated keys and number literals; and Go's syntax
errors. Reading into a struct is in `json_unmarshal`.
Upstream: Go's encoding/json encode.go and scanner.go, as sigs.k8s.io/json has them too
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple, TypeAlias

import msgspec

from kubesched.golang.strconv import go_quote, json_float

# Parity: scanner.go maxNestingDepth.
_GO_DEPTH_MAX: Final = 10_000
# For trees, which are walked recursively. No valid document of Kubernetes is as deep.
DEPTH_MAX: Final = 200

# -- writing --------------------------------------------------------------------------------------

# encoding/json hides these from browsers; U+2028 and U+2029 end a line in JavaScript.
_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_LINE_ENDS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029"})


def go_json(value: object, *, escape_html: bool = True, sort_keys: bool = True) -> str:
    """Return a value as json.Marshal writes it: no spaces, keys of a map sorted.

    Args:
        value: JSON values, structs, sets, durations (written as nanoseconds) and errors; other
            values are written as their text.
        escape_html: Escape <, > and &, which is Go's default.
        sort_keys: False if a dict stands for a Go struct, whose fields have an order.
    """
    return _encode(value, _HTML if escape_html else _LINE_ENDS, sort_keys)


def _encode(value: object, table: dict[int, str], sort_keys: bool) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).translate(table)
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return json_float(value)
    if isinstance(value, timedelta):
        return str(round(value / timedelta(microseconds=1)) * 1000)
    if isinstance(value, Mapping):
        pairs = [(str(key), item) for key, item in value.items()]
        return _encode_object(sorted(pairs) if sort_keys else pairs, table, sort_keys)
    if (items_of := getattr(value, "json_items", None)) is not None:
        return _encode_object(items_of(), table, sort_keys)
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([_encode(item, table, sort_keys) for item in value]) + "]"
    return _encode_other(value, table, sort_keys)


def _encode_other(value: object, table: dict[int, str], sort_keys: bool) -> str:
    try:
        plain = msgspec.to_builtins(value, order="deterministic")
    except (TypeError, ValueError):
        plain = str(value)
    if isinstance(plain, dict):
        # A struct keeps the order of its fields, as in Go.
        return _encode_object(list(plain.items()), table, sort_keys)
    return _encode(plain, table, sort_keys)


def _encode_object(pairs: list[tuple[str, object]], table: dict[int, str], sort_keys: bool) -> str:
    parts = [
        f"{_encode(str(key), table, sort_keys)}:{_encode(item, table, sort_keys)}"
        for key, item in pairs
    ]
    return "{" + ",".join(parts) + "}"


# -- reading --------------------------------------------------------------------------------------


class Number(NamedTuple):
    """A JSON number, as it was written."""

    literal: str


class Object:
    """A JSON object: its pairs in order of writing, repeated keys included."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[str, Json]]) -> None:
        self.items = items


Json: TypeAlias = "bool | str | Number | list[Json] | Object | None"


class JsonSyntaxError(ValueError):
    """Text that is not JSON; the message is Go's."""


def parse_json(data: bytes) -> Json:
    """Return the tree of one JSON document.

    Raises:
        JsonSyntaxError: With the text of Go's scanner.
    """
    text = data.decode("utf-8", "replace")
    try:
        tree: Json = _DECODER.decode(text)
    except (ValueError, RecursionError):
        # Python's decoder accepts no more than Go's, but has other error texts.
        problem = json_syntax_error(data, DEPTH_MAX)
        raise JsonSyntaxError(problem or "exceeded max depth") from None
    if text.count("{") + text.count("[") > DEPTH_MAX:
        problem = json_syntax_error(data, DEPTH_MAX)
        if problem:
            raise JsonSyntaxError(problem)
    return _without_surrogates(tree) if "\\u" in text else tree


def _reject_constant(name: str) -> Json:
    raise ValueError(name)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Object,
    parse_float=Number,
    parse_int=Number,
    parse_constant=_reject_constant,
)


def go_text(text: str) -> str:
    """Return text with U+FFFD for each unpaired surrogate, as Go decodes it."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _without_surrogates(tree: Json) -> Json:
    if isinstance(tree, Number):
        return tree
    if isinstance(tree, str):
        return go_text(tree)
    if isinstance(tree, list):
        return [_without_surrogates(item) for item in tree]
    if isinstance(tree, Object):
        return Object([(go_text(key), _without_surrogates(item)) for key, item in tree.items])
    return tree


def json_type(value: object) -> str:
    """Return the name of a value, in a tree or decoded, in errors of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((str, "string"), ((dict, Object), "object"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "number"


def from_builtins(value: object, depth: int = 0) -> Json:
    """Return decoded values as a tree, keys in their order.

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
        return Number(json_float(value))
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


# -- syntax errors -------------------------------------------------------------------------------

_END: Final = "unexpected end of JSON input"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_QUOTE: Final = re.compile(rb'"')
_BACKSLASH: Final = re.compile(rb"\\")
_UNICODE: Final = re.compile(rb"u[0-9a-fA-F]*")
_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_MINUS: Final = re.compile(rb"-")
_WHOLE: Final = re.compile(rb"0|[1-9][0-9]*")
_POINT: Final = re.compile(rb"\.")
_EXPONENT: Final = re.compile(rb"[eE][+-]?")
_DIGITS: Final = re.compile(rb"[0-9]+")
_WITHIN: Final = ("numeric literal", "escape code", "character escape", ")")
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


def json_syntax_error(data: bytes, depth_max: int = _GO_DEPTH_MAX) -> str:
    """Return Go's syntax error for a text; empty if it is JSON."""
    try:
        _Scanner(data, depth_max).run()
    except JsonSyntaxError as error:
        return str(error)
    return ""


class _Scanner:
    """Finds the first wrong character of a text, with Go's error."""

    def __init__(self, data: bytes, depth_max: int) -> None:
        self._data = data
        self._at = 0
        self._depth_max = depth_max
        # The brackets that are open, as their closing characters, the innermost last.
        self._open_brackets: list[int] = []

    def run(self) -> None:
        """Scan the whole text.

        Raises:
            JsonSyntaxError: At the first wrong character.
        """
        expects_value = True
        while expects_value or self._open_brackets:
            expects_value = self._value() if expects_value else self._after_value()
        char = self._next()
        if char is not None:
            raise self._invalid("after top-level value")

    def _next(self) -> int | None:
        """Skip space, and return the next character; None at the end."""
        self._skip(_SPACE)
        return self._data[self._at] if self._at < len(self._data) else None

    def _invalid(self, context: str) -> JsonSyntaxError:
        is_end = self._at >= len(self._data)
        if is_end and not context.endswith(_WITHIN):
            return JsonSyntaxError(_END)
        # Parity: scanner.go eof: the end of a text is read as a space.
        char = " " if is_end else chr(self._data[self._at])
        shown = {"'": r"'\''", '"': "'\"'"}.get(char, f"'{go_quote(char)[1:-1]}'")
        return JsonSyntaxError(f"invalid character {shown} {context}")

    def _value(self) -> bool:
        """Skip a scalar or an opening bracket; return whether another value must follow."""
        char = self._next()
        if char is None:
            raise JsonSyntaxError(_END)
        if char in b"{[":
            return self._open(char)
        if char == ord('"'):
            self._string()
        elif char in _LITERALS:
            self._literal(_LITERALS[char])
        elif char in b"-0123456789":
            self._number()
        else:
            raise self._invalid("looking for beginning of value")
        return False

    def _open(self, char: int) -> bool:
        self._at += 1
        closer = ord("}") if char == ord("{") else ord("]")
        if len(self._open_brackets) >= self._depth_max:
            raise JsonSyntaxError("exceeded max depth")
        if self._next() == closer:
            self._at += 1
            return False
        self._open_brackets.append(closer)
        if closer == ord("}"):
            self._key()
        return True

    def _key(self) -> None:
        if self._next() != ord('"'):
            raise self._invalid("looking for beginning of object key string")
        self._string()
        if self._next() != ord(":"):
            raise self._invalid("after object key")
        self._at += 1

    def _after_value(self) -> bool:
        closer = self._open_brackets[-1]
        char = self._next()
        if char == closer:
            self._open_brackets.pop()
            self._at += 1
            return False
        is_object = closer == ord("}")
        if char != ord(","):
            raise self._invalid(
                "after object key:value pair" if is_object else "after array element"
            )
        self._at += 1
        if is_object:
            self._key()
        return True

    def _string(self) -> None:
        self._skip(_STRING)
        if self._skip(_QUOTE):
            return
        if not self._skip(_BACKSLASH):
            raise self._invalid("in string literal")
        if self._skip(_UNICODE):
            raise self._invalid("in \\u hexadecimal character escape")
        raise self._invalid("in string escape code")

    def _literal(self, literal: bytes) -> None:
        for char in literal:
            if self._data[self._at : self._at + 1] != bytes([char]):
                raise self._invalid(f"in literal {literal.decode()} (expecting '{chr(char)}')")
            self._at += 1

    def _number(self) -> None:
        self._skip(_MINUS)
        if not self._skip(_WHOLE):
            raise self._invalid("in numeric literal")
        if self._skip(_POINT) and not self._skip(_DIGITS):
            raise self._invalid("after decimal point in numeric literal")
        if self._skip(_EXPONENT) and not self._skip(_DIGITS):
            raise self._invalid("in exponent of numeric literal")

    def _skip(self, pattern: re.Pattern[bytes]) -> bool:
        """Skip a match of a pattern; return whether there is one."""
        match = pattern.match(self._data, self._at)
        self._at = match.end() if match else self._at
        return match is not None
