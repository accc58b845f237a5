"""Scores nodes by a function of how full they would be.

Owns the RequestedToCapacityRatio strategy and functions made of straight pieces.
Upstream: pkg/scheduler/framework/plugins/noderesources/requested_to_capacity_ratio.go,
pkg/scheduler/framework/plugins/helper/shape_score.go
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.config.types import MAX_CUSTOM_PRIORITY_SCORE, UtilizationShapePoint
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.plugins.node_resources.resource_allocation import (
    Allocation,
    Scorer,
    percent_of,
    weighted_mean,
)

_UTILIZATION_MAX = 100


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Scorer:
    """Return the scorer of a shape, whose points are by rising utilization."""
    scale = NODE_SCORE_MAX // MAX_CUSTOM_PRIORITY_SCORE
    points = [(point.utilization, point.score * scale) for point in shape]
    # Utilization is a whole percentage, so the function is a table.
    by_percent = np.array(
        [broken_linear(points, percent) for percent in range(_UTILIZATION_MAX + 1)], dtype=np.int64
    )

    def score(allocations: Sequence[Allocation], node_count: int) -> IntColumn:
        scored = []
        for one in allocations:
            scores = by_percent[_utilization_percent(one)]
            # A resource that scores nothing does not weigh either.
            scored.append((scores, one.counted & (scores > 0), one.weight))
        total, weights = weighted_mean(scored, node_count)
        return _rounded(total / np.maximum(weights, 1))

    return score


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


def _utilization_percent(one: Allocation) -> IntColumn:
    requested = one.requested
    percent = percent_of(requested, one.allocatable)
    full = requested > one.allocatable
    return np.clip(np.where(full, _UTILIZATION_MAX, percent), 0, _UTILIZATION_MAX)


def _rounded(means: np.ndarray[tuple[int], np.dtype[np.float64]]) -> IntColumn:
    # Go rounds halves away from zero; means are never negative here.
    whole = np.trunc(means)
    rounded: IntColumn = (whole + (means - whole >= 0.5)).astype(np.int64)
    return rounded
