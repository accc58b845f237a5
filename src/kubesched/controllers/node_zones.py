"""How many nodes of a zone are well, and how fast pods of the others may be ended.

Owns the state of each zone and its rate. Never taints a node: it says when one may be.
Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go handleDisruption,
ComputeZoneState, pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from kubesched.client.cached.documents import labels_of, name_of
from kubesched.controllers.node_taints import ready_status_of

_EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
_UNHEALTHY_SHARE: Final = 0.55
_UNHEALTHY_MIN: Final = 3
_LARGE_ZONE: Final = 50
_RATE_PER_S: Final = 0.1
_LARGE_ZONE_RATE_PER_S: Final = 0.01


class ZoneState(StrEnum):
    """How a zone is; the words are upstream's."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class Outcome(StrEnum):
    """What a look at all zones came to."""

    SAME = "same"
    CHANGED = "some zone's rate is another"
    ALL_LOST = "no node is ready any more"
    SOME_BACK = "a node is ready again"


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

    def state_now(self) -> ZoneState:
        unwell = len(self.ready) - self.ready_count
        if not self.ready_count and unwell:
            return ZoneState.FULL_DISRUPTION
        if unwell >= _UNHEALTHY_MIN and unwell / len(self.ready) >= _UNHEALTHY_SHARE:
            return ZoneState.PARTIAL_DISRUPTION
        return ZoneState.NORMAL

    def enter(self, state: ZoneState) -> None:
        self.state = state
        self.rate_per_s = _RATE_PER_S
        if state is ZoneState.PARTIAL_DISRUPTION:
            # Few nodes: it is more likely that the network is at fault.
            large = len(self.ready) > _LARGE_ZONE
            self.rate_per_s = _LARGE_ZONE_RATE_PER_S if large else 0.0


class NodeZones:
    """The zones of a cluster."""

    def __init__(self, *, speed: float = 1.0) -> None:
        self._speed = speed
        self._zones: dict[str, _Zone] = {}
        self._zone_of: dict[str, str] = {}

    def see(self, node: Mapping[str, Any]) -> bool:
        """Take note of how a node is; return whether that is new."""
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
        """Take note that a node is gone; return whether it was there."""
        zone = self._zone_of.pop(name, None)
        if zone is None:
            return False
        self._zones[zone].remove(name)
        return True

    def look(self) -> Outcome:
        """Bring the state of all zones up to date; return what that came to."""
        # Parity: handleDisruption, v1.36.
        was_lost = all(zone.state is ZoneState.FULL_DISRUPTION for zone in self._zones.values())
        self._zones = {name: zone for name, zone in self._zones.items() if zone.ready}
        states = {name: zone.state_now() for name, zone in self._zones.items()}
        is_lost = all(state is ZoneState.FULL_DISRUPTION for state in states.values())
        if is_lost and was_lost:
            return Outcome.SAME
        if is_lost:
            for zone in self._zones.values():
                zone.state, zone.rate_per_s = ZoneState.FULL_DISRUPTION, 0.0
            return Outcome.ALL_LOST
        changed = [name for name, state in states.items() if self._zones[name].state is not state]
        for name in states if was_lost else changed:
            self._zones[name].enter(states[name])
        if was_lost:
            return Outcome.SOME_BACK
        return Outcome.CHANGED if changed else Outcome.SAME

    def wait_s(self, node: Mapping[str, Any], now_s: float) -> float | None:
        """Return when a node's pods may be ended: 0 for now, which counts; None for not at all."""
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
