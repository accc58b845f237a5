"""What a YAML scalar means to Go's YAML library.

Owns the resolution of plain and tagged scalars: booleans, nulls, integers, floats, times.
Never sees a node or a document.
Upstream: go.yaml.in/yaml/v2 resolve.go
"""

import math
import re
from typing import TypeAlias

Resolved: TypeAlias = bool | int | float | str | None

_PREFIX = "tag:yaml.org,2002:"
STR = _PREFIX + "str"
BOOL = _PREFIX + "bool"
INT = _PREFIX + "int"
FLOAT = _PREFIX + "float"
NULL = _PREFIX + "null"
TIMESTAMP = _PREFIX + "timestamp"
BINARY = _PREFIX + "binary"
MERGE = _PREFIX + "merge"

_RESOLVABLE = frozenset({"", STR, BOOL, INT, FLOAT, NULL, TIMESTAMP})


class YamlError(ValueError):
    """Text that Go's YAML library refuses; the message is its own."""


def _words() -> dict[str, tuple[str, Resolved]]:
    table: dict[str, tuple[str, Resolved]] = {}
    rows: tuple[tuple[str, Resolved, str], ...] = (
        (BOOL, True, "y Y yes Yes YES true True TRUE on On ON"),
        (BOOL, False, "n N no No NO false False FALSE off Off OFF"),
        (NULL, None, "~ null Null NULL"),
        (FLOAT, float("nan"), ".nan .NaN .NAN"),
        (FLOAT, float("inf"), ".inf .Inf .INF +.inf +.Inf +.INF"),
        (FLOAT, float("-inf"), "-.inf -.Inf -.INF"),
    )
    for tag, value, words in rows:
        table.update(dict.fromkeys(words.split(), (tag, value)))
    table[""] = (NULL, None)
    return table


_WORDS = _words()
_HINTED = frozenset("+-0123456789yYnNtTfFoO~.")
_FLOAT_STYLE = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?")
_TIME = re.compile(
    r"[0-9]{4}-(1[0-2]|0?[1-9])-(3[01]|[12][0-9]|0?[1-9])"
    r"([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})"
    r"| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?)?"
)


def resolve(tag: str, text: str) -> tuple[str, Resolved]:
    """Return the tag and the value of a scalar that is plain or carries a tag.

    Raises:
        YamlError: The text cannot be what its tag says.
    """
    if tag not in _RESOLVABLE:
        return tag, text
    found, value = _untagged(tag, text)
    if tag in ("", found, STR):
        return found, value
    if tag == FLOAT and found == INT and isinstance(value, int) and value < 1 << 63:
        return FLOAT, float(value)
    raise YamlError(f"yaml: cannot decode {_short(found)} `{text}` as a {_short(tag)}")


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX)


def _untagged(tag: str, text: str) -> tuple[str, Resolved]:
    if tag == STR or (text and text[0] not in _HINTED):
        return STR, text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        value = go_float(text) if _DOT_FLOAT.fullmatch(text) else None
        return (STR, text) if value is None else (FLOAT, value)
    if text[0] in "+-0123456789":
        return _number(tag, text)
    return STR, text


def _number(tag: str, text: str) -> tuple[str, Resolved]:
    if tag in ("", TIMESTAMP) and _TIME.fullmatch(text):
        # Upstream keeps a time that nobody asked for as the string it was.
        return TIMESTAMP, text
    plain = text.replace("_", "")
    integer = go_int(plain)
    if integer is not None:
        return INT, integer
    if _FLOAT_STYLE.fullmatch(plain):
        value = go_float(plain)
        if value is not None:
            return FLOAT, value
    return STR, text


_BASES = (
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8),
    (re.compile(r"([-+]?)([1-9][0-9]*|0)"), 10),
)


def go_int(text: str) -> int | None:
    """Return what strconv.ParseInt or ParseUint makes of a literal of any base."""
    for pattern, base in _BASES:
        found = pattern.fullmatch(text)
        if found is None:
            continue
        sign, digits = found.groups()
        if len(digits) > 80:
            return None
        value = int(digits, base)
        if sign == "-":
            return -value if value <= 1 << 63 else None
        # An explicit plus is for signed integers only.
        return value if value < (1 << 63 if sign else 1 << 64) else None
    return None


def go_float(text: str) -> float | None:
    """Return a decimal float, or None where strconv.ParseFloat reports a range error."""
    value = float(text)
    return None if math.isinf(value) else value
