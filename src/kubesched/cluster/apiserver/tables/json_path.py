"""JSONPath of printer columns: fields, keys, indices, slices, wildcards, filters, recursion.

Upstream: staging/src/k8s.io/client-go/util/jsonpath/{parser,jsonpath}.go
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

Step = Callable[[Any], list[Any]]


class PathError(ValueError):
    """A path that cannot be parsed, or that does not apply to a value."""


_FIELD: Final = re.compile(r"(?:\\.|[^.\[\]{}\s\\])+")
_INDEX: Final = re.compile(r"-?[0-9]+")
_SLICE: Final = re.compile(r"(-?[0-9]*):(-?[0-9]*)(?::(-?[0-9]*))?")
_FILTER: Final = re.compile(r"\?\(\s*(.+?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?\)")
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}


def find(path: str, document: Any) -> list[Any]:
    """Return the values at a path; a missing key has none."""
    values = [document]
    for step in steps_of(path):
        values = [found for value in values for found in step(value)]
    return values


@lru_cache(maxsize=1024)
def steps_of(path: str) -> tuple[Step, ...]:
    """Return the steps of a path, or raise PathError."""
    steps: list[Step] = []
    at = 1 if path[:1] in {"$", "@"} else 0
    while at < len(path):
        if path.startswith("..", at):
            steps.append(_descendants)
            at += 1 if path[at + 2 : at + 3] != "[" else 2
        elif path[at] == ".":
            at, step = _after_dot(path, at + 1)
            steps += step
        elif path[at] == "[":
            end = _closing(path, at)
            steps.append(_bracket(path[at + 1 : end]))
            at = end + 1
        else:
            raise PathError(f"unrecognized character in {path!r}")
    return tuple(steps)


def _after_dot(path: str, at: int) -> tuple[int, list[Step]]:
    if at >= len(path) or path[at] in ".[":
        return at, []
    if path[at] == "*":
        return at + 1, [_children]
    found = _FIELD.match(path, at)
    if found is None:
        raise PathError(f"unrecognized character in {path!r}")
    return found.end(), [_field(re.sub(r"\\(.)", r"\1", found[0]))]


def _closing(path: str, at: int) -> int:
    """Return the index of the closing bracket; brackets in quotes are ignored."""
    depth, quote = 0, ""
    for index in range(at, len(path)):
        char = path[index]
        if quote:
            quote = "" if char == quote and path[index - 1] != "\\" else quote
        elif char in "'\"":
            quote = char
        elif char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
            if depth == 0:
                return index
    raise PathError(f"unterminated array in {path!r}")


def _bracket(text: str) -> Step:
    text = text.strip()
    if text == "*":
        return _children
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return _field(text[1:-1])
    if _INDEX.fullmatch(text):
        return _at(int(text))
    found = _SLICE.fullmatch(text)
    if found is not None:
        return _slice(*(int(part) if part else None for part in found.groups()))
    found = _FILTER.fullmatch(text)
    if found is not None:
        return _filter(found[1], found[2], found[3])
    raise PathError(f"invalid array index {text}")


def _field(name: str) -> Step:
    def step(value: Any) -> list[Any]:
        return [value[name]] if isinstance(value, dict) and name in value else []

    return step


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _descendants(value: Any) -> list[Any]:
    found = [value]
    for child in _children(value):
        if isinstance(child, dict | list):
            found += _descendants(child)
    return found


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise PathError("not an array or slice")
    return value


def _at(index: int) -> Step:
    def step(value: Any) -> list[Any]:
        if value is None:
            return []
        values = _list(value)
        place = index + len(values) if index < 0 else index
        if not 0 <= place < len(values):
            raise PathError(f"array index out of bounds: index {place}, length {len(values)}")
        return [values[place]]

    return step


def _slice(start: int | None, end: int | None, stride: int | None) -> Step:
    def step(value: Any) -> list[Any]:
        if stride is not None and stride <= 0:
            raise PathError("step must be > 0")
        return _list(value)[start:end:stride]

    return step


def _filter(left: str, operator: str | None, right: str | None) -> Step:
    def step(value: Any) -> list[Any]:
        return [one for one in _list(value) if _holds(one, left, operator, right)]

    return step


def _holds(value: Any, left: str, operator: str | None, right: str | None) -> bool:
    ours = _operand(value, left)
    if operator is None or right is None:
        return bool(ours)
    theirs = _operand(value, right)
    if not ours:
        return False
    if not theirs:
        return False
    try:
        return _COMPARE[operator](ours[0], theirs[0])
    except TypeError:
        raise PathError("cannot compare") from None


def _operand(value: Any, text: str) -> list[Any]:
    """Return an operand of a comparison: a path or a literal."""
    if text[0] in "@$.":
        return find(text, value)
    if text[0] in "'\"":
        return [text[1:-1]]
    if text in {"true", "false"}:
        return [text == "true"]
    try:
        return [float(text) if "." in text else int(text)]
    except ValueError:
        raise PathError(f"unrecognized identifier {text}") from None
