"""Cron schedules: parsing, and the next time.

Five fields or a descriptor, and the search for the next time in a time zone. Without a zone, a
schedule is in UTC, the zone of a control plane's containers.
Upstream: github.com/robfig/cron/v3 parser.go, spec.go, constantdelay.go; pkg/util/parsers
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesched.golang.strconv import go_quote
from kubesched.golang.time import parse_duration

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov",
                  "dec")  # fmt: skip
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_YEARS_MAX: Final = 5
_DIGITS_MAX: Final = 18


class ScheduleError(ValueError):
    """An invalid schedule; the message is upstream's."""


class Schedule(Protocol):
    """A schedule."""

    def next_s(self, after_s: float) -> float | None:
        """Return the first time after this one, in seconds since the epoch; None if never."""


def parse_schedule(text: str) -> Schedule:
    """Parse a schedule: an optional zone, then five fields or a descriptor."""
    if not text:
        raise ScheduleError("empty spec string")
    zone: tzinfo = UTC
    if text.startswith(("TZ=", "CRON_TZ=")):
        named, space, text = text.partition(" ")
        if not space:
            raise ScheduleError("invalid schedule format: slice bounds out of range [:-1]")
        name = named.partition("=")[2]
        found = zone_of(name)
        if found is None:
            raise ScheduleError(f"provided bad location {name}: unknown time zone {name}")
        zone, text = found, text.strip()
    if text.startswith(_EVERY):
        return _every(text)
    if text.startswith("@"):
        if text not in _WORDS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _WORDS[text]
    fields = text.split()
    if len(fields) != len(_BOUNDS):
        joined = " ".join(fields)
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{joined}]")
    minutes, hours, days, months, weekdays = map(_field, fields, _BOUNDS)
    return FieldSchedule(minutes, hours, days, months, weekdays, zone)


def schedule_problem(text: str) -> str:
    """Return the error of parsing a schedule; empty if it is valid."""
    try:
        parse_schedule(text)
    except ScheduleError as error:
        return str(error)
    return ""


def zone_of(name: str) -> tzinfo | None:
    """Return a time zone by name; None if there is none."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class EverySchedule:
    """A schedule with a fixed period."""

    period_s: int

    def next_s(self, after_s: float) -> float | None:
        """Return the first time after this one."""
        return math.floor(after_s) + self.period_s


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that a field allows."""

    allowed: frozenset[int]
    is_any: bool
    """Whether it is a star; then only the other of the two day fields counts."""


@dataclass(frozen=True, slots=True)
class FieldSchedule:
    """A schedule by five fields, in local time."""

    minutes: _Values
    hours: _Values
    days: _Values
    months: _Values
    weekdays: _Values
    zone: tzinfo

    def next_s(self, after_s: float) -> float | None:
        """Return the first time after this one.

        Parity: spec.go Next, v3.0.1: fields are looked at from the month down, and whenever one
        wraps around, from the month again; hours and minutes go by real time, days by the calendar.
        """
        at = datetime.fromtimestamp(math.floor(after_s) + 1, self.zone)
        # Seconds are always 0.
        if at.second:
            at = self._later(at, timedelta(seconds=60 - at.second))
        last_year = at.year + _YEARS_MAX
        while at.year <= last_year:
            moved = self._next_day(at)
            if moved is None:
                moved = self._next_hour(at)
            if moved is None:
                moved = self._next_minute(at)
            if moved is None:
                return at.timestamp()
            at = moved
        return None

    def _next_day(self, at: datetime) -> datetime | None:
        """Return the start of the next month or day to check; None if this day matches."""
        if at.month not in self.months.allowed:
            year, month = (at.year, at.month + 1) if at.month < 12 else (at.year + 1, 1)
            return self._begins(year, month, 1)
        if self._is_day(at):
            return None
        tomorrow = at.date() + timedelta(days=1)
        return self._begins(tomorrow.year, tomorrow.month, tomorrow.day)

    def _begins(self, year: int, month: int, day: int) -> datetime:
        at = datetime(year, month, day, tzinfo=self.zone)
        # A midnight that a clock change skips is the moment after the change.
        return self._later(at, timedelta(0))

    def _next_hour(self, at: datetime) -> datetime | None:
        if at.hour in self.hours.allowed:
            return None
        return self._later(at, timedelta(minutes=60 - at.minute))

    def _next_minute(self, at: datetime) -> datetime | None:
        if at.minute in self.minutes.allowed:
            return None
        return self._later(at, timedelta(minutes=1))

    def _is_day(self, at: datetime) -> bool:
        is_day = at.day in self.days.allowed
        is_weekday = at.isoweekday() % 7 in self.weekdays.allowed
        if self.days.is_any or self.weekdays.is_any:
            return is_day and is_weekday
        return is_day or is_weekday

    def _later(self, at: datetime, by: timedelta) -> datetime:
        # Computed in epoch seconds, since local time may change in between.
        return datetime.fromtimestamp(at.timestamp() + by.total_seconds(), self.zone)


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: int
    high: int
    names: dict[str, int]


_BOUNDS: Final = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


def _every(text: str) -> EverySchedule:
    try:
        period_ns = parse_duration(text.removeprefix(_EVERY))
    except ValueError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from error
    return EverySchedule(max(1, period_ns // 1_000_000_000))


def _field(text: str, bounds: _Bounds) -> _Values:
    ranges = [_range(part, bounds) for part in text.split(",") if part]
    allowed = frozenset(value for values, _ in ranges for value in values)
    return _Values(allowed, any(is_any for _, is_any in ranges))


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    """Return the values of `low-high/step`, and whether that is all of them by a star."""
    limits, *steps = text.split("/")
    low_text, *ends = limits.split("-")
    is_any = low_text in ("*", "?")
    if is_any:
        low, high = bounds.low, bounds.high
    else:
        low = high = _number(low_text, bounds.names)
        if len(ends) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        if ends:
            high = _number(ends[0], bounds.names)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not ends:
        high = bounds.high
    _check(low, high, step, bounds, text)
    return range(low, high + 1, step), is_any and step == 1


def _check(low: int, high: int, step: int, bounds: _Bounds, text: str) -> None:
    if low < bounds.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        why = f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax"
        raise ScheduleError(f"failed to parse int from {text}: {why}")
    number = int(text)
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
