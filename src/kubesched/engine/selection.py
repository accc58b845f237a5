"""Which of the best nodes is taken.

Upstream: pkg/scheduler/schedule_one.go nodeScoreHeap, over Go's container/heap
"""

from __future__ import annotations

import numpy as np

from kubesched.columns.node_columns import IntColumn


def best_positions(total: IntColumn) -> list[int]:
    """Return the positions of the highest total."""
    positions: list[int] = np.flatnonzero(total == total.max()).tolist()
    return positions


def heap_order(places: IntColumn) -> IntColumn:
    """Return what orders places of a heap (from 1) as pre-order does."""
    # A place's path from the root is its binary form; padded to one length, paths compare as
    # pre-order does, and an ancestor comes before its own.
    depths = np.frexp(places)[1].astype(np.int64)
    paths = places << (depths.max(initial=0) - depths)
    return (paths << 5) + depths


def select_host(total: IntColumn) -> int:
    """Return the position that Go's heap would hold at its root."""
    # Sifting moves a child up only if it is strictly better, the left one if both are equal. So the
    # root is the first of the best in pre-order.
    places = np.flatnonzero(total == total.max()) + 1
    return int(places[np.argmin(heap_order(places))]) - 1
