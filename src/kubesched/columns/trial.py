"""What if these pods were there, or gone: usage of some rows, supposed.

Owns copies of the usage columns of its rows. The cluster's tables are never touched, so that an
exception leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.model.pod_info import HostPort

NO_POD = -1


class PodRows:
    """One pod, or none, for each node of a trial."""

    __slots__ = ("index", "present", "view")

    def __init__(self, view: ClusterView, index: IdColumn) -> None:
        self.view = view
        self.index = index
        """Pod index per node, -1 for none."""
        self.present: BoolColumn = index >= 0

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, position: int) -> BoundPod | None:
        index = int(self.index[position])
        return None if index < 0 else self.view.bound_pod(index)

    @property
    def label_class(self) -> IdColumn:
        """Return the label class of each pod; meaningless where there is none."""
        return self.view.pods.label_class[self.index]

    @property
    def term_set(self) -> IdColumn:
        """Return the affinity term set of each pod; meaningless where there is none."""
        return self.view.pods.term_set[self.index]


class Trial:
    """Some rows with pods added and removed; `nodes` is their table."""

    def __init__(self, view: ClusterView, rows: Rows) -> None:
        self.view = view
        self.rows = rows
        live = view.nodes_at(rows).usage
        nodes = view._cluster.nodes  # noqa: SLF001 - of the same package
        self._requested: IntColumn = nodes.requested[:, rows].copy()
        self._nonzero: IntColumn = nodes.nonzero_requested[:, rows].copy()
        self._pod_count: IntColumn = nodes.pod_count[rows].copy()
        self._pods: list[list[int]] = [list(live.pods_on(i)) for i in range(len(rows))]
        self._ports: list[set[HostPort]] = [set(live.ports_on(i)) for i in range(len(rows))]

    @property
    def nodes(self) -> NodeTable:
        """Return the rows as they would be now."""
        return NodeTable(self.view, self.rows, self)

    def add(self, index: IdColumn) -> PodRows:
        """Suppose one more pod on each row (-1: none there)."""
        return self._change(index, 1)

    def remove(self, index: IdColumn) -> PodRows:
        """Suppose one pod less on each row (-1: none there)."""
        return self._change(index, -1)

    def _change(self, index: IdColumn, sign: int) -> PodRows:
        changed = PodRows(self.view, index)
        pods = self.view.pods
        positions = np.flatnonzero(changed.present)
        shapes = pods.shape[index[positions]]
        usage = pods.shape_usage[:, shapes]
        self._requested[: len(usage), positions] += sign * usage
        self._nonzero[:, positions] += sign * pods.shape_nonzero[:, shapes]
        self._pod_count[positions] += sign
        for position, shape in zip(positions.tolist(), shapes.tolist(), strict=True):
            ports = pods.shapes[shape].host_ports
            if sign > 0:
                self._pods[position].append(int(index[position]))
                self._ports[position].update(ports)
            else:
                self._pods[position].remove(int(index[position]))
                self._ports[position].difference_update(ports)
        return changed

    # -- Usage ----------------------------------------------------------------------------------

    def requested(self, place: int) -> IntColumn:
        """Return what pods take of a resource."""
        return self._requested[place].copy()

    def nonzero_requested(self, place: int) -> IntColumn:
        """Return what pods weigh in scoring."""
        return self._nonzero[place].copy()

    def pod_count(self) -> IntColumn:
        """Return how many pods there are."""
        return self._pod_count.copy()

    def pods_on(self, position: int) -> Sequence[int]:
        """Return the indices of the pods at a position."""
        return self._pods[position]

    def ports_on(self, position: int) -> set[HostPort]:
        """Return the taken host ports at a position."""
        return self._ports[position]

    def positions_with_port(self, protocol: str, port: int) -> list[int]:
        """Return the positions where a port is taken on any address."""
        return [
            position
            for position, taken in enumerate(self._ports)
            if any(one.port == port and one.protocol == protocol for one in taken)
        ]

    def copy(self) -> Trial:
        """Return a trial of the same rows, free to go on by itself."""
        return self.take(np.arange(len(self.rows)))

    def take(self, positions: Rows) -> Trial:
        """Return the trial of some of these rows, free to go on by itself."""
        taken = object.__new__(Trial)
        taken.view, taken.rows = self.view, self.rows[positions]
        taken._requested = self._requested[:, positions]
        taken._nonzero = self._nonzero[:, positions]
        taken._pod_count = self._pod_count[positions]
        taken._pods = [list(self._pods[p]) for p in positions]
        taken._ports = [set(self._ports[p]) for p in positions]
        return taken
