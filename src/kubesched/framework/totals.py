"""How the totals of rows are kept: raised, so that what tells equals apart has room below them.

Owns how far they are raised and how wide they are. Never adds up a score.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.interface import NODE_SCORE_MAX

ORDER_BITS: Final = 20
"""Totals are raised by so many bits, enough to tell a million nodes apart."""
RaisedColumn: TypeAlias = "NDArray[Any]"
"""Totals that are raised, or what is added to them, all of one profile's width."""

# Below any total that is raised, and so are sums of it and any other.
_NEVER: dict[np.dtype[Any], int] = {
    np.dtype(np.int32): -(1 << 31),
    np.dtype(np.int64): -(1 << 62),
}
# A few numbers are shifted in half the time if the shift is an array of their width.
_SHIFTS = {width: np.array(ORDER_BITS, dtype=width) for width in _NEVER}


def width_for(weights: Iterable[int]) -> np.dtype[Any]:
    """Return what integers hold raised totals of scores with such weights: plans are many."""
    known = list(weights)
    total_max = NODE_SCORE_MAX * sum(known)
    is_narrow = min(known, default=0) >= 0 and total_max < 1 << (31 - ORDER_BITS)
    return np.dtype(np.int32 if is_narrow else np.int64)


def never(width: np.dtype[Any]) -> int:
    """Return what stands in place of a raised total where a row is never to be chosen."""
    return _NEVER[width]


def raise_all(totals: RaisedColumn) -> RaisedColumn:
    """Raise totals in place."""
    raised: RaisedColumn = np.left_shift(totals, _SHIFTS[totals.dtype], out=totals)
    return raised
