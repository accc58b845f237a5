"""Scores nodes by what would stay free.

Owns the LeastAllocated strategy, which spreads pods out.
Upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import IntColumn, NodeCells
from kubesched.columns.rules import Values, difference, is_any, where
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.plugins.node_resources.resource_allocation import (
    CellsScorer,
    Counted,
    FloatLines,
    Scratch,
    float_lines,
    percent_of,
    weighted_mean,
)

_SCRATCH = Scratch()


def least_allocated(nodes: NodeTable | NodeRow, counted: Counted) -> Values:
    """Return the weighted mean of the free percentage of each resource."""
    if not isinstance(nodes, NodeRow):
        found = float_lines(nodes, counted)
        if found is not None:
            return _mean_free_percent(found, counted)
    return weighted_mean(nodes, counted, _free_percent)


def _mean_free_percent(found: FloatLines, counted: Counted) -> IntColumn:
    allocated, allocatable = found
    free = _SCRATCH.lines(*allocated.shape)
    np.subtract(allocatable, allocated, out=free)
    for place, one in enumerate(counted.resources):
        free[place] -= one.request
    if is_any(free < 0.0):
        np.maximum(free, 0.0, out=free)
    free *= 100.0
    free /= allocatable
    # A quotient of integers that floats hold is never rounded up to the next integer.
    percents: NDArray[np.int32] = free.astype(np.int32)
    for place, weight in enumerate(counted.weights):
        if weight != 1:
            percents[place] *= weight
    total = percents[0]
    for line in percents[1:]:
        total += line
    if counted.weight_sum != 1:
        total //= counted.weight_sum
    means: IntColumn = total.astype(np.int64)
    return means


def least_allocated_by_cells(counted: Counted) -> CellsScorer:
    """Return the same rule for plain numbers, with what the pod asks for bound to it."""
    resources = counted.resources

    def score(cells: NodeCells) -> int:
        offered, nonzero, taken = cells.allocatable, cells.nonzero_taken, cells.taken
        total = weights = 0
        for name, weight, request, is_nonzero in resources:
            whole = offered[name]
            if whole:
                free = whole - request - (nonzero if is_nonzero else taken)[name]
                if free > 0:
                    total += weight * (free * 100 // whole)
                weights += weight
        return total // weights if weights else 0

    return score


def _free_percent(requested: Values, allocatable: Values) -> Values:
    overfull = requested > allocatable
    free = difference(allocatable, requested)
    if overfull is not False and is_any(overfull):
        free = where(overfull, 0, free)
    return percent_of(free, allocatable)
