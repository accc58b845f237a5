"""Whether a text is a cron schedule.

Owns the five fields, their ranges and names, and the words for what is wrong.
Upstream: k8s.io/utils/third_party/forked/robfig/cron, pkg/util/parsers
"""

from __future__ import annotations

from dataclasses import dataclass

_DESCRIPTORS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Bounds(0, 6, {name: number for number, name in enumerate(_DAYS)}),
)


class _Wrong(Exception):  # noqa: N818  # Never leaves this module.
    pass


def schedule_problem(schedule: str) -> str:
    """Return what keeps a text from being a schedule, empty if nothing does."""
    try:
        _check(schedule)
    except _Wrong as problem:
        return str(problem)
    return ""


def _check(schedule: str) -> None:
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        _, _, text = text.partition(" ")
        text = text.strip()
    if text.startswith("@"):
        if text not in _DESCRIPTORS and not text.startswith("@every "):
            raise _Wrong(f"unrecognized descriptor: {text}")
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _Wrong(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if part:
                _check_range(part, bounds)


def _check_range(text: str, bounds: _Bounds) -> None:
    range_text, *steps = text.split("/")
    low_text, *ends = range_text.split("-")
    if low_text in {"*", "?"}:
        low, high = bounds.low, bounds.high
        if ends:
            raise _Wrong(f"failed to parse int from : {low_text}")
    else:
        low = _number(low_text, bounds)
        if len(ends) > 1:
            raise _Wrong(f"too many hyphens: {text}")
        high = _number(ends[0], bounds) if ends else low
    if len(steps) > 1:
        raise _Wrong(f"too many slashes: {text}")
    step = _number(steps[0], _Bounds(0, 0, {})) if steps else 1
    if steps and not ends and low_text not in {"*", "?"}:
        high = bounds.high
    if low < bounds.low:
        raise _Wrong(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise _Wrong(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise _Wrong(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise _Wrong(f"step of range should be a positive number: {text}")


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    if named is not None:
        return named
    if not text.isascii() or not text.removeprefix("-").isdigit():
        raise _Wrong(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    number = int(text)
    if number < 0:
        raise _Wrong(f"negative number ({number}) not allowed: {text}")
    return number
