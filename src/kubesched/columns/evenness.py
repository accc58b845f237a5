"""How alike cpu and memory of a node are used.

Owns the measure: 100 where the same part of both is used, less the more they differ, down to 50.
Steps and their order are upstream's, so that each float is the same to the last bit.
Upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Evenness: TypeAlias = "NDArray[np.int32]"
UNEVENNESS_MAX = 150
"""Evenness and unevenness come to this: half a change of evenness and three quarters of 100."""
# A few nodes are looked at in half the time if numbers do not have to be made arrays first.
_ONE, _TWO, _HALF_OF_MAX = np.array(1.0), np.array(2.0), np.array(50.0)


def evenness(fractions: NDArray[np.float64], *, may_exceed: bool = True) -> Evenness:
    """Return it by the fractions that are used of both, a line each, which are used up.

    Args:
        fractions: none of them negative.
        may_exceed: whether more may be used than there is, which counts as all of it.
    """
    # Looking for the place takes half the time of looking for the value.
    if may_exceed and fractions.item(fractions.argmax()) > 1.0:
        np.minimum(fractions, _ONE, out=fractions)
    # Upstream halves the difference first: twice the likeness by half the maximum is the same to
    # the last bit.
    difference: NDArray[np.float64] = fractions[0]
    difference -= fractions[1]
    np.absolute(difference, out=difference)
    np.subtract(_TWO, difference, out=difference)
    difference *= _HALF_OF_MAX
    return difference.astype(np.int32)


def evenness_of(cpu: float, cpu_whole: float, memory: float, memory_whole: float) -> int:
    """Return it of one node by what is used of both, and what there is, which is something."""
    difference = cpu / cpu_whole if cpu < cpu_whole else 1.0
    difference -= memory / memory_whole if memory < memory_whole else 1.0
    return int((1.0 - abs(difference * 0.5)) * 100.0)
