"""Which of the best nodes is taken.

Upstream: pkg/scheduler/schedule_one.go nodeScoreHeap, over Go's container/heap
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kubesched.columns.node_columns import IntColumn


def best_positions(total: IntColumn) -> list[int]:
    """Return the positions of the highest total."""
    positions: list[int] = np.flatnonzero(total == total.max()).tolist()
    return positions


PLACE_BITS = 20
DEPTH_BITS = 5
# How many of the first in order are looked at singly.
FIRST_COUNT = 96


@lru_cache(maxsize=4)
def _heap_orders(bit_count: int) -> IntColumn:
    """Return what orders the first places of a heap (from 1) as pre-order does, by place."""
    # A place's path from the root is its binary form; padded to one length, paths compare as
    # pre-order does, and an ancestor comes before its own.
    places = np.arange(1 << bit_count, dtype=np.int64)
    depths = np.frexp(places)[1].astype(np.int64)
    orders: IntColumn = ((places << (PLACE_BITS - depths)) << DEPTH_BITS) + depths
    return orders


def heap_order(places: IntColumn) -> IntColumn:
    """Return what orders places of a heap (from 1) as pre-order does."""
    highest = int(places.max(initial=1))
    assert highest < 1 << PLACE_BITS, "a cluster has at most a million nodes"
    # At least for 64 thousand: then a cluster that grows does not make a table for every size.
    return _heap_orders(max(highest.bit_length(), 16))[places]


@lru_cache(maxsize=32)
def _first_in_order(bit_count: int) -> IntColumn:
    """Return the positions that come first in pre-order, of all that have so many bits."""
    places = 1 + np.argsort(_heap_orders(bit_count)[1:], kind="stable")[:FIRST_COUNT]
    return places - 1


def select_host(total: IntColumn) -> int:
    """Return the position that Go's heap would hold at its root."""
    # Sifting moves a child up only if it is strictly better, the left one if both are equal. So the
    # root is the first of the best in pre-order.
    highest = total.item(total.argmax())
    # Where many are equal, one of the first in that order mostly is among them.
    first = _first_in_order(len(total).bit_length())
    first = first[first < len(total)]
    equal = total.take(first) == highest
    found = int(equal.argmax())
    if equal[found]:
        return first.item(found)
    places = (total == highest).nonzero()[0] + 1
    return places.item(heap_order(places).argmin()) - 1
