"""The pods of each node from the most to the least important, kept current by the change log.

Owns the order in which pods are given up, and each row's least priority. A row is sorted when it is
first asked for after a change. Never decides who has to go, and never writes a table.
Upstream: pkg/scheduler/util/utils.go MoreImportantPod
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.interning import grown
from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn

if TYPE_CHECKING:
    from kubesched.columns.cluster import Cluster

NO_POD: Final = -1
# What a row without pods has as its least priority: more than any pod's.
NOBODY: Final = np.iinfo(np.int64).max
# Up to so many changes are followed row by row; after more, all rows are looked at anew.
CHANGES_MAX: Final = 4096
ROWS_ONE_BY_ONE_MAX: Final = 4


class PodsByImportance:
    """Pod indices by row, most important first, and the priority of each row's last."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen = -1
        self._order: IdColumn = np.full((16, 8), NO_POD, dtype=np.int32)
        self._is_sorted: BoolColumn = np.zeros(16, dtype=np.bool_)
        self._lowest: IntColumn = np.full(16, NOBODY, dtype=np.int64)

    def __repr__(self) -> str:
        return f"<PodsByImportance of {int(self._is_sorted.sum())} sorted rows>"

    def lowest_priority(self, rows: NDArray[np.int64]) -> IntColumn:
        """Return the priority of each row's least important pod, `NOBODY` where there is none."""
        self._follow()
        return self._lowest[rows]

    def matrix(self, rows: NDArray[np.int64]) -> IdColumn:
        """Return the pods of some rows, a line for each, filled up with -1."""
        self._follow()
        unsorted: list[int] = rows[~self._is_sorted[rows]].tolist()
        if len(unsorted) > ROWS_ONE_BY_ONE_MAX:
            unsorted = self._sort_together(unsorted)
        for row in unsorted:
            self._sort(row)
        width = int(self._cluster.nodes.pod_count[rows].max(initial=0))
        return self._order[rows, :width]

    def _follow(self) -> None:
        log, keeps = self._cluster.log, self._cluster.counters.keeps
        if self._seen == log.stamp and keeps:
            return
        changes = log.since(self._seen) if self._seen >= 0 and keeps else None
        self._grow()
        if changes is None or len(changes) > CHANGES_MAX:
            self._start_anew()
        else:
            for row in {change.row: None for change in changes}:
                self._is_sorted[row] = False
                self._lowest[row] = self._least(row)
        self._seen = log.stamp

    def _grow(self) -> None:
        capacity = self._cluster.nodes.capacity
        if capacity > len(self._is_sorted):
            self._is_sorted = grown(self._is_sorted, capacity)
            self._lowest = grown(self._lowest, capacity, NOBODY)
            self._order = np.ascontiguousarray(grown(self._order.T, capacity, NO_POD).T)

    def _start_anew(self) -> None:
        pods = self._cluster.pods
        counted = np.flatnonzero(pods.counted[: pods.count])
        self._is_sorted[:] = False
        self._lowest[:] = NOBODY
        np.minimum.at(self._lowest, pods.row[counted], pods.priority[counted])

    def _least(self, row: int) -> int:
        pods = self._cluster.pods.pods
        there = (pods[index] for index in self._cluster.nodes.pods_of[row])
        return min((pod.priority for pod in there if pod is not None), default=int(NOBODY))

    def _sort_together(self, rows: list[int]) -> list[int]:
        """Sort rows by priority and start; return those where these are not enough."""
        pods, pods_of = self._cluster.pods, self._cluster.nodes.pods_of
        counts = np.array([len(pods_of[row]) for row in rows])
        index = np.fromiter(chain.from_iterable(pods_of[row] for row in rows), dtype=np.int32)
        lines = np.arange(len(rows)).repeat(counts)
        order = np.lexsort((pods.start_s[index], -pods.priority[index], lines))
        index = index[order]
        self._widen(int(counts.max(initial=0)))
        sorted_lines: IdColumn = np.full((len(rows), self._order.shape[1]), NO_POD, dtype=np.int32)
        first = counts.cumsum() - counts
        sorted_lines[lines, np.arange(len(index)) - first.repeat(counts)] = index
        self._order[rows] = sorted_lines
        self._is_sorted[rows] = True
        equal = lines[1:] == lines[:-1]
        for column in (pods.start_s, pods.priority):
            equal &= column[index[1:]] == column[index[:-1]]
        return [rows[line] for line in dict.fromkeys(lines[1:][equal].tolist())]

    def _widen(self, count: int) -> None:
        if count > self._order.shape[1]:
            self._order = grown(self._order, count, NO_POD)

    def _sort(self, row: int) -> None:
        # Parity: pkg/scheduler/util/utils.go MoreImportantPod, v1.36. Among pods of equal priority
        # and start upstream goes by arrival; the key makes it repeatable.
        never = float("inf")
        there = [
            (-pod.priority, never if pod.start_s is None else pod.start_s, pod.key, pod.index)
            for index in self._cluster.nodes.pods_of[row]
            if (pod := self._cluster.pods.pods[index]) is not None
        ]
        there.sort()
        self._widen(len(there))
        line = self._order[row]
        line[: len(there)] = [entry[3] for entry in there]
        line[len(there) :] = NO_POD
        self._is_sorted[row] = True
