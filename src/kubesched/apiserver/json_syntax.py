"""What is wrong with a text that is not JSON, in Go's words.

Owns the scanner that finds the first wrong character. Never makes a value: it is only asked after
a decoder refused the text.
Upstream: Go's encoding/json scanner.go, as sigs.k8s.io/json has it too
"""

from __future__ import annotations

import re
from typing import Final

from kubesched.objects.field_errors import go_quote

_END: Final = "unexpected end of JSON input"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_PLAIN: Final = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS: Final = re.compile(rb"[0-9]*")
_WITHIN: Final = ("numeric literal", "escape code", "character escape", ")")
_LITERALS: Final = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
# Parity: scanner.go maxNestingDepth.
_DEPTH_MAX: Final = 10_000


class _Wrong(Exception):  # noqa: N818  # Never leaves this module.
    """The scanner met what it cannot take."""


def json_syntax_error(data: bytes) -> str:
    """Return what Go's decoder says about a text; empty if it is JSON after all."""
    try:
        _Scanner(data).run()
    except _Wrong as wrong:
        return str(wrong)
    return ""


class _Scanner:
    """One run over one text."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        # Closers still owed, the innermost last.
        self._owed: list[int] = []

    def run(self) -> None:
        """Go over the text until it ends or something is wrong."""
        wants_value = True
        while wants_value or self._owed:
            wants_value = self._value() if wants_value else self._after_value()
        char = self._next()
        if char is not None:
            raise self._invalid("after top-level value")

    def _next(self) -> int | None:
        """Return the next character that is not space, without taking it."""
        match = _SPACE.match(self._data, self._at)
        self._at = match.end() if match else self._at
        return self._data[self._at] if self._at < len(self._data) else None

    def _invalid(self, context: str) -> _Wrong:
        is_end = self._at >= len(self._data)
        if is_end and not context.endswith(_WITHIN):
            return _Wrong(_END)
        # Upstream ends a text with a space, to see whether that is wrong.
        char = " " if is_end else chr(self._data[self._at])
        shown = {"'": r"'\''", '"': "'\"'"}.get(char, f"'{go_quote(char)[1:-1]}'")
        return _Wrong(f"invalid character {shown} {context}")

    def _value(self) -> bool:
        """Take a value, or the start of one; return whether another must follow at once."""
        char = self._next()
        if char is None:
            raise _Wrong(_END)
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
        if len(self._owed) >= _DEPTH_MAX:
            raise _Wrong("exceeded max depth")
        if self._next() == closer:
            self._at += 1
            return False
        self._owed.append(closer)
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
        closer = self._owed[-1]
        char = self._next()
        if char == closer:
            self._owed.pop()
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
        self._at += 1
        while True:
            match = _PLAIN.match(self._data, self._at)
            self._at = match.end() if match else self._at
            if self._data[self._at : self._at + 1] == b'"':
                self._at += 1
                return
            if self._data[self._at : self._at + 1] != b"\\":
                raise self._invalid("in string literal")
            self._at += 1
            self._escape()

    def _escape(self) -> None:
        char = self._data[self._at : self._at + 1]
        if char == b"" or char not in b'"\\/bfnrtu':
            raise self._invalid("in string escape code")
        self._at += 1
        if char == b"u":
            for _ in range(4):
                digit = self._data[self._at : self._at + 1]
                if digit == b"" or digit not in b"0123456789abcdefABCDEF":
                    raise self._invalid("in \\u hexadecimal character escape")
                self._at += 1

    def _literal(self, literal: bytes) -> None:
        for char in literal:
            if self._data[self._at : self._at + 1] != bytes([char]):
                raise self._invalid(f"in literal {literal.decode()} (expecting '{chr(char)}')")
            self._at += 1

    def _number(self) -> None:
        if self._data[self._at] == ord("-"):
            self._at += 1
        if self._data[self._at : self._at + 1] == b"0":
            self._at += 1
        else:
            self._digits("in numeric literal")
        if self._data[self._at : self._at + 1] == b".":
            self._at += 1
            self._digits("after decimal point in numeric literal")
        if self._data[self._at : self._at + 1] in {b"e", b"E"}:
            self._at += 1
            if self._data[self._at : self._at + 1] in {b"+", b"-"}:
                self._at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, context: str) -> None:
        match = _DIGITS.match(self._data, self._at)
        if match is None or match.end() == self._at:
            raise self._invalid(context)
        self._at = match.end()
