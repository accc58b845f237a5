"""NodeName: rejects all nodes but the one in `spec.nodeName`, which queued pods seldom have.

Upstream: pkg/scheduler/framework/plugins/nodename/node_name.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubesched.framework.cluster_event import ActionType, EventResource
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import EventRegistration, FilterVerdict, Reads, Rejected
from kubesched.framework.status import unresolvable
from kubesched.plugins.queueing_hints import on
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.expressions import Values
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeRow, NodeTable

_READS = Reads(nodes=True)
_REASON = "node(s) didn't match the requested node name"


class NodeName:
    """Rejects every node but the one the pod names."""

    name = "NodeName"
    takes_rows = True

    def reads(self, pod: PodInfo) -> Reads | None:
        """Verdicts depend on the name of the node."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the part of the pod that verdicts depend on: the node name."""
        return pod.node_name

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Reject nodes of another name."""
        if not pod.node_name:
            return []
        # No row is -1, so the name of a missing node rejects all.
        others: Values = nodes.rows != nodes.view.row_of(pod.node_name)
        return [Rejected(others, unresolvable(_REASON))]

    def events_to_register(self) -> Sequence[EventRegistration]:
        return [on(EventResource.NODE, ActionType.ADD)]


PLUGIN = InTreePlugin(plugin=NodeName)
