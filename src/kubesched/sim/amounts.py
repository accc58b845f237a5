"""Amounts of a whole cluster, as people read them.

Owns shares, and that sums are told in cores. All other units are `model.amounts`'. Never rounds
what is reported to machines.
"""

from __future__ import annotations

from kubesched.model import amounts
from kubesched.model.resources import CPU


def amount(resource: str, value: int) -> str:
    """Return an amount of a resource in the unit its users think in."""
    if resource == CPU:
        return f"{value / 1000:.3f}".rstrip("0").rstrip(".")
    return amounts.amount(resource, value)


def percent(value: float) -> str:
    """Return a share with one digit after the point."""
    return f"{value:.1f}%"
