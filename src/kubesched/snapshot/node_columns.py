"""The table of nodes: one row per node, one column (numpy array) per attribute.

A filter over all nodes is one array operation over a column. Column entry `i` of every array
belongs to row `i`; a row keeps its number as long as its node or pods on it exist. Labels and
taints are stored as ids of interned values. Only `cache.writer` changes the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import lt
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.resource_requests import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.api.tolerations import Taint
from kubesched.snapshot.balance import UNEVENNESS_MAX, Evenness, evenness, evenness_of
from kubesched.snapshot.interning import Interner, grown
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_info import HostPort, ResourceMap, Resources, resources_of

IntColumn = NDArray[np.int64]
IdColumn = NDArray[np.int32]
BoolColumn = NDArray[np.bool_]

NOTHING: Resources = MappingProxyType(ResourceMap())
SMALL_BITS = 46
"""Amounts of 46 bits (70 TB) stay exact in floats, even multiplied by 100."""

LEFT, NONZERO_LEFT = "left", "hundredfold_nonzero_left"
_NUMBERS = 9
_LEFT_LINES = slice(4, 9)
_FIRST = (CPU, MEMORY)
# Nearly every cluster spreads pods by these keys: their columns exist from the start.
_COMMON_LABELS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
# With more stale rows it is cheaper to refresh all rows at once.
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


class NodeCounters:
    """The amounts of one row as plain integers, for evaluating a single row.

    Reading an array entry takes ten times as long, a map entry five times. So cpu and memory, which
    nearly all pods request, have attributes of their own.
    """

    __slots__ = (
        "allocatable",
        "allowed_pods",
        "cpu_allocatable",
        "cpu_nonzero",
        "cpu_requested",
        "memory_allocatable",
        "memory_nonzero",
        "memory_requested",
        "others_requested",
        "pod_count",
    )

    def __init__(self) -> None:
        self.set_allocatable(NOTHING)
        self.cpu_requested = self.memory_requested = 0
        self.cpu_nonzero = self.memory_nonzero = 0
        """The non-zero requests: with scoring's defaults for pods that request nothing."""
        self.others_requested = ResourceMap()
        """Requested amounts of other resources."""
        self.pod_count = 0
        self.allowed_pods = 0

    def set_allocatable(self, allocatable: Resources) -> None:
        """Set the node's allocatable amounts."""
        self.allocatable = allocatable
        self.cpu_allocatable, self.memory_allocatable = allocatable[CPU], allocatable[MEMORY]

    @property
    def requested(self) -> Resources:
        both = {CPU: self.cpu_requested, MEMORY: self.memory_requested}
        return resources_of({**both, **self.others_requested})

    @property
    def nonzero_requested(self) -> Resources:
        return resources_of({CPU: self.cpu_nonzero, MEMORY: self.memory_nonzero})


class SupposedRoom(NamedTuple):
    """The free amounts of some rows if nominated pods were on them; as in `ResourceMatrix`."""

    left: NDArray[np.float64]
    lowest_left: Sequence[float] = (-np.inf, -np.inf, -np.inf)


class ResourceMatrix:
    """The amounts of rows as floats, one line per resource: cpu, memory, and for `left` pods.

    One table holds all rows, so that some of them are gathered in one step. Floats divide much
    faster than integers, and are exact while amounts are small.
    """

    def __init__(
        self, numbers: NDArray[np.float64], unevenness: Evenness, lowest_left: Sequence[float]
    ) -> None:
        self.unevenness = unevenness
        """The difference between the used fractions of cpu and memory."""
        self.lowest_left = lowest_left
        """Lower bounds of the lines of `left` and `hundredfold_nonzero_left`: often enough to
        decide without a look at every row."""
        self.scratch: NDArray[np.float64] | None = None
        """Two lines that every computation may overwrite, to save allocations."""
        self.allocatable = numbers[:2]
        self.requested = numbers[2:4]
        self.left = numbers[4:7]
        """Allocatable minus requested amounts, and the number of pods that still fit."""
        self.hundredfold_nonzero_left = numbers[7:]
        """100 times (allocatable minus non-zero requested amounts)."""


Room: TypeAlias = "ResourceMatrix | SupposedRoom"


class ImageEntry:
    """One image: the rows that have it, and its size."""

    __slots__ = ("size_bytes_by_row",)

    def __init__(self) -> None:
        self.size_bytes_by_row: dict[int, int] = {}

    @property
    def size_bytes(self) -> int:
        """Return the image's size for scoring."""
        # Upstream keeps the size that the first node reported; the largest size is one of the
        # possible outcomes, and does not depend on the order of arrival.
        return max(self.size_bytes_by_row.values())


def are_first(resources: Sequence[str]) -> bool:
    """Return whether these are cpu, or cpu and memory: the first lines of the usage columns."""
    return resources in (_FIRST, _FIRST[:1])


class NodeColumns:
    """The columns of the node table; a row whose node is unknown or deleted is not `valid`."""

    valid: BoolColumn
    rank: IntColumn
    pod_count: IntColumn
    allowed_pods: IntColumn
    unschedulable: BoolColumn
    taint_set: IdColumn
    feature_set: IdColumn
    nominated_count: IntColumn
    stamp: IntColumn
    """The stamp of each row's latest change in the change log."""
    unevenness: Evenness
    """The difference between the used fractions of cpu and memory; stale as the floats are."""

    def __init__(self) -> None:
        self.capacity = 16
        self.row_count = 0
        self.row_of: dict[str, int] = {}
        self.names: list[str] = []
        self.counters: list[NodeCounters] = []
        self.has_small_numbers = True
        """Whether all amounts so far were small enough to be exact in floats."""
        self.infos: list[NodeInfo | None] = []
        self.pods_of: list[list[int]] = []
        self.ports_of: list[set[HostPort]] = []
        self.rows_of_port: dict[tuple[str, int], set[int]] = {}
        """The rows on which a (protocol, port) is taken, on any address."""
        self.free_rows: list[int] = []
        self.resources: Interner[str] = Interner()
        for name in (*_FIRST, EPHEMERAL_STORAGE):
            self.resources.intern(name)
        self.allocatable: IntColumn = np.zeros((3, self.capacity), dtype=np.int64)
        self.requested: IntColumn = np.zeros((3, self.capacity), dtype=np.int64)
        self.nonzero_requested: IntColumn = np.zeros((2, self.capacity), dtype=np.int64)
        self._split_usage()
        self.stale_rows: set[int] = set()
        """The rows whose floats are out of date; refreshed before they are read."""
        self._matrix_of_all: ResourceMatrix | None = None
        self._lowest_left = [np.inf] * 5
        """Lower bounds; see `ResourceMatrix.lowest_left`."""
        self._lowest_age = 0
        """Number of changed rows since the bounds were computed."""
        for name, (dtype, fill) in _ONE_DIMENSIONAL.items():
            setattr(self, name, np.full(self.capacity, fill, dtype=dtype))
        self._numbers: NDArray[np.float64] = np.zeros((_NUMBERS, self.capacity))
        self.labels = {key: LabelColumn(self.capacity) for key in _COMMON_LABELS}
        self.taint_sets: Interner[tuple[Taint, ...]] = Interner()
        self.taint_sets.intern(())
        self.feature_sets: Interner[tuple[str, ...]] = Interner()
        self.feature_sets.intern(())
        self.images: dict[str, ImageEntry] = {}

    def grow_rows(self, count: int) -> None:
        self._matrix_of_all = None
        if count <= self.capacity:
            return
        capacity = max(count, 2 * self.capacity)
        for name, (_, fill) in _ONE_DIMENSIONAL.items():
            setattr(self, name, grown(getattr(self, name), capacity, fill))
        self.allocatable = grown(self.allocatable, capacity)
        self.requested = grown(self.requested, capacity)
        self.nonzero_requested = grown(self.nonzero_requested, capacity)
        self._split_usage()
        self._numbers = grown(self._numbers, capacity)
        for column in self.labels.values():
            column.ids = grown(column.ids, capacity, -1)
        self.capacity = capacity

    def _split_usage(self) -> None:
        # Writing to a one-dimensional array takes half the time of a two-dimensional one.
        self.usage_rows = (*self.requested[:2], *self.nonzero_requested)
        """The cpu and memory lines of `requested` and of `nonzero_requested`."""

    def resource_matrix(self, rows: NDArray[np.int64] | None = None) -> ResourceMatrix:
        """Return the floats of some rows, or of all: read-only, and valid until the next change."""
        if self.stale_rows:
            self._refresh_floats()
        if rows is not None:
            numbers, unevenness = self._numbers.take(rows, axis=1), self.unevenness.take(rows)
            return ResourceMatrix(numbers, unevenness, self._lowest_left)
        matrix = self._matrix_of_all
        if matrix is None:
            matrix = self._matrix_of_all = self._whole_matrix()
            matrix.scratch = np.empty((2, self.row_count))
        return matrix

    def _whole_matrix(self) -> ResourceMatrix:
        numbers, unevenness = self._numbers[:, : self.row_count], self.unevenness[: self.row_count]
        return ResourceMatrix(numbers, unevenness, self._lowest_left)

    def take_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            self.ports_of[row].add(port)
            self.rows_of_port.setdefault((port.protocol, port.port), set()).add(row)

    def free_ports(self, row: int, ports: Iterable[HostPort]) -> None:
        """Mark host ports as free on a row."""
        # Parity: framework/types.go HostPortInfo.Remove, v1.36: a set, so removing one of two pods
        # that (wrongly) share a port frees it.
        taken = self.ports_of[row]
        taken.difference_update(ports)
        still_taken = {(port.protocol, port.port) for port in taken}
        for key in {(port.protocol, port.port) for port in ports} - still_taken:
            rows = self.rows_of_port.get(key, set())
            rows.discard(row)
            if not rows:
                self.rows_of_port.pop(key, None)

    def resource_id(self, name: str) -> int:
        """Return the line of a resource in the usage columns; a new resource gets a new line."""
        place = self.resources.intern(name)
        if place >= self.allocatable.shape[0]:
            more = np.zeros((place + 1 - self.allocatable.shape[0], self.capacity), dtype=np.int64)
            self.allocatable = np.concatenate((self.allocatable, more))
            self.requested = np.concatenate((self.requested, more))
            self._split_usage()
        return place

    def _refresh_floats(self) -> None:
        stale = self.stale_rows
        if len(stale) > _STALE_ROWS_MAX:
            self._set_all_floats()
        else:
            for row in stale:  # The order does not matter.
                self._set_floats(row)
            self._lowest_age += len(stale)
            if self._lowest_age > self.row_count // 8:
                self._set_lowest()
        stale.clear()

    def _set_floats(self, row: int) -> None:
        numbers, counters = self._numbers, self.counters[row]
        cpu, memory = counters.cpu_allocatable, counters.memory_allocatable
        cpu_requested, memory_requested = counters.cpu_requested, counters.memory_requested
        left = (
            cpu - cpu_requested,
            memory - memory_requested,
            counters.allowed_pods - counters.pod_count,
            100 * (cpu - counters.cpu_nonzero),
            100 * (memory - counters.memory_nonzero),
        )
        # In the order of `ResourceMatrix`; one by one is faster than an array of large integers.
        for line, number in enumerate((cpu, memory, cpu_requested, memory_requested, *left)):
            numbers[line, row] = number
        if not cpu or not memory:
            return
        lowest = self._lowest_left
        if any(map(lt, left, lowest)):
            lowest[:] = map(min, left, lowest)
        if self.has_small_numbers:
            even = evenness_of(cpu_requested, cpu, memory_requested, memory)
            self.unevenness[row] = UNEVENNESS_MAX - even

    def _set_all_floats(self) -> None:
        matrix, rows = self._whole_matrix(), slice(0, self.row_count)
        allocatable, nonzero_left = matrix.allocatable, matrix.hundredfold_nonzero_left
        allocatable[:] = self.allocatable[:2, rows]
        matrix.requested[:] = self.requested[:2, rows]
        np.subtract(allocatable, self.requested[:2, rows], out=matrix.left[:2])
        np.subtract(self.allowed_pods[rows], self.pod_count[rows], out=matrix.left[2])
        np.subtract(allocatable, self.nonzero_requested[:, rows], out=nonzero_left)
        nonzero_left *= 100.0
        self._set_lowest()
        if self.has_small_numbers:
            used = np.ones_like(allocatable)
            np.divide(matrix.requested, allocatable, out=used, where=allocatable > 0)
            self.unevenness[rows] = UNEVENNESS_MAX - evenness(used)

    def _set_lowest(self) -> None:
        """Recompute the lower bounds: they rise where pods leave."""
        numbers = self._numbers[:, : self.row_count]
        offering = numbers[:2].all(axis=0)
        # In place: matrices share the list.
        self._lowest_left[:] = numbers[_LEFT_LINES, offering].min(axis=1, initial=np.inf).tolist()
        self._lowest_age = 0

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label key, built at its first use."""
        # Building a column changes no value, so readers may trigger it.
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
