"""When a node was last heard of.

Owns the moments, how much silence is too much, and what a silent node's conditions become. Never
writes, and trusts no node's clock: only that it moves.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go tryUpdateNodeHealth

Differs: a node is not lost because we are slow. Time in which we did not come to listen does not
count; and where a busy API server has all nodes of a large cluster heard of more seldom, a node may
be silent for as long as the others are. Upstream counts on its machines being fast enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.client.cached.documents import Document, condition_of, seconds_of

# Whether the network works is for others to say than the kubelet.
_SILENT_TYPES: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LATE_S: Final = 0.5
# Where so many nodes are silent together, it is more likely that they wait for their turn.
_LARGE_CLUSTER: Final = 50
_GRACES_MAX: Final = 4.0
_MEDIAN_FACTOR: Final = 2.5
_MEDIAN_AGE_S: Final = 1.0


@dataclass(slots=True)
class _Heard:
    at_s: float
    """When, by our own clock."""
    heartbeat: str = ""
    renewed: str = ""


class NodeHealth:
    """When every node was last heard of."""

    def __init__(self, *, grace_s: float, startup_grace_s: float, period_s: float) -> None:
        """Know of no node.

        Args:
            grace_s: How long a node may be silent.
            startup_grace_s: How long it may be before its first word.
            period_s: How often `listen` is called, at least.
        """
        self._grace_s = grace_s
        self._startup_grace_s = startup_grace_s
        self._period_s = period_s
        self._heard: dict[str, _Heard] = {}
        self._listened_s: float | None = None
        self._newest_s = -math.inf
        self._median_s = -math.inf
        self._median_at_s = -math.inf

    def listen(self, now_s: float) -> None:
        """Take note that we are there: if we were away, nobody was silent meanwhile."""
        if self._listened_s is not None:
            late_s = now_s - self._listened_s - self._period_s
            if late_s > _LATE_S:
                for heard in self._heard.values():
                    heard.at_s += late_s
                self._newest_s += late_s
                self._median_at_s = -math.inf
        self._listened_s = now_s

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
            self._newest_s = max(self._newest_s, now_s - age_s)
        elif beat != heard.heartbeat:
            heard.heartbeat = beat
            heard.at_s = self._newest_s = now_s

    def see_lease(self, name: str, renewed: str, now_s: float) -> None:
        """Take note of when a node's lease was renewed."""
        heard = self._heard.get(name)
        if heard is None:
            heard = self._heard[name] = _Heard(now_s)
        if renewed and (not heard.renewed or seconds_of(renewed) > seconds_of(heard.renewed)):
            heard.renewed = renewed
            heard.at_s = self._newest_s = now_s

    def see_all(self, now_s: float) -> None:
        """Take every node for heard of: it was us who heard nothing."""
        for heard in self._heard.values():
            heard.at_s = now_s
        self._newest_s = now_s

    def forget(self, name: str) -> None:
        """Take note that a node is gone."""
        self._heard.pop(name, None)

    def left_s(self, node: Mapping[str, Any], now_s: float) -> float:
        """Return how much longer a node may be silent; negative if it was for too long."""
        heard = self._heard[node["metadata"]["name"]]
        starts = condition_of(node, "Ready") is None
        grace_s = self._startup_grace_s if starts else self._grace_s
        if now_s > heard.at_s + grace_s:
            grace_s = max(grace_s, self._usual_s(now_s))
        return heard.at_s + grace_s - now_s

    def _usual_s(self, now_s: float) -> float:
        """Return how long nodes of a large cluster are silent because it is busy."""
        if len(self._heard) <= _LARGE_CLUSTER or now_s > self._newest_s + self._grace_s:
            # Few nodes are never so busy; and where nobody is heard of, nobody is there.
            return 0.0
        if now_s > self._median_at_s + _MEDIAN_AGE_S:
            moments = sorted(heard.at_s for heard in self._heard.values())
            self._median_s, self._median_at_s = moments[len(moments) // 2], now_s
        return min(_MEDIAN_FACTOR * (now_s - self._median_s), _GRACES_MAX * self._grace_s)


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
