"""Scores nodes by what would be taken.

Owns the MostAllocated strategy, which packs pods together.
Upstream: pkg/scheduler/framework/plugins/noderesources/most_allocated.go
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.columns.rules import Values, minimum
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.plugins.node_resources.resource_allocation import (
    Allocation,
    percent_of,
    weighted_mean,
)


def most_allocated(nodes: NodeTable | NodeRow, allocations: Sequence[Allocation]) -> Values:
    """Return the weighted mean of the taken percentage of each resource."""
    return weighted_mean(nodes, allocations, _taken_percent)


def _taken_percent(requested: Values, allocatable: Values) -> Values:
    # A node may look overfull, because pods that ask for nothing are counted as something.
    return percent_of(minimum(requested, allocatable), allocatable)
