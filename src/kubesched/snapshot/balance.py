"""The balance of a node's cpu and memory usage, for NodeResourcesBalancedAllocation.

Evenness is 100 if the same fraction of both is used, and less the more the fractions differ, down
to 50. Steps and their order are upstream's, so that each float is the same to the last bit.
Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Evenness: TypeAlias = "NDArray[np.int32]"
UNEVENNESS_MAX = 150
"""Evenness plus unevenness. The score is half of (evenness with the pod + unevenness without)."""
# For a few nodes, converting a number to an array takes as long as the arithmetic.
_ONE, _TWO, _HALF_OF_MAX = np.array(1.0), np.array(2.0), np.array(50.0)


def evenness(fractions: NDArray[np.float64], *, may_exceed: bool = True) -> Evenness:
    """Return the evenness of each node.

    Args:
        fractions: The used fractions of cpu and memory, one line each, not negative. Overwritten.
        may_exceed: Whether fractions may be above 1, which counts as 1.
    """
    # `argmax` takes half the time of `max`.
    if may_exceed and fractions.item(fractions.argmax()) > 1.0:
        np.minimum(fractions, _ONE, out=fractions)
    # Upstream halves the difference and multiplies by 100: the same to the last bit.
    difference: NDArray[np.float64] = fractions[0]
    difference -= fractions[1]
    np.absolute(difference, out=difference)
    np.subtract(_TWO, difference, out=difference)
    difference *= _HALF_OF_MAX
    return difference.astype(np.int32)


def evenness_of(cpu: float, cpu_total: float, memory: float, memory_total: float) -> int:
    """Return the evenness of one node by its used and total amounts; totals are not zero."""
    difference = cpu / cpu_total if cpu < cpu_total else 1.0
    difference -= memory / memory_total if memory < memory_total else 1.0
    return int((1.0 - abs(difference * 0.5)) * 100.0)
