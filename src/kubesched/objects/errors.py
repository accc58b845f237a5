"""The one error a malformed API object raises.

Owns the naming of what is wrong: kind, object, field, value. Never decides what is malformed:
decode and check do.
Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go
"""

import reprlib

# Longer than any name a cluster holds, namespace included.
_PART_MAX = 400


class _Shorten(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to print very long integers, and nobody reads them.
        return repr(x) if x.bit_length() <= 512 else f"an integer of {x.bit_length()} bits"


_SHORTEN = _Shorten()
_SHORTEN.maxstring = 80
_SHORTEN.maxother = 80
_SHORTEN.maxlevel = 2
_SHORTEN.maxdict = 3
_SHORTEN.maxlist = 3


class MalformedObject(ValueError):  # noqa: N818  # The name users of the package read; it is an error by its base.
    """An object that cannot be what it says it is."""

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

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling, which would otherwise hand the text to a keyword-only constructor."""
        return (_rebuild, (self.kind, self.key, self.field, self.value, self.problem))


def short_repr(value: object) -> str:
    """Return a bounded, one-line repr of any JSON value."""
    return one_line(_SHORTEN.repr(value))


def one_line(text: str) -> str:
    """Return the text with everything a terminal could trip over escaped."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _part(text: str) -> str:
    """Return one line of bounded length: keys and kinds come from the document, too."""
    return one_line(text if len(text) <= _PART_MAX else f"{text[:_PART_MAX]}...")


def _rebuild(kind: str, key: str, field: str, value: str, problem: str) -> MalformedObject:
    return MalformedObject(kind=kind, key=key, field=field, value=value, problem=problem)
