"""All tables of one cluster, together.

Owns the tables and nothing about how they change: `writer` does that, `view` reads.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.change_log import ChangeLog
from kubesched.columns.counts import Counters
from kubesched.columns.importance import PodsByImportance
from kubesched.columns.node_columns import NodeColumns
from kubesched.columns.object_store import ObjectStores
from kubesched.columns.pod_columns import PodColumns
from kubesched.model.pod_info import PodShapes


class Cluster:
    """Nodes, pods and the other objects, as one state that changes row by row."""

    def __init__(self, *, keep_whole_pods: bool = False) -> None:
        self.nodes = NodeColumns()
        self.pods = PodColumns()
        self.objects = ObjectStores()
        self.shapes = PodShapes()
        self.keep_whole_pods = keep_whole_pods
        self.log = ChangeLog()
        self.counters = Counters(self)
        self.importance = PodsByImportance(self)
        self.node_epoch = 0
        """Moves when a node comes, goes or changes in a way a rule can see."""
        self.nomination_epoch = 0
        """Moves when a pod is promised a node, or no longer."""
        self.zones: dict[str, dict[str, int]] = {}
        """The nodes of each zone in the order in which they came, with their rows."""
        self.node_count = 0
        """How many nodes there are."""
        self.stand_ins: dict[tuple[str, int], int] = {}
        """Rows of nodes that nobody visits, by name and how many of that name came before."""
        self.identity = object()
        """What caches over this cluster belong to; another one when ids are dealt anew."""
        self.compact_at = 4096
        self.arrival_count = 0
        self._visiting_rows: NDArray[np.int64] | None = None
        self._valid_rows: NDArray[np.int64] | None = None
        self._all_offer: tuple[int, bool] | None = None

    def begin_epoch(self) -> None:
        """Void every cache over this cluster."""
        self.identity = object()
        self.node_epoch += 1
        self.nomination_epoch += 1
        self.counters.clear()

    def forget_order(self) -> None:
        """Have the visiting order worked out anew when it is next wanted."""
        self._visiting_rows = self._valid_rows = None

    def all_offer_the_first(self) -> bool:
        """Return whether every node offers cpu and memory."""
        known = self._all_offer
        if known is None or known[0] != self.node_epoch:
            offered = self.nodes.allocatable[:2, self.judged_rows()]
            known = self._all_offer = (self.node_epoch, bool((offered > 0).all()))
        return known[1]

    def judged_rows(self) -> NDArray[np.int64]:
        """Return the rows of all nodes that rules may be asked about, in no order."""
        if not self.stand_ins:
            return self.visiting_rows()
        return np.concatenate((self.visiting_rows(), list(self.stand_ins.values())))

    def valid_rows(self) -> NDArray[np.int64]:
        """Return the rows that have a node, in their own order."""
        if self._valid_rows is None:
            self._valid_rows = np.sort(self.visiting_rows())
            self._valid_rows.flags.writeable = False
        return self._valid_rows

    def visiting_rows(self) -> NDArray[np.int64]:
        """Return the valid rows in upstream's order: zones in turn, a zone's nodes as they came."""
        # Parity: pkg/scheduler/backend/cache/node_tree.go list, v1.36.
        if self._visiting_rows is None:
            sizes = [len(nodes) for nodes in self.zones.values()]
            nodes = chain.from_iterable(nodes.values() for nodes in self.zones.values())
            rows = np.fromiter(nodes, dtype=np.int64, count=sum(sizes))
            if len(sizes) > 1:
                turns = np.concatenate([np.arange(size) for size in sizes])
                rows = rows[np.argsort(turns, kind="stable")]
            self.nodes.rank[rows] = np.arange(len(rows))
            rows.flags.writeable = False
            self._visiting_rows = rows
        return self._visiting_rows
