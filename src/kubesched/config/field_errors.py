"""Messages about one field: what is wrong, where, and with which value.

Owns the text shapes of field errors. Never decides whether a value is wrong.
Upstream: apimachinery pkg/util/validation/field/errors.go, path.go
"""

from typing import NamedTuple

from kubesched.config.gotext import format_duration, go_json
from kubesched.objects.field_errors import go_quote


class Typed(NamedTuple):
    """A string of a named Go type; messages write it as JSON rather than quoted."""

    text: str


class DurationValue(NamedTuple):
    """A duration in nanoseconds; messages write it as its JSON string."""

    nanoseconds: int


def _shown(value: object) -> str:
    if isinstance(value, Typed):
        return go_json(value.text)
    if isinstance(value, DurationValue):
        return go_json(format_duration(value.nanoseconds))
    if isinstance(value, str):
        return go_quote(value)
    return go_json(value)


def invalid(path: str, value: object, detail: str) -> str:
    """Return the message for a value that breaks a rule."""
    return f"{path}: Invalid value: {_shown(value)}: {detail}"


def required(path: str, detail: str = "") -> str:
    """Return the message for a value that is missing."""
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def duplicate(path: str, value: object) -> str:
    """Return the message for a value that is there twice."""
    return f"{path}: Duplicate value: {_shown(value)}"


def not_supported(path: str, value: object, supported: tuple[str, ...]) -> str:
    """Return the message for a value that is none of a list."""
    listed = ", ".join(go_quote(item) for item in supported)
    return f"{path}: Unsupported value: {_shown(value)}: supported values: {listed}"


def forbidden(path: str, detail: str) -> str:
    """Return the message for a field that must not be set."""
    return f"{path}: Forbidden: {detail}"
