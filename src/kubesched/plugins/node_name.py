"""Keeps a pod that names its node off all others.

Owns the filter over `spec.nodeName`. Queued pods have none, so it seldom has anything to say.
Upstream: pkg/scheduler/framework/plugins/nodename/node_name.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubesched.columns.rules import Values
from kubesched.columns.view import NodeRow, NodeTable
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.status import Status, unresolvable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.model.pod_info import PodInfo

_READS = Reads(nodes=True)
_REASON = "node(s) didn't match the requested node name"


class NodeName:
    """Refuses every node but the one the pod names."""

    name = "NodeName"
    same_for_family = True
    takes_rows = True

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def reads(self, pod: PodInfo) -> Reads | None:
        """The name is the node's own."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what of the pod verdicts depend on: the node name."""
        return pod.node_name

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Refuse nodes of another name."""
        if not pod.node_name:
            return []
        # No row is -1, so a name nobody has refuses all.
        others: Values = nodes.rows != nodes.view.row_of(pod.node_name)
        return [Rejected(others, unresolvable(_REASON))]

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the one event that helps: the node came."""
        return [EventRegistration(ClusterEvent(EventResource.NODE, ActionType.ADD))]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the node's name."""
        return [SignFragment("v1.Pod.Spec.NodeName", pod.node_name)]
