"""What plugins of outside are handed, in a form that cannot be written.

Owns the sealing of pods, nodes, tables and columns. What is shared by everybody and never changes
is sealed where it is, all else is shown through a second object over the same memory. In-tree
plugins are handed the originals, and pay nothing. Names that begin with an underscore are not
guarded: they are nobody's business but ours.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.interning import Interner
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.trial import PodRows
from kubesched.columns.view import NodeRow, NodeTable, Rows, read_only
from kubesched.framework.status import Status
from kubesched.framework.verdicts import NodeToStatus
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.model.sealing import Sealed

ValueT = TypeVar("ValueT", bound=Hashable)


class SealedPodInfo(Sealed, PodInfo):
    """A pod to be placed."""

    __slots__ = ()


class SealedBoundPod(Sealed, BoundPod):
    """A pod that has a node."""

    __slots__ = ()


class SealedNodeRow(Sealed, NodeRow):
    """One row as plain values."""

    __slots__ = ()


class SealedPodRows(Sealed, PodRows):
    """One pod, or none, for each node of a trial."""

    __slots__ = ()

    def __getitem__(self, position: int) -> BoundPod | None:
        found = super().__getitem__(position)
        return None if found is None else sealed(found)


class SealedNodeTable(Sealed, NodeTable):
    """Some nodes as columns; nodes, pods and sets that it hands out are sealed as well."""

    def take(self, positions: Any) -> NodeTable:
        """Return the table of some of these nodes, by position or by mask."""
        return sealed(super().take(positions))

    def bound_pod(self, index: int) -> BoundPod:
        """Return the pod of an index."""
        return sealed(super().bound_pod(index))

    @property
    def taint_sets(self) -> Any:
        """Return the distinct taint sets by id."""
        return SealedInterner(super().taint_sets)

    @property
    def feature_sets(self) -> Any:
        """Return the distinct sets of declared features by id."""
        return SealedInterner(super().feature_sets)

    def label_values(self, key: str) -> Any:
        """Return the values of a label key by id."""
        return SealedInterner(super().label_values(key))


class SealedInterner(Sealed, Generic[ValueT]):
    """Distinct values by id."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Interner[ValueT]) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[ValueT]:
        return iter(self._inner)

    @property
    def values(self) -> tuple[ValueT, ...]:
        """Return all values, in the order of their ids."""
        return tuple(self._inner.values)

    def id_of(self, value: ValueT) -> int:
        """Return the id of the value, -1 if it was never seen."""
        return self._inner.id_of(value)

    def lut(self, key: Hashable, answer: Callable[[ValueT], Any], *dtype: Any) -> NDArray[Any]:
        """Return the answers to one question for all values, by id."""
        return self._inner.lut(key, answer, *dtype)


class SealedQueued(Sealed):
    """A pod that waits, as a queue sort sees it."""

    __slots__ = ("_inner",)

    def __init__(self, inner: QueuedPodInfo) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        """Return what is known of it."""
        found = getattr(self._inner, name)
        return frozenset(found) if isinstance(found, set) else sealed(found)


class SealedStatuses(Sealed):
    """Each node's verdict, for a plugin that is to make room."""

    __slots__ = ("_inner",)

    def __init__(self, inner: NodeToStatus) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def get(self, node_name: str) -> Status:
        """Return the verdict on a node."""
        return self._inner.get(node_name)

    def names_with(self, *codes: int) -> list[str]:
        """Return the names of nodes whose verdict has one of the codes."""
        return self._inner.names_with(*codes)

    def has_node(self, name: str) -> bool:
        """Return whether there is a node of that name."""
        return self._inner.has_node(name)


def _table(nodes: NodeTable) -> NodeTable:
    made = object.__new__(SealedNodeTable)
    made.__dict__.update(nodes.__dict__)
    rows: Rows = read_only(nodes.rows)
    made.__dict__["rows"] = rows
    return made


def _pod_rows(pods: PodRows) -> PodRows:
    made = PodRows(pods.view, read_only(pods.index))
    made.present = read_only(made.present)
    made.__class__ = SealedPodRows
    return made


def _in_place(kind: type) -> Callable[[Any], Any]:
    def seal(one: Any) -> Any:
        one.__class__ = kind
        return one

    return seal


_SEALING: Final[Mapping[type, Callable[[Any], Any]]] = {
    PodInfo: _in_place(SealedPodInfo),
    BoundPod: _in_place(SealedBoundPod),
    NodeRow: _in_place(SealedNodeRow),
    NodeTable: _table,
    PodRows: _pod_rows,
    NodeToStatus: SealedStatuses,
    QueuedPodInfo: SealedQueued,
    np.ndarray: read_only,
}


def sealed(one: Any) -> Any:
    """Return what a plugin may be handed: the same, but read-only if it could be written."""
    seal = _SEALING.get(one.__class__)
    return one if seal is None else seal(one)
