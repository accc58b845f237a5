"""Trials: the usage of some nodes as if pods had been added or removed.

Preemption and nominated pods are evaluated on a trial: a list of steps (pods added or removed, one
per row) and the usage columns that follow from them, computed at their first use. The cluster's
tables are never touched, so an exception leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.snapshot.node_columns import (
    LEFT,
    NONZERO_LEFT,
    BoolColumn,
    IdColumn,
    IntColumn,
)
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_importance import NO_POD
from kubesched.snapshot.pod_info import HostPort
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

__all__ = ["NO_POD", "PodRows", "Trial", "Turns"]

_USAGE_KINDS = frozenset(("pod_count", "requested", "nonzero_requested", LEFT, NONZERO_LEFT))


class PodRows:
    """One pod, or none, per node of a trial."""

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


@dataclass(frozen=True, slots=True)
class _Step:
    """Pods added (1) or removed (-1): one per row, or several."""

    sign: int
    index: IdColumn
    absent: BoolColumn
    shapes: IdColumn

    def sums(self, by_shape: IntColumn | None) -> IntColumn:
        """Return the sum per row of a value by pod shape (None: 1 per pod)."""
        values = _values(by_shape, self.shapes, self.absent)
        return values.sum(axis=1) if values.ndim > 1 else values

    def at(self, positions: Rows) -> _Step:
        """Return the step on some of the rows."""
        index, absent, shapes = self.index, self.absent, self.shapes
        return _Step(self.sign, index[positions], absent[positions], shapes[positions])


def _values(by_shape: IntColumn | None, shapes: IdColumn, absent: BoolColumn) -> IntColumn:
    if by_shape is None:
        return (~absent).astype(np.int64)
    values = by_shape.take(shapes)
    values[absent] = 0
    return values


class Turns:
    """Pods to be added in turns, one per row and turn; their values are looked up once."""

    __slots__ = ("_absent", "_shapes", "_sums", "index")

    def __init__(self, view: ClusterView, index: IdColumn) -> None:
        """Look up the shapes of the pods; `index` has one line per turn (-1: none)."""
        self.index = index
        self._absent: BoolColumn = index < 0
        self._shapes: IdColumn = view.pods.shape.take(index, mode="wrap")
        self._sums: dict[tuple[str, int], IntColumn] = {}

    def step(self, turn: int) -> _Step:
        return _Step(1, self.index[turn], self._absent[turn], self._shapes[turn])

    def sums(self, turn: int, key: tuple[str, int], by_shape: IntColumn | None) -> IntColumn:
        """Return the sum per row of a value by pod shape (None: 1 per pod) in a turn."""
        if key not in self._sums:
            self._sums[key] = _values(by_shape, self._shapes, self._absent)
        return self._sums[key][turn]


class Trial:
    """Some rows with pods added and removed; `nodes` is their table."""

    def __init__(self, view: ClusterView, rows: Rows) -> None:
        self.view = view
        self.rows = rows
        self._steps: list[_Step] = []
        # Copies and tables share the arrays, so they are replaced and never written.
        self._columns: dict[tuple[str, int], IntColumn] = {}
        self._moved: dict[tuple[str, int], IntColumn] = {}
        """What the last step added to or removed from each column."""
        self._pods: dict[int, list[int]] = {}
        """Pod indexes by position, for positions that were read."""
        self._ports: list[set[HostPort]] | None = None
        # Not the table itself: it refers to the trial, which would make a reference cycle.
        self._table_columns: dict[Any, Any] = {}
        self._column_count = 0
        """Number of columns of the last table."""
        self._lasting: dict[Any, Any] = {}
        """Columns that no step changes: labels, taints, allocatable amounts."""

    @property
    def nodes(self) -> NodeTable:
        """Return the rows as a table, after all steps."""
        table = NodeTable(self.view, self.rows, self)
        # Columns of the nodes themselves are carried over from table to table.
        columns = self._table_columns
        if len(columns) != self._column_count:
            self._lasting = {key: columns[key] for key in columns if not _is_usage(key)}
            self._column_count = len(columns)
        table._columns = self._table_columns = self._lasting.copy()  # noqa: SLF001 - of the same package
        return table

    def add(self, index: IdColumn) -> PodRows:
        """Add one pod per row (-1: none)."""
        return self._take_step(index, 1)

    def add_turn(self, turns: Turns, turn: int) -> PodRows:
        """Add the pods of a turn."""
        self._record(turns.step(turn))
        for key, column in self._columns.items():
            moved = self._moved[key] = turns.sums(turn, key, self._by_shape(*key))
            self._columns[key] = column + moved
        return PodRows(self.view, turns.index[turn])

    def remove(self, index: IdColumn) -> PodRows:
        """Remove one pod per row, or several (-1: none)."""
        return self._take_step(index, -1)

    def take_back(self, positions: BoolColumn) -> PodRows:
        """Undo the last step, an addition of one pod per row, on some of the rows."""
        last = self._steps[-1]
        assert last.sign > 0, "only an addition is taken back"
        index = np.where(positions, last.index, NO_POD)
        self._record(_Step(-1, index, index < 0, last.shapes))
        for key, column in self._columns.items():
            # `_moved` still holds what the addition changed.
            self._columns[key] = column - self._moved[key] * positions
        return PodRows(self.view, index)

    def _take_step(self, index: IdColumn, sign: int) -> PodRows:
        step = _Step(sign, index, index < 0, self.view.pods.shape.take(index, mode="wrap"))
        self._record(step)
        for key, column in self._columns.items():
            moved = self._moved[key] = step.sums(self._by_shape(*key))
            self._columns[key] = column + moved if sign > 0 else column - moved
        return PodRows(self.view, index)

    def _record(self, step: _Step) -> None:
        self._steps.append(step)
        if self._pods:
            for position, index in _entries(step):
                if position in self._pods:
                    _move_pod(self._pods[position], index, step.sign)
        if self._ports is not None:
            self._move_ports(self._ports, step)

    # -- Usage ----------------------------------------------------------------------------------

    def pod_count(self) -> IntColumn:
        return self.amounts("pod_count", 0)

    def amounts(self, kind: str, place: int) -> IntColumn:
        column = self._columns.get((kind, place))
        if column is None:
            nodes = self.view._cluster.nodes  # noqa: SLF001 - of the same package
            live = getattr(nodes, kind)
            column = live[self.rows] if kind == "pod_count" else live[place, self.rows]
            for step in self._steps:
                moved = self._moved[kind, place] = step.sums(self._by_shape(kind, place))
                column += step.sign * moved
            self._columns[kind, place] = column
        return column

    def _by_shape(self, kind: str, place: int) -> IntColumn | None:
        pods = self.view.pods
        if kind == "pod_count":
            return None
        table = pods.shape_usage if kind == "requested" else pods.shape_nonzero
        if place < len(table):
            return table[place]
        # A resource that nodes have and no pod has requested yet.
        return np.zeros(table.shape[1], dtype=np.int64)

    def pods_on(self, position: int) -> Sequence[int]:
        pods = self._pods.get(position)
        if pods is None:
            pods = self._pods[position] = list(self.view.pods_on(self.rows.item(position)))
            for step in self._steps:
                for index in np.ravel(step.index[position]).tolist():
                    _move_pod(pods, index, step.sign)
        return pods

    def moved_positions(self, of_shapes: BoolColumn) -> list[int]:
        """Return the positions where pods of some shapes (bools by id) were added or removed."""
        moved: BoolColumn = np.zeros(len(self.rows), dtype=np.bool_)
        for step in self._steps:
            matching = of_shapes.take(step.shapes) & ~step.absent
            moved |= matching.any(axis=1) if matching.ndim > 1 else matching
        return moved.nonzero()[0].tolist()

    def ports_on(self, position: int) -> set[HostPort]:
        return self._all_ports()[position]

    def positions_with_port(self, protocol: str, port: int) -> list[int]:
        return [
            position
            for position, taken in enumerate(self._all_ports())
            if any(used.port == port and used.protocol == protocol for used in taken)
        ]

    def _all_ports(self) -> list[set[HostPort]]:
        if self._ports is None:
            ports_of = self.view._cluster.nodes.ports_of  # noqa: SLF001 - of the same package
            self._ports = [set(ports_of[row]) for row in self.rows.tolist()]
            for step in self._steps:
                self._move_ports(self._ports, step)
        return self._ports

    def _move_ports(self, taken: list[set[HostPort]], step: _Step) -> None:
        shapes = self.view.pods.shapes
        for position, index in _entries(step):
            ports = shapes[self.view.pods.shape.item(index)].host_ports
            if step.sign > 0:
                taken[position].update(ports)
            else:
                taken[position].difference_update(ports)

    def copy(self) -> Trial:
        """Return an independent copy of the trial."""
        copy = Trial(self.view, self.rows)
        copy._steps = list(self._steps)
        copy._columns = dict(self._columns)
        copy._moved = dict(self._moved)
        copy._table_columns = self._table_columns
        return copy

    def take(self, positions: Rows) -> Trial:
        """Return an independent trial of some of these rows."""
        taken = Trial(self.view, self.rows[positions])
        taken._steps = [step.at(positions) for step in self._steps]
        taken._columns = {key: column[positions] for key, column in self._columns.items()}
        taken._moved = {key: column[positions] for key, column in self._moved.items()}
        return taken


def _is_usage(key: Any) -> bool:
    return (key if isinstance(key, str) else key[0]) in _USAGE_KINDS


def _entries(step: _Step) -> list[tuple[int, int]]:
    """Return position and index of every pod of a step."""
    places: tuple[NDArray[np.intp], ...] = np.nonzero(~step.absent)
    return list(zip(places[0].tolist(), step.index[places].tolist(), strict=True))


def _move_pod(pods: list[int], index: int, sign: int) -> None:
    if index == NO_POD:
        return
    if sign > 0:
        pods.append(index)
    else:
        pods.remove(index)
