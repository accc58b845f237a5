"""Keeps pods off cordoned nodes.

Owns the filter over `spec.unschedulable`. Never looks at taints: a cordoned node has one besides,
and TaintToleration reads it.
Upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from kubesched.columns.rules import Values, is_any
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
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo
from kubesched.plugins.taint_toleration import sign_tolerations

_TAINT_KEY = "node.kubernetes.io/unschedulable"
_READS = Reads(nodes=True)
_REASON = "node(s) were unschedulable"


class NodeUnschedulable:
    """Refuses cordoned nodes, unless the pod tolerates the taint of that meaning."""

    name = "NodeUnschedulable"
    same_for_family = True
    takes_rows = True

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def reads(self, pod: PodInfo) -> Reads | None:
        """Whether it is cordoned is the node's own affair."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what of the pod verdicts depend on: the tolerations."""
        return pod.shape.tolerations

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Refuse cordoned nodes."""
        closed: Values = nodes.unschedulable
        if not is_any(closed) or pod.tolerates(_TAINT_KEY):
            return []
        return [Rejected(closed, unresolvable(_REASON))]

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which a node may be open or its state tolerated."""
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        toleration = ActionType.UPDATE_POD_TOLERATION
        return [
            EventRegistration(
                ClusterEvent(EventResource.NODE, node_change), _after_node_change, reads="nothing"
            ),
            EventRegistration(
                ClusterEvent(EventResource.POD, toleration),
                _after_toleration_change,
                reads="nothing",
            ),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the tolerations."""
        return [sign_tolerations(pod)]


def _after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    was_closed = old is None or old.unschedulable
    opened = was_closed and not new.unschedulable
    return QueueingHint.QUEUE if opened else QueueingHint.QUEUE_SKIP


def _after_toleration_change(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    # The old tolerations need no look: had they covered the taint, the pod would not wait for this.
    helps = pod.uid == new.uid and new.tolerates(_TAINT_KEY)
    return QueueingHint.QUEUE if helps else QueueingHint.QUEUE_SKIP
