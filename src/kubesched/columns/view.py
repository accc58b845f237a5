"""What rules read: the cluster as a view, nodes as a table of rows, one node as a row.

Owns reading. The arrays handed out cannot be written; nothing here changes a fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.change_log import Change
from kubesched.columns.cluster import Cluster
from kubesched.columns.counts import Counters
from kubesched.columns.importance import PodsByImportance
from kubesched.columns.interning import Interner
from kubesched.columns.node_columns import (
    FLOAT_KINDS,
    LEFT,
    NONZERO_LEFT,
    BoolColumn,
    IdColumn,
    ImageEntry,
    IntColumn,
    NodeCells,
    NodeLines,
    are_first,
)
from kubesched.columns.object_store import ObjectStores
from kubesched.columns.pod_columns import BoundPod, LabelClass, PodColumns
from kubesched.model.affinity_terms import NO_LABELS, TermSet
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import HostPort, Resources
from kubesched.model.resources import CPU, MEMORY
from kubesched.model.tolerations import Taint
from kubesched.objects.node import NodeSpec, NodeStatus

Rows = NDArray[np.int64]
# What is left of a node, by how many times that is wanted and what is taken from it.
_TAKEN_OF = {LEFT: (1, "requested"), NONZERO_LEFT: (100, "nonzero_requested")}


class ClusterView:
    """The cluster as it stands, for reading; valid until the next change is written."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes = cluster.nodes
        self.pods: PodColumns = cluster.pods
        self.objects: ObjectStores = cluster.objects

    def __repr__(self) -> str:
        return f"<ClusterView of {self.node_count} nodes, {len(self.pods.index_of)} pods>"

    # -- change -------------------------------------------------------------------------------

    @property
    def stamp(self) -> int:
        """Return the stamp that the next change of a row will have."""
        return self._cluster.log.stamp

    def changes_since(self, stamp: int) -> list[Change] | None:
        """Return the changes of rows from a stamp on; None if they are no longer known."""
        return self._cluster.log.since(stamp)

    @property
    def counters(self) -> Counters:
        """Return the counts of pods per row and domain that follow the changes."""
        return self._cluster.counters

    @property
    def importance(self) -> PodsByImportance:
        """Return the pods of each row in the order in which they are given up last."""
        return self._cluster.importance

    def rows_changed_since(self, stamp: int) -> Rows:
        """Return the rows that changed from a stamp on, however long ago that was, in any order."""
        nodes, log = self._nodes, self._cluster.log
        rows = log.rows_since(stamp)
        if rows is None or len(rows) > nodes.row_count // 2:
            changed: BoolColumn = nodes.stamp[: nodes.row_count] >= stamp
            return changed.nonzero()[0]
        # Each once: by its latest change.
        return rows[nodes.stamp.take(rows) == np.arange(stamp, log.stamp)]

    @property
    def node_epoch(self) -> int:
        """Return a number that moves when a node comes, goes or changes to the eye of a rule."""
        return self._cluster.node_epoch

    @property
    def nomination_epoch(self) -> int:
        """Return a number that moves when a pod is promised a node, or no longer."""
        return self._cluster.nomination_epoch

    # -- nodes --------------------------------------------------------------------------------

    @property
    def node_count(self) -> int:
        """Return how many nodes there are."""
        return self._cluster.node_count

    def visiting_rows(self) -> Rows:
        """Return the rows of all nodes in the order in which they are tried."""
        return self._cluster.visiting_rows()

    def all_nodes(self) -> NodeTable:
        """Return the table of all nodes, in visiting order."""
        return NodeTable(self, self._cluster.visiting_rows())

    def nodes_at(self, rows: Rows) -> NodeTable:
        """Return the table of the given rows."""
        return NodeTable(self, rows)

    def whole(self) -> NodeTable:
        """Return the table of all nodes in the order of rows, without copying where it can."""
        rows = self._cluster.valid_rows()
        return NodeTable(self, rows, whole=len(rows) == self._nodes.row_count)

    @property
    def identity(self) -> object:
        """Return what tells this cluster's ids from another's, or from what they were before."""
        return self._cluster.identity

    def row(self, row: int) -> NodeRow:
        """Return one row as plain values, for rules that are written for both."""
        return NodeRow(self, row)

    def cells(self, row: int) -> NodeCells | None:
        """Return one row's numbers, to be read only; None where some number is large."""
        return self._nodes.cells[row] if self._nodes.has_small_numbers else None

    def lines(self, rows: Rows | None) -> NodeLines | None:
        """Return some rows' numbers as they are; None where some is large, or not offered.

        Args:
            rows: which; None for all there are, each of them a node's.
        """
        nodes = self._nodes
        if not nodes.has_small_numbers or not self._cluster.all_offer_the_first():
            return None
        return nodes.lines_of_all() if rows is None else nodes.lines(rows)

    def rank(self) -> IntColumn:
        """Return each row's place in the visiting order; meaningless for rows without a node."""
        self._cluster.visiting_rows()
        return read_only(self._nodes.rank[: self._nodes.row_count])

    def row_of(self, name: str) -> int:
        """Return the row of a node, -1 if there is no such node."""
        row = self._nodes.row_of.get(name, -1)
        return row if row >= 0 and self._nodes.valid[row] else -1

    def rows_of(self, names: Sequence[str]) -> Rows:
        """Return the rows of many nodes, -1 where there is no such node."""
        found = map(self._nodes.row_of.get, names, repeat(-1))
        rows: Rows = np.fromiter(found, dtype=np.int64, count=len(names))
        # An unknown name looks at the last row, and stays unknown.
        return np.where(self._nodes.valid[rows], rows, -1)

    def name_of(self, row: int) -> str:
        """Return the name of a row's node."""
        return self._nodes.names[row]

    def stand_ins_of(self, name: str) -> list[int]:
        """Return the rows that stand in for a node of that name."""
        known, rows = self._cluster.stand_ins, list[int]()
        while (row := known.get((name, len(rows)), -1)) >= 0:
            rows.append(row)
        return rows

    def node(self, name: str) -> NodeView | None:
        """Return one node by name."""
        row = self.row_of(name)
        return None if row < 0 else self.nodes_at(np.array([row]))[0]

    def label_ids(self, key: str) -> IdColumn:
        """Return the value ids of a label key over all rows of the table, -1 where absent."""
        return read_only(self._nodes.label(key).ids[: self._nodes.row_count])

    def label_values(self, key: str) -> Interner[str]:
        """Return the values of a label key by id."""
        return self._nodes.label(key).values

    @property
    def row_count(self) -> int:
        """Return the length of whole-table columns, rows without a node included."""
        return self._nodes.row_count

    def image(self, name: str) -> ImageEntry | None:
        """Return which rows have an image."""
        return self._nodes.images.get(name)

    # -- pods ---------------------------------------------------------------------------------

    def matching_rows(self, classes: BoolColumn, *, live_only: bool = False) -> Rows:
        """Return the row of every counted pod whose label class is marked, one entry per pod.

        Args:
            classes: bool by label class id, as `label_classes.lut` gives it.
            live_only: leave out terminating pods.
        """
        pods, count = self.pods, self.pods.count
        chosen = pods.counted[:count] & classes[pods.label_class[:count]]
        if live_only:
            chosen &= ~pods.terminating[:count]
        return pods.row[:count][chosen].astype(np.int64)

    def weighted_rows(self, term_sets: IntColumn) -> tuple[Rows, IntColumn]:
        """Return row and weight of every counted pod whose term set has a non-zero weight.

        Args:
            term_sets: weight by term set id, as `term_sets.lut` gives it.
        """
        pods, count = self.pods, self.pods.count
        weights = np.where(pods.counted[:count], term_sets[pods.term_set[:count]], 0)
        chosen = np.flatnonzero(weights)
        return pods.row[chosen].astype(np.int64), weights[chosen]

    def domain_sums(self, key: str, rows: Rows, weights: IntColumn | None = None) -> IntColumn:
        """Return the sum of weights (or the count) per value id of a label key."""
        domains = self.label_ids(key)[rows]
        there = domains >= 0
        size = len(self.label_values(key))
        if weights is None:
            return np.bincount(domains[there], minlength=size).astype(np.int64)
        sums = np.zeros(size, dtype=np.int64)
        np.add.at(sums, domains[there], weights[there])
        return sums

    @property
    def label_classes(self) -> Interner[LabelClass]:
        """Return the label classes of pods by id."""
        return self.pods.label_classes

    @property
    def term_sets(self) -> Interner[TermSet]:
        """Return the affinity term sets of pods by id."""
        return self.pods.term_sets

    def pods_on(self, row: int) -> list[int]:
        """Return the indices of the pods that count on a row."""
        return self._nodes.pods_of[row]

    def nominated_on(self, row: int) -> list[int]:
        """Return the indices of the pods that were promised the node of a row."""
        return self.pods.nominated_of.get(row, [])

    def bound_pod(self, index: int) -> BoundPod:
        """Return the pod of an index."""
        pod = self.pods.pods[index]
        assert pod is not None, f"no pod at index {index}"
        return pod

    def pod_by_uid(self, uid: str) -> BoundPod | None:
        """Return a bound, assumed or nominated pod."""
        index = self.pods.index_of.get(uid)
        return None if index is None else self.bound_pod(index)

    # -- objects ------------------------------------------------------------------------------

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none if it is not known."""
        namespace = self.objects.namespaces.get(name)
        return NO_LABELS if namespace is None else namespace.metadata.labels or NO_LABELS


class Usage(Protocol):
    """What pods take on some rows: as it is, or as a trial supposes."""

    @property
    def has_small_numbers(self) -> bool: ...
    def requested(self, place: int) -> IntColumn: ...
    def nonzero_requested(self, place: int) -> IntColumn: ...
    def pod_count(self) -> IntColumn: ...
    def pods_on(self, position: int) -> Sequence[int]: ...
    def ports_on(self, position: int) -> set[HostPort]: ...
    def positions_with_port(self, protocol: str, port: int) -> list[int]: ...
    def take(self, positions: Rows) -> Usage: ...


class LiveUsage:
    """What pods take on some rows, as it is."""

    __slots__ = ("_nodes", "_rows", "_where")

    def __init__(self, cluster: Cluster, rows: Rows, where: Rows | slice) -> None:
        self._nodes = cluster.nodes
        self._rows = rows
        self._where = where

    @property
    def has_small_numbers(self) -> bool:
        return self._nodes.has_small_numbers

    def requested(self, place: int) -> IntColumn:
        return self._nodes.requested[place][self._where]

    def nonzero_requested(self, place: int) -> IntColumn:
        return self._nodes.nonzero_requested[place][self._where]

    def pod_count(self) -> IntColumn:
        return self._nodes.pod_count[self._where]

    def pods_on(self, position: int) -> Sequence[int]:
        return self._nodes.pods_of[self._rows[position]]

    def ports_on(self, position: int) -> set[HostPort]:
        return self._nodes.ports_of[self._rows[position]]

    def positions_with_port(self, protocol: str, port: int) -> list[int]:
        rows = self._nodes.rows_of_port.get((protocol, port))
        if rows is None:
            return []
        taken = np.zeros(self._nodes.row_count, dtype=np.bool_)
        taken[list(rows)] = True
        return np.flatnonzero(taken[self._where]).tolist()

    def take(self, positions: Rows) -> LiveUsage:
        taken = object.__new__(LiveUsage)
        taken._nodes = self._nodes
        taken._rows = taken._where = self._rows[positions]
        return taken


class NodeTable:
    """Some nodes as columns, one entry per node, in the same order in every column.

    `nodes.allocatable["cpu"]` is an array; a resource no node has is an array of zeros. `nodes[3]`
    is one node with the same attribute names. Labels are ids: `nodes.label(key)` is -1 where the
    key is absent, and `nodes.label_values(key)` tells what an id means.
    """

    def __init__(
        self, view: ClusterView, rows: Rows, usage: Usage | None = None, *, whole: bool = False
    ) -> None:
        self.view = view
        self.rows = rows
        """The rows of the cluster's tables, for whole-table columns."""
        # The whole table needs no gathering: its columns are those of the cluster.
        self._is_whole = whole
        self._where: Rows | slice = slice(0, len(rows)) if whole else rows
        self.usage: Usage = usage or LiveUsage(view._cluster, rows, self._where)  # noqa: SLF001 - same module
        self._nodes = view._cluster.nodes  # noqa: SLF001 - same module
        self._columns: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<NodeTable of {len(self)} nodes>"

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[NodeView]:
        infos = self._nodes.infos
        found = map(infos.__getitem__, self.rows.tolist())
        return map(NodeView, repeat(self), range(len(self)), found)

    def __getitem__(self, position: int) -> NodeView:
        return NodeView(self, position, self._nodes.infos[self.rows.item(position)])

    def at(self, positions: Rows) -> Iterator[NodeView]:
        """Yield some of the nodes, by position."""
        found = map(self._nodes.infos.__getitem__, self.rows.take(positions).tolist())
        return map(NodeView, repeat(self), positions.tolist(), found)

    def take(self, positions: Rows | BoolColumn) -> NodeTable:
        """Return the table of some of these nodes, by position or by mask."""
        places: Rows = np.arange(len(self))[positions]
        return NodeTable(self.view, self.rows[places], self.usage.take(places))

    @property
    def is_whole(self) -> bool:
        """Return whether these are all rows of the cluster, in their order and as they are."""
        return self._is_whole

    @property
    def names(self) -> list[str]:
        """Return the node names."""
        names = self._nodes.names
        return [names[row] for row in self.rows.tolist()]

    def name(self, position: int) -> str:
        """Return one node's name."""
        return self._nodes.names[self.rows[position]]

    def is_named(self, name: str) -> BoolColumn:
        """Return which nodes have a name."""
        # No row is -1, so a name nobody has is no node's.
        named: BoolColumn = self.rows == self.view.row_of(name)
        for row in self.view.stand_ins_of(name):
            named |= self.rows == row
        return named

    @property
    def allocatable(self) -> ResourceColumns:
        """Return what each node offers, by resource."""
        return ResourceColumns(self, "allocatable")

    @property
    def requested(self) -> ResourceColumns:
        """Return what the pods of each node take, by resource."""
        return ResourceColumns(self, "requested")

    @property
    def nonzero_requested(self) -> ResourceColumns:
        """Return cpu and memory the pods weigh in scoring, by resource."""
        return ResourceColumns(self, "nonzero_requested")

    @property
    def has_small_numbers(self) -> bool:
        """Return whether no amount is so large that floats might not hold it."""
        return self.usage.has_small_numbers

    def lines(self, kind: str, resources: Sequence[str], dtype: type) -> NDArray[Any]:
        """Return several resources at once, one line each; not to be written.

        Args:
            kind: `allocatable`, `requested`, `nonzero_requested`, LEFT or NONZERO_LEFT.
            resources: their names.
            dtype: int64, or float64 where `has_small_numbers`.
        """
        nodes = self._nodes
        is_in_floats = dtype is np.float64 and kind in FLOAT_KINDS and are_first(resources)
        if is_in_floats and self._is_whole:
            return nodes.shown_floats(kind, len(resources))
        key = (kind, resources, dtype)
        found: NDArray[Any] | None = self._columns.get(key)
        if found is None:
            found = self._columns[key] = self._lines(kind, resources, dtype)
            found.flags.writeable = False
        return found

    def room(self) -> NDArray[np.float64] | None:
        """Return what is left of cpu and of memory, and how many pods more each node takes.

        None unless this is the whole table, and its numbers are small.
        """
        if not self._is_whole or not self._nodes.has_small_numbers:
            return None
        return self._nodes.shown_floats(LEFT, 3)

    def all_offer(self, resources: Sequence[str]) -> bool:
        """Return whether certainly every node offers some of each of these resources."""
        return are_first(resources) and self.view._cluster.all_offer_the_first()  # noqa: SLF001 - same package

    def _lines(self, kind: str, resources: Sequence[str], dtype: type) -> NDArray[Any]:
        is_live = kind == "allocatable" or isinstance(self.usage, LiveUsage)
        if is_live and are_first(resources):
            # Those of every node stand together in the tables.
            nodes = self._nodes
            floats = nodes.current_floats()
            table = floats.get(kind) if dtype is np.float64 else getattr(nodes, kind, None)
            if table is not None:
                lines: NDArray[Any] = table[: len(resources)]
                return lines[:, self._where] if self._is_whole else lines.take(self.rows, axis=1)
        if kind in _TAKEN_OF:
            return self._left(kind, resources, dtype)
        lines = np.empty((len(resources), len(self)), dtype=dtype)
        for line, resource in zip(lines, resources, strict=True):
            line[:] = ResourceColumns(self, kind)[resource]
        return lines

    def _left(self, kind: str, resources: Sequence[str], dtype: type) -> NDArray[Any]:
        times, taken = _TAKEN_OF[kind]
        columns = ResourceColumns(self, taken)
        allocatable = self.lines("allocatable", resources, dtype)
        lines: NDArray[Any] = np.empty((len(resources), len(self)), dtype=dtype)
        for line, whole, resource in zip(lines, allocatable, resources, strict=True):
            np.subtract(whole, columns[resource], out=line)
        return lines if times == 1 else lines * times

    @property
    def pod_count(self) -> IntColumn:
        """Return how many pods each node has."""
        return self._column("pod_count", self.usage.pod_count)

    @property
    def allowed_pods(self) -> IntColumn:
        """Return how many pods each node takes."""
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
        """Return the distinct taint sets by id."""
        return self._nodes.taint_sets

    @property
    def feature_set(self) -> IdColumn:
        """Return the id of each node's declared features; see `feature_sets`."""
        return self._column("feature_set", lambda: self._nodes.feature_set[self._where])

    @property
    def feature_sets(self) -> Interner[tuple[str, ...]]:
        """Return the distinct sets of declared features by id."""
        return self._nodes.feature_sets

    def label(self, key: str) -> IdColumn:
        """Return the value ids of a label key, -1 where absent."""
        return self._column(("label", key), lambda: self.view.label_ids(key)[self._where])

    def label_values(self, key: str) -> Interner[str]:
        """Return the values of a label key by id."""
        return self.view.label_values(key)

    def has_label(self, key: str, value: str | None = None) -> BoolColumn:
        """Return which nodes have the label key, or that very value of it."""
        ids = self.label(key)
        return ids >= 0 if value is None else ids == self._id_or_never(key, value)

    def _id_or_never(self, key: str, value: str) -> int:
        found = self.label_values(key).id_of(value)
        return found if found >= 0 else -2

    def info(self, position: int) -> NodeInfo:
        """Return the parsed node at a position."""
        info = self._nodes.infos[self.rows.item(position)]
        assert info is not None, "a table holds existing nodes only"
        return info

    def bound_pod(self, index: int) -> BoundPod:
        """Return the pod of an index."""
        return self.view.bound_pod(index)

    def _column(self, key: Any, make: Any) -> Any:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = read_only(make())
        return column


class ResourceColumns:
    """Columns by resource name; a name nobody has is all zeros."""

    __slots__ = ("_kind", "_table")

    def __init__(self, table: NodeTable, kind: str) -> None:
        self._table = table
        self._kind = kind

    def __repr__(self) -> str:
        return f"<{self._kind} of {len(self._table)} nodes>"

    def __getitem__(self, resource: str) -> IntColumn:
        return self._table._column((self._kind, resource), lambda: self._make(resource))  # noqa: SLF001

    def _make(self, resource: str) -> IntColumn:
        nodes = self._table._nodes  # noqa: SLF001 - one class in two
        place = nodes.resources.id_of(resource)
        if place < 0 or (self._kind == "nonzero_requested" and resource not in (CPU, MEMORY)):
            return np.zeros(len(self._table), dtype=np.int64)
        if self._kind == "allocatable":
            return nodes.allocatable[place][self._table._where]  # noqa: SLF001
        usage = self._table.usage
        return (
            usage.requested(place) if self._kind == "requested" else usage.nonzero_requested(place)
        )


class NodeView:
    """One node: the attribute names of `NodeTable`, with plain values."""

    __slots__ = ("_info", "_position", "_table")

    def __init__(self, table: NodeTable, position: int, info: NodeInfo | None) -> None:
        # One-node plugins have a thousand of these made for every pod.
        assert info is not None, "a table holds existing nodes only"
        self._table = table
        self._position = position
        self._info: NodeInfo = info

    def __repr__(self) -> str:
        return f"<NodeView {self.name}>"

    @property
    def info(self) -> NodeInfo:
        """Return the parsed node."""
        return self._info

    @property
    def name(self) -> str:
        """Return the node's name."""
        return self._info.name

    @property
    def uid(self) -> str:
        """Return the node's uid."""
        return self._info.uid

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the node's labels."""
        return self._info.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the node's annotations."""
        return self._info.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Return the node's taints."""
        return self._info.taints

    @property
    def unschedulable(self) -> bool:
        """Return whether the node is cordoned."""
        return self._info.unschedulable

    @property
    def spec(self) -> NodeSpec:
        """Return the whole spec."""
        return self._info.spec

    @property
    def status(self) -> NodeStatus:
        """Return the whole status."""
        return self._info.status

    @property
    def allocatable(self) -> Resources:
        """Return what the node offers, by resource."""
        return self._info.allocatable

    @property
    def requested(self) -> ResourceCells:
        """Return what the node's pods take, by resource."""
        return ResourceCells(self._table.requested, self._position)

    @property
    def nonzero_requested(self) -> ResourceCells:
        """Return cpu and memory the pods weigh in scoring."""
        return ResourceCells(self._table.nonzero_requested, self._position)

    @property
    def pod_count(self) -> int:
        """Return how many pods the node has."""
        return int(self._table.pod_count[self._position])

    @property
    def allowed_pods(self) -> int:
        """Return how many pods the node takes."""
        return int(self._table.allowed_pods[self._position])

    @property
    def pods(self) -> list[BoundPod]:
        """Return the pods on the node."""
        table = self._table
        return [table.bound_pod(index) for index in table.usage.pods_on(self._position)]

    @property
    def host_ports(self) -> frozenset[HostPort]:
        """Return the host ports that are taken."""
        return frozenset(self._table.usage.ports_on(self._position))


class NodeRow:
    """One row as plain values: what `NodeTable` has as columns, here as integers and bools.

    Judging one row by integers is ten times faster than by arrays of one element.
    """

    __slots__ = (
        "_cells",
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
        self._nodes = nodes = view._nodes  # noqa: SLF001 - same module
        self._cells = cells = nodes.cells[row]
        self.allocatable: Resources = cells.allocatable
        self.pod_count = cells.pod_count
        self.allowed_pods = cells.allowed_pods

    def __repr__(self) -> str:
        return f"<NodeRow {self._nodes.names[self.rows]}>"

    def __len__(self) -> int:
        return 1

    @property
    def requested(self) -> Resources:
        """Return what the node's pods take, by resource."""
        return self._cells.requested

    @property
    def nonzero_requested(self) -> Resources:
        """Return cpu and memory the pods weigh in scoring."""
        return self._cells.nonzero_requested

    @property
    def has_small_numbers(self) -> bool:
        """Return whether no amount is so large that floats might not hold it."""
        return self._nodes.has_small_numbers

    @property
    def unschedulable(self) -> bool:
        """Return whether the node is cordoned."""
        return self._nodes.unschedulable.item(self.rows)

    @property
    def info(self) -> NodeInfo:
        """Return the parsed node."""
        info = self._nodes.infos[self.rows]
        assert info is not None, "a row that is judged has a node"
        return info

    @property
    def taint_set(self) -> int:
        """Return the id of the node's taints."""
        return self._nodes.taint_set.item(self.rows)

    @property
    def feature_set(self) -> int:
        """Return the id of the node's declared features."""
        return self._nodes.feature_set.item(self.rows)

    def label(self, key: str) -> int:
        """Return the value id of a label key, -1 if absent."""
        return self._nodes.label(key).ids.item(self.rows)

    def host_ports(self) -> set[HostPort]:
        """Return the host ports that are taken."""
        return self._nodes.ports_of[self.rows]

    def pods_on(self) -> list[int]:
        """Return the indices of the pods there."""
        return self._nodes.pods_of[self.rows]


class ResourceCells:
    """One node's values by resource name; a name it does not have is zero."""

    __slots__ = ("_columns", "_position")

    def __init__(self, columns: ResourceColumns, position: int) -> None:
        self._columns = columns
        self._position = position

    def __getitem__(self, resource: str) -> int:
        return int(self._columns[resource][self._position])


def read_only(array: NDArray[Any]) -> Any:
    """Return the array, or a view of it, that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view
