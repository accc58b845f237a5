"""The pods of each node ordered by importance, and the lowest priority of each node.

Preemption chooses victims in this order. It follows the change log: a row is sorted again when it
is read after a change. Never chooses a victim, and never writes a table.
Upstream: pkg/scheduler/util/utils.go MoreImportantPod
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kubesched.snapshot.interning import grown
from kubesched.snapshot.node_columns import BoolColumn, IdColumn, IntColumn

if TYPE_CHECKING:
    from kubesched.snapshot.tables import ClusterTables

NO_POD: Final = -1
# The lowest priority of a row without pods: more than any pod's.
NO_PRIORITY: Final = np.iinfo(np.int64).max
# At most this many changes are followed row by row; after more, all rows are rebuilt.
CHANGES_MAX: Final = 4096
ROWS_ONE_BY_ONE_MAX: Final = 4


class PodsByImportance:
    """Pod indexes by row, the most important first, and the lowest priority of each row."""

    def __init__(self, cluster: ClusterTables) -> None:
        self._cluster = cluster
        self._seen = -1
        self._order: IdColumn = np.full((16, 8), NO_POD, dtype=np.int32)
        self._is_sorted: BoolColumn = np.zeros(16, dtype=np.bool_)
        self._lowest: IntColumn = np.full(16, NO_PRIORITY, dtype=np.int64)

    def lowest_priority(self, rows: NDArray[np.int64]) -> IntColumn:
        """Return the lowest priority of each row, `NO_PRIORITY` for a row without pods."""
        self._follow()
        return self._lowest[rows]

    def matrix(self, rows: NDArray[np.int64]) -> IdColumn:
        """Return the pod indexes of some rows, one line per row, padded with -1."""
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
        capacity = self._cluster.nodes.capacity
        if capacity > len(self._is_sorted):
            self._is_sorted = grown(self._is_sorted, capacity)
            self._lowest = grown(self._lowest, capacity, NO_PRIORITY)
            self._order = np.ascontiguousarray(grown(self._order.T, capacity, NO_POD).T)
        if changes is None or len(changes) > CHANGES_MAX:
            self._rebuild()
        else:
            for row in {change.row: None for change in changes}:
                self._is_sorted[row] = False
                self._lowest[row] = self._least(row)
        self._seen = log.stamp

    def _rebuild(self) -> None:
        pods = self._cluster.pods
        counted = np.flatnonzero(pods.counted[: pods.count])
        self._is_sorted[:] = False
        self._lowest[:] = NO_PRIORITY
        np.minimum.at(self._lowest, pods.row[counted], pods.priority[counted])

    def _least(self, row: int) -> int:
        pods = self._cluster.pods.pods
        on_row = (pods[index] for index in self._cluster.nodes.pods_of[row])
        return min((pod.priority for pod in on_row if pod is not None), default=int(NO_PRIORITY))

    def _sort_together(self, rows: list[int]) -> list[int]:
        """Sort rows by priority and start time; return the rows that have ties."""
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
        # Parity: pkg/scheduler/util/utils.go MoreImportantPod, v1.36. Upstream breaks ties by
        # arrival; the pod's key makes the order repeatable.
        never = float("inf")
        pods = [
            (-pod.priority, never if pod.start_s is None else pod.start_s, pod.key, pod.index)
            for index in self._cluster.nodes.pods_of[row]
            if (pod := self._cluster.pods.pods[index]) is not None
        ]
        pods.sort()
        self._widen(len(pods))
        line = self._order[row]
        line[: len(pods)] = [entry[3] for entry in pods]
        line[len(pods) :] = NO_POD
        self._is_sorted[row] = True
