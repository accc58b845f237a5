"""Amounts as people read them.

Owns units: cores, Gi, plain counts. Never rounds what is reported to machines.
"""

from __future__ import annotations

from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY

_BYTES = (MEMORY, EPHEMERAL_STORAGE)
_UNITS = ((1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


def amount(resource: str, value: int) -> str:
    """Return an amount of a resource in the unit its users think in."""
    if resource == CPU:
        return _short(value / 1000)
    if resource in _BYTES or resource.startswith("hugepages-"):
        for size, unit in _UNITS:
            if abs(value) >= size:
                return f"{_short(value / size)}{unit}"
    return f"{value}"


def percent(value: float) -> str:
    """Return a share with one digit after the point."""
    return f"{value:.1f}%"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
