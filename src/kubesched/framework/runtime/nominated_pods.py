"""Nominated pods by node, in the form in which trials add them.

Owns these columns, which are built again when a nomination changes. Never evaluates a node.
Upstream: pkg/scheduler/framework/runtime/framework.go addGENominatedPods
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from kubesched.snapshot.node_columns import IdColumn
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import NO_POD
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

# Attempts alternate between few priorities; the limit bounds memory if they do not.
PRIORITIES_MAX = 64


class Nominated(NamedTuple):
    """The pods to add to some nodes of a table."""

    positions: Rows
    """The nodes of the table."""
    steps: list[IdColumn]
    """One pod index per such node and step, -1 for none."""

    def over(self, count: int) -> list[IdColumn]:
        """Return the steps over all nodes of a table of that length."""
        spread = [np.full(count, NO_POD, dtype=np.int32) for _ in self.steps]
        for column, step in zip(spread, self.steps, strict=True):
            column[self.positions] = step
        return spread


class _ByPriority(NamedTuple):
    """All nominations of pods of some priority or a higher one."""

    slots: IdColumn
    """By row of the cluster: its index in the steps, -1 for none."""
    steps: list[IdColumn]


class Nominations:
    """The nominations of one cluster at a time."""

    def __init__(self) -> None:
        self._key: tuple[object, int, int] = (None, -1, -1)
        self._by_priority: dict[int, _ByPriority] = {}

    def on(self, nodes: NodeTable, pod: PodInfo) -> Nominated | None:
        """Return the nominated pods that count for the pod; None if there are none."""
        view = nodes.view
        if not view.pods.nominated_of:
            return None
        # Parity: runtime/framework.go addGENominatedPods, v1.36: equal or higher priority, not
        # itself.
        columns = self._for_priority(view, pod.priority)
        slots = columns.slots[nodes.rows]
        positions = np.flatnonzero(slots >= 0)
        if len(positions) == 0:
            return None
        steps = [step[slots[positions]] for step in columns.steps]
        own = view.pods.index_of.get(pod.uid, NO_POD)
        if own != NO_POD:
            for step in steps:
                step[step == own] = NO_POD
            steps = [step for step in steps if (step != NO_POD).any()]
        return Nominated(positions, steps) if steps else None

    def _for_priority(self, view: ClusterView, priority: int) -> _ByPriority:
        key = (view.identity, view.nomination_epoch, view.row_count)
        if self._key != key or len(self._by_priority) >= PRIORITIES_MAX:
            self._key, self._by_priority = key, {}
        if priority not in self._by_priority:
            self._by_priority[priority] = _nominated_from(view, priority)
        return self._by_priority[priority]


def nominated_by_node(nodes: NodeTable, pod: PodInfo) -> list[list[BoundPod]]:
    """Return for each node the nominated pods that count for the pod."""
    by_node: list[list[BoundPod]] = [[] for _ in range(len(nodes))]
    nominated = Nominations().on(nodes, pod)
    if nominated is None:
        return by_node
    for step in nominated.steps:
        for position, index in zip(nominated.positions.tolist(), step.tolist(), strict=True):
            if index != NO_POD:
                by_node[position].append(nodes.view.bound_pod(index))
    return by_node


def _nominated_from(view: ClusterView, priority: int) -> _ByPriority:
    pods = view.pods
    indices = np.fromiter(chain.from_iterable(pods.nominated_of.values()), dtype=np.int32)
    indices = indices[pods.priority[indices] >= priority]
    indices = indices[np.argsort(pods.row[indices], kind="stable")]
    rows_of_pods = pods.row[indices]
    starts = np.flatnonzero(np.diff(rows_of_pods, prepend=NO_POD))
    counts = np.diff(starts, append=len(indices))
    rows = rows_of_pods[starts]
    slots = np.full(view.row_count, NO_POD, dtype=np.int32)
    slots[rows] = np.arange(len(rows), dtype=np.int32)
    steps = []
    for number in range(int(counts.max(initial=0))):
        step = np.full(len(rows), NO_POD, dtype=np.int32)
        has_pod = number < counts
        step[has_pod] = indices[starts[has_pod] + number]
        steps.append(step)
    return _ByPriority(slots, steps)
