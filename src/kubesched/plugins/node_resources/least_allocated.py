"""Scores nodes by what would stay free.

Owns the LeastAllocated strategy, which spreads pods out.
Upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import NONZERO_LEFT, NodeCells, NodeLines
from kubesched.columns.rules import Values, difference, is_any, where
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.plugins.node_resources.resource_allocation import (
    SCRATCH,
    CellsScorer,
    Counted,
    LinesScorer,
    is_by_floats,
    is_by_lines,
    percent_of,
    weighted_mean,
)


def least_allocated(nodes: NodeTable | NodeRow, counted: Counted) -> Values:
    """Return the weighted mean of the free percentage of each resource."""
    if isinstance(nodes, NodeRow) or not is_by_floats(nodes, counted):
        return weighted_mean(nodes, counted, _free_percent)
    assert counted.kind == "nonzero_requested", "which is what NodeResourcesFit scores by"
    return _mean_free_percent(nodes, counted)


def _mean_free_percent(nodes: NodeTable, counted: Counted) -> NDArray[np.int32]:
    hundredfold = nodes.lines(NONZERO_LEFT, counted.names, np.float64)
    free = SCRATCH.lines(*hundredfold.shape)
    np.subtract(hundredfold, _hundredfold(counted), out=free)
    return _mean_of_free(free, nodes.lines("allocatable", counted.names, np.float64), counted)


def _hundredfold(counted: Counted) -> list[list[float]]:
    return [[100.0 * one.request] for one in counted.resources]


def _mean_of_free(
    free: NDArray[np.float64], allocatable: NDArray[np.float64], counted: Counted
) -> NDArray[np.int32]:
    """Return the weighted mean by a hundred times what is left with the pod, which is used up."""
    free /= allocatable
    # Looking for the place takes half the time of looking for the value.
    if free.item(free.argmin()) < 0.0:
        np.maximum(free, 0.0, out=free)
    # Cutting off is right: a quotient that is no integer is never rounded up to the next. It lies
    # more than 2**-46 below that, since the divisor is less than 2**46, and up to 128 floats are
    # rounded by at most 2**-47.
    percents: NDArray[np.int32] = free.astype(np.int32)
    for place, weight in enumerate(counted.weights):
        if weight != 1:
            percents[place] *= weight
    total: NDArray[np.int32] = percents[0] if len(percents) == 1 else percents[0] + percents[1]
    if counted.weight_sum == 2:
        total >>= 1  # Takes a third of the time of a division.
    elif counted.weight_sum != 1:
        total //= counted.weight_sum
    return total


def least_allocated_by_lines(counted: Counted) -> LinesScorer | None:
    """Return the same rule for a few nodes, with what the pod asks for bound to it."""
    if not is_by_lines(counted) or counted.kind != "nonzero_requested":
        return None
    hundredfold = np.array(_hundredfold(counted))

    def score(lines: NodeLines) -> NDArray[np.int32]:
        free = lines.hundredfold_nonzero_left - hundredfold
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
