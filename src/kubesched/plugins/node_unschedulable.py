"""NodeUnschedulable: rejects cordoned nodes.

These have a taint as well, which TaintToleration reads.
Upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from kubesched.api.tolerations import Taint
from kubesched.framework.cluster_event import QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import EventRegistration, FilterVerdict, Reads, Rejected
from kubesched.framework.status import unresolvable
from kubesched.plugins.pod_changes import PodChange, RejectedPod
from kubesched.plugins.queueing_hints import queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.plugins.taint_toleration import TAINT_EVENT, TOLERATION_EVENT, tolerating
from kubesched.snapshot.expressions import Values, is_any
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeRow, NodeTable

_TAINT_KEY = "node.kubernetes.io/unschedulable"
_READS = Reads(nodes=True)
_REASON = "node(s) were unschedulable"


class NodeUnschedulable:
    """Rejects cordoned nodes, unless the pod tolerates the taint for cordoned nodes."""

    name = "NodeUnschedulable"
    takes_rows = True

    def reads(self, pod: PodInfo) -> Reads | None:
        """Verdicts depend on a field of the node."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the part of the pod that verdicts depend on: the tolerations."""
        return pod.shape.tolerations

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Reject cordoned nodes."""
        closed: Values = nodes.unschedulable
        if not is_any(closed) or pod.tolerates(_TAINT_KEY):
            return []
        return [Rejected(closed, unresolvable(_REASON))]

    def events_to_register(self) -> Sequence[EventRegistration]:
        return [
            EventRegistration(TAINT_EVENT, _after_node_change, reads="nothing"),
            EventRegistration(TOLERATION_EVENT, _after_toleration_change, reads="nothing"),
        ]


def _after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    was_cordoned = old is None or old.unschedulable
    return queue_if(was_cordoned and not new.unschedulable)


def _after_toleration_change(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    # The old tolerations do not matter: had they covered the taint, the pod would not be waiting.
    return queue_if(pod.uid == new.uid and new.tolerates(_TAINT_KEY))


def _uncordoned(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield the pod as if no node were cordoned."""
    # They also have a taint, so disabling this plugin alone is not enough.
    edit = tolerating(Taint(_TAINT_KEY, "", "NoSchedule"), any_value=True)
    yield PodChange("uncordon", "", "once uncordoned", edit)


PLUGIN = InTreePlugin(plugin=NodeUnschedulable, pod_changes=_uncordoned, has_shared_changes=True)
