"""Types of command-line flags: parsing, errors and formatting.

Owns what each type accepts, its error texts, what repeating a flag means, and the text in `/flagz`.
Upstream: spf13/pflag, component-base cli/flag, logs/api/v1/pflags.go, version/verflag
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kubesched.api.quantity import FORMAT_WRONG, Quantity
from kubesched.config.versions import check_reported_version
from kubesched.framework.sandbox.budget import Budgets
from kubesched.golang.encoding_csv import csv_line, csv_record
from kubesched.golang.strconv import (
    go_float,
    go_quote,
    parse_bool,
    parse_float32,
    parse_int,
    parse_uint,
)
from kubesched.golang.time import format_duration, parse_duration
from kubesched.ops.serving import NamedCertKey


class FlagType(NamedTuple):
    """A type of flags."""

    name: str
    parse: Callable[[str, Any], Any]
    """Returns the value after a use of the flag, from its text and the value before.

    Raises ValueError with upstream's text.
    """
    format: Callable[[Any], str] = str
    """Returns a value as text."""
    default: Any = ""
    replaces_default: bool = False
    """Whether the first use replaces the default, while further ones add to it."""
    alone: str = ""
    """The value of the flag without one; empty if it needs a value."""

    def of(self, default: object) -> FlagType:
        """Return the type with another default."""
        return self._replace(default=default)


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _list_text(values: Sequence[str]) -> str:
    return f"[{csv_line(list(values))}]"


def _parse_ip(text: str, previous: str) -> str:
    if not text:
        return previous
    try:
        # net.ParseIP rejects zones.
        if "%" in text or "/" in text:
            raise ValueError(text)
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        raise ValueError(f"failed to parse IP: {go_quote(text)}") from None
    return str(getattr(address, "ipv4_mapped", None) or address)


def _parse_text_map(text: str, previous: Mapping[str, str] | None) -> dict[str, str]:
    count = text.count("=")
    if count == 0:
        raise ValueError(f"{text} must be formatted as key=value")
    pairs = {}
    for pair in [text.strip('"')] if count == 1 else csv_record(text):
        key, is_pair, value = pair.partition("=")
        if not is_pair:
            raise ValueError(f"{pair} must be formatted as key=value")
        pairs[key] = value
    return {**(previous or {}), **pairs}


def _text_map_text(value: Mapping[str, str] | None) -> str:
    return _list_text([f"{key}={text}" for key, text in sorted((value or {}).items())])


def _parse_named_cert_key(
    text: str, previous: tuple[NamedCertKey, ...]
) -> tuple[NamedCertKey, ...]:
    pair, has_names, names = text.partition(":")
    if has_names and not names.strip():
        raise ValueError("empty names list is not allowed")
    files = [part.strip() for part in pair.strip().split(",")]
    if len(files) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    listed = tuple(name.strip() for name in names.strip().split(",")) if has_names else ()
    return (*previous, NamedCertKey(files[0], files[1], listed))


def _parse_gates(text: str, previous: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return settings of feature gates by component; "" is the default component."""
    gates = dict(previous)
    for pair in filter(None, text.split(",")):
        component, has_component, setting = pair.partition(":")
        if not has_component:
            component, setting = "", pair
        component = component.strip()
        gates[component] = (*gates.get(component, ()), setting.strip())
    return gates


def _gates_text(gates: Mapping[str, Sequence[str]]) -> str:
    return ",".join(f"{name}:{setting}" for name in sorted(gates) for setting in gates[name])


def _parse_vmodule(text: str, previous: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    return (*previous, *map(_pattern_level, filter(None, text.split(","))))


def _pattern_level(item: str) -> tuple[str, int]:
    parts = item.split("=")
    if len(parts) != 2 or not parts[0] or not parts[1]:
        raise ValueError(f"{go_quote(item)} does not have the pattern=N format")
    try:
        return parts[0], parse_uint(parts[1], 31)
    except ValueError as problem:
        raise ValueError(f"parsing verbosity in {go_quote(item)}: {problem}") from None


def _parse_quantity(text: str, _: str) -> str:
    if text != text.strip():
        raise ValueError(FORMAT_WRONG)
    return str(Quantity.parse(text))


def _parse_version(text: str, _: str) -> str:
    """Return whether and how to print the version, or a text to report as the version."""
    if text.startswith("v"):
        check_reported_version(text)
    elif text != "raw":
        return _bool_text(parse_bool(text))
    return text


def _parse_plugin_budget(text: str, previous: Budgets) -> Budgets:
    name, is_named, duration = text.rpartition("=")
    seconds = parse_duration(duration) / 1e9
    if seconds < 0:
        raise ValueError("a time budget cannot be negative")
    if not is_named:
        return replace(previous, default_s=seconds)
    if not name:
        raise ValueError("the name of a plugin is missing before =")
    return replace(previous, by_plugin={**previous.by_plugin, name: seconds})


def _plugin_budgets_text(budgets: Budgets) -> str:
    named = (f"{name}={_seconds(budget_s)}" for name, budget_s in budgets.by_plugin.items())
    return ",".join((_seconds(budgets.default_s), *named))


def _seconds(seconds: float) -> str:
    return format_duration(round(seconds * 1e9))


TEXT: Final = FlagType("string", lambda text, _: text)
BOOL: Final = FlagType("bool", lambda text, _: parse_bool(text), _bool_text, False, alone="true")
INT: Final = FlagType("int", lambda text, _: parse_int(text, 64), default=0)
INT32: Final = FlagType("int32", lambda text, _: parse_int(text, 32), default=0)
FLOAT32: Final = FlagType(
    "float32", lambda text, _: parse_float32(text), lambda value: go_float(value, single=True), 0.0
)
DURATION: Final = FlagType("duration", lambda text, _: parse_duration(text), format_duration, 0)
"""In nanoseconds."""
IP: Final = FlagType("ip", _parse_ip)
"""An empty text leaves it unchanged."""
TEXTS: Final = FlagType(
    "stringSlice", lambda text, previous: (*previous, *csv_record(text)), _list_text, (), True
)
"""Comma-separated."""
WHOLE_TEXTS: Final = FlagType(
    "stringArray", lambda text, previous: (*previous, text), _list_text, ()
)
"""One for each use of the flag; commas have no meaning."""
INT32S: Final = FlagType(
    "int32Slice",
    lambda text, previous: (*previous, *(parse_int(part, 32) for part in text.split(","))),
    lambda values: f"[{','.join(map(str, values))}]",
    default=(),
    replaces_default=True,
)
TEXT_MAP: Final = FlagType("stringToString", _parse_text_map, _text_map_text, None)
"""None until the flag is used."""
NAMED_CERT_KEYS: Final = FlagType(
    "namedCertKey", _parse_named_cert_key, lambda values: f"[{';'.join(map(str, values))}]", ()
)
GATES: Final = FlagType("colonSeparatedMultimapStringString", _parse_gates, _gates_text, {})
LEVEL: Final = FlagType("Level", lambda text, _: parse_uint(text, 31), default=0)
VMODULE: Final = FlagType(
    "pattern=N,...",
    _parse_vmodule,
    lambda value: ",".join(f"{pattern}={level}" for pattern, level in value),
    default=(),
)
QUANTITY: Final = FlagType("quantity", _parse_quantity, default="0")
"""A size such as 512 or 2Ki, in canonical form."""
VERSION: Final = FlagType("version", _parse_version, default="false", alone="true")
PLUGIN_BUDGETS: Final = FlagType(
    "[NAME=]DURATION", _parse_plugin_budget, _plugin_budgets_text, Budgets()
)
