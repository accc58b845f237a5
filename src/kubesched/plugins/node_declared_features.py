"""Keeps pods off nodes that lack a feature they need.

Owns the filter over `status.declaredFeatures`. What a pod needs was worked out with its shape.
Upstream: pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from kubesched.columns.view import NodeTable
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import (
    EventRegistration,
    FilterVerdict,
    Reads,
    Rejected,
    SignFragment,
)
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo

_PRE_FILTER_KEY = "PreFilterNodeDeclaredFeatures"
_READS = Reads(nodes=True)
_REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures:
    """Refuses nodes that do not declare every feature the pod needs."""

    name = "NodeDeclaredFeatures"
    same_for_family = True

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def reads(self, pod: PodInfo) -> Reads | None:
        """Features are the node's own."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what of the pod verdicts depend on: the features it needs."""
        return pod.shape.required_features

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the needed features; have the filter skipped if there are none."""
        if not pod.shape.required_features:
            return SKIP
        state.write(_PRE_FILTER_KEY, pod.shape.required_features)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        """Refuse nodes that lack a needed feature."""
        required: tuple[str, ...] | None = state.get(_PRE_FILTER_KEY)
        if required is None:
            text = f'error reading "{_PRE_FILTER_KEY}" from cycle-state: not found'
            return [Rejected(np.ones(len(nodes), dtype=np.bool_), error(text))]

        def lacks(features: tuple[str, ...]) -> bool:
            return not set(required) <= set(features)

        lacking = nodes.feature_sets.lut(("lacks features", required), lacks)
        return [Rejected(lacking[nodes.feature_set], unresolvable(_REASON))]

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which a feature may be there, or needed no more."""
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return [
            EventRegistration(
                ClusterEvent(EventResource.NODE, node_change), _after_node_change, reads="nothing"
            ),
            EventRegistration(
                ClusterEvent(EventResource.POD, ActionType.UPDATE),
                _after_pod_update,
                reads="nothing",
            ),
        ]

    def sign_pod(self, pod: PodInfo) -> Sequence[SignFragment] | Status:
        """Name the needed features."""
        return [SignFragment("v1.Pod.Spec.RequiredFeatures()", list(pod.shape.required_features))]


def _after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    # The lists as written are compared: another order counts as a change.
    same = old is not None and old.status.declared_features == new.status.declared_features
    return QueueingHint.QUEUE_SKIP if same else QueueingHint.QUEUE


def _after_pod_update(pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:
    changed = old.shape.required_features != new.shape.required_features
    return QueueingHint.QUEUE if pod.uid == new.uid and changed else QueueingHint.QUEUE_SKIP
