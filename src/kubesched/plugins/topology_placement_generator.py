"""Proposes sets of nodes for a group of pods (alpha, off by default).

Owns the extension point of upstream's plugin. Pod groups are not served while the feature is off,
so there is none to place.
Upstream: pkg/scheduler/framework/plugins/topologyaware/topology_placement.go
"""

from __future__ import annotations

from typing import Any

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.status import StatusError, error


class TopologyPlacementGenerator:
    """Fails for every group, since none is known."""

    name = "TopologyPlacementGenerator"

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments, and there are no groups to ask for."""

    def generate_placements(self, state: CycleState, group: Any, parent: Any) -> Any:
        """Say that the group is not known, as upstream does of one it cannot find."""
        raise StatusError(error(f'podgroup.scheduling.k8s.io "{group.name}" not found'))
