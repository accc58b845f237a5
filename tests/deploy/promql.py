"""A parser of the part of PromQL that our dashboard and alerts use.

Owns the grammar, and the metrics, labels and functions of an expression. Rejects unknown syntax, so
that typing errors are found. Never evaluates anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"\s*(?:(?P<string>\"(?:[^\"\\]|\\.)*\")|(?P<range>\[\w+\])|(?P<number>\d+(?:\.\d+)?)(?!\w)"
    r"|(?P<word>[A-Za-z_:][\w:]*)|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/^%<>=(){},]))"
)
RANGE = re.compile(r"\[\d+(?:s|m|h|d)\]")
OVER_RANGES = {"rate", "increase", "changes", "delta", "max_over_time"}
OVER_INSTANTS = {"absent", "clamp_min"}
AGGREGATIONS = {"sum", "max", "min", "avg", "count"}
COMPARISONS = {"==", "!=", ">", "<", ">=", "<="}
OPERATORS = COMPARISONS | {"+", "-", "*", "/", "and", "or", "unless"}


class PromqlError(ValueError):
    """An invalid expression, or one that this parser does not support."""


@dataclass
class Selector:
    """A metric in an expression."""

    metric: str
    labels: dict[str, str] = field(default_factory=dict)
    """What label values have to be, by label: an operator and a quoted text."""
    has_range: bool = False
    functions: tuple[str, ...] = ()
    """What it is within, the innermost last."""
    grouped_by: tuple[str, ...] = ()
    """The labels that the enclosing aggregations keep."""


@dataclass
class _Within:
    function: str
    labels: tuple[str, ...] = ()


class Parser:
    """Reads one expression."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._within: list[_Within] = []
        self.selectors: list[Selector] = []

    def parse(self) -> list[Selector]:
        """Return the selectors of the expression."""
        self._expression()
        if self._at < len(self._tokens):
            raise PromqlError(f"unexpected {self._tokens[self._at][1]}")
        return self.selectors

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, *expected: str) -> str:
        text = self._peek()
        if not text or (expected and text not in expected):
            raise PromqlError(f"expected {' or '.join(expected)}, got {text or 'the end'}")
        self._at += 1
        return text

    def _expression(self) -> None:
        self._operand()
        while self._peek() in OPERATORS:
            self._take()
            self._operand()

    def _operand(self) -> None:
        if not self._peek():
            raise PromqlError("the expression ends too early")
        kind, text = self._tokens[self._at]
        if text == "(":
            self._take("(")
            self._expression()
            self._take(")")
        elif kind == "number":
            self._take()
        elif kind == "word":
            self._name(self._take())
        else:
            raise PromqlError(f"unexpected {text}")

    def _name(self, name: str) -> None:
        if name in AGGREGATIONS:
            labels = self._labels_after("by") if self._peek() == "by" else ()
            self._call(_Within(name, labels), 1)
        elif name == "histogram_quantile":
            self._call(_Within(name), 2)
        elif name in OVER_RANGES | OVER_INSTANTS:
            self._call(_Within(name), 1)
        elif self._peek() == "(":
            raise PromqlError(f"unknown function {name}")
        else:
            self._selector(name)

    def _call(self, within: _Within, argument_count: int) -> None:
        self._within.append(within)
        self._take("(")
        for number in range(argument_count):
            if number:
                self._take(",")
            self._expression()
        self._take(")")
        self._within.pop()

    def _labels_after(self, keyword: str) -> tuple[str, ...]:
        self._take(keyword)
        self._take("(")
        labels = [self._take()]
        while self._peek() == ",":
            self._take(",")
            labels.append(self._take())
        self._take(")")
        return tuple(labels)

    def _selector(self, metric: str) -> None:
        found = Selector(metric, functions=tuple(one.function for one in self._within))
        found.grouped_by = tuple(label for one in self._within for label in one.labels)
        if self._peek() == "{":
            self._take("{")
            while self._peek() != "}":
                label = self._take()
                operator = self._take("=", "!=", "=~", "!~")
                found.labels[label] = operator + self._take()
                if self._peek() != "}":
                    self._take(",")
            self._take("}")
        if self._peek().startswith("["):
            if not RANGE.fullmatch(self._take()):
                raise PromqlError(f"{metric}: no such range")
            found.has_range = True
        if found.has_range != bool(OVER_RANGES.intersection(found.functions[-1:])):
            raise PromqlError(f"{metric}: a range goes with rate and the like, and only with them")
        self.selectors.append(found)


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise PromqlError(f"cannot read {text[at:][:20]!r}")
        kind = match.lastgroup
        assert kind is not None
        found.append((kind, match[kind]))
        at = match.end()
    return found


def selectors(text: str) -> list[Selector]:
    """Return the selectors of an expression; PromqlError if it is invalid."""
    return Parser(text).parse()
