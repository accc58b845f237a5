"""Resolution of YAML scalars by Go's rules: booleans, nulls, integers, floats, times.

Upstream: go.yaml.in/yaml/v2 resolve.go
"""

import math
import re
from typing import TypeAlias

from kubesched.golang.strconv import parse_int

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
    """Text that Go's YAML library rejects; the message is its own."""


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
        YamlError: The text does not have the type of its tag.
    """
    if tag not in _RESOLVABLE:
        return tag, text
    resolved, value = _untagged(tag, text)
    if tag in ("", resolved, STR):
        return resolved, value
    if tag == FLOAT and resolved == INT and isinstance(value, int) and value < 1 << 63:
        return FLOAT, float(value)
    raise YamlError(f"yaml: cannot decode {_short(resolved)} `{text}` as a {_short(tag)}")


def _short(tag: str) -> str:
    return "!!" + tag.removeprefix(_PREFIX)


def _untagged(tag: str, text: str) -> tuple[str, Resolved]:
    if tag == STR or (text and text[0] not in _HINTED):
        return STR, text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        value = _float(text) if _DOT_FLOAT.fullmatch(text) else None
        return (STR, text) if value is None else (FLOAT, value)
    if text[0] in "+-0123456789":
        return _number(tag, text)
    return STR, text


def _number(tag: str, text: str) -> tuple[str, Resolved]:
    if tag in ("", TIMESTAMP) and _TIME.fullmatch(text):
        # Upstream keeps a time as a string if the target is untyped.
        return TIMESTAMP, text
    plain = text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return INT, integer
    if _FLOAT_STYLE.fullmatch(plain):
        value = _float(plain)
        if value is not None:
            return FLOAT, value
    return STR, text


def _integer(text: str) -> int | None:
    """Return the value of a literal that strconv.ParseInt or ParseUint accepts."""
    try:
        value = parse_int(text, 65)
    except ValueError:
        return None
    # Only a literal without a sign may be a uint64.
    return value if -(1 << 63) <= value < (1 << (63 if text[0] in "+-" else 64)) else None


def _float(text: str) -> float | None:
    """Return a decimal float; None where strconv.ParseFloat reports a range error."""
    value = float(text)
    return None if math.isinf(value) else value
