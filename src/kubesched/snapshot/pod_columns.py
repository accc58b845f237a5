"""The table of pods that are bound, assumed or nominated: one index per pod, one column per field.

Pods are counted by class: pods with equal namespace and labels share a label class, pods with equal
affinity terms a term set, pods with equal specs a shape. Only `cache.writer` changes the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.decode import decode_as
from kubesched.api.meta import OwnerReference
from kubesched.api.pod import Pod
from kubesched.api.resource_requests import CPU, MEMORY
from kubesched.snapshot.affinity_terms import NO_TERMS, TermSet
from kubesched.snapshot.interning import Interner, grown
from kubesched.snapshot.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.snapshot.pod_info import PodInfo, PodShape, Resources

OWNERS_MAX = 65_536
ENTRIES_MAX = 65_536

ShapeItem: TypeAlias = "tuple[int, str, int]"
"""The line of a resource in NodeColumns, its name, and the requested amount."""
Entry: TypeAlias = "tuple[int, int, int, Mapping[str, str]]"
"""The ids of shape, label class and term set, and the labels, shared by equal pods."""
ShapeWeight: TypeAlias = "tuple[int, int, int, int, tuple[ShapeItem, ...]]"
"""Requested cpu and memory, non-zero requested cpu and memory, and other resources."""
_COLUMNS: dict[str, tuple[Any, float]] = {
    "row": (np.int32, -1),
    "label_class": (np.int32, 0),
    "term_set": (np.int32, 0),
    "shape": (np.int32, 0),
    "priority": (np.int64, 0),
    "start_s": (np.float64, np.inf),
    "counted": (np.bool_, 0),
    "terminating": (np.bool_, 0),
}


class LabelClass(NamedTuple):
    """Namespace and labels: everything that a label selector can distinguish."""

    namespace: str
    items: tuple[tuple[str, str], ...]

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self.items)


class BoundPod:
    """A pod on a node, reduced to what plugins read: names, labels, priority, requests, times.

    `object` is the whole pod; it is available only if a plugin declares `reads_bound_pods`.
    """

    __slots__ = (
        "annotations",
        "disruption_target",
        "generation",
        "index",
        "labels",
        "name",
        "namespace",
        "node_name",
        "nominated",
        "owners",
        "priority",
        "resource_version",
        "shape",
        "start_s",
        "terminating",
        "uid",
        "whole",
    )

    def __init__(
        self, pod: PodInfo, node_name: str, whole: bytes | None, *, nominated: bool = False
    ) -> None:
        self.namespace = pod.namespace
        self.name = pod.name
        self.uid = pod.uid
        self.labels = pod.labels
        self.annotations = pod.annotations
        self.owners = pod.owners
        self.priority = pod.priority
        self.start_s = pod.start_s
        self.terminating = pod.terminating
        self.disruption_target = pod.disruption_target
        self.generation = pod.generation
        self.resource_version = pod.resource_version
        self.shape: PodShape = pod.shape
        self.node_name = node_name
        self.nominated = nominated
        self.index = -1
        self.whole = whole
        """The whole pod as JSON, if it is kept."""

    def __repr__(self) -> str:
        return f"<BoundPod {self.key} on {self.node_name} priority={self.priority}>"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def requests(self) -> Resources:
        """Return the pod's requests on its node."""
        return self.shape.usage

    @property
    def nominated_node_name(self) -> str:
        """Return an empty name: a pod on a node is not nominated."""
        return ""

    @property
    def scheduler_name(self) -> str:
        return self.shape.scheduler_name

    @property
    def terms(self) -> TermSet:
        return self.shape.terms

    @property
    def raw(self) -> bytes:
        """Return the whole pod as JSON; LookupError if it is not kept."""
        if self.whole is None:
            raise LookupError(
                f"pod {self.key}: whole bound pods are not kept; "
                "set reads_bound_pods = True on the plugin that needs them"
            )
        return self.whole

    @property
    def object(self) -> Pod:
        """Return the whole pod; LookupError if it is not kept."""
        return decode_as(Pod, self.raw)


class PodArrays:
    """The columns of the pod table, one entry per pod index."""

    row: IdColumn
    label_class: IdColumn
    term_set: IdColumn
    shape: IdColumn
    priority: IntColumn
    start_s: NDArray[np.float64]
    counted: BoolColumn
    terminating: BoolColumn


class PodColumns(PodArrays):
    """The pod table; pods that are `counted` add to the requests of their row.

    The arrays are read-only; `writable` holds the same memory for the writer.
    """

    def __init__(self) -> None:
        self.capacity = 16
        self.count = 0
        self.writable = PodArrays()
        for name, (dtype, fill) in _COLUMNS.items():
            self._set_column(name, np.full(self.capacity, fill, dtype=dtype))
        self.pods: list[BoundPod | None] = []
        self.index_of: dict[str, int] = {}
        self.free: list[int] = []
        self.label_classes: Interner[LabelClass] = Interner()
        self.entries: dict[tuple[PodShape, tuple[tuple[str, str], ...]], Entry] = {}
        """The shared values of pods, by shape and labels."""
        self.class_labels: dict[int, Mapping[str, str]] = {}
        """The labels of each label class, one map for all its pods."""
        self.known_owners: dict[tuple[OwnerReference, ...], tuple[OwnerReference, ...]] = {}
        """Owner references, one tuple for all pods that have them."""
        self.forget_shapes()
        self.nominated_of: dict[int, list[int]] = {}

    def new_index(self) -> int:
        """Return a new index, and grow the columns if needed."""
        index = self.count
        if index == self.capacity:
            self.capacity *= 2
            for name, (_, fill) in _COLUMNS.items():
                self._set_column(name, grown(getattr(self.writable, name), self.capacity, fill))
        self.count = index + 1
        self.pods.append(None)
        return index

    def _set_column(self, name: str, array: NDArray[Any]) -> None:
        setattr(self.writable, name, array)
        reading = array.view()
        reading.flags.writeable = False
        setattr(self, name, reading)

    def free_index(self, index: int) -> None:
        """Reset the entries of an index, and mark it as free."""
        columns, self.pods[index] = self.writable, None
        columns.row[index] = -1
        columns.counted[index] = columns.terminating[index] = False
        columns.term_set[index] = columns.priority[index] = 0
        columns.start_s[index] = np.inf
        self.free.append(index)

    def owners_of(self, pod: PodInfo) -> tuple[OwnerReference, ...]:
        """Return a pod's owner references, one shared tuple for equal ones."""
        owners = pod.owners
        if not owners:
            return owners
        if len(self.known_owners) >= OWNERS_MAX:
            self.known_owners.clear()
        return self.known_owners.setdefault(owners, owners)

    def shape_id(self, shape: PodShape) -> int:
        """Return the id of a shape, -1 if it is unknown."""
        return self._shape_ids.get(id(shape), -1)

    def forget_shapes(self) -> None:
        """Forget all shapes and term sets."""
        self.term_sets: Interner[TermSet] = Interner()
        self.term_sets.intern(NO_TERMS)
        self.shapes: list[PodShape] = []
        self._shape_ids: dict[int, int] = {}
        self.shape_terms: list[int] = []
        """The term set of each shape."""
        self.shape_items: list[tuple[ShapeItem, ...]] = []
        """The requests of each shape."""
        self.shape_weights: list[ShapeWeight] = []
        """The requests and non-zero requests of each shape, for single pods."""
        self._usage_by_shape: IntColumn = np.zeros((3, 16), dtype=np.int64)
        self._nonzero_by_shape: IntColumn = np.zeros((2, 16), dtype=np.int64)
        self._tabled = 0
        """Number of shapes in these two tables."""

    def add_shape(self, shape: PodShape, items: Sequence[ShapeItem]) -> int:
        """Add a shape with its requests; return its id."""
        # The list keeps the shape alive, so its address is not reused.
        place = self._shape_ids[id(shape)] = len(self.shapes)
        self.shapes.append(shape)
        self.shape_terms.append(self.term_sets.intern(shape.terms))
        self.shape_items.append(tuple(items))
        others = tuple(item for item in items if item[1] not in (CPU, MEMORY))
        taken = shape.usage[CPU], shape.usage[MEMORY]
        self.shape_weights.append((*taken, *shape.nonzero_usage, others))
        return place

    @property
    def shape_usage(self) -> IntColumn:
        """Return the requests of all shapes, one line per resource, for many pods."""
        self._table_shapes()
        return self._usage_by_shape

    @property
    def shape_nonzero(self) -> IntColumn:
        """Return the non-zero requests of all shapes, for many pods."""
        self._table_shapes()
        return self._nonzero_by_shape

    def _table_shapes(self) -> None:
        """Add new shapes to the tables, at their first use: many shapes are never read here."""
        count = len(self.shapes)
        if self._tabled == count:
            return
        new = self.shape_items[self._tabled :]
        highest = max((resource for items in new for resource, _, _ in items), default=0)
        missing = highest + 1 - self._usage_by_shape.shape[0]
        if missing > 0:
            more = np.zeros((missing, self._usage_by_shape.shape[1]), dtype=np.int64)
            self._usage_by_shape = np.concatenate((self._usage_by_shape, more))
        self._usage_by_shape = grown(self._usage_by_shape, count)
        self._nonzero_by_shape = grown(self._nonzero_by_shape, count)
        for place in range(self._tabled, count):
            for resource, _, value in self.shape_items[place]:
                self._usage_by_shape[resource, place] = value
            self._nonzero_by_shape[:, place] = self.shapes[place].nonzero_usage
        self._tabled = count
