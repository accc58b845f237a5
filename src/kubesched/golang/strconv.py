"""Numbers, truth values and quoted text, parsed and formatted as Go's strconv does.

Owns the acceptance rules and error texts of Parse*, the shortest spelling of a float, and Quote.
Upstream: Go's strconv; the float encoder of encoding/json
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Final

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
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
# A sign, a prefix of the base, and digits with optional underscores.
_INTEGER: Final = re.compile(
    r"([+-]?)(?:(0[xX])(_?[0-9a-fA-F])+|(0[bB])(_?[01])+|(0[oO])(_?[0-7])+|0(_?[0-7])*|[1-9](_?[0-9])*)"
)
_DECIMAL: Final = re.compile(r"[0-9]+")
_DIGITS: Final = r"[0-9](?:_?[0-9])*"
_HEX_DIGITS: Final = r"[0-9a-f](?:_?[0-9a-f])*"
_FLOAT: Final = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?|inf(?:inity)?|nan)",
    re.IGNORECASE,
)
_HEX_FLOAT: Final = re.compile(
    rf"[+-]?0x(?:_?{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})p[+-]?{_DIGITS}",
    re.IGNORECASE,
)
# No number in range has more digits; Python rejects much longer ones.
_DIGITS_MAX: Final = 1_000
_BASES: Final = {"x": 16, "b": 2, "o": 8}


def parse_bool(text: str) -> bool:
    """Return the value of a boolean; raise ValueError with strconv's text."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _syntax("ParseBool", text)


def parse_int(text: str, bits: int) -> int:
    """Return a signed integer, in any base of Go's literals."""
    if _INTEGER.fullmatch(text) is None:
        raise _syntax("ParseInt", text)
    digits = text.lstrip("+-").replace("_", "")
    if len(digits) > _DIGITS_MAX:
        raise _range("ParseInt", text)
    value = int(digits, _base(digits))
    value = -value if text.startswith("-") else value
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _range("ParseInt", text)
    return value


def _base(digits: str) -> int:
    if digits[:1] != "0" or len(digits) == 1:
        return 10
    return _BASES.get(digits[1].lower(), 8)


def parse_uint(text: str, bits: int) -> int:
    """Return a decimal number without a sign."""
    if _DECIMAL.fullmatch(text) is None:
        raise _syntax("ParseUint", text)
    if len(text) > _DIGITS_MAX or int(text) >= 1 << bits:
        raise _range("ParseUint", text)
    return int(text)


def parse_float32(text: str) -> float:
    """Return the float32 nearest to a decimal or hexadecimal number."""
    read: Callable[[str], float] = float
    if _FLOAT.fullmatch(text) is None:
        if _HEX_FLOAT.fullmatch(text) is None:
            raise _syntax("ParseFloat", text)
        read = float.fromhex
    try:
        return float32(read(text.replace("_", "")))
    except OverflowError:
        raise _range("ParseFloat", text) from None


def _syntax(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {go_quote(text)}: invalid syntax")


def _range(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {go_quote(text)}: value out of range")


def go_quote(text: str) -> str:
    """Return text in double quotes, with unprintable characters escaped (strconv.Quote)."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escaped, text)) + '"'


def go_quote_ascii(data: bytes) -> str:
    """Return bytes in double quotes, with non-ASCII characters escaped (fmt's %+q)."""
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
    if (escape := _ESCAPES.get(char)) is not None:
        return escape
    return char if char.isprintable() else _code_escape(char)


def _code_escape(char: str) -> str:
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_float(value: float, *, single: bool = False) -> str:
    """Return the shortest digits that identify a float, as fmt's %v and strconv's 'g' do."""
    if single:
        try:
            value = float32(value)
        except OverflowError:
            value = math.copysign(math.inf, value)
    return _format(value, -4, 6, "02d")


def json_float(value: float) -> str:
    """Return a float as encoding/json writes it; NaN and infinities, which JSON lacks, by name."""
    # Parity: Go encoding/json floatEncoder: exponents only below 1e-6 and from 1e21.
    return _format(value, -6, 21, "d")


def plain_float(value: float) -> str:
    """Return the shortest digits that identify a float, without an exponent (strconv's 'f')."""
    text = repr(float(value))
    # Nearly every float is written without an exponent already.
    return _format(value, -400, 400, "d") if "e" in text or "n" in text else text.removesuffix(".0")


def _format(value: float, least_power: int, end_power: int, exponent_format: str) -> str:
    """Return a float, with an exponent if its power of ten is not in a range."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    mantissa, _, exponent = repr(float(value)).partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0"
    # The value is 0.DIGITS times ten to the power of `point`.
    point = len(digits) - len(fraction) + int(exponent or "0")
    digits = digits.rstrip("0")
    if not least_power <= point - 1 < end_power:
        head = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        power = point - 1
        return f"{sign}{head}e{'-' if power < 0 else '+'}{abs(power):{exponent_format}}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return sign + digits.ljust(point, "0")
    return f"{sign}{digits[:point]}.{digits[point:]}"


def float32(value: float) -> float:
    """Return the nearest float32 as the shortest decimal that identifies it.

    Raises:
        OverflowError: The number is too large for a float32.
    """
    packed = struct.pack("<f", value)
    exact: float = struct.unpack("<f", packed)[0]
    # Nine digits always suffice to name a float32.
    shortest = (float(f"{exact:.{digits}g}") for digits in range(1, 10))
    return next((c for c in shortest if struct.pack("<f", c) == packed), exact)
