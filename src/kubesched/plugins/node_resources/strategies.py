"""Scoring strategies of NodeResourcesFit: LeastAllocated, MostAllocated, RequestedToCapacityRatio.

Upstream: pkg/scheduler/framework/plugins/noderesources/{least_allocated,most_allocated,
requested_to_capacity_ratio}.go, pkg/scheduler/framework/plugins/helper/shape_score.go
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.config.types import (
    MAX_CUSTOM_PRIORITY_SCORE,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.plugins.node_resources.resource_allocation import (
    ONE_BIT,
    ScoredRequests,
    Strategy,
    percent_of,
)
from kubesched.snapshot.expressions import is_any

_Means: TypeAlias = "NDArray[np.int32]"
_UTILIZATION_MAX = 100


def strategy_of(strategy: ScoringStrategy) -> Strategy:
    """Return the configured strategy."""
    if strategy.type == "LeastAllocated":
        return LEAST_ALLOCATED
    if strategy.type == "MostAllocated":
        return MOST_ALLOCATED
    ratio = strategy.requested_to_capacity_ratio
    assert ratio is not None, "validation demands a shape"
    return _requested_to_capacity_ratio(ratio.shape)


# -- LeastAllocated: spreads pods out ----------------------------------------------------------


def _free_percent_of_row(requested: int, allocatable: int) -> int:
    return (allocatable - requested) * 100 // allocatable if requested < allocatable else 0


def _free_percent(requested: NDArray[Any], allocatable: NDArray[Any]) -> NDArray[Any]:
    overfull = requested > allocatable
    free = np.subtract(allocatable, requested, out=requested)
    if is_any(overfull):
        free = np.where(overfull, 0, free)
    return percent_of(free, allocatable)


def _mean_of_free(free: NDArray[np.float64], counted: ScoredRequests, may_lack: bool) -> _Means:
    """Return the weighted mean of percentages of one resource or two, which are overwritten."""
    # Searching for the index takes half the time of searching for the value.
    if may_lack and free.item(free.argmin()) < 0.0:
        np.maximum(free, 0.0, out=free)
    # Cutting off is right: a quotient that is no integer is never rounded up to the next. It lies
    # more than 2**-46 below that, since the divisor is less than 2**46, and up to 128 floats are
    # rounded by at most 2**-47.
    percents: _Means = free.astype(np.int32)
    if counted.weight_sum != len(percents):
        percents *= np.array(counted.weights, dtype=np.int32)[:, np.newaxis]
    total: _Means = percents[0] if len(percents) == 1 else percents[0] + percents[1]
    if counted.weight_sum == 2:
        total >>= ONE_BIT  # Takes a third of the time of a division.
    elif counted.weight_sum != 1:
        total //= counted.weight_sum
    return total


LEAST_ALLOCATED = Strategy(_free_percent_of_row, _free_percent, of_left=_mean_of_free)


# -- MostAllocated: packs pods together --------------------------------------------------------


def _taken_percent_of_row(requested: int, allocatable: int) -> int:
    # A node may look overfull, because pods without requests count as something.
    return min(requested, allocatable) * 100 // allocatable


def _taken_percent(requested: NDArray[Any], allocatable: NDArray[Any]) -> NDArray[Any]:
    return percent_of(np.minimum(requested, allocatable), allocatable)


MOST_ALLOCATED = Strategy(_taken_percent_of_row, _taken_percent)


# -- RequestedToCapacityRatio: a function of the utilization -----------------------------------


def _requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Strategy:
    """Return the strategy of a shape, whose points are by rising utilization."""
    scale = NODE_SCORE_MAX // MAX_CUSTOM_PRIORITY_SCORE
    points = [(point.utilization, point.score * scale) for point in shape]
    # Utilization is a whole percentage, so the function is a table.
    by_percent = [broken_linear(points, percent) for percent in range(_UTILIZATION_MAX + 1)]
    column = np.array(by_percent, dtype=np.int64)

    def of_row(requested: int, allocatable: int) -> int:
        return by_percent[_taken_percent_of_row(requested, allocatable)]

    def of_columns(requested: NDArray[Any], allocatable: NDArray[Any]) -> NDArray[Any]:
        # Numbers that overflow may leave the range.
        percent = np.clip(_taken_percent(requested, allocatable), 0, _UTILIZATION_MAX)
        return column[np.where(requested > allocatable, _UTILIZATION_MAX, percent).astype(np.int64)]

    return Strategy(of_row, of_columns, leaves_out_zeros=True)


def broken_linear(points: Sequence[tuple[int, int]], at: int) -> int:
    """Return the value of straight pieces between points, flat outside of them."""
    # Parity: helper/shape_score.go BuildBrokenLinearFunction, v1.36: each piece truncates.
    previous: tuple[int, int] | None = None
    for place, value in points:
        if at <= place:
            if previous is None:
                return value
            rise, run = (value - previous[1]) * (at - previous[0]), place - previous[0]
            return previous[1] + (rise // run if rise >= 0 else -(-rise // run))
        previous = (place, value)
    assert previous is not None, "a shape has at least one point"
    return previous[1]
