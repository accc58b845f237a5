"""Amounts of resources as users write them.

Owns units and rounding: what is too long to read is cut to two digits after the point, in the
direction in which it stays true. Never rounds what is reported to machines.
"""

from __future__ import annotations

from typing import Final

from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY

_UNITS: Final = (
    (1 << 50, "Pi"),
    (1 << 40, "Ti"),
    (1 << 30, "Gi"),
    (1 << 20, "Mi"),
    (1 << 10, "Ki"),
)
_PARTS: Final = 100


def amount(resource: str, value: int, *, up: bool = False) -> str:
    """Return an amount as users write it.

    Args:
        resource: what it is an amount of.
        value: millicores, bytes or units.
        up: what is asked for or lacking, which may be told as more and never as less; all else,
            such as what is free, is never told as more.
    """
    if value < 0:
        return f"-{amount(resource, -value, up=not up)}"
    if resource == CPU:
        return f"{value}m" if value % 1000 else f"{value // 1000}"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        for size, unit in _UNITS:
            if value >= size:
                return f"{_short(value, size, up=up)}{unit}"
    return f"{value}"


def _short(value: int, size: int, *, up: bool) -> str:
    parts = value * _PARTS // size
    # A quantity is rounded up to whole bytes when it is read: 7.6Gi is a part of a byte more.
    as_written = -(-parts * size // _PARTS)
    if up and as_written != value:
        parts += 1
    return f"{parts / _PARTS:.2f}".rstrip("0").rstrip(".")
