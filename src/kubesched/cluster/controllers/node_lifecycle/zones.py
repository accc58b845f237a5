"""Zone disruption: health of zones and the rate of evictions in them.

Owns the state and the eviction rate of each zone. Never taints a node.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go handleDisruption,
ComputeZoneState, pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kubesched.api.documents import labels_of, name_of
from kubesched.cluster.controllers.node_lifecycle.taints import ready_status_of

_EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
_UNHEALTHY_SHARE: Final = 0.55
_UNHEALTHY_MIN: Final = 3
_LARGE_ZONE: Final = 50
_RATE_PER_S: Final = 0.1
_LARGE_ZONE_RATE_PER_S: Final = 0.01


class ZoneState(StrEnum):
    """State of a zone, in upstream's words."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class ZoneChange(StrEnum):
    """Result of an update of all zones."""

    UNCHANGED = "unchanged"
    CHANGED = "a zone changed its state"
    FULL_DISRUPTION = "no node is ready"
    RECOVERED = "a node is ready again"


@dataclass(slots=True)
class _Zone:
    ready: dict[str, bool] = field(default_factory=dict)
    ready_count: int = 0
    state: ZoneState = ZoneState.INITIAL
    rate_per_s: float = _RATE_PER_S
    next_s: float = -math.inf

    def put(self, name: str, *, is_ready: bool) -> None:
        self.ready[name] = is_ready
        self.ready_count += is_ready

    def remove(self, name: str) -> None:
        self.ready_count -= self.ready.pop(name)

    def compute_state(self) -> ZoneState:
        unready_count = len(self.ready) - self.ready_count
        if not self.ready_count and unready_count:
            return ZoneState.FULL_DISRUPTION
        if unready_count >= _UNHEALTHY_MIN and unready_count / len(self.ready) >= _UNHEALTHY_SHARE:
            return ZoneState.PARTIAL_DISRUPTION
        return ZoneState.NORMAL

    def enter(self, state: ZoneState) -> None:
        self.state = state
        self.rate_per_s = _RATE_PER_S
        if state is ZoneState.PARTIAL_DISRUPTION:
            # In a small zone a network failure is more likely than failures of nodes.
            large = len(self.ready) > _LARGE_ZONE
            self.rate_per_s = _LARGE_ZONE_RATE_PER_S if large else 0.0


class NodeZones:
    """The zones of a cluster."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self._speed = speed
        self._zones: dict[str, _Zone] = {}
        self._zone_of: dict[str, str] = {}

    def observe(self, node: Mapping[str, Any]) -> bool:
        """Record the readiness of a node; return whether it changed."""
        name, zone = name_of(node), _zone_key(node)
        if _EXCLUDED in labels_of(node):
            return self.forget(name)
        is_ready = ready_status_of(node) == "True"
        if self._zone_of.get(name) == zone and self._zones[zone].ready.get(name) == is_ready:
            return False
        self.forget(name)
        self._zone_of[name] = zone
        self._zones.setdefault(zone, _Zone()).put(name, is_ready=is_ready)
        return True

    def forget(self, name: str) -> bool:
        """Remove a deleted node; return whether it was known."""
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return False
        self._zones[zone].remove(name)
        return True

    def update(self) -> ZoneChange:
        """Recompute the state of all zones."""
        # Parity: handleDisruption, v1.36.
        was_disrupted = all(
            zone.state is ZoneState.FULL_DISRUPTION for zone in self._zones.values()
        )
        self._zones = {name: zone for name, zone in self._zones.items() if zone.ready}
        states = {name: zone.compute_state() for name, zone in self._zones.items()}
        is_disrupted = all(state is ZoneState.FULL_DISRUPTION for state in states.values())
        if is_disrupted and was_disrupted:
            return ZoneChange.UNCHANGED
        if is_disrupted:
            for zone in self._zones.values():
                zone.state, zone.rate_per_s = ZoneState.FULL_DISRUPTION, 0.0
            return ZoneChange.FULL_DISRUPTION
        changed = [name for name, state in states.items() if self._zones[name].state is not state]
        for name in states if was_disrupted else changed:
            self._zones[name].enter(states[name])
        if was_disrupted:
            return ZoneChange.RECOVERED
        return ZoneChange.CHANGED if changed else ZoneChange.UNCHANGED

    def wait_s(self, node: Mapping[str, Any], now_s: float) -> float | None:
        """Return the wait before a node may be tainted; 0 takes a token, None means never."""
        zone = self._zones.get(_zone_key(node))
        rate_per_s = _RATE_PER_S if zone is None else zone.rate_per_s
        if rate_per_s <= 0:
            return None
        if zone is None:
            return 0.0
        if now_s < zone.next_s:
            return zone.next_s - now_s
        zone.next_s = now_s + 1 / (rate_per_s * self._speed)
        return 0.0


def _zone_key(node: Mapping[str, Any]) -> str:
    labels = labels_of(node)
    zone = labels.get("failure-domain.beta.kubernetes.io/zone")
    region = labels.get("failure-domain.beta.kubernetes.io/region")
    zone = labels.get("topology.kubernetes.io/zone", "") if zone is None else zone
    region = labels.get("topology.kubernetes.io/region", "") if region is None else region
    return f"{region}:\x00:{zone}" if region or zone else ""
