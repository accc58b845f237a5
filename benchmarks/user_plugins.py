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
    """Rejects a pool of nodes, except for pods of high priority."""

    name = "NotOnSpot"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject one pool of eight."""
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
    """Rejects a pool of nodes, as columns."""

    name = "NotOnSpotColumns"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> list[Rejected]:
        """Reject one pool of eight."""
        if pod.priority >= 500:
            return []
        return [Rejected(nodes.has_label(_POOL, "pool-7"), unschedulable("node(s) may vanish"))]


class PreferLargeColumns:
    """Prefers nodes with many cores, as columns."""

    name = "PreferLargeColumns"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> NDArray[np.int64]:
        """Return a point for each core, 100 at most."""
        return np.minimum(nodes.allocatable["cpu"] // 1000, 100)


class _ByNodeAlone:
    """Declares that verdicts depend on nodes only."""

    def reads(self, pod: PodInfo) -> Reads:
        """Declare the reads."""
        return Reads(nodes=True)


class NotOnSpotByNode(_ByNodeAlone, NotOnSpotColumns):
    """NotOnSpotColumns with declared reads."""

    name = "NotOnSpotByNode"


class PreferLargeByNode(_ByNodeAlone, PreferLargeColumns):
    """PreferLargeColumns with declared reads."""

    name = "PreferLargeByNode"
