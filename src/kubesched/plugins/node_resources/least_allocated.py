"""Scores nodes by what would stay free.

Owns the LeastAllocated strategy, which spreads pods out.
Upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.framework.normalize import truncated_divide
from kubesched.plugins.node_resources.resource_allocation import (
    Allocation,
    percent_of,
    weighted_mean,
)


def least_allocated(allocations: Sequence[Allocation], node_count: int) -> IntColumn:
    """Return the weighted mean of the free percentage of each resource."""
    total, weights = weighted_mean(
        [(_free_percent(a), a.counted, a.weight) for a in allocations], node_count
    )
    return truncated_divide(total, np.maximum(weights, 1))


def _free_percent(one: Allocation) -> IntColumn:
    requested = one.requested
    free = np.where(requested > one.allocatable, 0, one.allocatable - requested)
    return percent_of(free, one.allocatable)
