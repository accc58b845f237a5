"""Columns of single plugins, and those that several signatures share.

Owns the sums over plugins that do not read usage, and the sharing. Never evaluates a node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.attempt.select_host import PackedColumn
from kubesched.framework.fast import MatrixRule, RoomRule
from kubesched.framework.interface import Reads
from kubesched.framework.runtime.adapters import ColumnFilter, ColumnScore
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.snapshot.view import Rows

ColumnT = TypeVar("ColumnT")

Positions: TypeAlias = Rows
"""Indexes into kept columns. `docs/kept-verdicts.md` lists all kinds of indexes."""


@dataclass(slots=True)
class KeptFilter:
    """One filter's verdict on every row."""

    plugin: ColumnFilter
    reads: Reads
    verdicts: Verdicts
    matrix_rule: RoomRule | None = None


@dataclass(slots=True)
class KeptScore:
    """One plugin's raw score of every row."""

    plugin: ColumnScore
    reads: Reads
    weight: int
    raw: NDArray[Any] | None
    """None if `matrix_rule` can compute it again: signatures are many, and memory is slow."""
    constant: int | None = None
    """The weighted score, if normalizing gives every node the same."""
    matrix_rule: MatrixRule | None = None


class FixedColumns:
    """Sums over the plugins that do not read usage, shared by the signatures they are equal for."""

    __slots__ = ("_derived", "filters", "rejections", "scores", "totals")

    def __init__(
        self,
        filters: list[KeptFilter],
        scores: list[KeptScore],
        count: int,
        width: np.dtype[Any],
    ) -> None:
        """Sum the columns of the plugins.

        Args:
            filters: with their verdicts.
            scores: with their raw scores.
            count: the number of rows.
            width: of totals.
        """
        self.filters = filters
        self.scores = scores
        self.rejections: NDArray[np.int8] = np.zeros(count, dtype=np.int8)
        """The number of filters that reject each row."""
        for kept in filters:
            if len(kept.verdicts.statuses) > 1:
                self.rejections += kept.verdicts.ids != FITS
        self.totals: PackedColumn = np.zeros(count, dtype=width)
        """The weighted scores that are not normalized, not packed."""
        for score in scores:
            if score.plugin.normalize is None:
                assert score.raw is not None, "only scores by usage are computed again"
                self.totals += np.multiply(score.raw, score.weight, dtype=width)
        self._derived: dict[Hashable, Any] = {}

    def derived(self, key: Hashable, make: Callable[[], ColumnT]) -> ColumnT:
        """Return a value that depends on these columns alone, computed once."""
        value: ColumnT | None = self._derived.get(key)
        if value is None:
            value = self._derived[key] = make()
        return value


class SharedColumns:
    """Columns that do not depend on usage, by the fragment of the pod they depend on."""

    COUNT_MAX = 512

    def __init__(self) -> None:
        self._columns: dict[Hashable, Any] = {}
        self._node_epoch = -1

    def clear_unless(self, node_epoch: int) -> None:
        """Drop all columns if a node has changed since."""
        if node_epoch != self._node_epoch:
            self._node_epoch = node_epoch
            self._columns.clear()

    def clear(self) -> None:
        """Drop all columns, before those of another cluster."""
        self._columns.clear()

    def column(
        self, point: str, plugin: str, fragment: Hashable | None, make: Callable[[], ColumnT]
    ) -> ColumnT:
        """Return the column of a fragment; without a fragment it is not shared."""
        if fragment is None:
            return make()
        key = (point, plugin, fragment)
        column: ColumnT | None = self._columns.pop(key, None)
        if column is None:
            column = make()
        self._columns[key] = column  # The most recently used is last.
        if len(self._columns) > self.COUNT_MAX:
            del self._columns[next(iter(self._columns))]
        return column
