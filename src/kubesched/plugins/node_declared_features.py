"""NodeDeclaredFeatures: rejects nodes that do not declare a feature the pod needs.

Upstream: pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from kubesched.framework.cluster_event import ActionType, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import EventRegistration, FilterVerdict, Reads, Rejected
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.plugins.queueing_hints import on, queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeTable

_PRE_FILTER_KEY = "PreFilterNodeDeclaredFeatures"
_READS = Reads(nodes=True)
_REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures:
    """Rejects nodes that do not declare every feature the pod needs."""

    name = "NodeDeclaredFeatures"

    def reads(self, pod: PodInfo) -> Reads | None:
        """Verdicts depend on the features of the node."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the part of the pod that verdicts depend on: the features it needs."""
        return pod.shape.required_features

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the needed features; skip the filter if there are none."""
        if not pod.shape.required_features:
            return SKIP
        state.write(_PRE_FILTER_KEY, pod.shape.required_features)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Reject nodes that lack a needed feature."""
        required: tuple[str, ...] | None = state.get(_PRE_FILTER_KEY)
        if required is None:
            text = f'error reading "{_PRE_FILTER_KEY}" from cycle-state: not found'
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), error(text))]

        def lacks(features: tuple[str, ...]) -> bool:
            return not set(required) <= set(features)

        lacking = nodes.feature_sets.lut(("lacks features", required), lacks)
        return [Rejected(lacking[nodes.feature_set], unresolvable(_REASON))]

    def events_to_register(self) -> Sequence[EventRegistration]:
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [
            on(EventResource.NODE, node_change, _after_node_change, reads="nothing"),
            on(EventResource.POD, ActionType.UPDATE, _after_pod_update, reads="nothing"),
        ]


def _after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    # The lists as written are compared: another order counts as a change.
    same = old is not None and old.status.declared_features == new.status.declared_features
    return queue_if(not same)


def _after_pod_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:
    changed = old.shape.required_features != new.shape.required_features
    return queue_if(pod.uid == new.uid and changed)


PLUGIN = InTreePlugin(plugin=NodeDeclaredFeatures)
