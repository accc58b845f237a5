"""Parses and matches label and field selectors of query parameters.

Upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Parse,
staging/src/k8s.io/apimachinery/pkg/fields/selector.go ParseSelector
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubesched.api.field_errors import invalid, label_key_errors
from kubesched.api.label_selectors import (
    Operator,
    Requirement,
    Selector,
    new_requirement,
    sorted_selector,
)

_WHITESPACE: Final = " \t\r\n"
_SPECIAL: Final = "=!(),><"
_SYMBOLS: Final = {")", ",", "!", "==", "=", ">", "<", "(", "!="}
_OPERATORS: Final = {
    "in": Operator.IN,
    "=": Operator.EQUALS,
    "==": Operator.EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
    "notin": Operator.NOT_IN,
    "!=": Operator.NOT_EQUALS,
}
_BINARY: Final = "in, notin, =, ==, !=, gt, lt"
_END: Final = "end"
_WORD: Final = "word"


def parse_label_selector(text: str) -> Selector:
    """Parse a selector; raise ValueError with upstream's message if it is invalid."""
    return sorted_selector(_Parser(text).parse())


class _Parser:
    """Left-recursive descent over tokens: (kind, literal)."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def _peek(self) -> tuple[str, str]:
        kind, literal = self._tokens[self._at]
        return (_WORD, literal) if kind in {"in", "notin"} else (kind, literal)

    def _take(self) -> tuple[str, str]:
        found = self._peek()
        self._at += 1
        return found

    def parse(self) -> list[Requirement]:
        """Return the requirements in order."""
        requirements: list[Requirement] = []
        while True:
            kind, literal = self._peek()
            if kind == _END:
                return requirements
            if kind not in {_WORD, "!"}:
                raise ValueError(f"found '{literal}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            kind, literal = self._take()
            if kind == _END:
                return requirements
            if kind != ",":
                raise ValueError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self._peek()
            if kind not in {_WORD, "!"}:
                raise ValueError(f"found '{literal}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        kind, key = self._take()
        is_negated = kind == "!"
        if is_negated:
            kind, key = self._take()
        if kind != _WORD:
            raise ValueError(f"found '{key}', expected: identifier")
        errors = label_key_errors(key)
        if errors:
            raise ValueError(invalid("<nil>", key, "; ".join(errors)))
        if is_negated:
            return new_requirement(key, Operator.DOES_NOT_EXIST, ())
        if self._peek()[0] in {_END, ","}:
            return new_requirement(key, Operator.EXISTS, ())
        return self._binary(key)

    def _binary(self, key: str) -> Requirement:
        kind, literal = self._tokens[self._at]
        self._at += 1
        operator = _OPERATORS.get(kind)
        if operator is None:
            raise ValueError(f"found '{literal}', expected: {_BINARY}")
        if operator in {Operator.IN, Operator.NOT_IN}:
            values = self._values()
        else:
            values = {self._exact_value()}
        return new_requirement(key, operator, tuple(sorted(values)))

    def _exact_value(self) -> str:
        if self._peek()[0] in {_END, ","}:
            return ""
        kind, literal = self._take()
        if kind != _WORD:
            raise ValueError(f"found '{literal}', expected: identifier")
        return literal

    def _values(self) -> set[str]:
        kind, literal = self._take()
        if kind != "(":
            raise ValueError(f"found '{literal}' expected: '('")
        kind, literal = self._peek()
        if kind == ")":
            self._take()
            return {""}
        if kind not in {_WORD, ","}:
            raise ValueError(f"found '{literal}', expected: ',', ')' or identifier")
        values = self._identifiers()
        if self._take()[0] != ")":
            raise ValueError(f"found '{literal}', expected: ')'")
        return values

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            kind, literal = self._take()
            following, next_literal = self._peek() if kind != _END else (_END, "")
            if kind == _WORD:
                values.add(literal)
                if following == ")":
                    return values
                if following != ",":
                    raise ValueError(f"found '{next_literal}', expected: ',' or ')'")
            elif kind == ",":
                if not values or following in {")", ","}:
                    values.add("")
                if following == ")":
                    return values
            else:
                raise ValueError(f"found '{literal}', expected: ',', or identifier")


def _tokens(text: str) -> list[tuple[str, str]]:
    # Parity: selector.go Lexer, v1.36
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char in _WHITESPACE:
            at += 1
        elif char in _SPECIAL:
            end = at
            token = ""
            while end < len(text) and text[end] in _SPECIAL:
                if text[at : end + 1] not in _SYMBOLS and token:
                    break
                token = text[at : end + 1]
                end += 1
            found.append((token, token) if token in _SYMBOLS else ("error", token))
            at = end
        else:
            end = at
            while end < len(text) and text[end] not in _SPECIAL and text[end] not in _WHITESPACE:
                end += 1
            word = text[at:end]
            found.append((word if word in {"in", "notin"} else _WORD, word))
            at = end
    found.append((_END, ""))
    return found


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One field that must, or must not, have a value."""

    field: str
    value: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms that must all match; without terms, everything matches."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether the selector matches fields; a missing field is empty."""
        return all(
            (fields.get(term.field, "") == term.value) != term.is_negated for term in self.terms
        )

    def with_name(self, name: str) -> FieldSelector:
        """Return a selector that additionally requires a name."""
        return FieldSelector((*self.terms, FieldTerm("metadata.name", name)))

    def demanded(self, field: str) -> str | None:
        """Return the required value of a field; None if several values match."""
        for term in self.terms:
            if term.field == field and not term.is_negated:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(
            f"{term.field}{'!=' if term.is_negated else '='}{term.value}" for term in self.terms
        )


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a selector; raise ValueError with upstream's message if it is invalid."""
    terms: list[FieldTerm] = []
    for part in sorted(_split(text)):
        if not part:
            continue
        signs = [(at, sign) for sign in ("!=", "==", "=") if (at := part.find(sign)) >= 0]
        if not signs:
            raise ValueError(f"invalid selector: '{text}'; can't understand '{part}'")
        # The first operator splits; "==" precedes "=" at the same position.
        at, sign = min(signs, key=lambda one: (one[0], -len(one[1])))
        value = _unescaped(part[at + len(sign) :])
        terms.append(FieldTerm(part[:at], value, is_negated=sign == "!="))
    return FieldSelector(tuple(terms))


def _split(text: str) -> list[str]:
    parts, start, is_escaped = [], 0, False
    for at, char in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == ",":
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text else []


def _unescaped(text: str) -> str:
    # Parity: fields/selector.go UnescapeValue, v1.36
    if not any(char in text for char in "\\,="):
        return text
    found, is_escaped = "", False
    for char in text:
        if is_escaped:
            if char not in "\\,=":
                raise ValueError(f"invalid field selector: invalid escape sequence: \\{char}")
            found += char
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char in ",=":
            # Upstream prints the rune as a number.
            raise ValueError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            found += char
    if is_escaped:
        raise ValueError("invalid field selector: invalid escape sequence: \\")
    return found
