"""TaintToleration: rejects nodes with taints that the pod does not tolerate.

Scores PreferNoSchedule taints. The taint eviction controller evicts.
Upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from kubesched.api.affinity import Toleration
from kubesched.api.tolerations import Taint, untolerated
from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import EventRegistration, FilterVerdict, Reads, Rejected
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import Status, StatusError, error, unresolvable
from kubesched.plugins.pod_changes import PodChange, RejectedPod, with_spec
from kubesched.plugins.queueing_hints import queue_if
from kubesched.plugins.record import InTreePlugin
from kubesched.snapshot.expressions import DO_NOT_SCHEDULE_EFFECTS, is_tolerated, negate
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import NodeRow, NodeTable

TAINT_EVENT = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
TOLERATION_EVENT = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
_AVOIDED_EFFECT = "PreferNoSchedule"
_PRE_SCORE_KEY = "PreScoreTaintToleration"
_UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")
_READS = Reads(nodes=True)
_TAINTS_MAX = 8
_VALUES_OF_A_KEY_MAX = 3


class TaintToleration:
    """Rejects nodes with untolerated taints, and prefers nodes with few PreferNoSchedule taints."""

    name = "TaintToleration"
    normalizes_by_scaling = True
    takes_rows = True

    def reads(self, pod: PodInfo) -> Reads | None:
        """Verdicts depend on the taints of the node."""
        return _READS

    def fragment(self, pod: PodInfo) -> Hashable:
        """Return the part of the pod that verdicts depend on: the tolerations."""
        return pod.shape.tolerations

    def filter_nodes(
        self, state: CycleState, pod: PodInfo, nodes: NodeTable | NodeRow
    ) -> FilterVerdict:
        """Reject nodes with an untolerated NoSchedule or NoExecute taint."""
        tolerated = is_tolerated(nodes, pod.tolerations, DO_NOT_SCHEDULE_EFFECTS)
        return [] if tolerated is True else [Rejected(negate(tolerated), _UNTOLERATED)]

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> Status | None:
        """Keep the tolerations of PreferNoSchedule taints."""
        relevant = tuple(t for t in pod.tolerations if t.effect in ("", _AVOIDED_EFFECT))
        state.write(_PRE_SCORE_KEY, relevant)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        """Count the untolerated PreferNoSchedule taints."""
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
        return [
            EventRegistration(TAINT_EVENT, _after_node_change, reads="shape"),
            EventRegistration(TOLERATION_EVENT, _after_toleration_change, reads="nothing"),
        ]


def _after_node_change(pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> QueueingHint:
    was_untolerated = old is None or _keeps_off(old, pod)
    return queue_if(was_untolerated and not _keeps_off(new, pod))


def _keeps_off(node: NodeInfo, pod: PodInfo) -> bool:
    return bool(untolerated(node.taints, pod.tolerations, DO_NOT_SCHEDULE_EFFECTS))


def _after_toleration_change(pod: PodInfo, old: Any, new: PodInfo) -> QueueingHint:
    return queue_if(pod.uid == new.uid)


def toleration_changes(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield a toleration for each taint that rejects the pod, the most common first."""
    nodes = rejected.nodes
    sets, counts = np.unique(nodes.taint_set, return_counts=True)
    count_of: dict[Taint, int] = {}
    for taint_set, count in zip(sets.tolist(), counts.tolist(), strict=True):
        taints = nodes.taint_sets.values[taint_set]
        for taint in untolerated(taints, rejected.pod.tolerations, DO_NOT_SCHEDULE_EFFECTS):
            count_of[taint] = count_of.get(taint, 0) + count
    by_key: dict[tuple[str, str], list[Taint]] = {}
    for taint in count_of:
        by_key.setdefault((taint.key, taint.effect), []).append(taint)
    node_counts: dict[tuple[Taint, bool], int] = {}
    for alike in by_key.values():
        any_value = len(alike) > _VALUES_OF_A_KEY_MAX
        for taint in alike:
            key = (Taint(taint.key, "", taint.effect) if any_value else taint, any_value)
            node_counts[key] = node_counts.get(key, 0) + count_of[taint]
    most_common = sorted(node_counts, key=lambda key: (-node_counts[key], key[0].key, key[0].value))
    for taint, any_value in most_common[:_TAINTS_MAX]:
        value = f"={taint.value}" if taint.value else ""
        note = " (any value)" if any_value else ""
        text = f"with a toleration of {taint.key}{value}:{taint.effect}{note}"
        edit = tolerating(taint, any_value=any_value)
        yield PodChange("toleration", "spec.tolerations", text, edit)


def tolerating(taint: Taint, *, any_value: bool = False) -> Callable[[PodInfo], PodInfo]:
    """Return the edit by which a pod tolerates a taint, or all of its key and effect."""
    toleration = Toleration(
        key=taint.key,
        operator="Exists" if any_value else "Equal",
        value="" if any_value else taint.value,
        effect=taint.effect,
    )

    def edit(pod: PodInfo) -> PodInfo:
        spec = pod.object.spec
        return with_spec(pod, replace(spec, tolerations=(*spec.tolerations, toleration)))

    return edit


PLUGIN = InTreePlugin(plugin=TaintToleration, pod_changes=toleration_changes)
