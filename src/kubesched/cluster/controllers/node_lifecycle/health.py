"""Node health: last heartbeats, grace periods, and the conditions of silent nodes.

Trusts no node's clock: a heartbeat counts when its timestamp changes. Never writes.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go tryUpdateNodeHealth

Differs: a node is not unhealthy because this process is slow. Time in which the process was stalled
does not count; and where a busy API server delays the heartbeats of all nodes of a large cluster,
the grace period adapts to the median. Upstream relies on its machines being fast enough.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubesched.api.documents import Document, condition_of, seconds_of

# NetworkUnavailable is not set by the kubelet.
_CONDITION_TYPES: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_STALL_S_MIN: Final = 0.5
# In clusters of this size late heartbeats are more likely caused by a busy API server.
_LARGE_CLUSTER: Final = 50
_GRACES_MAX: Final = 4.0
_MEDIAN_FACTOR: Final = 2.5
_MEDIAN_AGE_S: Final = 1.0


@dataclass(slots=True)
class _Heartbeat:
    at_s: float
    """Time of the last change, on our clock."""
    ready_time: str = ""
    lease_renewed: str = ""


class NodeHealth:
    """Last heartbeats of all nodes."""

    def __init__(self, *, grace_s: float, startup_grace_s: float, period_s: float) -> None:
        """Create an empty monitor.

        Args:
            grace_s: How long a node may be silent.
            startup_grace_s: How long it may be silent before its first heartbeat.
            period_s: Maximum interval between calls of `tick`.
        """
        self._grace_s = grace_s
        self._startup_grace_s = startup_grace_s
        self._period_s = period_s
        self._heartbeats: dict[str, _Heartbeat] = {}
        self._ticked_at_s: float | None = None
        self._newest_s = -math.inf
        self._median_s = -math.inf
        self._median_at_s = -math.inf

    def tick(self, now_s: float) -> None:
        """Record that this process runs; a stall is not counted as silence of the nodes."""
        if self._ticked_at_s is not None:
            stalled_s = now_s - self._ticked_at_s - self._period_s
            if stalled_s > _STALL_S_MIN:
                for heartbeat in self._heartbeats.values():
                    heartbeat.at_s += stalled_s
                self._newest_s += stalled_s
                self._median_at_s = -math.inf
        self._ticked_at_s = now_s

    def observe_node(self, node: Mapping[str, Any], now_s: float, wall_s: float) -> None:
        """Record the heartbeat in a node's status.

        Args:
            node: The node.
            now_s: Monotonic time.
            wall_s: Wall clock time: the age of a node without heartbeat counts from its creation.
        """
        name = node["metadata"]["name"]
        ready = condition_of(node, "Ready")
        ready_time_now = "" if ready is None else str(ready.get("lastHeartbeatTime") or "-")
        heartbeat = self._heartbeats.get(name)
        if heartbeat is None:
            age_s = 0.0
            if ready is None:
                created_s = seconds_of(node["metadata"].get("creationTimestamp"))
                age_s = max(wall_s - created_s, 0.0)
            self._heartbeats[name] = _Heartbeat(now_s - age_s, ready_time_now)
            self._newest_s = max(self._newest_s, now_s - age_s)
        elif ready_time_now != heartbeat.ready_time:
            heartbeat.ready_time = ready_time_now
            heartbeat.at_s = self._newest_s = now_s

    def observe_lease(self, name: str, lease_renewed: str, now_s: float) -> None:
        """Record the renewal of a node's lease."""
        heartbeat = self._heartbeats.get(name)
        if heartbeat is None:
            heartbeat = self._heartbeats[name] = _Heartbeat(now_s)
        if lease_renewed and (
            not heartbeat.lease_renewed
            or seconds_of(lease_renewed) > seconds_of(heartbeat.lease_renewed)
        ):
            heartbeat.lease_renewed = lease_renewed
            heartbeat.at_s = self._newest_s = now_s

    def reset_all(self, now_s: float) -> None:
        """Treat all nodes as just heard of, after a full disruption."""
        for heartbeat in self._heartbeats.values():
            heartbeat.at_s = now_s
        self._newest_s = now_s

    def forget(self, name: str) -> None:
        """Remove a deleted node."""
        self._heartbeats.pop(name, None)

    def remaining_s(self, node: Mapping[str, Any], now_s: float) -> float:
        """Return the rest of a node's grace period; negative if it expired."""
        heartbeat = self._heartbeats[node["metadata"]["name"]]
        is_starting = condition_of(node, "Ready") is None
        grace_s = self._startup_grace_s if is_starting else self._grace_s
        if now_s > heartbeat.at_s + grace_s:
            grace_s = max(grace_s, self._busy_grace_s(now_s))
        return heartbeat.at_s + grace_s - now_s

    def _busy_grace_s(self, now_s: float) -> float:
        """Return the grace period of a large cluster whose API server is busy."""
        if len(self._heartbeats) <= _LARGE_CLUSTER or now_s > self._newest_s + self._grace_s:
            # Small clusters are not that busy; and if no node reports, all are down.
            return 0.0
        if now_s > self._median_at_s + _MEDIAN_AGE_S:
            times = sorted(heartbeat.at_s for heartbeat in self._heartbeats.values())
            self._median_s, self._median_at_s = times[len(times) // 2], now_s
        return min(_MEDIAN_FACTOR * (now_s - self._median_s), _GRACES_MAX * self._grace_s)


def unknown_conditions(node: Mapping[str, Any], now: str) -> list[Document] | None:
    """Return the conditions of a silent node; None if Ready is Unknown already."""
    conditions = [dict(condition) for condition in node.get("status", {}).get("conditions") or ()]
    by_type = {condition.get("type"): condition for condition in conditions}
    ready = by_type.get("Ready")
    if ready is not None and ready.get("status") == "Unknown":
        # Parity: upstream writes only if Ready changes.
        return None
    for type_ in _CONDITION_TYPES:
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
