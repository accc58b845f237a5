"""Scores nodes by a function of how full they would be.

Owns the RequestedToCapacityRatio strategy and functions made of straight pieces.
Upstream: pkg/scheduler/framework/plugins/noderesources/requested_to_capacity_ratio.go,
pkg/scheduler/framework/plugins/helper/shape_score.go
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.rules import Values, as_int, full, looked_up, maximum, minimum, where
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.config.types import MAX_CUSTOM_PRIORITY_SCORE, UtilizationShapePoint
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.plugins.node_resources.resource_allocation import (
    Allocation,
    Scorer,
    percent_of,
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

    def score(nodes: NodeTable | NodeRow, allocations: Sequence[Allocation]) -> Values:
        total, weights = full(nodes, 0), full(nodes, 0)
        for weight, _, requested, allocatable in allocations:
            there = allocatable != 0
            percent = _utilization_percent(requested, where(there, allocatable, 1))
            scores = looked_up(by_percent, percent)
            # A resource that scores nothing does not weigh either.
            counted = there & (scores > 0)
            total = total + weight * where(counted, scores, 0)
            weights = weights + weight * counted
        return _rounded(total / maximum(weights, 1))

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


def _utilization_percent(requested: Values, allocatable: Values) -> Values:
    percent = percent_of(minimum(requested, allocatable), allocatable)
    bounded = minimum(maximum(percent, 0), _UTILIZATION_MAX)
    return where(requested > allocatable, _UTILIZATION_MAX, bounded)


def _rounded(means: Values) -> Values:
    # Go rounds halves away from zero; means are never negative here.
    whole = as_int(means)
    return whole + as_int(2 * (means - whole))
