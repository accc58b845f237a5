"""Ranked and rejected nodes of an attempt, read for its explanation.

Owns reading both kinds of results: those with full detail, and those chosen from cached verdicts,
which make it cheap to explain every decision. Only visited rows are reported. Never sorts more rows
than requested, never calls a plugin again, and never decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kubesched.attempt.diagnosis import Diagnosis
from kubesched.attempt.kept.basis import Basis, NominatedRows, packed_total
from kubesched.attempt.request import Detail
from kubesched.attempt.select_host import PackedColumn, heap_order
from kubesched.framework.fast import IncrementalFilter
from kubesched.framework.interface import AllReasons, FilterVerdict
from kubesched.framework.runtime.adapters import ColumnFilter, attributed
from kubesched.framework.status import Status
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.snapshot.node_columns import BoolColumn, IdColumn
from kubesched.snapshot.view import ClusterView, Rows

# Up to this many highest keys are found one by one; for more, sorting is faster.
_ONE_BY_ONE_MAX = 12
# Rows with up to this many statuses are selected by status; with more they are sorted.
_STATUSES_MAX = 8


class RowScores(NamedTuple):
    """The total of one fitting row, and each plugin's weighted score."""

    total: int
    rank: int
    """The number of rows with a higher total, plus one."""
    scores: Mapping[str, int]


class BestRows(NamedTuple):
    """The best rows in order of preference; the chosen one is first."""

    rows: list[int]
    totals: list[int]
    scores: dict[str, list[int]]
    """Each plugin's weighted scores of these rows, in the order of the profile."""
    tied_count: int
    """Number of rows that share the highest total, listed here or not."""


class Group(NamedTuple):
    """The rows with the same status."""

    status: Status
    rows: Rows


class DetailedNodes:
    """Reads the detail of an attempt that kept it."""

    def __init__(self, view: ClusterView, detail: Detail) -> None:
        self._view = view
        self._detail = detail
        self.fit_count = len(detail.feasible)

    def best(self, count: int | None) -> BestRows | None:
        """Return the best rows, all of them if `count` is None; None if nothing was scored."""
        scores, rows = self._detail.scores, self._detail.feasible.rows
        if scores is None or not scores.by_plugin:
            return None
        total, order = scores.total, heap_order(np.arange(1, len(scores.total) + 1))
        if scores.lots is not None:
            order[self._detail.chosen] = -1  # Random selection put it before the heap's root.
        best = np.lexsort((order, -total))[:count]
        return BestRows(
            rows[best].tolist(),
            total[best].tolist(),
            {name: column[best].tolist() for name, column in scores.by_plugin.items()},
            int(np.count_nonzero(total == total[best[0]])),
        )

    def scores_of(self, row: int) -> RowScores | None:
        """Return the scores of one row; None if it does not fit or was not scored."""
        scores, rows = self._detail.scores, self._detail.feasible.rows
        positions = np.flatnonzero(rows == row).tolist()
        if scores is None or not positions:
            return None
        total = scores.total.item(positions[0])
        rank = int((scores.total > total).sum()) + 1
        by_plugin = {name: column.item(positions[0]) for name, column in scores.by_plugin.items()}
        return RowScores(total, rank, by_plugin)

    def groups(self) -> list[Group]:
        return rejected_groups(self._view, self._detail.diagnosis)


class CachedNodes:
    """Reads the verdict cache that a node was chosen from."""

    def __init__(self, view: ClusterView, basis: Basis) -> None:
        self._view = view
        self._basis = basis
        self.fit_count = len(basis.feasible)

    # -- fitting rows ---------------------------------------------------------------------------

    def best(self, count: int | None) -> BestRows | None:
        """Return the best rows, all of them if `count` is None; None if nothing was scored."""
        basis = self._basis
        keys = basis.keys
        if keys is None or self.fit_count == 1:
            return None
        limit = self.fit_count if count is None else min(count, self.fit_count)
        places = _highest(keys, limit)
        positions = basis.feasible.positions.take(places)
        scores = self._scores_at(places, positions)
        if not scores:
            return None
        lowest = packed_total(keys.item(places.item(0)))
        return BestRows(
            basis.kept.rows_at(positions).tolist(),
            list(map(sum, zip(*scores.values(), strict=True))),
            scores,
            int(np.count_nonzero(keys >= lowest)),
        )

    def _scores_at(self, places: Rows, positions: Rows) -> dict[str, list[int]]:
        """Return the weighted scores at some places by plugin, in the order of the profile."""
        basis, count = self._basis, len(places)
        by_plugin: dict[str, list[int]] = {}
        for score in basis.kept.scores:
            if score.constant is not None:
                by_plugin[score.plugin.name] = [score.constant] * count
        for score, column in basis.kept.plain_at(self._view, positions):
            raw, weight = column.tolist(), score.weight
            weighted = raw if weight == 1 else [weight * points for points in raw]
            by_plugin[score.plugin.name] = weighted
        for score, normalized in basis.feasible.normalized:
            by_plugin[score.plugin.name] = normalized.take(places).tolist()
        for name, uncached in basis.uncached_scores.items():
            by_plugin[name] = uncached.take(places).tolist()
        return {p.name: by_plugin[p.name] for p in basis.layout.scores if p.name in by_plugin}

    # -- rejected rows --------------------------------------------------------------------------

    def groups(self) -> list[Group]:
        """Return the rejected rows by status, each row under its first rejection."""
        kept, feasible = self._basis.kept, self._basis.feasible
        nominated = kept.nominated
        rejected_count = feasible.visited_count - self.fit_count
        if rejected_count == 0:
            return []
        if not kept.usage_rejection_count and feasible.narrowed is None:
            # Every rejection is one that several kept verdicts share.
            return self._by_fixed()
        places = self._rejected()
        if nominated is None or not len(nominated.rows):
            return self._in_order(places)
        slots = np.searchsorted(nominated.positions, places)
        slots[slots == len(nominated.positions)] = 0
        among: BoolColumn = nominated.positions[slots] == places
        groups: list[Group] = []
        fitting = self._take_in_order(groups, places[among], nominated)
        return _merged(groups + self._in_order(np.concatenate((places[~among], fitting))))

    def _by_fixed(self) -> list[Group]:
        """Return the rejections of kept verdicts that have only fixed ones."""
        kept, count = self._basis.kept, self._basis.feasible.visited_count

        def make() -> tuple[list[Group], Verdicts]:
            places = kept.rejections.nonzero()[0]
            groups, verdicts = self._in_order(places), Verdicts(len(kept.rows))
            for status, rows in groups:
                verdicts.ids[np.searchsorted(kept.rows, rows)] = verdicts.id_for(status)
            return groups, verdicts

        groups, verdicts = kept.fixed.derived("rejections", make)
        if count == len(kept.rows):
            return groups
        visited = self._basis.visited_positions(self._view)
        ids = verdicts.ids.take(visited)
        rejected = ids.nonzero()[0]
        rows = kept.rows_at(visited.take(rejected))
        return _by_status(rows, ids.take(rejected), verdicts.statuses)

    def _rejected(self) -> Rows:
        """Return the visited positions that do not fit."""
        kept, feasible = self._basis.kept, self._basis.feasible
        narrowed = feasible.narrowed
        if feasible.visited_count == len(kept.rows):
            return (kept.rejections if narrowed is None else ~narrowed).nonzero()[0]
        visited = self._basis.visited_positions(self._view)
        if narrowed is None:
            return visited[kept.rejections.take(visited) != 0]
        return visited[~narrowed.take(visited)]

    def _in_order(self, places: Rows) -> list[Group]:
        """Return the rejections at some positions."""
        groups: list[Group] = []
        places = self._take_in_order(groups, places)
        if self._basis.one_by_one is not None:
            self._take_rejections(groups, places, self._basis.one_by_one, places)
        return groups

    def _take_in_order(
        self, groups: list[Group], places: Rows, nominated: NominatedRows | None = None
    ) -> Rows:
        """Move rejected positions into groups, in the order of the filters; return the others.

        Args:
            groups: receives the rejections.
            places: the positions; with `nominated`, only positions of nominated rows.
            nominated: rejections with the nominated pods added count if given.
        """
        basis = self._basis
        kept = {local.plugin.name: local.verdicts for local in basis.kept.filters}
        supposed: dict[str, Verdicts] = {}
        if nominated is not None:
            supposed = {**nominated.verdicts, **basis.uncached_on_nominated}
        for plugin in basis.layout.filters:
            if not len(places):
                break
            name = plugin.name
            if nominated is not None and name in supposed:
                slots = np.searchsorted(nominated.positions, places)
                places = self._take_rejections(groups, places, supposed[name], slots)
            elif name in basis.uncached_verdicts:
                places = self._take_uncached_rejections(
                    groups, places, plugin, basis.uncached_verdicts[name]
                )
            elif name in kept:
                places = self._take_rejections(groups, places, kept[name], places)
        return places

    def _take_uncached_rejections(
        self,
        groups: list[Group],
        places: Rows,
        plugin: ColumnFilter,
        uncached: FilterVerdict | IncrementalFilter,
    ) -> Rows:
        """Move positions that a filter rejects in this attempt into groups; return the others."""
        if isinstance(uncached, AllReasons):
            verdicts = Verdicts(len(self._basis.kept.rows))
            plugin.apply(uncached, verdicts)
            return self._take_rejections(groups, places, verdicts, places)
        for verdict in uncached:
            rejected = verdict.mask.take(places)
            if rejected.any():
                status = attributed(plugin.name, verdict.status)
                groups.append(Group(status, self._basis.kept.rows_at(places[rejected])))
                places = places[~rejected]
        return places

    def _take_rejections(
        self, groups: list[Group], places: Rows, verdicts: Verdicts, where: Rows
    ) -> Rows:
        """Move rejected positions into groups; return the others.

        Args:
            groups: receives the rejections.
            places: the positions.
            verdicts: the verdicts of one filter.
            where: the index of each position in the verdicts.
        """
        if len(verdicts.statuses) == 1:
            return places  # The filter has rejected nothing yet.
        ids = verdicts.ids.take(where)
        count = np.count_nonzero(ids)
        if not count:
            return places
        if count == len(places):
            groups += _by_status(self._basis.kept.rows_at(places), ids, verdicts.statuses)
            return places[:0]
        rejected = ids.nonzero()[0]
        rows = self._basis.kept.rows_at(places.take(rejected))
        groups += _by_status(rows, ids.take(rejected), verdicts.statuses)
        return places[ids == FITS]


def rejected_groups(view: ClusterView, diagnosis: Diagnosis) -> list[Group]:
    """Return the rejected rows by status, rows excluded by PreFilter included."""
    statuses = diagnosis.node_to_status
    # Reads the internal columns: a lookup by name would build a dictionary of all nodes.
    rows, verdicts, singles = statuses._rows, statuses._verdicts, statuses._singles  # noqa: SLF001
    if diagnosis.by_extender:
        singles = {**singles, **diagnosis.by_extender}
    groups = _by_status(rows, verdicts.ids, verdicts.statuses)
    if diagnosis.candidates is not None:
        others = np.zeros(view.row_count, dtype=np.bool_)
        others[view.whole().rows] = True
        others[diagnosis.candidates] = False
        others[list(singles)] = False
        if others.any():
            groups.append(Group(statuses.absent, others.nonzero()[0]))
    if singles:
        groups += [Group(status, np.array([row])) for row, status in singles.items()]
        return _merged(groups)
    return groups


def _by_status(rows: Rows, ids: IdColumn, statuses: Sequence[Status]) -> list[Group]:
    if len(statuses) == 2:
        return [Group(statuses[1], rows)] if len(rows) else []
    counts = np.bincount(ids, minlength=len(statuses))
    used: list[int] = counts.nonzero()[0].tolist()
    if len(used) <= _STATUSES_MAX:
        return [Group(statuses[status_id], rows[ids == status_id]) for status_id in used]
    parts = np.split(rows[np.argsort(ids, kind="stable")], np.cumsum(counts))
    return [Group(statuses[status_id], parts[status_id]) for status_id in used]


def _merged(groups: Iterable[Group]) -> list[Group]:
    """Return one group for each status; nominated nodes may yield two."""
    by_status: dict[Status, list[Rows]] = {}
    for status, rows in groups:
        by_status.setdefault(status, []).append(rows)
    return [
        Group(status, parts[0] if len(parts) == 1 else np.concatenate(parts))
        for status, parts in by_status.items()
    ]


def _highest(keys: PackedColumn, count: int) -> Rows:
    """Return the places of the highest keys, the highest first; all keys are different."""
    if count > _ONE_BY_ONE_MAX:
        return keys.argsort()[::-1][:count]
    keys, places, lowest = keys.copy(), [], np.iinfo(keys.dtype).min
    for _ in range(count):
        place = int(keys.argmax())
        places.append(place)
        keys[place] = lowest
    return np.array(places, dtype=np.int64)
