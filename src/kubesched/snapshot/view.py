"""The cluster view: what plugins and the scheduling code read of the cluster.

The scheduler does not copy a snapshot for every attempt. `ClusterView` reads the live tables, and
is valid until the cache writes the next change. A reader that keeps results compares `stamp`,
`node_epoch`, `nomination_epoch` and `identity` to learn what has changed since. The arrays handed
out cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

from kubesched.api.namespace import Namespace
from kubesched.snapshot.affinity_terms import NO_LABELS, TermSet
from kubesched.snapshot.change_log import Change
from kubesched.snapshot.interning import Interner
from kubesched.snapshot.node_columns import (
    BoolColumn,
    IdColumn,
    ImageEntry,
    IntColumn,
    NodeCounters,
    ResourceMatrix,
)
from kubesched.snapshot.node_table import (
    LiveUsage,
    NodeRow,
    NodeTable,
    NodeView,
    Rows,
    read_only,
)
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_columns import BoundPod, LabelClass, PodColumns
from kubesched.snapshot.pod_counts import Counters
from kubesched.snapshot.pod_importance import PodsByImportance
from kubesched.snapshot.tables import ClusterTables

__all__ = ["ClusterView", "LiveUsage", "NodeRow", "NodeTable", "NodeView", "Rows", "read_only"]


class ClusterView:
    """A read-only view of the cluster; valid until the next change is written."""

    def __init__(self, cluster: ClusterTables) -> None:
        self._cluster = cluster
        self._nodes = cluster.nodes
        self.pods: PodColumns = cluster.pods
        self.objects: ObjectStores = cluster.objects

    def __repr__(self) -> str:
        return f"<ClusterView of {self.node_count} nodes, {len(self.pods.index_of)} pods>"

    # -- changes ------------------------------------------------------------------------------

    @property
    def stamp(self) -> int:
        """Return the stamp of the next change of a row."""
        return self._cluster.log.stamp

    def changes_since(self, stamp: int) -> list[Change] | None:
        """Return the changes of rows from a stamp on; None if some are no longer in the log."""
        return self._cluster.log.since(stamp)

    @property
    def counters(self) -> Counters:
        """Return the pod counts per row and topology domain."""
        return self._cluster.counters

    @property
    def importance(self) -> PodsByImportance:
        """Return the pods of each row, the most important first."""
        return self._cluster.importance

    def rows_changed_since(self, stamp: int) -> Rows:
        """Return the rows that changed from a stamp on, however old it is, in any order."""
        nodes, log = self._nodes, self._cluster.log
        rows = log.rows_since(stamp)
        if rows is None or len(rows) > nodes.row_count // 2:
            changed: BoolColumn = nodes.stamp[: nodes.row_count] >= stamp
            return changed.nonzero()[0]
        # Each row once: by its latest change.
        return rows[nodes.stamp.take(rows) == np.arange(stamp, log.stamp)]

    @property
    def node_epoch(self) -> int:
        """Return a number that changes with every node that plugins can see changed."""
        return self._cluster.node_epoch

    @property
    def nomination_epoch(self) -> int:
        """Return a number that changes with every nomination."""
        return self._cluster.nomination_epoch

    # -- nodes --------------------------------------------------------------------------------

    @property
    def node_count(self) -> int:
        return self._cluster.node_count

    def visiting_rows(self) -> Rows:
        return self._cluster.visiting_rows()

    def all_nodes(self) -> NodeTable:
        """Return the table of all nodes, in visiting order."""
        return NodeTable(self, self._cluster.visiting_rows())

    def nodes_at(self, rows: Rows) -> NodeTable:
        return NodeTable(self, rows)

    def whole(self) -> NodeTable:
        """Return the table of all nodes in row order, without copying columns if possible."""
        rows = self._cluster.valid_rows()
        return NodeTable(self, rows, whole=len(rows) == self._nodes.row_count)

    @property
    def identity(self) -> object:
        """Return an object that changes when ids are renumbered; every cluster has its own."""
        return self._cluster.identity

    def row(self, row: int) -> NodeRow:
        return NodeRow(self, row)

    def node_counters(self, row: int) -> NodeCounters | None:
        """Return the counters of one row, read-only; None if some amount is large."""
        return self._nodes.counters[row] if self._nodes.has_small_numbers else None

    def resource_matrix(self, rows: Rows | None) -> ResourceMatrix | None:
        """Return the resource matrix of some rows (None: of all, if every row has a node).

        None if some amount is large, or a node has no cpu or memory.
        """
        nodes = self._nodes
        if not nodes.has_small_numbers or not self._cluster.all_offer_the_first():
            return None
        return nodes.resource_matrix(rows)

    def rank(self) -> IntColumn:
        """Return each row's position in the visiting order; undefined for rows without a node."""
        self._cluster.visiting_rows()
        return read_only(self._nodes.rank[: self._nodes.row_count])

    def row_of(self, name: str) -> int:
        """Return the row of a node, -1 if there is no such node."""
        row = self._nodes.row_of.get(name, -1)
        return row if row >= 0 and self._nodes.valid[row] else -1

    def rows_of(self, names: Sequence[str]) -> Rows:
        """Return the rows of many nodes, -1 where there is no such node."""
        rows_of_names = map(self._nodes.row_of.get, names, repeat(-1))
        rows: Rows = np.fromiter(rows_of_names, dtype=np.int64, count=len(names))
        # -1 reads the last row, and stays -1 either way.
        return np.where(self._nodes.valid[rows], rows, -1)

    def name_of(self, row: int) -> str:
        return self._nodes.names[row]

    def placeholders_of(self, name: str) -> list[int]:
        """Return the placeholder rows of a node name."""
        placeholders, rows = self._cluster.placeholders, list[int]()
        while (row := placeholders.get((name, len(rows)), -1)) >= 0:
            rows.append(row)
        return rows

    def node(self, name: str) -> NodeView | None:
        row = self.row_of(name)
        return None if row < 0 else self.nodes_at(np.array([row]))[0]

    def label_ids(self, key: str) -> IdColumn:
        """Return the value ids of a label key over all rows, -1 where absent."""
        return read_only(self._nodes.label(key).ids[: self._nodes.row_count])

    def label_values(self, key: str) -> Interner[str]:
        return self._nodes.label(key).values

    @property
    def row_count(self) -> int:
        """Return the length of whole-table columns, rows without a node included."""
        return self._nodes.row_count

    def image(self, name: str) -> ImageEntry | None:
        """Return the rows that have an image, and its size; None for an unknown image."""
        return self._nodes.images.get(name)

    # -- pods ---------------------------------------------------------------------------------

    @property
    def label_classes(self) -> Interner[LabelClass]:
        return self.pods.label_classes

    @property
    def term_sets(self) -> Interner[TermSet]:
        return self.pods.term_sets

    def pods_on(self, row: int) -> list[int]:
        """Return the indexes of the pods on a row."""
        return self._nodes.pods_of[row]

    def nominated_on(self, row: int) -> list[int]:
        """Return the indexes of the pods that are nominated to a row."""
        return self.pods.nominated_of.get(row, [])

    def bound_pod(self, index: int) -> BoundPod:
        """Return the pod at an index."""
        pod = self.pods.pods[index]
        assert pod is not None, f"no pod at index {index}"
        return pod

    # -- objects ------------------------------------------------------------------------------

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; empty if it is unknown."""
        namespace = self.objects.store_of(Namespace).get(name)
        return NO_LABELS if namespace is None else namespace.metadata.labels or NO_LABELS
