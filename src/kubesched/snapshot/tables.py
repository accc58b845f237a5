"""The tables of one cluster: nodes, pods, other objects, change log and counters.

`cache.writer` is the only writer; all other code reads through `snapshot.view`.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kubesched.snapshot.change_log import ChangeLog
from kubesched.snapshot.node_columns import NodeColumns
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_columns import PodColumns
from kubesched.snapshot.pod_counts import Counters
from kubesched.snapshot.pod_importance import PodsByImportance
from kubesched.snapshot.pod_info import PodShapes


class ClusterTables:
    """Nodes, pods and other objects, as one state that changes row by row."""

    def __init__(self) -> None:
        self.nodes = NodeColumns()
        self.pods = PodColumns()
        self.objects = ObjectStores()
        self.shapes = PodShapes()
        self.log = ChangeLog()
        self.counters = Counters(self)
        self.importance = PodsByImportance(self)
        self.node_epoch = 0
        """Incremented when a node is added, removed or changed in a way that plugins can see."""
        self.nomination_epoch = 0
        """Incremented when a nomination is added or removed."""
        self.zones: dict[str, dict[str, int]] = {}
        """The nodes of each zone in order of arrival, with their rows."""
        self.node_count = 0
        """Number of nodes."""
        self.placeholders: dict[tuple[str, int], int] = {}
        """Rows of placeholders, by node name and the number of earlier ones with that name."""
        self.identity = object()
        """Changes when ids are renumbered: caches that hold ids belong to one identity."""
        self.compact_at = 4096
        self.arrival_count = 0
        self._visiting_rows: NDArray[np.int64] | None = None
        self._valid_rows: NDArray[np.int64] | None = None
        self._all_offer, self._all_offer_at = False, -1

    def begin_epoch(self) -> None:
        """Invalidate every cache over this cluster."""
        self.identity = object()
        self.node_epoch += 1
        self.nomination_epoch += 1
        self.counters.clear()

    def forget_order(self) -> None:
        """Recompute the visiting order at its next use."""
        self._visiting_rows = self._valid_rows = None

    def all_offer_the_first(self) -> bool:
        """Return whether every node offers cpu and memory."""
        if self._all_offer_at != self.node_epoch:
            offered = self.nodes.allocatable[:2, self.judged_rows()]
            self._all_offer = bool((offered > 0).all())
            self._all_offer_at = self.node_epoch
        return self._all_offer

    def judged_rows(self) -> NDArray[np.int64]:
        """Return the rows of all nodes and placeholders, in no order."""
        if not self.placeholders:
            return self.visiting_rows()
        return np.concatenate((self.visiting_rows(), list(self.placeholders.values())))

    def valid_rows(self) -> NDArray[np.int64]:
        """Return the rows that have a node, in ascending order."""
        if self._valid_rows is None:
            self._valid_rows = np.sort(self.visiting_rows())
            self._valid_rows.flags.writeable = False
        return self._valid_rows

    def visiting_rows(self) -> NDArray[np.int64]:
        """Return the valid rows in upstream's order: round-robin over zones, by arrival in each."""
        # Parity: pkg/scheduler/backend/cache/node_tree.go list, v1.36.
        if self._visiting_rows is None:
            sizes = [len(nodes) for nodes in self.zones.values()]
            nodes = chain.from_iterable(nodes.values() for nodes in self.zones.values())
            rows = np.fromiter(nodes, dtype=np.int64, count=sum(sizes))
            if len(sizes) > 1:
                rounds = np.concatenate([np.arange(size) for size in sizes])
                rows = rows[np.argsort(rounds, kind="stable")]
            self.nodes.rank[rows] = np.arange(len(rows))
            rows.flags.writeable = False
            self._visiting_rows = rows
        return self._visiting_rows
