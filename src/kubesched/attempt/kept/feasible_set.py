"""The feasible rows of an attempt in visiting order, and the best of them.

Owns the keys by which the best row is found, and their refreshing. Never calls a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from kubesched.attempt.kept.columns import Positions
from kubesched.attempt.kept.verdicts import CHANGES_BY_INTEGERS_MAX, KeptVerdicts
from kubesched.attempt.select_host import (
    INFEASIBLE,
    ORDER_BITS,
    PackedColumn,
    as_keys,
    heap_preferences,
    pack_all,
)
from kubesched.framework.fast import GroupedScores, IncrementalFilter
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.view import ClusterView, Rows

# Keys are kept if they are used again after so few changes; computing them costs as much as four.
CHANGES_MAX = 4
ValueT = TypeVar("ValueT")


class Window(msgspec.Struct, frozen=True):
    """How far an attempt looks, and from where."""

    start: int
    """The index in the visiting order at which it starts."""
    wanted: int
    """The number of feasible rows that ends the search."""
    row_count: int

    @property
    def is_complete(self) -> bool:
        """Return whether all rows are visited, whatever fits."""
        return self.wanted >= self.row_count


class FeasibleSet:
    """Feasible rows in visiting order, with a key per row: the highest key is the best row.

    Kept verdicts hold one, which is valid until a row starts or ceases to fit. Where a sample of
    the rows is enough, the start moves with every attempt and none is kept.
    """

    __slots__ = (
        "_added",
        "_groups",
        "_groups_by_position",
        "_is_shared",
        "_keys",
        "_keys_at",
        "_offsets",
        "_start",
        "_verdicts",
        "_version",
        "filtered_by",
        "narrowed",
        "normalized",
        "positions",
        "rows",
        "visited_count",
    )

    def __init__(
        self, verdicts: KeptVerdicts, view: ClusterView, window: Window, narrowed: BoolColumn | None
    ) -> None:
        """Order the rows.

        Args:
            verdicts: of the signature.
            view: of the cluster.
            window: how far to look.
            narrowed: the rows that fit; None for those that no kept filter rejects.
        """
        self._verdicts = verdicts
        self._version = verdicts.version
        self._start = window.start
        self.narrowed = narrowed
        self.filtered_by: tuple[IncrementalFilter, int] | None = None
        """The incremental filter that narrowed the rows, if only one did, and its version."""
        # For most signatures only fixed columns reject rows, and those are shared.
        self._is_shared = (
            narrowed is None and window.is_complete and verdicts.usage_rejection_count == 0
        )

        def visit() -> tuple[Positions, Rows, int]:
            fits = verdicts.fitting() if narrowed is None else narrowed
            positions, visited_count = _visit(verdicts, view, window, fits)
            return positions, verdicts.rows_at(positions), visited_count

        self.positions: Positions
        self.rows: Rows
        self.visited_count: int
        """The number of rows that were visited, feasible or not."""
        self.positions, self.rows, self.visited_count = self._once("feasible rows", visit)
        self.normalized = verdicts.normalized_at(self.positions) if len(self.rows) > 1 else []
        """Weighted scores by place, without those that are the same for all."""
        self._added: PackedColumn | None = None
        """Their packed sum."""
        if self.normalized:
            added = np.zeros(len(self.positions), dtype=verdicts.totals.dtype)
            for _, column in self.normalized:
                added += column.astype(added.dtype)
            self._added = pack_all(added)
        self._keys: PackedColumn | None = None
        """By position."""
        self._keys_at = -1
        """The stamp at which keys were last computed."""
        self._offsets: PackedColumn | None = None
        """By position: what a key has in addition to the total."""
        self._groups: Rows | None = None
        self._groups_by_position: Positions = self.rows[:0]

    def __len__(self) -> int:
        return len(self.rows)

    def is_current(self, start: int) -> bool:
        """Return whether nothing has changed but the totals of single rows."""
        return self._version == self._verdicts.version and self._start == start

    def is_narrowed_to(self, narrowed: BoolColumn | None) -> bool:
        """Return whether these rows are the ones that fit."""
        if self.narrowed is None or narrowed is None:
            return self.narrowed is narrowed
        return self.narrowed.tobytes() == narrowed.tobytes()  # Ten times as fast as columns.

    def best_row(self, more_scores: Collection[GroupedScores] = ()) -> int:
        """Return the row with the highest key.

        Args:
            more_scores: of plugins that are not kept.
        """
        # Offsets and groups by position pay from the second use on.
        is_first = self._keys_at < 0 and not self._is_shared
        if is_first or not all(map(_has_constant_groups, more_scores)):
            self._keys_at = self._verdicts.validity.stamp
            return self.rows.item(self.keys_by_place(more_scores).argmax())
        keys = self._keys
        if keys is None:
            last_stamp, stamp = self._keys_at, self._verdicts.validity.stamp
            self._keys_at = stamp
            keys = self._verdicts.totals + self._current_offsets()
            if stamp - last_stamp <= CHANGES_MAX:
                self._keys = keys
        for scores, groups in more_scores:
            assert groups is not None, "constant groups"
            packed = pack_all(scores.astype(keys.dtype))
            # Every row has a group; skipping the check saves a fifth of the time.
            keys = packed.take(self._by_position(groups), mode="clip") + keys
        return self._verdicts.rows.item(keys.argmax())

    def _by_position(self, groups: Rows) -> Positions:
        """Return the group of every position.

        Other rows get the group of a feasible one: the scores of groups without feasible rows are
        arbitrary, and might lift a key above those of feasible rows.
        """
        if self._groups is not groups:
            self._groups = groups
            self._groups_by_position = np.full_like(self._verdicts.rows, groups.item(0))
            self._groups_by_position[self.positions] = groups
        return self._groups_by_position

    def keys_by_place(self, more_scores: Iterable[GroupedScores] = ()) -> PackedColumn:
        """Return the keys of the feasible rows.

        Args:
            more_scores: of plugins that are not kept.
        """
        keys = as_keys(self._verdicts.totals.take(self.positions))
        if self._added is not None:
            keys += self._added
        for scores, groups in more_scores:
            packed = pack_all(scores.astype(keys.dtype))
            # Every row has a group; skipping the check saves a fifth of the time.
            keys += packed if groups is None else packed.take(groups, mode="clip")
        return keys

    def update(self, positions: Sequence[int] | Positions) -> None:
        """Take over the totals of changed rows, none of which started or ceased to fit."""
        keys = self._keys
        if keys is None:
            return
        if len(positions) > CHANGES_BY_INTEGERS_MAX:
            self._keys = None
            return
        totals, offsets = self._verdicts.totals, self._current_offsets()
        for position in positions:
            keys[position] = totals.item(position) + offsets.item(position)

    def _current_offsets(self) -> PackedColumn:
        if self._offsets is None:
            if self._added is None:
                self._offsets = self._once("offsets", self._make_offsets)
            else:
                self._offsets = self._make_offsets()
        return self._offsets

    def _make_offsets(self) -> PackedColumn:
        width = self._verdicts.totals.dtype
        offsets = np.full(len(self._verdicts.rows), INFEASIBLE[width], dtype=width)
        preferences = heap_preferences(len(self.positions), width)
        offsets[self.positions] = preferences if self._added is None else preferences + self._added
        return offsets

    def _once(self, name: str, make: Callable[[], ValueT]) -> ValueT:
        """Compute something that depends on the rows alone, once for signatures that share them."""
        return (
            self._verdicts.fixed.derived((name, self._start), make) if self._is_shared else make()
        )


def _has_constant_groups(scores: GroupedScores) -> bool:
    return scores.groups is not None and not scores.groups.flags.writeable


def feasible_set(
    verdicts: KeptVerdicts,
    view: ClusterView,
    window: Window,
    narrowed: BoolColumn | None,
    filtered_by: tuple[IncrementalFilter, int] | None = None,
) -> FeasibleSet:
    """Return the rows that fit, the kept set if it has the same rows.

    Args:
        verdicts: of the signature.
        view: of the cluster.
        window: how far to look.
        narrowed: the rows that fit; None for those that no kept filter rejects.
        filtered_by: the incremental filter that narrowed them, with its version.
    """
    previous = verdicts.feasible
    if previous is not None and window.is_complete:
        # Another version of the same filter rejects other rows.
        version_differs = filtered_by is not None and previous.filtered_by is not None
        if not version_differs and previous.is_narrowed_to(narrowed):
            previous.filtered_by = filtered_by
            return previous
    feasible = FeasibleSet(verdicts, view, window, narrowed)
    feasible.filtered_by = filtered_by
    if window.is_complete:
        verdicts.feasible = feasible
    return feasible


def packed_total(key: int) -> int:
    """Return the lowest key of rows with the same total."""
    return key >> ORDER_BITS << ORDER_BITS


def visited_positions(
    verdicts: KeptVerdicts, view: ClusterView, start: int, count: int
) -> Positions:
    """Return the positions of the first `count` rows in visiting order."""
    order = verdicts.visiting_order(view)
    indexes: Rows = np.arange(start, start + count)
    if start + count > len(verdicts.rows):
        indexes[len(verdicts.rows) - start :] -= len(verdicts.rows)
    return indexes if order is None else order.take(indexes)


def in_visiting_order(
    verdicts: KeptVerdicts, view: ClusterView, start: int, fits: BoolColumn
) -> Positions:
    """Return the positions that fit, in visiting order."""
    window = Window(start, len(fits), len(fits))
    return _visit(verdicts, view, window, fits)[0]


def _visit(
    verdicts: KeptVerdicts, view: ClusterView, window: Window, fits: BoolColumn
) -> tuple[Positions, int]:
    """Return the positions that fit in visiting order, and the number of rows visited."""
    order, start, wanted = verdicts.visiting_order(view), window.start, window.wanted
    indexes: Rows = (fits if order is None else fits.take(order)).nonzero()[0]
    if start:
        cut = int(np.searchsorted(indexes, start))
        indexes = np.concatenate((indexes[cut:], indexes[:cut]))
    visited_count = window.row_count
    if len(indexes) >= wanted:
        indexes = indexes[:wanted]
        visited_count = (indexes.item(-1) - start) % window.row_count + 1
    return (indexes if order is None else order.take(indexes)), visited_count
