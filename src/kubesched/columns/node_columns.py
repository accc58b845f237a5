"""The table of nodes: one row per node name, one array per fact.

Owns the arrays and what belongs to a row. Only `writer` changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import lt
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.evenness import UNEVENNESS_MAX, Evenness, evenness, evenness_of
from kubesched.columns.interning import Interner, grown
from kubesched.model.node_info import NodeInfo
from kubesched.model.pod_info import HostPort, ResourceMap, Resources, resources_of
from kubesched.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.model.tolerations import Taint

IntColumn = NDArray[np.int64]
IdColumn = NDArray[np.int32]
BoolColumn = NDArray[np.bool_]

NOTHING: Resources = MappingProxyType(ResourceMap())
SMALL_BITS = 46
"""Numbers of so many bits (70 TB) stay exact in floats, a hundred times over."""

LEFT, NONZERO_LEFT = "left", "hundredfold_nonzero_left"
FLOAT_KINDS = frozenset(("allocatable", "requested", LEFT, NONZERO_LEFT))
_NUMBERS = 9
_LEFT_LINES = slice(4, 9)
_FIRST = (CPU, MEMORY)
# By these nearly every cluster spreads pods: its first pod does not wait for their columns.
_OFTEN_ASKED_FOR = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
# More rows than these are cheaper made together with all others.
_STALE_ROWS_MAX = 32

_ONE_DIMENSIONAL: dict[str, tuple[Any, int]] = {
    "valid": (np.bool_, 0),
    "rank": (np.int64, 0),
    "pod_count": (np.int64, 0),
    "allowed_pods": (np.int64, 0),
    "unschedulable": (np.bool_, 0),
    "taint_set": (np.int32, 0),
    "feature_set": (np.int32, 0),
    "nominated_count": (np.int64, 0),
    "stamp": (np.int64, -1),
    "unevenness": (np.int32, 0),
}


class LabelColumn:
    """One label key over all rows: value ids, -1 where the node lacks the key.

    The same ids are the topology domains of that key.
    """

    __slots__ = ("ids", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: IdColumn = np.full(capacity, -1, dtype=np.int32)
        self.values: Interner[str] = Interner()


class NodeCells:
    """One row's numbers once more, as plain integers: a single row is judged by them.

    Reading a number from an array takes ten times as long, from a map five times. So what nearly
    all pods ask for has no map.
    """

    __slots__ = (
        "allocatable",
        "allowed_pods",
        "cpu_offered",
        "cpu_taken",
        "cpu_weighed",
        "memory_offered",
        "memory_taken",
        "memory_weighed",
        "others_taken",
        "pod_count",
    )

    def __init__(self) -> None:
        self.offer(NOTHING)
        self.cpu_taken = self.memory_taken = 0
        self.cpu_weighed = self.memory_weighed = 0
        """What pods weigh in scoring."""
        self.others_taken = ResourceMap()
        """By resource, cpu and memory left out."""
        self.pod_count = 0
        self.allowed_pods = 0

    def offer(self, allocatable: Resources) -> None:
        """Take over what the node offers."""
        self.allocatable = allocatable
        self.cpu_offered, self.memory_offered = allocatable[CPU], allocatable[MEMORY]

    @property
    def requested(self) -> Resources:
        """Return what pods take now, by resource."""
        taken = {CPU: self.cpu_taken, MEMORY: self.memory_taken}
        return resources_of({**taken, **self.others_taken})

    @property
    def nonzero_requested(self) -> Resources:
        """Return what pods weigh in scoring now, by resource."""
        return resources_of({CPU: self.cpu_weighed, MEMORY: self.memory_weighed})


class Room(Protocol):
    """What is left on some rows, as floats: a line each for cpu, memory and pods."""

    @property
    def left(self) -> NDArray[np.float64]:
        """Return what is allocatable less what is requested, and how many pods more fit."""
        ...

    @property
    def lowest_left(self) -> Sequence[float]:
        """Return by line what no row has less of."""
        ...


class SupposedRoom(NamedTuple):
    """What would be left on some rows if more pods were there."""

    left: NDArray[np.float64]
    lowest_left: Sequence[float] = (-np.inf, -np.inf, -np.inf)


class NodeLines:
    """Numbers of rows as floats, one line each: cpu, memory, and pods where these count.

    Those of all rows stand in one table, so that some rows are gathered at once. Exact while
    numbers are small: floats divide much faster.
    """

    __slots__ = (
        "allocatable",
        "hundredfold_nonzero_left",
        "left",
        "lowest_left",
        "requested",
        "scratch",
        "unevenness",
    )

    def __init__(
        self, numbers: NDArray[np.float64], unevenness: Evenness, lowest_left: Sequence[float]
    ) -> None:
        self.unevenness = unevenness
        """How far cpu and memory are from being used alike."""
        self.lowest_left = lowest_left
        """No node has less `left`, and then `hundredfold_nonzero_left`, by line: mostly that tells
        what else every row would have to be looked at for."""
        self.scratch: NDArray[np.float64] | None = None
        """Two lines that the next who asks may overwrite: of many rows, memory is dear."""
        self.allocatable = numbers[:2]
        self.requested = numbers[2:4]
        self.left = numbers[4:7]
        """What is allocatable less what is requested, and how many pods more a node takes."""
        self.hundredfold_nonzero_left = numbers[7:]
        """A hundred times what is allocatable less what pods weigh in scoring."""


class ImageEntry:
    """One image name: which rows have it, and how large it is."""

    __slots__ = ("size_bytes_by_row",)

    def __init__(self) -> None:
        self.size_bytes_by_row: dict[int, int] = {}

    @property
    def size_bytes(self) -> int:
        """Return the size all rows are judged by."""
        # Upstream keeps the size of whichever node reported the image first; the largest is one of
        # those outcomes, and does not depend on the order of arrival.
        return max(self.size_bytes_by_row.values())


def are_first(resources: Sequence[str]) -> bool:
    """Return whether these are the first lines of the usage columns, in that order."""
    return resources in (_FIRST, _FIRST[:1])


class NodeColumns:
    """Arrays of one capacity; a row whose node is unknown or deleted is not `valid`."""

    valid: BoolColumn
    rank: IntColumn
    pod_count: IntColumn
    allowed_pods: IntColumn
    unschedulable: BoolColumn
    taint_set: IdColumn
    feature_set: IdColumn
    nominated_count: IntColumn
    stamp: IntColumn
    """Of each row's latest change in the log."""
    unevenness: Evenness
    """How far cpu and memory are from being used alike; as far behind as the floats are."""

    def __init__(self) -> None:
        self.capacity = 16
        self.row_count = 0
        self.row_of: dict[str, int] = {}
        self.names: list[str] = []
        self.cells: list[NodeCells] = []
        self.has_small_numbers = True
        """Whether no amount was ever so large, or negative, that floats might not hold it."""
        self.infos: list[NodeInfo | None] = []
        self.pods_of: list[list[int]] = []
        self.ports_of: list[set[HostPort]] = []
        self.rows_of_port: dict[tuple[str, int], set[int]] = {}
        """The rows that have a (protocol, port) taken on any address, for rules over all rows."""
        self.free_rows: list[int] = []
        self.resources: Interner[str] = Interner()
        for name in (*_FIRST, EPHEMERAL_STORAGE):
            self.resources.intern(name)
        self.allocatable: IntColumn = np.zeros((3, self.capacity), dtype=np.int64)
        self.requested: IntColumn = np.zeros((3, self.capacity), dtype=np.int64)
        self.nonzero_requested: IntColumn = np.zeros((2, self.capacity), dtype=np.int64)
        self._split_usage()
        self.stale_rows: set[int] = set()
        """The rows whose floats are behind; brought up to date when somebody wants them."""
        self._shown_floats: dict[tuple[str, int], NDArray[np.float64]] = {}
        self._lines_of_all: NodeLines | None = None
        self._lowest_left = [np.inf] * 5
        """No node has less left; see `NodeLines`."""
        self._lowest_age = 0
        """How many rows have changed since some node had no more."""
        for name, (dtype, fill) in _ONE_DIMENSIONAL.items():
            setattr(self, name, np.full(self.capacity, fill, dtype=dtype))
        self._set_numbers(np.zeros((_NUMBERS, self.capacity)))
        self.labels = {key: LabelColumn(self.capacity) for key in _OFTEN_ASKED_FOR}
        self.taint_sets: Interner[tuple[Taint, ...]] = Interner()
        self.taint_sets.intern(())
        self.feature_sets: Interner[tuple[str, ...]] = Interner()
        self.feature_sets.intern(())
        self.images: dict[str, ImageEntry] = {}

    def grow_rows(self, count: int) -> None:
        """Make room for `count` rows in every column."""
        self._shown_floats.clear()
        self._lines_of_all = None
        if count <= self.capacity:
            return
        capacity = max(count, 2 * self.capacity)
        for name, (_, fill) in _ONE_DIMENSIONAL.items():
            setattr(self, name, grown(getattr(self, name), capacity, fill))
        self.allocatable = grown(self.allocatable, capacity)
        self.requested = grown(self.requested, capacity)
        self.nonzero_requested = grown(self.nonzero_requested, capacity)
        self._split_usage()
        self._set_numbers(grown(self._numbers, capacity))
        for column in self.labels.values():
            column.ids = grown(column.ids, capacity, -1)
        self.capacity = capacity

    def _split_usage(self) -> None:
        # A number is written to a line in half the time of writing it to one of several.
        self.usage_lines = (*self.requested[:2], *self.nonzero_requested)
        """Cpu and memory of `requested`, and of `nonzero_requested`."""

    def _set_numbers(self, numbers: NDArray[np.float64]) -> None:
        self._numbers = numbers
        lines = NodeLines(numbers, self.unevenness, self._lowest_left)
        self._floats = {
            "allocatable": lines.allocatable,
            "requested": lines.requested,
            LEFT: lines.left,
            NONZERO_LEFT: lines.hundredfold_nonzero_left,
        }
        """The same by kind."""

    def lines(self, rows: NDArray[np.int64]) -> NodeLines:
        """Return numbers of some rows as floats."""
        if self.stale_rows:
            self.current_floats()
        numbers, unevenness = self._numbers.take(rows, axis=1), self.unevenness.take(rows)
        return NodeLines(numbers, unevenness, self._lowest_left)

    def lines_of_all(self) -> NodeLines:
        """Return numbers of all rows as floats, not to be written; valid until the next change."""
        if self.stale_rows:
            self.current_floats()
        lines = self._lines_of_all
        if lines is None:
            count = self.row_count
            numbers, unevenness = self._numbers[:, :count], self.unevenness[:count]
            lines = NodeLines(numbers, unevenness, self._lowest_left)
            lines.scratch = np.empty((2, count))
            self._lines_of_all = lines
        return lines

    def take_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        """Have host ports taken on a row."""
        for port in ports:
            self.ports_of[row].add(port)
            self.rows_of_port.setdefault((port.protocol, port.port), set()).add(row)

    def free_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        """Have host ports free on a row."""
        # Parity: framework/types.go HostPortInfo.Remove, v1.36: a set, so that removing one of two
        # pods that (wrongly) share a port frees it.
        taken = self.ports_of[row]
        taken.difference_update(ports)
        for key in dict.fromkeys((port.protocol, port.port) for port in ports):
            if not any((other.protocol, other.port) == key for other in taken):
                rows = self.rows_of_port.get(key, set())
                rows.discard(row)
                if not rows:
                    self.rows_of_port.pop(key, None)

    def resource_id(self, name: str) -> int:
        """Return the place of a resource in the usage columns, made when first seen."""
        place = self.resources.intern(name)
        if place >= self.allocatable.shape[0]:
            more = np.zeros((place + 1 - self.allocatable.shape[0], self.capacity), dtype=np.int64)
            self.allocatable = np.concatenate((self.allocatable, more))
            self.requested = np.concatenate((self.requested, more))
            self._split_usage()
        return place

    def current_floats(self) -> dict[str, NDArray[np.float64]]:
        """Return cpu and memory as floats, brought up to date."""
        stale = self.stale_rows
        if stale:
            if len(stale) > _STALE_ROWS_MAX:
                self._set_all_floats()
            else:
                for row in stale:  # Each on its own, in any order.
                    self._set_floats(row)
                self._lowest_age += len(stale)
                if self._lowest_age > self.row_count // 8:
                    self._set_lowest()
            stale.clear()
        return self._floats

    def _set_floats(self, row: int) -> None:
        numbers, cells = self._numbers, self.cells[row]
        cpu, memory = cells.cpu_offered, cells.memory_offered
        cpu_taken, memory_taken = cells.cpu_taken, cells.memory_taken
        left = (
            cpu - cpu_taken,
            memory - memory_taken,
            cells.allowed_pods - cells.pod_count,
            100 * (cpu - cells.cpu_weighed),
            100 * (memory - cells.memory_weighed),
        )
        # In the order of `NodeLines`; one by one is quicker than making an array of large integers.
        for line, number in enumerate((cpu, memory, cpu_taken, memory_taken, *left)):
            numbers[line, row] = number
        if not cpu or not memory:
            return
        lowest = self._lowest_left
        if any(map(lt, left, lowest)):
            lowest[:] = map(min, left, lowest)
        if self.has_small_numbers:
            even = evenness_of(cpu_taken, cpu, memory_taken, memory)
            self.unevenness[row] = UNEVENNESS_MAX - even

    def _set_all_floats(self) -> None:
        floats, rows = self._floats, slice(0, self.row_count)
        allocatable = floats["allocatable"][:, rows]
        allocatable[:] = self.allocatable[:2, rows]
        floats["requested"][:, rows] = self.requested[:2, rows]
        left, nonzero_left = floats[LEFT][:, rows], floats[NONZERO_LEFT][:, rows]
        np.subtract(allocatable, self.requested[:2, rows], out=left[:2])
        np.subtract(self.allowed_pods[rows], self.pod_count[rows], out=left[2])
        np.subtract(allocatable, self.nonzero_requested[:, rows], out=nonzero_left)
        nonzero_left *= 100.0
        self._set_lowest()
        if self.has_small_numbers:
            used = np.ones_like(allocatable)
            np.divide(floats["requested"][:, rows], allocatable, out=used, where=allocatable > 0)
            self.unevenness[rows] = UNEVENNESS_MAX - evenness(used)

    def _set_lowest(self) -> None:
        """Look for the lowest anew: where pods leave, it rises."""
        numbers = self._numbers[:, : self.row_count]
        offering = numbers[:2].all(axis=0)
        # In place, for all who have it.
        self._lowest_left[:] = numbers[_LEFT_LINES, offering].min(axis=1, initial=np.inf).tolist()
        self._lowest_age = 0

    def shown_floats(self, kind: str, count: int) -> NDArray[np.float64]:
        """Return the first lines of a kind of floats over all rows, for reading."""
        if self.stale_rows:
            self.current_floats()
        found = self._shown_floats.get((kind, count))
        if found is None:
            found = self._floats[kind][:count, : self.row_count]
            found.flags.writeable = False
            self._shown_floats[kind, count] = found
        return found

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label key, built when a rule first asks for it."""
        # Building a column changes no fact, so readers may cause it.
        column = self.labels.get(key)
        if column is None:
            column = self.labels[key] = LabelColumn(self.capacity)
            intern = column.values.intern
            for row, info in enumerate(self.infos):
                if info is not None:
                    value = info.labels.get(key)
                    if value is not None:
                        column.ids[row] = intern(value)
        return column
