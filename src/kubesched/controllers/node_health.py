"""When a node was last heard of.

Owns the moments, and what a silent node's conditions become. Never writes, and trusts no node's
clock: only that it moves.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go tryUpdateNodeHealth
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.cached.documents import Document, condition_of, seconds_of

# Whether the network works is for others to say than the kubelet.
_SILENT_TYPES: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(slots=True)
class _Heard:
    at_s: float
    """When, by our own clock."""
    heartbeat: str = ""
    renewed: str = ""


class NodeHealth:
    """When every node was last heard of."""

    def __init__(self, *, grace_s: float, startup_grace_s: float) -> None:
        self._grace_s = grace_s
        self._startup_grace_s = startup_grace_s
        self._heard: dict[str, _Heard] = {}

    def see_node(self, node: Mapping[str, Any], now_s: float, wall_s: float) -> None:
        """Take note of what a node's status says.

        Args:
            node: The node.
            now_s: The time that never goes back.
            wall_s: The time of day: a node that never said a word is as old as it says.
        """
        name = node["metadata"]["name"]
        ready = condition_of(node, "Ready")
        beat = "" if ready is None else str(ready.get("lastHeartbeatTime") or "-")
        heard = self._heard.get(name)
        if heard is None:
            age_s = 0.0
            if ready is None:
                created_s = seconds_of(node["metadata"].get("creationTimestamp"))
                age_s = max(wall_s - created_s, 0.0)
            self._heard[name] = _Heard(now_s - age_s, beat)
        elif beat != heard.heartbeat:
            heard.heartbeat = beat
            heard.at_s = now_s

    def see_lease(self, name: str, renewed: str, now_s: float) -> None:
        """Take note of when a node's lease was renewed."""
        heard = self._heard.get(name)
        if heard is None:
            heard = self._heard[name] = _Heard(now_s)
        if renewed and (not heard.renewed or seconds_of(renewed) > seconds_of(heard.renewed)):
            heard.renewed = renewed
            heard.at_s = now_s

    def see_all(self, now_s: float) -> None:
        """Take every node for heard of: it was us who heard nothing."""
        for heard in self._heard.values():
            heard.at_s = now_s

    def forget(self, name: str) -> None:
        """Take note that a node is gone."""
        self._heard.pop(name, None)

    def left_s(self, node: Mapping[str, Any], now_s: float) -> float:
        """Return how much longer a node may be silent; negative if it was for too long."""
        heard = self._heard[node["metadata"]["name"]]
        starts = condition_of(node, "Ready") is None
        return heard.at_s + (self._startup_grace_s if starts else self._grace_s) - now_s


def silent_conditions(node: Mapping[str, Any], now: str) -> list[Document] | None:
    """Return the conditions of a node that is silent; None if they say so already."""
    conditions = [dict(one) for one in node.get("status", {}).get("conditions") or ()]
    by_type = {one.get("type"): one for one in conditions}
    ready = by_type.get("Ready")
    if ready is not None and ready.get("status") == "Unknown":
        # Parity: upstream writes only if Ready changes.
        return None
    for type_ in _SILENT_TYPES:
        condition = by_type.get(type_)
        if condition is None:
            created = node["metadata"].get("creationTimestamp")
            conditions.append(
                {
                    "type": type_,
                    "status": "Unknown",
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": created,
                    "lastTransitionTime": now,
                }
            )
        elif condition.get("status") != "Unknown":
            condition["status"] = "Unknown"
            condition["reason"] = "NodeStatusUnknown"
            condition["message"] = "Kubelet stopped posting node status."
            condition["lastTransitionTime"] = now
    return conditions
