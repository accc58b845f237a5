"""Typical out-of-tree plugins, each for one node and for all nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched import (
    CycleState,
    NodeTable,
    NodeView,
    PodInfo,
    Reads,
    Rejected,
    Status,
    unschedulable,
)

_POOL = "example.com/pool"


class NotOnSpot:
    """Keeps pods away from a pool, unless they are important."""

    name = "NotOnSpot"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse one pool of eight."""
        if pod.priority < 500 and node.labels.get(_POOL) == "pool-7":
            return unschedulable("node(s) may vanish")
        return None


class PreferLarge:
    """Prefers nodes with many cores."""

    name = "PreferLarge"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return a point for each core, 100 at most."""
        return min(node.allocatable["cpu"] // 1000, 100)


class NotOnSpotColumns:
    """Keeps pods away from a pool, all nodes at once."""

    name = "NotOnSpotColumns"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        """Refuse one pool of eight."""
        if pod.priority >= 500:
            return []
        return [Rejected(nodes.has_label(_POOL, "pool-7"), unschedulable("node(s) may vanish"))]


class PreferLargeColumns:
    """Prefers nodes with many cores, all nodes at once."""

    name = "PreferLargeColumns"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> NDArray[np.int64]:
        """Return a point for each core, 100 at most."""
        return np.minimum(nodes.allocatable["cpu"] // 1000, 100)


class _ByNodeAlone:
    """Says that verdicts depend on nodes, and on nothing else in the cluster."""

    def reads(self, pod: PodInfo) -> Reads:
        """Declare the reads."""
        return Reads(nodes=True)


class NotOnSpotByNode(_ByNodeAlone, NotOnSpotColumns):
    """The same, with declared reads."""

    name = "NotOnSpotByNode"


class PreferLargeByNode(_ByNodeAlone, PreferLargeColumns):
    """The same, with declared reads."""

    name = "PreferLargeByNode"
