"""The table of pods that count on a node, or are promised one.

Owns one index per bound, assumed or nominated pod, and the classes they are counted in. Only
`writer` changes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.interning import Interner, grown
from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.model.affinity_terms import NO_TERMS, TermSet
from kubesched.model.pod_info import PodInfo, PodShape, Resources
from kubesched.model.resources import CPU, MEMORY
from kubesched.objects.meta import OwnerReference
from kubesched.objects.pod import Pod

OWNERS_MAX = 65_536
ENTRIES_MAX = 65_536

ShapeItem: TypeAlias = "tuple[int, str, int]"
"""A resource's place in NodeColumns.resources, its name, and how much of it is taken."""
Entry: TypeAlias = "tuple[int, int, int, Mapping[str, str]]"
"""The ids of shape, label class and term set, and the labels: what pods alike have in common."""
ShapeWeight: TypeAlias = "tuple[int, int, int, int, tuple[ShapeItem, ...]]"
"""Cpu and memory that are taken, cpu and memory weighed in scoring, and what else is taken."""
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
    """Namespace and labels: all that a label selector can tell pods apart by."""

    namespace: str
    items: tuple[tuple[str, str], ...]

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels as a map."""
        return dict(self.items)


class BoundPod:
    """What is kept of a pod that has a node: names, labels, priority, requests, times.

    `object` is the whole pod, and there only if a plugin declared that it reads whole pods.
    """

    __slots__ = (
        "_raw",
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
        self._raw = whole

    def __repr__(self) -> str:
        return f"<BoundPod {self.key} on {self.node_name} priority={self.priority}>"

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def requests(self) -> Resources:
        """Return what the pod takes on its node."""
        return self.shape.usage

    @property
    def nominated_node_name(self) -> str:
        """Return nothing: who has a node is promised none."""
        return ""

    @property
    def scheduler_name(self) -> str:
        """Return the name of the profile that placed the pod."""
        return self.shape.scheduler_name

    @property
    def terms(self) -> TermSet:
        """Return the compiled pod affinity terms."""
        return self.shape.terms

    def keep_whole(self, whole: bytes | None) -> None:
        """Take over the whole pod as JSON, if whole pods are kept."""
        self._raw = whole

    @property
    def is_whole(self) -> bool:
        """Return whether the whole pod is kept."""
        return self._raw is not None

    @property
    def raw(self) -> bytes:
        """Return the whole pod as JSON, if whole pods are kept."""
        if self._raw is None:
            raise LookupError(
                f"pod {self.key}: whole bound pods are not kept; "
                "set reads_bound_pods = True on the plugin that needs them"
            )
        return self._raw

    @property
    def object(self) -> Pod:
        """Return the whole pod, if whole pods are kept."""
        from kubesched.objects.decode import decode_as  # noqa: PLC0415 - rarely needed

        return decode_as(Pod, self.raw)


class PodArrays:
    """The columns of a pod table, one entry per index."""

    row: IdColumn
    label_class: IdColumn
    term_set: IdColumn
    shape: IdColumn
    priority: IntColumn
    start_s: NDArray[np.float64]
    counted: BoolColumn
    terminating: BoolColumn


class PodColumns(PodArrays):
    """Arrays of one capacity, indexed by pod; `counted` pods weigh on their row.

    The arrays cannot be written; `writable` holds the same memory for the writer.
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
        """What pods of a shape and such labels have in common, once one of them has come."""
        self.class_labels: dict[int, Mapping[str, str]] = {}
        """The labels of a class, one map for all pods that have them."""
        self.known_owners: dict[tuple[OwnerReference, ...], tuple[OwnerReference, ...]] = {}
        """Owners, one tuple for all pods that have them."""
        self.term_sets: Interner[TermSet] = Interner()
        self.term_sets.intern(NO_TERMS)
        self.shapes: list[PodShape] = []
        self._shape_ids: dict[int, int] = {}
        self.shape_terms: list[int] = []
        """Each shape's affinity term set."""
        self.shape_items: list[tuple[ShapeItem, ...]] = []
        """What a pod of each shape takes."""
        self.shape_weights: list[ShapeWeight] = []
        """What a pod of each shape takes and weighs; for single pods."""
        self._usage_by_shape: IntColumn = np.zeros((3, 16), dtype=np.int64)
        self._nonzero_by_shape: IntColumn = np.zeros((2, 16), dtype=np.int64)
        self._tabled = 0
        """How many shapes the two have."""
        self.nominated_of: dict[int, list[int]] = {}

    def new_index(self) -> int:
        """Return an index that no pod ever had, with room for it in every column."""
        index = self.count
        if index == self.capacity:
            self._grow()
        self.count = index + 1
        self.pods.append(None)
        return index

    def _grow(self) -> None:
        capacity = 2 * self.capacity
        for name, (_, fill) in _COLUMNS.items():
            self._set_column(name, grown(getattr(self.writable, name), capacity, fill))
        self.capacity = capacity

    def _set_column(self, name: str, array: NDArray[Any]) -> None:
        setattr(self.writable, name, array)
        reading = array.view()
        reading.flags.writeable = False
        setattr(self, name, reading)

    def free_place(self, index: int) -> None:
        """Have a place as if no pod had ever been there."""
        columns, self.pods[index] = self.writable, None
        columns.row[index] = -1
        columns.counted[index] = columns.terminating[index] = False
        columns.term_set[index] = columns.priority[index] = 0
        columns.start_s[index] = np.inf
        self.free.append(index)

    def owners_of(self, pod: PodInfo) -> tuple[OwnerReference, ...]:
        """Return a pod's owners, the same tuple for all pods of these owners."""
        owners = pod.owners
        if not owners:
            return owners
        if len(self.known_owners) >= OWNERS_MAX:
            self.known_owners.clear()
        return self.known_owners.setdefault(owners, owners)

    def shape_id(self, shape: PodShape) -> int:
        """Return the id of a shape, -1 if it is new."""
        return self._shape_ids.get(id(shape), -1)

    def forget_shapes(self) -> None:
        """Start the shapes and term sets anew."""
        self.term_sets = Interner()
        self.term_sets.intern(NO_TERMS)
        self.shapes, self.shape_terms = [], []
        self.shape_items, self.shape_weights = [], []
        self._shape_ids = {}
        self._usage_by_shape = np.zeros((3, 16), dtype=np.int64)
        self._nonzero_by_shape = np.zeros((2, 16), dtype=np.int64)
        self._tabled = 0

    def add_shape(self, shape: PodShape, items: Sequence[ShapeItem]) -> int:
        """Register a shape with what it takes; return its id."""
        # The list keeps the shape alive, so that its address is not reused.
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
        """Return what a pod of each shape takes, by place of the resource; for many pods."""
        self._table_shapes()
        return self._usage_by_shape

    @property
    def shape_nonzero(self) -> IntColumn:
        """Return cpu and memory a pod of each shape weighs in scoring; for many pods."""
        self._table_shapes()
        return self._nonzero_by_shape

    def _table_shapes(self) -> None:
        """Take over new shapes into the tables: many shapes are met once and never asked for."""
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


def label_class_of(namespace: str, labels: Mapping[str, str]) -> LabelClass:
    """Return the label class of a pod."""
    return LabelClass(namespace, tuple(sorted(labels.items())))
