"""Values written as Go writes them: JSON, numbers and durations.

Owns the text forms that upstream's messages and encoder use. Never reads a configuration.
Upstream: Go's encoding/json and time packages.
"""

import math
import struct
from collections.abc import Mapping

INT64_MAX = (1 << 63) - 1

_JSON_SHORT = {
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\\": "\\\\",
    '"': '\\"',
}
_JSON_ESCAPED = frozenset("<>&\u2028\u2029")


def go_json(value: object) -> str:
    """Return a value as Go's json.Marshal writes it: compact, with <, > and & escaped."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return format_float64(value)
        case str():
            return '"' + "".join(_json_rune(char) for char in value) + '"'
        case Mapping():
            pairs = (f"{go_json(str(key))}:{go_json(item)}" for key, item in value.items())
            return "{" + ",".join(pairs) + "}"
        case list() | tuple():
            return "[" + ",".join(go_json(item) for item in value) + "]"
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _json_rune(char: str) -> str:
    if char in _JSON_SHORT:
        return _JSON_SHORT[char]
    if char in _JSON_ESCAPED or ord(char) < 0x20:
        return f"\\u{ord(char):04x}"
    return char


def format_float64(value: float) -> str:
    """Return a finite float as Go's json.Marshal writes a float64."""
    # Parity: Go encoding/json floatEncoder: exponents only below 1e-6 and from 1e21.
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    mantissa, _, exponent_text = f"{value!r}".partition("e")
    digits, exponent = _digits(mantissa)
    exponent += int(exponent_text or "0")
    sign = "-" if value < 0 else ""
    if 1e-6 <= abs(value) < 1e21:
        return sign + _plain(digits, exponent)
    head = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    power = exponent - 1
    return f"{sign}{head}e{'-' if power < 0 else '+'}{abs(power)}"


def go_float(value: float, *, single: bool = False) -> str:
    """Return a float as Go's %v and 'g' write it, with the shortest digits that mean it."""
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if single:
        try:
            value = float32(value)
        except OverflowError:
            return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return format_float64(value)
    mantissa, _, exponent_text = f"{value!r}".partition("e")
    digits, point = _digits(mantissa)
    power = point + int(exponent_text or "0") - 1
    if -4 <= power < 6:
        return ("-" if value < 0 else "") + _plain(digits, power + 1)
    head = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{head}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _digits(mantissa: str) -> tuple[str, int]:
    """Split "-12.50" into its significant digits and the place of the point after them."""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) - (len(whole + fraction) - len(digits))
    return digits.rstrip("0") or "0", point


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return digits[:point] + "." + digits[point:]


def float32(value: float) -> float:
    """Return the nearest float32, spelled as the shortest decimal that means it.

    Raises:
        OverflowError: The number is too large for a float32.
    """
    packed = struct.pack("<f", value)
    exact: float = struct.unpack("<f", packed)[0]
    # Nine digits always suffice to name a float32.
    shortest = (float(f"{exact:.{digits}g}") for digits in range(1, 10))
    return next((c for c in shortest if struct.pack("<f", c) == packed), exact)


_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_DIGITS = frozenset("0123456789")


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a Go duration such as "1h15m30.5s".

    Raises:
        ValueError: With the text of Go's time.ParseDuration.
    """
    # Parity: Go time/format.go ParseDuration.
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {_time_quote(text)}")
    total = 0
    while rest:
        part, rest = _duration_part(text, rest)
        total += part
        if total > 1 << 63:
            raise ValueError(f"time: invalid duration {_time_quote(text)}")
    if negative:
        return -total
    if total > INT64_MAX:
        raise ValueError(f"time: invalid duration {_time_quote(text)}")
    return total


def _duration_part(text: str, rest: str) -> tuple[int, str]:
    """Read one number with its unit off the front of what is left of a duration."""
    invalid = ValueError(f"time: invalid duration {_time_quote(text)}")
    whole = _leading(rest, _DIGITS)
    after = rest[len(whole) :]
    fraction = ""
    if after.startswith("."):
        fraction = _leading(after[1:], _DIGITS)
        after = after[1 + len(fraction) :]
    if not whole and not fraction:
        raise invalid
    if int(whole or "0") > 1 << 63:
        raise invalid
    unit_end = next((i for i, c in enumerate(after) if c == "." or c in _DIGITS), len(after))
    unit, after = after[:unit_end], after[unit_end:]
    if not unit:
        raise ValueError(f"time: missing unit in duration {_time_quote(text)}")
    if unit not in _UNITS:
        raise ValueError(f"time: unknown unit {_time_quote(unit)} in duration {_time_quote(text)}")
    value = int(whole or "0") * _UNITS[unit]
    if fraction:
        # Go adds the fraction as a float64, so the digits beyond its precision are lost alike.
        kept = fraction[:18]
        value += int(float(int(kept)) * (float(_UNITS[unit]) / 10.0 ** len(kept)))
    if value > 1 << 63:
        raise invalid
    return value, after


def _leading(text: str, allowed: frozenset[str]) -> str:
    end = next((i for i, char in enumerate(text) if char not in allowed), len(text))
    return text[:end]


def _time_quote(text: str) -> str:
    # Parity: Go time/format.go quote: every byte outside printable ASCII is written as \xNN.
    out: list[str] = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif " " <= char < "\x80":
            out.append(char)
        else:
            out.extend(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    return '"' + "".join(out) + '"'


def format_duration(nanoseconds: int) -> str:
    """Return nanoseconds as Go's Duration.String writes them: "1m30s", "250ms", "0s"."""
    if nanoseconds == 0:
        return "0s"
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left < 1_000:
        return f"{sign}{left}ns"
    if left < 1_000_000:
        return f"{sign}{_decimal(left, 1_000)}\u00b5s"
    if left < 1_000_000_000:
        return f"{sign}{_decimal(left, 1_000_000)}ms"
    minutes, within = divmod(left, 60_000_000_000)
    out = f"{_decimal(within, 1_000_000_000)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        out = f"{minutes}m{out}"
        if hours:
            out = f"{hours}h{out}"
    return sign + out


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    width = len(str(unit)) - 1
    return f"{whole}.{fraction:0{width}d}".rstrip("0")
