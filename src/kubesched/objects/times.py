"""RFC 3339 times as the API writes them.

Owns the reading and writing of one time text. Never reads a clock.
Upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go
"""

import re
import time
from functools import lru_cache
from typing import Final

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@lru_cache(maxsize=65_536)
def parse_time(text: str) -> float:
    """Return seconds since the epoch, or raise ValueError for what is not an RFC 3339 time."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r:.60} is not an RFC 3339 time such as 2006-01-02T15:04:05Z")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    _check_ranges(text, (year, month, day), (hour, minute, second))
    seconds = _days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    seconds -= _offset_s(text, found[8], found[9], found[10])
    # Nine digits are all upstream keeps of a fraction.
    fraction = (found[7] or "0")[:9]
    return seconds + float(f"0.{fraction}")


def _check_ranges(text: str, date: tuple[int, int, int], clock: tuple[int, int, int]) -> None:
    year, month, day = date
    hour, minute, second = clock
    if not 1 <= month <= 12:
        raise ValueError(f"{text!r} has no such month")
    if not 1 <= day <= _MONTH_DAYS[month - 1] + (month == 2 and _is_leap(year)):
        raise ValueError(f"{text!r} has no such day")
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} has no such time of day")


def _offset_s(text: str, sign: str | None, hours: str | None, minutes: str | None) -> int:
    if sign is None or hours is None or minutes is None:
        return 0
    if int(hours) > 24 or int(minutes) > 60:
        raise ValueError(f"{text!r} has no such time zone")
    return (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Count days from 1970-01-01 in the proleptic Gregorian calendar, year 0 included."""
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    days += sum(_MONTH_DAYS[: month - 1]) + (month > 2 and _is_leap(year)) + day - 1
    return days - 719_162


@lru_cache(maxsize=64)
def _text(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def time_text(now_s: float) -> str:
    """Return the time in whole seconds."""
    return f"{_text(int(now_s))}Z"


def micro_time_text(now_s: float) -> str:
    """Return the time with microseconds."""
    micros = round(now_s * 1_000_000)
    return f"{_text(micros // 1_000_000)}.{micros % 1_000_000:06d}Z"
