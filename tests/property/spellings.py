"""Pairs of equal plugins: for one node in plain Python, and for all nodes as columns.

Owns the pairs. The one-node class is the simple form of the rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import FilterVerdict, Rejected
from kubesched.framework.normalize import default_normalize
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import NodeTable, NodeView

CROWDED = unschedulable("node(s) were crowded")
NO_ZONE = unresolvable("node(s) had no zone")
BUSY = unschedulable("node(s) were busy")
ZONE = "topology.kubernetes.io/zone"


class CrowdedOneNode:
    """Rejects a node without a zone, and one with more than two pods."""

    name = "Crowded"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        if ZONE not in node.labels:
            return NO_ZONE
        return CROWDED if node.pod_count > 2 else None


class CrowdedColumn:
    name = "Crowded"

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        return [
            Rejected(~nodes.has_label(ZONE), NO_ZONE),
            Rejected(nodes.pod_count > 2, CROWDED),
        ]


class FreeCpuOneNode:
    """Scores a node by the cpu that would be left, at most 100."""

    name = "FreeCpu"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        left = node.allocatable["cpu"] - node.requested["cpu"] - pod.requests["cpu"]
        return min(max(left // 100, 0), 100)


class FreeCpuColumn:
    name = "FreeCpu"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        left = nodes.allocatable["cpu"] - nodes.requested["cpu"] - pod.requests["cpu"]
        return np.clip(left // 100, 0, 100)


class PodCountOneNode:
    """Prefers the emptiest node, relative to the fullest feasible node."""

    name = "PodCount"

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        return len(node.pods)

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        return default_normalize(scores, reverse=True)


class PodCountColumn:
    name = "PodCount"

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> IntColumn:
        return nodes.pod_count

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: IntColumn) -> IntColumn:
        return default_normalize(scores, reverse=True)


KEY = "PreFilterBusy"
CPU_MAX = 1500


class _Counts:
    """CPU that pods with labels request, by node key."""

    def __init__(self, counts: Any) -> None:
        self.counts = counts

    def clone(self) -> _Counts:
        return _Counts(self.counts.copy())


def labelled_cpu(pod: BoundPod) -> int:
    return pod.requests["cpu"] if pod.labels else 0


class BusyOneNode:
    """Rejects a node whose labelled pods request much cpu; keeps its own counts."""

    name = "Busy"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> None:
        counts = {node.name: sum(map(labelled_cpu, node.pods)) for node in nodes}
        state.write(KEY, _Counts(counts))

    def add_pod(self, state: CycleState, pod: PodInfo, added: BoundPod, node: NodeView) -> None:
        state.read(KEY).counts[node.name] += labelled_cpu(added)

    def remove_pod(
        self, state: CycleState, pod: PodInfo, removed: BoundPod, node: NodeView
    ) -> None:
        state.read(KEY).counts[node.name] -= labelled_cpu(removed)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        return BUSY if state.read(KEY).counts[node.name] > CPU_MAX else None


class BusyColumn:
    name = "Busy"

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> None:
        counts = np.zeros(nodes.view.row_count, dtype=np.int64)
        for row, node in zip(nodes.rows.tolist(), nodes, strict=True):
            counts[row] = sum(map(labelled_cpu, node.pods))
        state.write(KEY, _Counts(counts))

    def add_pods(self, state: CycleState, pod: PodInfo, added: PodRows, nodes: NodeTable) -> None:
        self._change(state, added, nodes, 1)

    def remove_pods(
        self, state: CycleState, pod: PodInfo, removed: PodRows, nodes: NodeTable
    ) -> None:
        self._change(state, removed, nodes, -1)

    def _change(self, state: CycleState, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        counts = state.read(KEY).counts
        for position in np.flatnonzero(pods.present).tolist():
            changed = pods[position]
            assert changed is not None
            counts[nodes.rows[position]] += sign * labelled_cpu(changed)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: NodeTable) -> FilterVerdict:
        return [Rejected(state.read(KEY).counts[nodes.rows] > CPU_MAX, BUSY)]


PAIRS: dict[str, tuple[type, type]] = {
    "a filter": (CrowdedOneNode, CrowdedColumn),
    "a score": (FreeCpuOneNode, FreeCpuColumn),
    "a score that is normalised": (PodCountOneNode, PodCountColumn),
    "a filter that keeps count": (BusyOneNode, BusyColumn),
}
