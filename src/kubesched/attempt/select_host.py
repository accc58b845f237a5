"""Which of the best nodes is taken.

Upstream: pkg/scheduler/schedule_one.go nodeScoreHeap, over Go's container/heap
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.snapshot.node_columns import BoolColumn, IdColumn, IntColumn


def best_positions(total: IntColumn) -> list[int]:
    """Return the positions of the highest total."""
    positions: list[int] = np.flatnonzero(total == total.max()).tolist()
    return positions


ORDER_BITS: Final = 20
"""Packed totals are shifted left by this many bits, enough to tell a million nodes apart."""
TOTAL_MAX = 1 << 36
"""The bound of totals, positive or negative, that can be packed."""
PackedColumn: TypeAlias = "NDArray[Any]"
"""Packed totals. With a preference in the low bits they are keys: the highest key wins."""
INFEASIBLE = {np.dtype(np.int32): -(1 << 31), np.dtype(np.int64): -(1 << 62)}
"""By width, what makes a packed total lower than the key of any feasible row; narrow totals are
never negative."""
# An array of the same width shifts a few numbers twice as fast as a plain integer.
_SHIFTS = {np.dtype(kind): np.array(ORDER_BITS, dtype=kind) for kind in (np.int32, np.int64)}


def width_for(weights: Iterable[int]) -> np.dtype[Any]:
    """Return the integers that hold packed totals of scores with such weights."""
    known = list(weights)
    total_max = NODE_SCORE_MAX * sum(known)
    is_narrow = min(known, default=0) >= 0 and total_max < 1 << (31 - ORDER_BITS)
    return np.dtype(np.int32 if is_narrow else np.int64)


def pack_all(totals: PackedColumn) -> PackedColumn:
    """Pack totals in place."""
    packed: PackedColumn = np.left_shift(totals, _SHIFTS[totals.dtype], out=totals)
    return packed


@lru_cache(maxsize=4)
def _heap_orders(bit_count: int) -> IdColumn:
    """Return the pre-order numbers of the first places of a heap (from 1) of all places."""
    # The path to a place is its binary form without the first bit: each 0 goes to the next number,
    # each 1 past all that is below the other side.
    places = np.arange(1, 1 << bit_count, dtype=np.int32)
    depths = np.frexp(places)[1].astype(np.int32) - 1
    path = places - (1 << depths)
    orders: IdColumn = (path << (ORDER_BITS - depths)) + depths - np.bitwise_count(path)
    return orders


@lru_cache(maxsize=4)
def _heap_preferences(bit_count: int, width: np.dtype[Any]) -> PackedColumn:
    """Return preferences of positions (from 0), which decrease in pre-order."""
    preferences: PackedColumn = ((1 << ORDER_BITS) - 1 - _heap_orders(bit_count)).astype(width)
    preferences.flags.writeable = False
    return preferences


def heap_preferences(count: int, width: np.dtype[Any]) -> PackedColumn:
    """Return the preferences of the first `count` positions, which decrease in pre-order."""
    return _heap_preferences(_bits(count), width)[:count]


def heap_order(places: IntColumn) -> IdColumn:
    """Return what orders places of a heap (from 1) as pre-order does."""
    return _heap_orders(_bits(int(places.max(initial=1))))[places - 1]


def _bits(highest: int) -> int:
    assert highest < 1 << ORDER_BITS, "a cluster has at most a million nodes"
    # At least for 64 thousand: then a cluster that grows does not make a table for every size.
    return max(highest.bit_length(), 16)


def select_by_lot(total: IntColumn, lots: BoolColumn, draw: Callable[[int], int]) -> int:
    """Return the position Go's heap would hold at its root if some draw lots against equals."""
    # Parity: schedule_one.go nodeScoreHeap.Less, v1.36: who draws beats an equal who does not.
    drawing = np.flatnonzero(lots & (total == total.max()))
    return drawing.item(draw(len(drawing))) if len(drawing) else select_host(total)


def select_host(total: IntColumn) -> int:
    """Return the position that Go's heap would hold at its root."""
    # Sifting moves a child up only if it is strictly better, the left one if both are equal. So the
    # root is the first of the best in pre-order.
    places = np.flatnonzero(total == total.max()) + 1
    return int(places[np.argmin(heap_order(places))]) - 1


def as_keys(packed: PackedColumn) -> PackedColumn:
    """Make keys of packed totals, in place: the highest is at the position of `select_host`."""
    packed += heap_preferences(len(packed), packed.dtype)
    return packed
