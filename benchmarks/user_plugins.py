"""Two plugins such as users write: one node at a time.

Owns what the workload `user-plugins` enables; nothing else uses them.
"""

from __future__ import annotations

from kubesched import CycleState, NodeView, PodInfo, Status, unschedulable


class NotOnSpot:
    """Keeps pods away from a pool, unless they are important."""

    name = "NotOnSpot"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse one pool of eight."""
        if pod.priority < 500 and node.labels.get("example.com/pool") == "pool-7":
            return unschedulable("node(s) may vanish")
        return None


class PreferLarge:
    """Prefers nodes with many cores."""

    name = "PreferLarge"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return a point for each core, 100 at most."""
        return min(node.allocatable["cpu"] // 1000, 100)
