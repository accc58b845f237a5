"""Times and durations, parsed and formatted as Go's time package does.

Upstream: Go's time.Parse, time.ParseDuration and Duration.String
"""

import calendar
import re
from datetime import date
from functools import cache
from typing import Final

RFC3339: Final = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"

# The elements of a layout; RFC3339 allows a fraction without naming it.
_DATE_AND_CLOCK: Final = {
    "2006": "[0-9]{4}", "-": "-", "01": "[0-9]{2}", "- ": "-", "02": "[0-9]{2}", "T": "T",
    "15": "[0-9]{1,2}", ":": ":", "04": "[0-9]{2}", ": ": ":", "05": "[0-9]{2}",
}  # fmt: skip
_ZONE: Final = {"Z07:00": "Z|[+-][0-9]{2}:[0-9]{2}"}
_LAYOUTS: Final = {
    RFC3339: {**_DATE_AND_CLOCK, ".": "(?:[.,][0-9]+)?", **_ZONE},
    RFC3339_MICRO: {**_DATE_AND_CLOCK, ".000000": "[.,][0-9]{6}", **_ZONE},
}
_LIMITS: Final = {
    "01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59),
}  # fmt: skip
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DAYS_IN_400_YEARS: Final = 146_097
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
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LIMIT = 1 << 63
_DIGITS_MAX = 100


def parse_time(text: str, layout: str = RFC3339) -> tuple[int, str]:
    """Return the seconds since the epoch of a time, and the digits of its fraction.

    Raises:
        ValueError: With the text of Go's time.Parse.
    """
    match = _pattern(layout).match(text)
    assert match is not None, "all elements are optional"
    parts = dict(zip(_LAYOUTS[layout], match.groups(), strict=True))
    for element, (name, low, high) in _LIMITS.items():
        if parts[element] and not low <= int(parts[element]) <= high:
            raise ValueError(f"parsing time {_quote(text)}: {name} out of range")
    rest = text[match.end() :]
    if parts["Z07:00"] is None:
        missing = list(parts)[match.lastindex or 0].strip()
        problem = f"cannot parse {_quote(rest)} as {_quote(missing)}"
        raise ValueError(f"parsing time {_quote(text)} as {_quote(layout)}: {problem}")
    offset_s = _offset_s(text, parts["Z07:00"])
    if rest:
        raise ValueError(f"parsing time {_quote(text)}: extra text: {_quote(rest)}")
    # Python's calendar starts in the year 1, and repeats every 400 years.
    year, month, day = int(parts["2006"]), int(parts["01"]), int(parts["02"])
    if not 1 <= day <= calendar.monthrange(year or 400, month)[1]:
        raise ValueError(f"parsing time {_quote(text)}: day out of range")
    days = date(year or 400, month, day).toordinal() - (0 if year else _DAYS_IN_400_YEARS)
    clock_s = int(parts["15"]) * 3600 + int(parts["04"]) * 60 + int(parts["05"])
    fraction = parts.get(".") or parts.get(".000000") or ""
    return (days - _EPOCH_DAY) * 86_400 + clock_s - offset_s, fraction[1:]


@cache
def _pattern(layout: str) -> re.Pattern[str]:
    """Return the pattern of a layout, which matches as many of its elements as there are."""
    pattern = ""
    for element in reversed(_LAYOUTS[layout].values()):
        pattern = f"(?:({element}){pattern})?"
    return re.compile(pattern)


def _offset_s(text: str, zone: str) -> int:
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:])
    if hours > 24 or minutes > 60:
        name = "hour" if hours > 24 else "minute"
        raise ValueError(f"parsing time {_quote(text)}: time zone offset {name} out of range")
    return (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a Go duration such as "1h15m30.5s".

    Raises:
        ValueError: With the text of Go's time.ParseDuration.
    """
    # Parity: Go time/format.go ParseDuration.
    quoted = _quote(text)
    invalid = ValueError(f"time: invalid duration {quoted}")
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise invalid
    total = 0
    while rest:
        match = _PART.match(rest)
        assert match is not None
        whole, fraction, unit = match[1].lstrip("0"), match[2] or "", match[3]
        if not (match[1] or fraction) or len(whole) > _DIGITS_MAX or int(whole or "0") > _LIMIT:
            raise invalid
        if not unit:
            raise ValueError(f"time: missing unit in duration {quoted}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {_quote(unit)} in duration {quoted}")
        total += int(whole or "0") * _UNITS[unit] + _fraction(fraction[:18], _UNITS[unit])
        if total > _LIMIT:
            raise invalid
        rest = rest[match.end() :]
    if text.startswith("-"):
        return -total
    if total == _LIMIT:
        raise invalid
    return total


def _fraction(digits: str, unit_ns: int) -> int:
    # Go adds the fraction as a float64, so that digits beyond its precision are lost here, too.
    return int(float(int(digits or "0")) * (float(unit_ns) / 10.0 ** len(digits)))


def duration_problem(text: str) -> str:
    """Return the error of parsing a duration; empty if it is valid."""
    try:
        parse_duration(text)
    except ValueError as error:
        return str(error)
    return ""


def _quote(text: str) -> str:
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
