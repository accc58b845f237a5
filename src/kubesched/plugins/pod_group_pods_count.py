"""Prefers sets of nodes that take more pods of a group (alpha, off by default).

Owns the extension point of upstream's plugin. Pod groups are not served while the feature is off,
so there is none to count.
Upstream: pkg/scheduler/framework/plugins/podgrouppodscount/podgroup_pods_count.go
"""

from __future__ import annotations

from typing import Any

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.status import StatusError, error


class PodGroupPodsCount:
    """Fails for every group, since none is known."""

    name = "PodGroupPodsCount"

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments, and there are no groups to ask for."""

    def score_placement(self, state: CycleState, group: Any, placement: Any) -> int:
        """Say that the group is not known, as upstream does of one it cannot find."""
        missing = f"{group.namespace}/{group.name}"
        raise StatusError(error(f"pod group state not found for pod group {missing}"))
