"""Scores nodes by what would be taken.

Owns the MostAllocated strategy, which packs pods together.
Upstream: pkg/scheduler/framework/plugins/noderesources/most_allocated.go
"""

from __future__ import annotations

from kubesched.columns.rules import Values, minimum
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.plugins.node_resources.resource_allocation import (
    Counted,
    percent_of,
    weighted_mean,
)


def most_allocated(nodes: NodeTable | NodeRow, counted: Counted) -> Values:
    """Return the weighted mean of the taken percentage of each resource."""
    return weighted_mean(nodes, counted, taken_percent)


def taken_percent(requested: Values, allocatable: Values) -> Values:
    """Return the taken percentage of a resource."""
    # A node may look overfull, because pods that ask for nothing are counted as something.
    return percent_of(minimum(requested, allocatable), allocatable)
