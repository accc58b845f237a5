"""Upstream's arithmetic of room, scoring strategies and balance, in plain Python with Go's int64.

Tests compare NodeResourcesFit and NodeResourcesBalancedAllocation with it. Imports neither.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
SHAPE = [(0, 0), (40, 7), (70, 2), (100, 10)]
"""The utilization and score of each point of the shape that `ratio` follows."""


def as_int64(number: int) -> int:
    """Return the number as it overflows."""
    return (number - INT64_MIN) % 2**64 + INT64_MIN


def quotient(dividend: int, divisor: int) -> int:
    """Return the quotient, truncated towards zero."""
    size = abs(dividend) // abs(divisor)
    return as_int64(size if (dividend < 0) == (divisor < 0) else -size)


def insufficient(amounts: Iterable[tuple[str, int, int, int]]) -> tuple[list[str], bool]:
    """Return the reasons of a rejection, and whether the node is too small for a request.

    Args:
        amounts: Name, request, allocatable and already requested amount of each resource.
    """
    reasons, is_too_small = [], False
    for name, request, allocatable, requested in amounts:
        if request > 0 and request > as_int64(allocatable - requested):
            reasons.append(f"Insufficient {name}")
            is_too_small = is_too_small or request > allocatable
    return reasons, is_too_small


def least(requested: int, capacity: int) -> int:
    """Return the score of LeastAllocated for one resource."""
    if requested > capacity:
        return 0
    return quotient(as_int64(as_int64(capacity - requested) * 100), capacity)


def most(requested: int, capacity: int) -> int:
    """Return the score of MostAllocated for one resource."""
    return quotient(as_int64(min(requested, capacity) * 100), capacity)


def weighted(
    score: Callable[[int, int], int],
    weights: Sequence[int],
    requested: Sequence[int],
    capacity: Sequence[int],
) -> int:
    """Return the weighted mean of the scores of resources that the node has."""
    total = weight_sum = 0
    for weight, amount, allocatable in zip(weights, requested, capacity, strict=True):
        if allocatable != 0:
            total = as_int64(total + as_int64(score(amount, allocatable) * weight))
            weight_sum += weight
    return quotient(total, weight_sum) if weight_sum else 0


def on_the_shape(percent: int) -> int:
    """Return the score at a whole percentage: 0 to 70, down to 20, up to 100."""
    if percent <= 0:
        return 0
    if percent <= 40:
        return quotient(70 * percent, 40)
    if percent <= 70:
        return 70 + quotient(-50 * (percent - 40), 30)
    return 20 + quotient(80 * (percent - 70), 30) if percent < 100 else 100


def ratio(weights: Sequence[int], requested: Sequence[int], capacity: Sequence[int]) -> int:
    """Return the score of RequestedToCapacityRatio with `SHAPE`."""
    total = weight_sum = 0
    for weight, amount, allocatable in zip(weights, requested, capacity, strict=True):
        if allocatable == 0:
            continue
        is_over = amount > allocatable
        score = on_the_shape(100 if is_over else quotient(as_int64(amount * 100), allocatable))
        if score > 0:
            total += weight * score
            weight_sum += weight
    return math.floor(total / weight_sum + 0.5) if weight_sum else 0


def balance(used: Sequence[int], capacity: Sequence[int]) -> int:
    """Return how evenly the resources that the node has are used: 100 if alike."""
    fractions = [min(float(u) / float(c), 1.0) for u, c in zip(used, capacity, strict=True) if c]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        # Floats are added in upstream's order; `sum` compensates for rounding since Python 3.12.
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / float(len(fractions))
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / float(len(fractions)))
    return int((1 - deviation) * 100.0)
