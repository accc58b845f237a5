"""Scores nodes by what would stay free.

Owns the LeastAllocated strategy, which spreads pods out.
Upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import IntColumn, NodeCells, NodeLines
from kubesched.columns.rules import Values, difference, is_any, where
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.plugins.node_resources.resource_allocation import (
    CellsScorer,
    Counted,
    FloatLines,
    LinesScorer,
    Scratch,
    float_lines,
    is_by_lines,
    percent_of,
    weighted_mean,
)

_SCRATCH = Scratch()
# A few nodes are scored in half the time if numbers do not have to be made arrays first.
_NOTHING, _HUNDRED = np.array(0.0), np.array(100.0)


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
    return _mean_of_free(free, allocatable, counted)


def _mean_of_free(
    free: NDArray[np.float64], allocatable: NDArray[np.float64], counted: Counted
) -> IntColumn:
    """Return the weighted mean by what the pod would leave, which is used up."""
    np.maximum(free, _NOTHING, out=free)
    free *= _HUNDRED
    # A quotient of integers that floats hold is never rounded up to the next integer.
    free /= allocatable
    np.floor(free, out=free)
    for place, weight in enumerate(counted.weights):
        if weight != 1:
            free[place] *= float(weight)
    total: NDArray[np.float64] = free[0]
    for line in free[1:]:
        total += line
    if counted.weight_sum != 1:
        total /= float(counted.weight_sum)
    return total.astype(np.int64)


def least_allocated_by_lines(counted: Counted) -> LinesScorer | None:
    """Return the same rule for a few nodes, with what the pod asks for bound to it."""
    if not is_by_lines(counted):
        return None
    is_nonzero = counted.kind == "nonzero_requested"
    requests = np.array([[float(one.request)] for one in counted.resources])

    def score(lines: NodeLines) -> IntColumn:
        allocated = lines.nonzero_requested if is_nonzero else lines.requested
        free = lines.allocatable - allocated
        free -= requests
        return _mean_of_free(free, lines.allocatable, counted)

    return score


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
