"""Scores nodes by what would be taken.

Owns the MostAllocated strategy, which packs pods together.
Upstream: pkg/scheduler/framework/plugins/noderesources/most_allocated.go
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


def most_allocated(allocations: Sequence[Allocation], node_count: int) -> IntColumn:
    """Return the weighted mean of the taken percentage of each resource."""
    total, weights = weighted_mean(
        [(_taken_percent(a), a.counted, a.weight) for a in allocations], node_count
    )
    return truncated_divide(total, np.maximum(weights, 1))


def _taken_percent(one: Allocation) -> IntColumn:
    # A node may look overfull, because pods that ask for nothing are counted as something.
    return percent_of(np.minimum(one.requested, one.allocatable), one.allocatable)
