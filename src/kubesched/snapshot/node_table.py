"""Nodes as seen by plugins: a table of columns, one node of a table, one row as plain numbers.

`NodeTable` holds one array per attribute, with one entry per node: `nodes.allocatable["cpu"]`.
`NodeView` is one node of a table with the same attribute names, for plugins that evaluate one node
at a time. `NodeRow` is one row as plain integers, for code that evaluates single rows. All of them
are read-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.node import NodeSpec, NodeStatus
from kubesched.api.resource_requests import CPU, MEMORY
from kubesched.api.tolerations import Taint
from kubesched.snapshot.interning import Interner
from kubesched.snapshot.node_columns import (
    LEFT,
    NONZERO_LEFT,
    BoolColumn,
    IdColumn,
    IntColumn,
    NodeColumns,
    are_first,
)
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import HostPort, Resources

if TYPE_CHECKING:
    from kubesched.snapshot.trial import Trial
    from kubesched.snapshot.view import ClusterView

Rows = NDArray[np.int64]
"""Row numbers of nodes in the tables of the cluster."""
# For free amounts: a factor, and the usage that is subtracted from the allocatable amount.
_USED = {LEFT: (1, "requested"), NONZERO_LEFT: (100, "nonzero_requested")}


Usage: TypeAlias = "LiveUsage | Trial"


class LiveUsage:
    """The usage of some rows as the tables have it; a `Trial` has the same methods."""

    __slots__ = ("_nodes", "_rows", "_where")

    def __init__(self, nodes: NodeColumns, rows: Rows, where: Rows | slice) -> None:
        self._nodes = nodes
        self._rows = rows
        self._where = where

    def amounts(self, kind: str, place: int) -> IntColumn:
        """Return `requested` or `nonzero_requested` amounts of a resource."""
        column: IntColumn = getattr(self._nodes, kind)[place]
        return column[self._where]

    def pod_count(self) -> IntColumn:
        return self._nodes.pod_count[self._where]

    def pods_on(self, position: int) -> Sequence[int]:
        return self._nodes.pods_of[self._rows[position]]

    def ports_on(self, position: int) -> set[HostPort]:
        return self._nodes.ports_of[self._rows[position]]

    def positions_with_port(self, protocol: str, port: int) -> list[int]:
        """Return the positions where a port is taken on any address."""
        rows = self._nodes.rows_of_port.get((protocol, port))
        if not rows:
            return []
        taken = np.zeros(self._nodes.row_count, dtype=np.bool_)
        taken[list(rows)] = True
        return np.flatnonzero(taken[self._where]).tolist()

    def take(self, positions: Rows) -> LiveUsage:
        rows = self._rows[positions]
        return LiveUsage(self._nodes, rows, rows)


class NodeTable:
    """Some nodes as columns, one entry per node, in the same order in every column.

    `nodes.allocatable["cpu"]` is an array; a resource no node has is an array of zeros. `nodes[3]`
    is one node with the same attribute names. Labels are ids: `nodes.label(key)` is -1 where the
    key is absent, and `nodes.label_values(key)` maps ids to values.
    """

    def __init__(
        self, view: ClusterView, rows: Rows, usage: Usage | None = None, *, whole: bool = False
    ) -> None:
        self.view = view
        self.rows = rows
        """The row numbers, for whole-table columns."""
        # The whole table uses the columns of the cluster without copying.
        self.is_whole = whole
        """Whether these are all rows of the cluster in row order."""
        self._where: Rows | slice = slice(0, len(rows)) if whole else rows
        self._nodes = view._nodes  # noqa: SLF001 - same package
        self.usage: Usage = usage or LiveUsage(self._nodes, rows, self._where)
        self._columns: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<NodeTable of {len(self)} nodes>"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[NodeView]:
        infos = map(self._nodes.infos.__getitem__, self.rows.tolist())
        return map(NodeView, repeat(self), range(len(self)), infos)

    def __getitem__(self, position: int) -> NodeView:
        return NodeView(self, position, self._nodes.infos[self.rows.item(position)])

    def at(self, positions: Rows) -> Iterator[NodeView]:
        """Yield some of the nodes, by position."""
        infos = map(self._nodes.infos.__getitem__, self.rows.take(positions).tolist())
        return map(NodeView, repeat(self), positions.tolist(), infos)

    def take(self, positions: Rows | BoolColumn) -> NodeTable:
        """Return the table of some of these nodes, by position or by mask."""
        places: Rows = np.arange(len(self))[positions]
        return NodeTable(self.view, self.rows[places], self.usage.take(places))

    @property
    def names(self) -> list[str]:
        names = self._nodes.names
        return [names[row] for row in self.rows.tolist()]

    def name(self, position: int) -> str:
        """Return one node's name."""
        return self._nodes.names[self.rows[position]]

    def is_named(self, name: str) -> BoolColumn:
        """Return which nodes have this name."""
        # No row is -1, so an unknown name matches no node.
        named: BoolColumn = self.rows == self.view.row_of(name)
        for row in self.view.placeholders_of(name):
            named |= self.rows == row
        return named

    @property
    def allocatable(self) -> ResourceColumns:
        return ResourceColumns(self, "allocatable")

    @property
    def requested(self) -> ResourceColumns:
        return ResourceColumns(self, "requested")

    @property
    def nonzero_requested(self) -> ResourceColumns:
        """Return the requested cpu and memory with scoring's defaults, by resource."""
        return ResourceColumns(self, "nonzero_requested")

    @property
    def has_small_numbers(self) -> bool:
        """Return whether all amounts are exact in floats; those of a trial are not checked."""
        return self._nodes.has_small_numbers and isinstance(self.usage, LiveUsage)

    def lines(self, kind: str, resources: Sequence[str], dtype: type) -> NDArray[Any]:
        """Return the amounts of several resources, one line each, read-only.

        Args:
            kind: `allocatable`, `requested`, `nonzero_requested`, LEFT or NONZERO_LEFT.
            resources: The names of the resources.
            dtype: int64, or float64 if `has_small_numbers`.
        """
        key = (kind, resources, dtype)
        lines: NDArray[Any] | None = self._columns.get(key)
        if lines is None:
            lines = self._columns[key] = self._lines(kind, resources, dtype)
            lines.flags.writeable = False
        return lines

    def all_offer(self, resources: Sequence[str]) -> bool:
        """Return True only if every node has some of each of these resources."""
        return are_first(resources) and self.view._cluster.all_offer_the_first()  # noqa: SLF001 - same package

    def _lines(self, kind: str, resources: Sequence[str], dtype: type) -> NDArray[Any]:
        is_live = kind == "allocatable" or isinstance(self.usage, LiveUsage)
        if is_live and are_first(resources):
            # The tables hold these lines for all nodes.
            nodes = self._nodes
            table = getattr(nodes.resource_matrix() if dtype is np.float64 else nodes, kind, None)
            if table is not None:
                lines: NDArray[Any] = table[: len(resources)]
                return lines[:, self._where] if self.is_whole else lines.take(self.rows, axis=1)
        factor, used = _USED.get(kind, (0, kind))
        lines = np.empty((len(resources), len(self)), dtype=dtype)
        for line, resource in zip(lines, resources, strict=True):
            line[:] = ResourceColumns(self, used)[resource]
        if factor:
            np.subtract(self.lines("allocatable", resources, dtype), lines, out=lines)
            lines *= factor
        return lines

    @property
    def pod_count(self) -> IntColumn:
        return self._column("pod_count", self.usage.pod_count)

    @property
    def allowed_pods(self) -> IntColumn:
        return self._column("allowed_pods", lambda: self._nodes.allowed_pods[self._where])

    @property
    def unschedulable(self) -> BoolColumn:
        """Return which nodes are cordoned."""
        return self._column("unschedulable", lambda: self._nodes.unschedulable[self._where])

    @property
    def taint_set(self) -> IdColumn:
        """Return the id of each node's taints; see `taint_sets`."""
        return self._column("taint_set", lambda: self._nodes.taint_set[self._where])

    @property
    def taint_sets(self) -> Interner[tuple[Taint, ...]]:
        return self._nodes.taint_sets

    @property
    def feature_set(self) -> IdColumn:
        """Return the id of each node's declared features; see `feature_sets`."""
        return self._column("feature_set", lambda: self._nodes.feature_set[self._where])

    @property
    def feature_sets(self) -> Interner[tuple[str, ...]]:
        return self._nodes.feature_sets

    def label(self, key: str) -> IdColumn:
        """Return the value ids of a label key, -1 where absent."""
        return self._column(("label", key), lambda: self.view.label_ids(key)[self._where])

    def label_values(self, key: str) -> Interner[str]:
        """Return the values of a label key by id."""
        return self.view.label_values(key)

    def has_label(self, key: str, value: str | None = None) -> BoolColumn:
        """Return which nodes have a label key, or a value of it."""
        ids = self.label(key)
        if value is None:
            return ids >= 0
        value_id = self.label_values(key).id_of(value)
        return ids == (value_id if value_id >= 0 else -2)

    def info(self, position: int) -> NodeInfo:
        info = self._nodes.infos[self.rows.item(position)]
        assert info is not None, "a table holds existing nodes only"
        return info

    def bound_pod(self, index: int) -> BoundPod:
        return self.view.bound_pod(index)

    def _column(self, key: Any, make: Any) -> Any:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = read_only(make())
        return column


class ResourceColumns:
    """Columns by resource name; an unknown resource is all zeros."""

    __slots__ = ("_kind", "_table")

    def __init__(self, table: NodeTable, kind: str) -> None:
        self._table = table
        self._kind = kind

    def __getitem__(self, resource: str) -> IntColumn:
        return self._table._column((self._kind, resource), lambda: self._make(resource))  # noqa: SLF001

    def _make(self, resource: str) -> IntColumn:
        nodes = self._table._nodes  # noqa: SLF001 - same module
        place = nodes.resources.id_of(resource)
        if place < 0 or (self._kind == "nonzero_requested" and resource not in (CPU, MEMORY)):
            return np.zeros(len(self._table), dtype=np.int64)
        if self._kind == "allocatable":
            return nodes.allocatable[place][self._table._where]  # noqa: SLF001
        return self._table.usage.amounts(self._kind, place)


class NodeView:
    """One node: the attribute names of `NodeTable`, with plain values."""

    __slots__ = ("_info", "_position", "_table")

    def __init__(self, table: NodeTable, position: int, info: NodeInfo | None) -> None:
        # Plugins for one node create a thousand of these per pod.
        assert info is not None, "a table holds existing nodes only"
        self._table = table
        self._position = position
        self._info: NodeInfo = info

    def __repr__(self) -> str:
        return f"<NodeView {self.name}>"

    @property
    def info(self) -> NodeInfo:
        return self._info

    @property
    def name(self) -> str:
        return self._info.name

    @property
    def uid(self) -> str:
        return self._info.uid

    @property
    def labels(self) -> Mapping[str, str]:
        return self._info.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self._info.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        return self._info.taints

    @property
    def unschedulable(self) -> bool:
        return self._info.unschedulable

    @property
    def spec(self) -> NodeSpec:
        return self._info.spec

    @property
    def status(self) -> NodeStatus:
        return self._info.status

    @property
    def allocatable(self) -> Resources:
        return self._info.allocatable

    @property
    def requested(self) -> ResourceCounters:
        return ResourceCounters(self._table.requested, self._position)

    @property
    def nonzero_requested(self) -> ResourceCounters:
        return ResourceCounters(self._table.nonzero_requested, self._position)

    @property
    def pod_count(self) -> int:
        return int(self._table.pod_count[self._position])

    @property
    def allowed_pods(self) -> int:
        return int(self._table.allowed_pods[self._position])

    @property
    def pods(self) -> list[BoundPod]:
        table = self._table
        return [table.bound_pod(index) for index in table.usage.pods_on(self._position)]

    @property
    def host_ports(self) -> frozenset[HostPort]:
        return frozenset(self._table.usage.ports_on(self._position))


class NodeRow:
    """One row with the attributes of `NodeTable` as plain integers and bools.

    Evaluating one row by integers is ten times as fast as by arrays with one element.
    """

    __slots__ = (
        "_counters",
        "_nodes",
        "allocatable",
        "allowed_pods",
        "pod_count",
        "rows",
        "view",
    )

    def __init__(self, view: ClusterView, row: int) -> None:
        self.view = view
        self.rows = row
        """The row, for whole-table columns."""
        self._nodes = nodes = view._nodes  # noqa: SLF001 - same package
        self._counters = counters = nodes.counters[row]
        self.allocatable: Resources = counters.allocatable
        self.pod_count = counters.pod_count
        self.allowed_pods = counters.allowed_pods

    def __repr__(self) -> str:
        return f"<NodeRow {self._nodes.names[self.rows]}>"

    def __len__(self) -> int:
        return 1

    @property
    def requested(self) -> Resources:
        return self._counters.requested

    @property
    def nonzero_requested(self) -> Resources:
        return self._counters.nonzero_requested

    @property
    def has_small_numbers(self) -> bool:
        return self._nodes.has_small_numbers

    @property
    def unschedulable(self) -> bool:
        return self._nodes.unschedulable.item(self.rows)

    @property
    def info(self) -> NodeInfo:
        info = self._nodes.infos[self.rows]
        assert info is not None, "a row that is judged has a node"
        return info

    @property
    def taint_set(self) -> int:
        return self._nodes.taint_set.item(self.rows)

    @property
    def feature_set(self) -> int:
        return self._nodes.feature_set.item(self.rows)

    def label(self, key: str) -> int:
        """Return the value id of a label key, -1 if absent."""
        return self._nodes.label(key).ids.item(self.rows)

    def is_named(self, name: str) -> bool:
        return self._nodes.names[self.rows] == name

    def host_ports(self) -> set[HostPort]:
        return self._nodes.ports_of[self.rows]

    def pods_on(self) -> list[int]:
        """Return the indexes of the pods on the row."""
        return self._nodes.pods_of[self.rows]


class ResourceCounters:
    """The amounts of one node by resource name; an unknown resource is zero."""

    __slots__ = ("_columns", "_position")

    def __init__(self, columns: ResourceColumns, position: int) -> None:
        self._columns = columns
        self._position = position

    def __getitem__(self, resource: str) -> int:
        return int(self._columns[resource][self._position])


def read_only(array: NDArray[Any]) -> Any:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view
