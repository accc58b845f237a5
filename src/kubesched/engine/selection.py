"""Which of the best nodes is taken.

Upstream: pkg/scheduler/schedule_one.go nodeScoreHeap, over Go's container/heap
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.framework.totals import ORDER_BITS, RaisedColumn


def best_positions(total: IntColumn) -> list[int]:
    """Return the positions of the highest total."""
    positions: list[int] = np.flatnonzero(total == total.max()).tolist()
    return positions


PLACE_BITS = ORDER_BITS
TOTAL_MAX = 1 << 36
"""What totals have to stay below, above or below zero, to be made keys."""


@lru_cache(maxsize=4)
def _heap_orders(bit_count: int) -> IdColumn:
    """Return the pre-order numbers of the first places of a heap (from 1) of all places."""
    # The path to a place is its binary form without the first bit: each 0 goes to the next number,
    # each 1 past all that is below the other side.
    places = np.arange(1, 1 << bit_count, dtype=np.int32)
    depths = np.frexp(places)[1].astype(np.int32) - 1
    path = places - (1 << depths)
    orders: IdColumn = (path << (PLACE_BITS - depths)) + depths - np.bitwise_count(path)
    return orders


@lru_cache(maxsize=4)
def _heap_preferences(bit_count: int, width: np.dtype[Any]) -> RaisedColumn:
    """Return what is the larger the earlier a position (from 0) comes in pre-order."""
    preferences: RaisedColumn = ((1 << PLACE_BITS) - 1 - _heap_orders(bit_count)).astype(width)
    preferences.flags.writeable = False
    return preferences


def heap_preferences(count: int, width: np.dtype[Any]) -> RaisedColumn:
    """Return what is the larger the earlier a position comes in pre-order, for so many of them."""
    return _heap_preferences(_bits(count), width)[:count]


def heap_order(places: IntColumn) -> IdColumn:
    """Return what orders places of a heap (from 1) as pre-order does."""
    return _heap_orders(_bits(int(places.max(initial=1))))[places - 1]


def _bits(highest: int) -> int:
    assert highest < 1 << PLACE_BITS, "a cluster has at most a million nodes"
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


def as_keys(raised: RaisedColumn) -> RaisedColumn:
    """Turn totals into keys, in place: the largest is that of the position `select_host` gives."""
    raised += heap_preferences(len(raised), raised.dtype)
    return raised
