"""How many fitting nodes are enough.

Upstream: pkg/scheduler/schedule_one.go numFeasibleNodesToFind
"""

from __future__ import annotations

MIN_FEASIBLE_NODES_TO_FIND = 100
MIN_FEASIBLE_NODES_PERCENTAGE = 5
SPARE_NODES = 8


def nodes_to_find(node_count: int, percentage: int | None, *, default_percentage: int = 0) -> int:
    """Return how many fitting nodes end the search among so many nodes.

    Args:
        node_count: how many nodes are looked at.
        percentage: the profile's percentageOfNodesToScore, None if it has none of its own.
        default_percentage: the configuration's; 0 lets the share shrink as the cluster grows.
    """
    if node_count < MIN_FEASIBLE_NODES_TO_FIND:
        return node_count
    share = default_percentage if percentage is None else percentage
    if share == 0:
        share = max(50 - node_count // 125, MIN_FEASIBLE_NODES_PERCENTAGE)
    return max(node_count * share // 100, MIN_FEASIBLE_NODES_TO_FIND)


def nodes_to_ask(want: int, asked: int, found: int) -> int:
    """Return about how many nodes more a filter for one node is asked about, where that is slow.

    Args:
        want: how many fitting nodes end the search.
        asked: how many nodes were looked at so far.
        found: how many of them fit.
    """
    if found == 0:
        return want
    # As many as will do if the share of fitting nodes stays: each call costs, asking again little.
    return min(want, (want - found) * asked // found + SPARE_NODES)
