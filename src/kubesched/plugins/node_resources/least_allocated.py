"""Scores nodes by what would stay free.

Owns the LeastAllocated strategy, which spreads pods out.
Upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go
"""

from __future__ import annotations

from kubesched.columns.rules import Values, difference, is_any, where
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.plugins.node_resources.resource_allocation import (
    Counted,
    percent_of,
    weighted_mean,
)


def least_allocated(nodes: NodeTable | NodeRow, counted: Counted) -> Values:
    """Return the weighted mean of the free percentage of each resource."""
    return weighted_mean(nodes, counted, _free_percent)


def _free_percent(requested: Values, allocatable: Values) -> Values:
    overfull = requested > allocatable
    free = difference(allocatable, requested)
    if overfull is not False and is_any(overfull):
        free = where(overfull, 0, free)
    return percent_of(free, allocatable)
