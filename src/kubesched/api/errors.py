"""The error for a malformed API object: kind, object, field, value and problem.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/{errors,path}.go
"""

import re
import reprlib
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Self

# Longer than any name a cluster holds, namespace included.
_PART_MAX = 400


class _Shorten(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # Python does not print very long integers.
        return repr(x) if x.bit_length() <= 512 else f"an integer of {x.bit_length()} bits"


_SHORTEN = _Shorten()
_SHORTEN.maxstring = 80
_SHORTEN.maxother = 80
_SHORTEN.maxlevel = 2
_SHORTEN.maxdict = 3
_SHORTEN.maxlist = 3

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]|(\[\.\.\.\])")
_COMPLAINT: Final = re.compile(
    r"(?P<problem>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?", re.DOTALL
)
_GOT: Final = re.compile(r"got `([a-z]+)`")
_JSON_NAMES: Final = {
    type(None): "null", bool: "bool", int: "int", float: "float", str: "str",
    list: "array", tuple: "array", dict: "object", bytes: "bytes",
}  # fmt: skip


class MalformedObject(ValueError):  # noqa: N818  # The name users of the package read; it is an error by its base.
    """An object that does not conform to its kind."""

    def __init__(
        self, *, kind: str = "", key: str = "", field: str = "", value: str = "", problem: str
    ) -> None:
        """Take the parts; `value` is already a short text (see `short_repr`)."""
        self.kind = kind
        self.key = key
        self.field = field
        self.value = value
        self.problem = problem
        super().__init__(self._text())

    def _text(self) -> str:
        named = " ".join(_part(part) for part in (self.kind or "object", self.key) if part)
        where = f": {_part(self.field)}" if self.field else ""
        got = f" (value {_part(self.value)})" if self.value else ""
        return f"{named}{where}: {_part(self.problem)}{got}"

    def replace(self, **parts: str) -> Self:
        """Return the error with some parts replaced."""
        return type(self)(**{**vars(self), **parts})

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling, which would otherwise pass the text to a keyword-only constructor."""
        return partial(type(self), **vars(self)), ()


def short_repr(value: object) -> str:
    """Return a bounded, one-line repr of any JSON value."""
    return one_line(_SHORTEN.repr(value))


def one_line(text: str) -> str:
    """Return the text with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _part(text: str) -> str:
    """Return one line of bounded length: keys and kinds come from the document too."""
    return one_line(text if len(text) <= _PART_MAX else f"{text[:_PART_MAX]}...")


def at_key(path: str, key: str) -> str:
    """Return the path of a map's entry."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{key}]"


def locate(complaint: str, document: Any) -> tuple[str, str, Any]:
    """Split an error of msgspec into problem, field path and value.

    msgspec does not name keys of maps; the entry is found by the type in the error.
    """
    match = _COMPLAINT.fullmatch(complaint)
    assert match is not None
    problem = match["problem"]
    path, value = "", document
    for name, index, wildcard in _STEP.findall(match["path"] or ""):
        if wildcard:
            path, value = _find_entry(path, value, problem)
        elif index:
            path, value = f"{path}[{index}]", _item(value, int(index))
        else:
            path = f"{path}.{name}" if path else name
            value = value.get(name) if isinstance(value, Mapping) else None
    return problem, path, value


def _item(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list | tuple) and index < len(value) else None


def _find_entry(path: str, value: Any, problem: str) -> tuple[str, Any]:
    got = _GOT.search(problem)
    if isinstance(value, Mapping) and got is not None:
        for key, part in value.items():
            if _JSON_NAMES.get(type(part), type(part).__name__) == got[1]:
                return at_key(path, str(key)), part
    return f"{path}[...]", None
