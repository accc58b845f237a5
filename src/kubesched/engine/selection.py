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


def select_host(total: IntColumn) -> int:
    """Return the position that Go's heap would hold at its root."""
    # Sifting moves a child up only if it is strictly better, the left one if both are equal. So the
    # root is the first of the best in pre-order. A node's path from the root is the binary form of
    # its place; padded to one length, paths compare as pre-order does, an ancestor before its own.
    places = np.flatnonzero(total == total.max()) + 1
    depths = np.frexp(places)[1]
    paths = places << (depths.max() - depths)
    return int(places[np.lexsort((depths, paths))[0]]) - 1
