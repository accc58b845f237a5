"""The plugins for pod groups: GangScheduling and two about placements (alpha, off by default).

While the feature is off, no pod group exists: a pod that names one waits for it.
Upstream: pkg/scheduler/framework/plugins/{gangscheduling,podgrouppodscount,topologyaware}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status, StatusError, error, unresolvable
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.pod_info import PodInfo


class GangScheduling:
    """Accepts pods without a group, and gates all others."""

    name = "GangScheduling"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod with a group."""
        group = _group_name(pod)
        if group is None:
            return None
        return unresolvable(
            f'waiting for pods\'s pod group "{group}" to appear in scheduling queue'
        )

    def permit(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> tuple[Status | None, float]:
        """Fail for a pod with a group."""
        group = _group_name(pod)
        if group is None:
            return None, 0.0
        missing = f'podgroup.scheduling.k8s.io "{group}" not found'
        return error(f"failed to get podGroup {pod.namespace}/{group}: {missing}"), 0.0

    def events_to_register(self) -> Sequence[EventRegistration]:
        return [
            on(EventResource.POD, ActionType.ADD, _after_pod_added),
            on(EventResource.POD_GROUP, ActionType.ADD, _after_group_added),
        ]


def _group_name(pod: PodInfo) -> str | None:
    group = pod.spec.scheduling_group
    return None if group is None else group.pod_group_name or ""


def _after_pod_added(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    group = _group_name(pod)
    return queue_if(
        group is not None and (pod.namespace, group) == (new.namespace, _group_name(new))
    )


def _after_group_added(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    return queue_if(
        (pod.namespace, _group_name(pod)) == (new.metadata.namespace, new.metadata.name)
    )


class TopologyPlacementGenerator:
    """Would propose sets of nodes for a group; fails, since every group is unknown."""

    name = "TopologyPlacementGenerator"

    def generate_placements(self, state: CycleState, group: Any, parent: Any) -> Any:
        """Raise upstream's error for a group that does not exist."""
        raise StatusError(error(f'podgroup.scheduling.k8s.io "{group.name}" not found'))


class PodGroupPodsCount:
    """Would prefer sets of nodes for more pods of a group; fails, since every group is unknown."""

    name = "PodGroupPodsCount"

    def score_placement(self, state: CycleState, group: Any, placement: Any) -> int:
        """Raise upstream's error for a group that does not exist."""
        key = f"{group.namespace}/{group.name}"
        raise StatusError(error(f"pod group state not found for pod group {key}"))


PLUGINS = (
    InTreePlugin(plugin=GangScheduling),
    InTreePlugin(plugin=TopologyPlacementGenerator),
    InTreePlugin(plugin=PodGroupPodsCount),
)
