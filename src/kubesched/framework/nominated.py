"""Pods that were promised a node: who is to be supposed where.

Owns the columns in which they are supposed, made once for as long as the promises stand. Never
judges.
Upstream: pkg/scheduler/framework/runtime/framework.go addGENominatedPods
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from kubesched.columns.node_columns import IdColumn
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.trial import NO_POD
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.model.pod_info import PodInfo

# Attempts alternate between few priorities; this is only to keep a stream of others in bounds.
PRIORITIES_MAX = 64


class Promised(NamedTuple):
    """The pods to suppose on some nodes of a table."""

    positions: Rows
    """Which nodes of the table."""
    steps: list[IdColumn]
    """One pod index per such node and step, -1 for none."""

    def over(self, count: int) -> list[IdColumn]:
        """Return the steps over all nodes of the table, as many as given."""
        spread = [np.full(count, NO_POD, dtype=np.int32) for _ in self.steps]
        for column, step in zip(spread, self.steps, strict=True):
            column[self.positions] = step
        return spread


class _Standing(NamedTuple):
    """All promises to pods of some priority or a higher one."""

    slots: IdColumn
    """By row of the cluster: its place in the steps, -1 for a row without."""
    steps: list[IdColumn]


class Nominations:
    """The promises of one cluster at a time, in the form in which trials want them."""

    def __init__(self) -> None:
        self._key: tuple[object, int, int] = (None, -1, -1)
        self._standing: dict[int, _Standing] = {}

    def on(self, nodes: NodeTable, pod: PodInfo) -> Promised | None:
        """Return who is to be supposed on which of the nodes before the pod; None: nobody."""
        view = nodes.view
        if not view.pods.nominated_of:
            return None
        # Parity: runtime/framework.go addGENominatedPods, v1.36: equal or higher priority, not
        # itself.
        standing = self._for_priority(view, pod.priority)
        slots = standing.slots[nodes.rows]
        positions = np.flatnonzero(slots >= 0)
        if len(positions) == 0:
            return None
        there = slots[positions]
        steps = [step[there] for step in standing.steps]
        own = view.pods.index_of.get(pod.uid, NO_POD)
        if own != NO_POD:
            for step in steps:
                step[step == own] = NO_POD
            steps = [step for step in steps if (step != NO_POD).any()]
        return Promised(positions, steps) if steps else None

    def _for_priority(self, view: ClusterView, priority: int) -> _Standing:
        key = (view.identity, view.nomination_epoch, view.row_count)
        if self._key != key or len(self._standing) >= PRIORITIES_MAX:
            self._key, self._standing = key, {}
        found = self._standing.get(priority)
        if found is None:
            found = self._standing[priority] = _standing(view, priority)
        return found


def promised_pods(nodes: NodeTable, pod: PodInfo) -> list[list[BoundPod]]:
    """Return for each of the nodes the pods to suppose there before the pod."""
    found: list[list[BoundPod]] = [[] for _ in range(len(nodes))]
    promised = Nominations().on(nodes, pod)
    if promised is None:
        return found
    for step in promised.steps:
        for position, index in zip(promised.positions.tolist(), step.tolist(), strict=True):
            if index != NO_POD:
                found[position].append(nodes.view.bound_pod(index))
    return found


def _standing(view: ClusterView, priority: int) -> _Standing:
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
        there = number < counts
        step[there] = indices[starts[there] + number]
        steps.append(step)
    return _Standing(slots, steps)
