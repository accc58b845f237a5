"""Values written as Go writes them: quoted text, JSON, floats and durations.

Owns the spelling that readers of Kubernetes' logs and metrics expect. Never parses.
Upstream: Go's strconv.Quote, encoding/json, time.Duration.String
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
# encoding/json hides these from browsers; U+2028 and U+2029 end a line in JavaScript.
_HTML = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
_LINE_ENDS = str.maketrans({"\u2028": "\\u2028", "\u2029": "\\u2029"})


def go_quote(text: str) -> str:
    """Return text in double quotes, with what cannot be printed escaped (strconv.Quote)."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def go_quote_ascii(data: bytes) -> str:
    """Return bytes in double quotes, with everything beyond ASCII escaped (fmt's %+q)."""
    parts = []
    for char in data.decode("utf-8", "surrogateescape"):
        if "\udc80" <= char <= "\udcff":
            parts.append(f"\\x{ord(char) - 0xDC00:02x}")
        elif char < "\x80":
            parts.append(_escaped(char))
        else:
            parts.append(_code_escape(char))
    return '"' + "".join(parts) + '"'


def _escaped(char: str) -> str:
    if (known := _ESCAPES.get(char)) is not None:
        return known
    return char if char.isprintable() else _code_escape(char)


def _code_escape(char: str) -> str:
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_float(value: float) -> str:
    """Return a float as encoding/json writes it; the three that JSON lacks by their names."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return plain_float(value)
    mantissa, _, exponent = repr(value).partition("e")
    sign, digits = exponent[0], exponent[1:].lstrip("0")
    return f"{mantissa.removesuffix('.0')}e{sign}{digits}"


def plain_float(value: float) -> str:
    """Return the shortest decimal digits that mean the float, without an exponent."""
    text = repr(value)
    if "e" in text:
        text = format(_decimal(text), "f")
    return text.removesuffix(".0")


def _decimal(text: str) -> Any:
    # Imported when needed: nearly every float has a short form.
    from decimal import Decimal  # noqa: PLC0415

    return Decimal(text)


def go_duration(duration: timedelta) -> str:
    """Return a duration as Go prints it: `1h2m3.5s`, `1.5ms`, `0s`."""
    micros = round(duration / timedelta(microseconds=1))
    if micros == 0:
        return "0s"
    sign = "-" if micros < 0 else ""
    micros = abs(micros)
    if micros < 1000:
        return f"{sign}{micros}µs"
    if micros < 1_000_000:
        return f"{sign}{_decimals(micros, 3)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimals(rest, 6)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _decimals(value: int, digits: int) -> str:
    whole, part = divmod(value, 10**digits)
    return f"{whole}.{part:0{digits}d}".rstrip("0").rstrip(".")


def go_json(value: object, *, escape_html: bool = True) -> str:
    """Return a value as encoding/json writes it: no spaces, keys of a map sorted."""
    return "".join(_json_parts(value, _HTML if escape_html else _LINE_ENDS))


def _json_parts(value: object, table: dict[int, str]) -> list[str]:
    if isinstance(value, str):
        return [json.dumps(value, ensure_ascii=False).translate(table)]
    if value is None or isinstance(value, bool):
        return ["null" if value is None else "true" if value else "false"]
    if isinstance(value, int):
        return [str(int(value))]
    if isinstance(value, float):
        return [go_float(value)]
    if isinstance(value, timedelta):
        return [str(round(value / timedelta(microseconds=1)) * 1000)]
    if isinstance(value, BaseException):
        return _json_parts(str(value), table)
    return _json_container(value, table)


def _json_container(value: object, table: dict[int, str]) -> list[str]:
    if isinstance(value, Mapping):
        items = sorted((str(key), item) for key, item in value.items())
        return _json_object(items, table)
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=str)
    if (items_of := getattr(value, "json_items", None)) is not None:
        return _json_object(items_of(), table)
    if isinstance(value, (list, tuple)):
        parts = ["["]
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            parts += _json_parts(item, table)
        parts.append("]")
        return parts
    return _json_other(value, table)


def _json_other(value: object, table: dict[int, str]) -> list[str]:
    try:
        known = msgspec.to_builtins(value, order="deterministic")
    except (TypeError, ValueError):
        return _json_parts(str(value), table)
    if isinstance(known, dict):
        # A struct keeps the order of its fields, as in Go.
        return _json_object(list(known.items()), table)
    return _json_parts(known, table)


def _json_object(items: list[tuple[str, object]], table: dict[int, str]) -> list[str]:
    parts = ["{"]
    for index, (key, item) in enumerate(items):
        if index:
            parts.append(",")
        parts += _json_parts(str(key), table)
        parts.append(":")
        parts += _json_parts(item, table)
    parts.append("}")
    return parts
