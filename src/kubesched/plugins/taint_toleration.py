"""Keeps pods off nodes whose taints they do not tolerate.

Owns the filter over NoSchedule and NoExecute taints, and the score over PreferNoSchedule ones.
Never evicts: that is the node lifecycle controller's business.
Upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import msgspec
import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.rules import DO_NOT_SCHEDULE_EFFECTS, is_tolerated, negate
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
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import Status, StatusError, error, unresolvable
from kubesched.model.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import PodInfo
from kubesched.model.tolerations import Taint, untolerated
from kubesched.objects.affinity import Toleration

TOLERATIONS_KEY = "v1.Pod.Spec.Tolerations"
_AVOIDED_EFFECT = "PreferNoSchedule"
_PRE_SCORE_KEY = "PreScoreTaintToleration"
_UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")
_READS = Reads(nodes=True)


class TaintToleration:
    """Refuses nodes with untolerated taints, and prefers nodes with few that ask to be avoided."""

    name = "TaintToleration"
    same_for_family = True
    normalizes_by_scaling = True
    takes_rows = True

    def __init__(self, args: object, handle: Handle) -> None:
        """Ignore both: the plugin has no arguments and asks for nothing."""

    def reads(self, pod: PodInfo) -> Reads | None:
        """Taints are the node's own."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return what of the pod verdicts depend on: the tolerations."""
        return pod.shape.tolerations

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Refuse nodes with a taint that keeps the pod off."""
        tolerated = is_tolerated(nodes, pod.tolerations, DO_NOT_SCHEDULE_EFFECTS)
        return [] if tolerated is True else [Rejected(negate(tolerated), _UNTOLERATED)]

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the tolerations that speak of taints to be avoided."""
        relevant = tuple(t for t in pod.tolerations if t.effect in ("", _AVOIDED_EFFECT))
        state.write(_PRE_SCORE_KEY, relevant)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Count the untolerated taints that ask to be avoided."""
        tolerations: tuple[Toleration, ...] | None = state.get(_PRE_SCORE_KEY)
        if tolerations is None:
            text = f'failed to read "{_PRE_SCORE_KEY}" from cycleState: not found'
            raise StatusError(error(text))

        def count(taints: tuple[Taint, ...]) -> int:
            return len(untolerated(taints, tolerations, (_AVOIDED_EFFECT,)))

        counts = nodes.taint_sets.lut(("avoided taints", tolerations), count, np.int64)
        scores: IntColumn = counts[nodes.taint_set]
        return scores

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        """Give the node with the most such taints 0, and nodes without any 100."""
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Return the events after which a taint may be gone or tolerated."""
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        toleration = ActionType.UPDATE_POD_TOLERATION
        return [
            EventRegistration(
                ClusterEvent(EventResource.NODE, node_change), _after_node_change, reads="shape"
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


def sign_tolerations(pod: PodInfo) -> SignFragment:
    """Return the pod's tolerations by key and value, as a part of its signature."""
    ordered = sorted(pod.tolerations, key=lambda t: (t.key, t.value))
    return SignFragment(TOLERATIONS_KEY, [msgspec.to_builtins(t) for t in ordered])


def _after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    was_untolerated = old is None or _keeps_off(old, pod)
    if was_untolerated and not _keeps_off(new, pod):
        return QueueingHint.QUEUE
    return QueueingHint.QUEUE_SKIP


def _keeps_off(node: NodeInfo, pod: PodInfo) -> bool:
    return bool(untolerated(node.taints, pod.tolerations, DO_NOT_SCHEDULE_EFFECTS))


def _after_toleration_change(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    return QueueingHint.QUEUE if pod.uid == new.uid else QueueingHint.QUEUE_SKIP
