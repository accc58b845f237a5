"""Scores nodes by a function of how full they would be.

Owns the RequestedToCapacityRatio strategy and functions made of straight pieces.
Upstream: pkg/scheduler/framework/plugins/noderesources/requested_to_capacity_ratio.go,
pkg/scheduler/framework/plugins/helper/shape_score.go
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.rules import Values, as_int, looked_up, maximum, minimum, where
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.config.types import MAX_CUSTOM_PRIORITY_SCORE, UtilizationShapePoint
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.plugins.node_resources.resource_allocation import (
    Counted,
    Score,
    Scorer,
    allocations,
    as_table,
    is_by_integers,
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

    def score_of(requested: Values, allocatable: Values) -> Values:
        return looked_up(by_percent, as_int(_utilization_percent(requested, allocatable)))

    def score(nodes: NodeTable | NodeRow, counted: Counted) -> Values:
        if not isinstance(nodes, NodeRow):
            return _mean(nodes, counted, score_of)
        if not is_by_integers(nodes, counted):
            return _mean(as_table(nodes), counted, score_of).item()
        return _row_mean(nodes, counted, score_of)

    return score


def _mean(nodes: NodeTable, counted: Counted, score_of: Score) -> IntColumn:
    total = weights = np.zeros(len(nodes), dtype=np.int64)
    if counted.names:
        _, requested, allocatable, there = allocations(nodes, counted)
        if there is not None:
            allocatable = np.where(there, allocatable, 1)
        for place, weight in enumerate(counted.weights):
            scores = score_of(requested[place], allocatable[place])
            # A resource that scores nothing does not weigh either.
            weighs = scores > 0 if there is None else there[place] & (scores > 0)
            total = total + weight * np.where(weighs, scores, 0)
            weights = weights + weight * weighs
    means: IntColumn = _rounded(total / np.maximum(weights, 1))
    return means


def _row_mean(row: NodeRow, counted: Counted, score_of: Score) -> int:
    total = weights = 0
    for name, weight, request, is_nonzero in counted.resources:
        allocated = row.nonzero_requested[name] if is_nonzero else row.requested[name]
        whole = row.allocatable[name]
        score = score_of(allocated + request, whole) if whole else 0
        if score > 0:
            total += weight * score
            weights += weight
    mean: int = _rounded(total / max(weights, 1))
    return mean


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
