"""What if these pods were there, or gone: usage of some rows, supposed.

Owns what was supposed, and the usage columns that follow from it, each worked out when a rule first
asks for it. The cluster's tables are never touched, so that an exception leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.importance import NO_POD
from kubesched.columns.node_columns import (
    LEFT,
    NONZERO_LEFT,
    BoolColumn,
    IdColumn,
    IntColumn,
)
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.model.pod_info import HostPort

__all__ = ["NO_POD", "PodRows", "Trial", "Turns"]

_USAGE_KINDS = frozenset(("pod_count", "requested", "nonzero_requested", LEFT, NONZERO_LEFT))


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


@dataclass(frozen=True, slots=True)
class _Step:
    """Pods that came (1) or went (-1): one for each row, or a line of them."""

    sign: int
    index: IdColumn
    absent: BoolColumn
    shapes: IdColumn
    has_absent: bool

    def sums(self, by_shape: IntColumn | None) -> IntColumn:
        """Return what moves on each row, given what a pod of each shape weighs (None: 1)."""
        if by_shape is None:
            weights = (~self.absent).astype(np.int64)
        else:
            weights = by_shape.take(self.shapes)
            if self.has_absent:
                weights[self.absent] = 0
        return weights.sum(axis=1) if weights.ndim > 1 else weights

    def at(self, positions: Rows) -> _Step:
        """Return the step on some of the rows."""
        parts = (self.index[positions], self.absent[positions], self.shapes[positions])
        return _Step(self.sign, *parts, self.has_absent)


class Turns:
    """Pods that are added in turn, one for each row; what they weigh is looked up once for all."""

    __slots__ = ("_absent", "_shapes", "_sums", "index")

    def __init__(self, view: ClusterView, index: IdColumn) -> None:
        """Look up the pods.

        Args:
            view: of the cluster.
            index: a line for each turn (-1: none there).
        """
        self.index = index
        self._absent: BoolColumn = index < 0
        self._shapes: IdColumn = view.pods.shape.take(index, mode="wrap")
        self._sums: dict[tuple[str, int], IntColumn] = {}

    def step(self, turn: int) -> _Step:
        """Return the addition of a turn."""
        absent = self._absent[turn]
        return _Step(1, self.index[turn], absent, self._shapes[turn], bool(absent.any()))

    def sums(self, turn: int, key: tuple[str, int], by_shape: IntColumn | None) -> IntColumn:
        """Return what a turn moves on each row, given what a pod of each shape weighs (None: 1)."""
        found = self._sums.get(key)
        if found is None:
            if by_shape is None:
                found = (~self._absent).astype(np.int64)
            else:
                found = by_shape.take(self._shapes)
                found[self._absent] = 0
            self._sums[key] = found
        return found[turn]


class Trial:
    """Some rows with pods added and removed; `nodes` is their table."""

    def __init__(self, view: ClusterView, rows: Rows) -> None:
        self.view = view
        self.rows = rows
        self._steps: list[_Step] = []
        # Clones and tables share the arrays, so they are replaced and never written.
        self._columns: dict[tuple[str, int], IntColumn] = {}
        self._moved: dict[tuple[str, int], IntColumn] = {}
        """What the last step moved in each column."""
        self._pods: dict[int, list[int]] = {}
        """By position, where somebody asked."""
        self._ports: list[set[HostPort]] | None = None
        # Not the table itself: it refers to the trial, and both would wait to be collected.
        self._table_columns: dict[Any, Any] = {}
        self._known_count = 0
        """How many columns the last table had."""
        self._lasting: dict[Any, Any] = {}
        """Those of them that are of the nodes themselves."""

    @property
    def nodes(self) -> NodeTable:
        """Return the rows as they would be now."""
        table = NodeTable(self.view, self.rows, self)
        # What is of the nodes themselves does not change from step to step.
        known = self._table_columns
        if len(known) != self._known_count:
            self._lasting = {key: known[key] for key in known if not _is_usage(key)}
            self._known_count = len(known)
        table._columns = self._table_columns = self._lasting.copy()  # noqa: SLF001 - of the same package
        return table

    def add(self, index: IdColumn) -> PodRows:
        """Suppose one more pod on each row (-1: none there)."""
        return self._change(index, 1)

    def add_turn(self, turns: Turns, turn: int) -> PodRows:
        """Suppose the pods of a turn on the rows."""
        self._note(turns.step(turn))
        for key, column in self._columns.items():
            moved = self._moved[key] = turns.sums(turn, key, self._by_shape(*key))
            self._columns[key] = column + moved
        return PodRows(self.view, turns.index[turn])

    def remove(self, index: IdColumn) -> PodRows:
        """Suppose one pod less on each row (-1: none there)."""
        return self._change(index, -1)

    def remove_all(self, matrix: IdColumn) -> None:
        """Suppose a line of pods gone from each row (-1: none there)."""
        self._take_step(matrix, -1)

    def take_back(self, positions: BoolColumn) -> PodRows:
        """Undo the last step, an addition of one pod, on some of the rows."""
        last = self._steps[-1]
        assert last.sign > 0, "only an addition is taken back"
        index = np.where(positions, last.index, NO_POD)
        self._note(_Step(-1, index, index < 0, last.shapes, has_absent=True))
        for key, column in self._columns.items():
            # What the addition moved is still known, so that it need not be looked up again.
            self._columns[key] = column - self._moved[key] * positions
        return PodRows(self.view, index)

    def _change(self, index: IdColumn, sign: int) -> PodRows:
        self._take_step(index, sign)
        return PodRows(self.view, index)

    def _take_step(self, index: IdColumn, sign: int) -> None:
        absent = index < 0
        shapes = self.view.pods.shape.take(index, mode="wrap")
        step = _Step(sign, index, absent, shapes, bool(absent.any()))
        self._note(step)
        for key, column in self._columns.items():
            moved = self._moved[key] = step.sums(self._by_shape(*key))
            self._columns[key] = column + moved if sign > 0 else column - moved

    def _note(self, step: _Step) -> None:
        self._steps.append(step)
        if self._pods:
            _move_pods(self._pods, step)
        if self._ports is not None:
            self._move_ports(self._ports, step)

    # -- Usage ----------------------------------------------------------------------------------

    @property
    def has_small_numbers(self) -> bool:
        """Return false: what pods add up to here nobody has looked at."""
        return False

    def requested(self, place: int) -> IntColumn:
        """Return what pods take of a resource."""
        return self._column("requested", place)

    def nonzero_requested(self, place: int) -> IntColumn:
        """Return what pods weigh in scoring."""
        return self._column("nonzero_requested", place)

    def pod_count(self) -> IntColumn:
        """Return how many pods there are."""
        return self._column("pod_count", 0)

    def _column(self, kind: str, place: int) -> IntColumn:
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
        # A resource of nodes that no pod has asked for yet.
        return np.zeros(table.shape[1], dtype=np.int64)

    def pods_on(self, position: int) -> Sequence[int]:
        """Return the indices of the pods at a position."""
        found = self._pods.get(position)
        if found is None:
            found = list(self.view.pods_on(self.rows.item(position)))
            for step in self._steps:
                for index in np.ravel(step.index[position]).tolist():
                    _move_pod(found, index, step.sign)
            self._pods[position] = found
        return found

    def moved_positions(self, is_meant: BoolColumn) -> list[int]:
        """Return where pods of some shapes came or went, those included that came back.

        Args:
            is_meant: which shapes, by id.
        """
        moved: BoolColumn = np.zeros(len(self.rows), dtype=np.bool_)
        for step in self._steps:
            meant = is_meant.take(step.shapes) & ~step.absent
            moved |= meant.any(axis=1) if meant.ndim > 1 else meant
        return moved.nonzero()[0].tolist()

    def ports_on(self, position: int) -> set[HostPort]:
        """Return the taken host ports at a position."""
        return self._all_ports()[position]

    def positions_with_port(self, protocol: str, port: int) -> list[int]:
        """Return the positions where a port is taken on any address."""
        return [
            position
            for position, taken in enumerate(self._all_ports())
            if any(one.port == port and one.protocol == protocol for one in taken)
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
            if not ports:
                continue
            if step.sign > 0:
                taken[position].update(ports)
            else:
                taken[position].difference_update(ports)

    def copy(self) -> Trial:
        """Return a trial of the same rows, free to go on by itself."""
        copy = Trial(self.view, self.rows)
        copy._steps = list(self._steps)
        copy._columns = dict(self._columns)
        copy._moved = dict(self._moved)
        copy._table_columns = self._table_columns
        return copy

    def take(self, positions: Rows) -> Trial:
        """Return the trial of some of these rows, free to go on by itself."""
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


def _move_pods(pods: dict[int, list[int]], step: _Step) -> None:
    for position, index in _entries(step):
        if position in pods:
            _move_pod(pods[position], index, step.sign)


def _move_pod(pods: list[int], index: int, sign: int) -> None:
    if index == NO_POD:
        return
    if sign > 0:
        pods.append(index)
    else:
        pods.remove(index)
