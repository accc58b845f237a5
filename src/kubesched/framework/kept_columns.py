"""What plans keep of each plugin, and what several plans keep together.

Owns the columns of one plugin, the sums of those that do not change with usage, and the sharing of
both. Never judges.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import NodeLines, Room
from kubesched.framework.adapt import ColumnFilter, ColumnScore, OneNodeFilter, OneNodeScore
from kubesched.framework.interface import Reads
from kubesched.framework.totals import RaisedColumn
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.model.pod_info import PodInfo

ColumnT = TypeVar("ColumnT")
LinesRule: TypeAlias = "Callable[[NodeLines], Any]"
RoomRule: TypeAlias = "Callable[[Room], Any]"


@dataclass(slots=True)
class LocalFilter:
    """One filter's verdict on every row."""

    plugin: ColumnFilter
    reads: Reads
    verdicts: Verdicts
    by_lines: RoomRule | None = None
    """Tells by their room that certainly none of some rows is refused, if it does."""


@dataclass(slots=True)
class LocalScore:
    """One plugin's raw score of every row, and what it adds to the totals."""

    plugin: ColumnScore
    reads: Reads
    weight: int
    raw: NDArray[Any] | None
    """None where it is not normalised, changes with usage and is cheaply made anew."""
    constant: int | None = None
    """What it adds to every node, where that is the same for any choice of nodes."""
    by_lines: LinesRule | None = None
    """Scores some rows by their numbers, if it does."""


class Fixed:
    """What does not change with usage, added up; shared by the plans for which it is the same."""

    __slots__ = ("_kept", "filters", "plain_sum", "refusals", "scores")

    def __init__(
        self,
        filters: list[LocalFilter],
        scores: list[LocalScore],
        count: int,
        width: np.dtype[Any],
    ) -> None:
        """Add up.

        Args:
            filters: and what they said.
            scores: and what they gave.
            count: how many rows there are.
            width: of totals.
        """
        self.filters = filters
        self.scores = scores
        self.refusals: NDArray[np.int8] = np.zeros(count, dtype=np.int8)
        """By how many filters each row is refused."""
        for kept in filters:
            if len(kept.verdicts.statuses) > 1:
                self.refusals += kept.verdicts.ids != FITS
        self.plain_sum: RaisedColumn = np.zeros(count, dtype=width)
        """What plugins that do not normalise give to each row; not raised yet."""
        for score in scores:
            if score.plugin.normalize is None:
                assert score.raw is not None, "it does not change with usage"
                self.plain_sum += np.multiply(score.raw, score.weight, dtype=width)
        self._kept: dict[Hashable, Any] = {}

    def kept(self, what: Hashable, make: Callable[[], ColumnT]) -> ColumnT:
        """Return what follows from this alone, made once."""
        found: ColumnT | None = self._kept.get(what)
        if found is None:
            found = self._kept[what] = make()
        return found


class SharedColumns:
    """Columns that do not depend on usage, by what of the pod they depend on."""

    COUNT_MAX = 512

    def __init__(self) -> None:
        self._columns: dict[Hashable, Any] = {}
        self._node_epoch = -1

    def follow(self, node_epoch: int) -> None:
        """Forget all columns if some node is another now: each depends on the nodes."""
        if node_epoch != self._node_epoch:
            self._node_epoch = node_epoch
            self._columns.clear()

    def clear(self) -> None:
        """Forget all columns: the next ones are another cluster's."""
        self._columns.clear()

    def column(
        self, point: str, plugin: str, fragment: Hashable | None, make: Callable[[], ColumnT]
    ) -> ColumnT:
        """Return the column of a fragment, made if it is not there; with no fragment always."""
        if fragment is None:
            return make()
        key = (point, plugin, fragment)
        found = self._columns.pop(key, None)
        if found is None:
            found = make()
        self._columns[key] = found  # Most recently used stands last.
        if len(self._columns) > self.COUNT_MAX:
            del self._columns[next(iter(self._columns))]
        shared: ColumnT = found
        return shared


@dataclass(frozen=True, slots=True)
class PlanParts:
    """A profile's plugins as plans see them."""

    pre_filters: Sequence[Any]
    filters: Sequence[ColumnFilter]
    pre_scores: Sequence[Any]
    scores: Sequence[ColumnScore | OneNodeScore]
    weights: Mapping[str, int]
    column_scores: Sequence[ColumnScore] = ()
    """The scores that are given to all nodes at once."""
    one_node_filters: Sequence[OneNodeFilter] = ()
    """They come after all other filters."""
    naming_plugin: Any = None
    """Who knows the `named_node` of a pod, at PreFilter and at Filter; None if nobody does."""
    shared: SharedColumns = field(default_factory=SharedColumns)

    names: Sequence[str] = ()
    """The plugins that filter or score."""
    declarations: Mapping[str, Any] = field(default_factory=dict)
    """Their `reads` methods; None for those that have none, or are asked about one node."""
    width: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.int64))
    """Of totals."""
    same_for_family: frozenset[str] = frozenset()
    """Those that say the same of every pod of a family before they look at rows."""

    def reads_of(self, name: str, pod: PodInfo) -> Reads | None:
        """Return what a plugin reads for a pod, None if it is to be asked in every attempt."""
        return declared_reads(self.declarations[name], pod)


def declared_reads(declare: Callable[[PodInfo], Any] | None, pod: PodInfo) -> Reads | None:
    """Return what a plugin's `reads` method says of a pod; None if it says nothing of use."""
    if declare is None:
        return None
    try:
        found = declare(pod)
    except Exception:  # noqa: BLE001 - asked in every attempt, it fails there and tells why
        return None
    return found if isinstance(found, Reads) else None
