"""Resource amounts as users write them: `500m`, `7.6Gi`.

Rounded to two decimal places, requests up and free amounts down. For text only; JSON keeps exact
numbers.
"""

from __future__ import annotations

from typing import Final

from kubesched.api.resource_requests import CPU, EPHEMERAL_STORAGE, MEMORY

_UNITS: Final = (
    (1 << 50, "Pi"),
    (1 << 40, "Ti"),
    (1 << 30, "Gi"),
    (1 << 20, "Mi"),
    (1 << 10, "Ki"),
)
_HUNDREDTHS: Final = 100


def amount(resource: str, value: int, *, up: bool = False) -> str:
    """Return an amount as users write it.

    Args:
        resource: the resource name.
        value: millicores, bytes or units.
        up: round up, for requests and missing amounts; free amounts are rounded down.
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
    hundredths = value * _HUNDREDTHS // size
    # A quantity is rounded up to whole bytes when it is parsed: 7.6Gi is a fraction of a byte more.
    as_parsed = -(-hundredths * size // _HUNDREDTHS)
    if up and as_parsed != value:
        hundredths += 1
    return f"{hundredths / _HUNDREDTHS:.2f}".rstrip("0").rstrip(".")
