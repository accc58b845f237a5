"""Read-only arguments for out-of-tree plugins: pods, nodes, tables and columns.

Objects that never change become read-only in place; the others get a read-only proxy over the same
memory. In-tree plugins get the originals, without overhead. Names with a leading underscore are
private and not protected.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.status import Status
from kubesched.framework.verdicts import NodeToStatus
from kubesched.kit.read_only import ReadOnly
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import NodeRow, NodeTable, read_only


class ReadOnlyPodInfo(ReadOnly, PodInfo):
    """A pod to be scheduled."""

    __slots__ = ()


class ReadOnlyBoundPod(ReadOnly, BoundPod):
    """A pod on a node."""

    __slots__ = ()


class ReadOnlyNodeRow(ReadOnly, NodeRow):
    """One row as plain values."""

    __slots__ = ()


class ReadOnlyPodRows(ReadOnly, PodRows):
    """One pod, or none, per node of a trial."""

    __slots__ = ()

    def __getitem__(self, position: int) -> BoundPod | None:
        pod = super().__getitem__(position)
        return None if pod is None else as_read_only(pod)


class ReadOnlyNodeTable(ReadOnly, NodeTable):
    """A table of nodes; the nodes, pods and sets that it returns are read-only too."""

    def take(self, positions: Any) -> NodeTable:
        """Return the table of some of these nodes, by position or by mask."""
        return as_read_only(super().take(positions))

    def bound_pod(self, index: int) -> BoundPod:
        """Return the pod at an index."""
        return as_read_only(super().bound_pod(index))

    @property
    def taint_sets(self) -> Any:
        """Return the distinct taint sets by id."""
        return ReadOnlyInterner(super().taint_sets)

    @property
    def feature_sets(self) -> Any:
        """Return the distinct sets of declared features by id."""
        return ReadOnlyInterner(super().feature_sets)

    def label_values(self, key: str) -> Any:
        """Return the values of a label key by id."""
        return ReadOnlyInterner(super().label_values(key))


class _Proxy(ReadOnly):
    """Part of the interface of another object."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner


class ReadOnlyInterner(_Proxy):
    """Distinct values by id."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._inner)

    @property
    def values(self) -> tuple[Any, ...]:
        """Return all values in the order of their ids."""
        return tuple(self._inner.values)

    def id_of(self, value: Any) -> int:
        """Return the id of a value, -1 if it is unknown."""
        return self._inner.id_of(value)

    def lut(self, key: Hashable, answer: Callable[[Any], Any], *dtype: Any) -> NDArray[Any]:
        """Return the results of a function for all values, by id."""
        return self._inner.lut(key, answer, *dtype)


class ReadOnlyQueued(_Proxy):
    """A queued pod, as a QueueSort plugin sees it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the queued pod."""
        value = getattr(self._inner, name)
        return frozenset(value) if isinstance(value, set) else as_read_only(value)


class ReadOnlyStatuses(_Proxy):
    """The status of each node, for PostFilter plugins."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._inner)

    def get(self, node_name: str) -> Status:
        """Return the status of a node."""
        return self._inner.get(node_name)

    def names_with(self, *codes: int) -> list[str]:
        """Return the names of nodes whose status has one of the codes."""
        return self._inner.names_with(*codes)

    def has_node(self, name: str) -> bool:
        """Return whether a node of that name exists."""
        return self._inner.has_node(name)


def _table(nodes: NodeTable) -> NodeTable:
    copy = object.__new__(ReadOnlyNodeTable)
    copy.__dict__.update(nodes.__dict__, rows=read_only(nodes.rows))
    return copy


def _pod_rows(pods: PodRows) -> PodRows:
    copy = PodRows(pods.view, read_only(pods.index))
    copy.present = read_only(copy.present)
    copy.__class__ = ReadOnlyPodRows
    return copy


def _in_place(cls: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        value.__class__ = cls
        return value

    return convert


_READ_ONLY: Final[Mapping[type, Callable[[Any], Any]]] = {
    PodInfo: _in_place(ReadOnlyPodInfo),
    BoundPod: _in_place(ReadOnlyBoundPod),
    NodeRow: _in_place(ReadOnlyNodeRow),
    NodeTable: _table,
    PodRows: _pod_rows,
    NodeToStatus: ReadOnlyStatuses,
    QueuedPodInfo: ReadOnlyQueued,
    np.ndarray: read_only,
}


def as_read_only(argument: Any) -> Any:
    """Return an argument in a form that a plugin cannot change."""
    convert = _READ_ONLY.get(argument.__class__)
    return argument if convert is None else convert(argument)
