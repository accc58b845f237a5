"""What an attempt left behind, read again for an explanation: standings and refusals.

Owns the reading, in both forms an attempt can have: with its detail, or by the columns that a
choice by kept verdicts was made from, which is what makes an explanation of every decision
affordable. Only rows that were looked at are told of. Never orders more rows than are asked for,
never asks a plugin again, and never decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IdColumn
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.diagnosis import Diagnosis
from kubesched.engine.rankings import visited_positions
from kubesched.engine.search import Basis, Detail
from kubesched.engine.selection import heap_order
from kubesched.framework.adapt import ColumnFilter, attributed
from kubesched.framework.followers import FilterFollower
from kubesched.framework.interface import AllReasons, FilterVerdict
from kubesched.framework.promised_rows import PromisedRows
from kubesched.framework.status import Status
from kubesched.framework.totals import ORDER_BITS, RaisedColumn
from kubesched.framework.verdicts import FITS, Verdicts

# So many highest keys are found one after the other; for more, sorting is quicker.
_ONE_BY_ONE_MAX = 12
# Rows of so many statuses are picked out one status at a time; of more they are sorted.
_STATUSES_MAX = 8


class Standing(NamedTuple):
    """One fitting row with its total and each plugin's weighted score."""

    row: int
    total: int
    scores: Mapping[str, int]


class Standings(NamedTuple):
    """The best rows, in the order in which they would be taken: the chosen one is the first."""

    rows: list[int]
    totals: list[int]
    scores: dict[str, list[int]]
    """What each plugin gives these rows, in the order of the profile."""
    tied_count: int
    """How many rows share the highest total, whether they are among these or not."""


class Group(NamedTuple):
    """The rows that got one and the same status."""

    status: Status
    rows: Rows


class Evidence(Protocol):
    """What can be asked about an attempt that found a node."""

    @property
    def fit_count(self) -> int: ...
    def best(self, count: int | None) -> Standings | None: ...
    def groups(self) -> list[Group]: ...


class DetailEvidence:
    """Reads the detail that an attempt was asked to keep."""

    def __init__(self, view: ClusterView, detail: Detail) -> None:
        self._view = view
        self._detail = detail

    @property
    def fit_count(self) -> int:
        """Return how many nodes fit."""
        return len(self._detail.feasible)

    def best(self, count: int | None) -> Standings | None:
        """Return so many of the best rows, all of them for None; None if nothing was scored."""
        scores, rows = self._detail.scores, self._detail.feasible.rows
        if scores is None or not scores.by_plugin:
            return None
        total, order = scores.total, heap_order(np.arange(1, len(scores.total) + 1))
        if scores.lots is not None:
            order[self._detail.chosen] = -1  # Chance put it first, before the root of the heap.
        places = np.lexsort((order, -total))[:count]
        return Standings(
            rows[places].tolist(),
            total[places].tolist(),
            {name: column[places].tolist() for name, column in scores.by_plugin.items()},
            int(np.count_nonzero(total == total[places[0]])),
        )

    def of_row(self, row: int) -> Standing | None:
        """Return how one row stands, None if it does not fit or was not scored."""
        scores, rows = self._detail.scores, self._detail.feasible.rows
        places = np.flatnonzero(rows == row).tolist()
        if scores is None or not places:
            return None
        by_plugin = {name: column.item(places[0]) for name, column in scores.by_plugin.items()}
        return Standing(row, scores.total.item(places[0]), by_plugin)

    def place_of(self, row: int) -> int:
        """Return how many rows have a higher total, plus one."""
        standing, scores = self.of_row(row), self._detail.scores
        if standing is None or scores is None:
            return 1
        return int((scores.total > standing.total).sum()) + 1

    def groups(self) -> list[Group]:
        """Return the refused rows by status."""
        return refused_groups(self._view, self._detail.diagnosis)


class PlanEvidence:
    """Reads the columns that a choice by kept verdicts was made from."""

    def __init__(self, view: ClusterView, basis: Basis) -> None:
        self._view = view
        self._basis = basis
        self.fit_count = len(basis.fitting.rows)

    # -- who fits -------------------------------------------------------------------------------

    def best(self, count: int | None) -> Standings | None:
        """Return so many of the best rows, all of them for None; None if nothing was scored."""
        basis = self._basis
        keys = basis.keys
        if keys is None or self.fit_count == 1:
            return None
        wanted = self.fit_count if count is None else min(count, self.fit_count)
        places = _highest(keys, wanted)
        positions = places if basis.keys_by_position else basis.fitting.positions.take(places)
        scores = self._scores_at(places, positions)
        if not scores:
            return None
        lowest = keys.item(places.item(0)) >> ORDER_BITS << ORDER_BITS
        return Standings(
            basis.plan.rows_at(positions).tolist(),
            list(map(sum, zip(*scores.values(), strict=True))),
            scores,
            int(np.count_nonzero(keys >= lowest)),
        )

    def _scores_at(self, places: Rows, positions: Rows) -> dict[str, list[int]]:
        """Return the weighted scores at some places by plugin, in the order of the profile."""
        basis, fitting, count = self._basis, self._basis.fitting, len(places)
        where = positions if fitting.normalized_by_position else places
        found: dict[str, list[int]] = {}
        for score in basis.plan.scores:
            if score.constant is not None:
                found[score.plugin.name] = [score.constant] * count
        for score, column in basis.plan.plain_at(self._view, positions):
            raw, weight = column.tolist(), score.weight
            found[score.plugin.name] = raw if weight == 1 else [weight * one for one in raw]
        for score, added in fitting.normalized:
            if not isinstance(added, int):
                found[score.plugin.name] = added.take(where).tolist()
        for name, live in basis.live_scores.items():
            found[name] = live.take(places).tolist()
        return {p.name: found[p.name] for p in basis.parts.scores if p.name in found}

    # -- who does not ---------------------------------------------------------------------------

    def groups(self) -> list[Group]:
        """Return the refused rows by status, each row under its first refusal."""
        plan, fitting = self._basis.plan, self._basis.fitting
        promised: PromisedRows | None = plan.promised
        refused_count = fitting.visited_count - self.fit_count
        if refused_count == 0:
            return []
        if not plan.moving_refusal_count and self._basis.narrowed is None:
            # Nobody refuses more than what many plans are refused together.
            return self._by_fixed()
        places = self._refused()
        if promised is None or not len(promised.rows):
            return self._in_order(places)
        slots = np.searchsorted(promised.positions, places)
        slots[slots == len(promised.positions)] = 0
        among: BoolColumn = promised.positions[slots] == places
        groups, left = self._supposing(promised, places[among])
        return _merged(groups + self._in_order(np.concatenate((places[~among], left))))

    def _by_fixed(self) -> list[Group]:
        """Return the refusals of a plan that is refused nothing beside what is fixed."""
        plan, count = self._basis.plan, self._basis.fitting.visited_count

        def make() -> tuple[list[Group], Verdicts]:
            places = plan.refusals.nonzero()[0]
            groups, verdicts = self._in_order(places), Verdicts(len(plan.rows))
            for status, rows in groups:
                verdicts.ids[np.searchsorted(plan.rows, rows)] = verdicts.id_for(status)
            return groups, verdicts

        groups, verdicts = plan.fixed.kept("refusals", make)
        if count == len(plan.rows):
            return groups
        visited = visited_positions(plan, self._view, self._basis.start, count)
        ids = verdicts.ids.take(visited)
        refused = ids.nonzero()[0]
        rows = plan.rows_at(visited.take(refused))
        return _by_status(rows, ids.take(refused), verdicts.statuses)

    def _refused(self) -> Rows:
        """Return the plan's positions that were looked at and do not fit."""
        basis = self._basis
        plan, count = basis.plan, basis.fitting.visited_count
        if count == len(plan.rows):
            return (plan.refusals if basis.narrowed is None else ~basis.narrowed).nonzero()[0]
        visited = visited_positions(plan, self._view, basis.start, count)
        if basis.narrowed is None:
            return visited[plan.refusals.take(visited) != 0]
        return visited[~basis.narrowed.take(visited)]

    def _in_order(self, places: Rows) -> list[Group]:
        """Return the refusals of some positions as they stand."""
        basis = self._basis
        kept = {local.plugin.name: local.verdicts for local in basis.plan.filters}
        groups: list[Group] = []
        for plugin in basis.parts.filters:
            if not len(places):
                break
            name = plugin.name
            if name in basis.said:
                places = self._sort_out_said(groups, places, plugin, basis.said[name])
            elif name in kept:
                places = self._sort_out(groups, places, kept[name], places)
        if basis.one_by_one is not None:
            self._sort_out(groups, places, basis.one_by_one, places)
        return groups

    def _sort_out_said(
        self,
        groups: list[Group],
        places: Rows,
        plugin: ColumnFilter,
        said: FilterVerdict | FilterFollower,
    ) -> Rows:
        """Add the positions to the groups that a filter refuses which was asked anew."""
        if isinstance(said, AllReasons):
            verdicts = Verdicts(len(self._basis.plan.rows))
            plugin.tell(said, verdicts)
            return self._sort_out(groups, places, verdicts, places)
        for rejected in said:
            refused = rejected.mask.take(places)
            if refused.any():
                status = attributed(plugin.name, rejected.status)
                groups.append(Group(status, self._basis.plan.rows_at(places[refused])))
                places = places[~refused]
        return places

    def _supposing(self, promised: PromisedRows, places: Rows) -> tuple[list[Group], Rows]:
        """Return the refusals of promised positions if the pods are there, and who is left."""
        basis = self._basis
        kept = {local.plugin.name: local.verdicts for local in basis.plan.filters}
        supposed = {**promised.verdicts, **basis.live_on_promised}
        groups: list[Group] = []
        for plugin in basis.parts.filters:
            name = plugin.name
            if name in supposed:
                slots = np.searchsorted(promised.positions, places)
                places = self._sort_out(groups, places, supposed[name], slots)
            elif name in basis.said:
                places = self._sort_out_said(groups, places, plugin, basis.said[name])
            elif name in kept:
                places = self._sort_out(groups, places, kept[name], places)
        return groups, places

    def _sort_out(self, groups: list[Group], places: Rows, said: Verdicts, where: Rows) -> Rows:
        """Add the positions that are refused to the groups; return the others.

        Args:
            groups: to be added to.
            places: the positions.
            said: who is refused.
            where: where the positions are in that.
        """
        if len(said.statuses) == 1:
            return places  # It has never refused anything.
        ids = said.ids.take(where)
        count = np.count_nonzero(ids)
        if not count:
            return places
        if count == len(places):
            groups += _by_status(self._basis.plan.rows_at(places), ids, said.statuses)
            return places[:0]
        refused = ids.nonzero()[0]
        rows = self._basis.plan.rows_at(places.take(refused))
        groups += _by_status(rows, ids.take(refused), said.statuses)
        return places[ids == FITS]


def is_current(basis: Basis, view: ClusterView) -> bool:
    """Return whether nothing has changed since the choice was made."""
    plan = basis.plan
    return plan.seen == view.stamp and plan.node_epoch == view.node_epoch


def refused_groups(view: ClusterView, diagnosis: Diagnosis) -> list[Group]:
    """Return the rows that were refused by status, those included that were not worth a look."""
    statuses = diagnosis.node_to_status
    # What the statuses are made of; asking them by name would cost a dictionary of all nodes.
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
        return [Group(statuses[one], rows[ids == one]) for one in used]
    ordered = rows[np.argsort(ids, kind="stable")]
    ends = np.cumsum(counts)
    return [
        Group(statuses[one], ordered[ends.item(one) - counts.item(one) : ends.item(one)])
        for one in used
    ]


def _merged(groups: Iterable[Group]) -> list[Group]:
    """Return one group for each status; a promised node may make two."""
    by_status: dict[Status, list[Rows]] = {}
    for status, rows in groups:
        by_status.setdefault(status, []).append(rows)
    return [
        Group(status, parts[0] if len(parts) == 1 else np.concatenate(parts))
        for status, parts in by_status.items()
    ]


def _highest(keys: RaisedColumn, count: int) -> Rows:
    """Return the places of the highest keys, which are all different, the highest first."""
    if count > _ONE_BY_ONE_MAX:
        return keys.argsort()[::-1][:count]
    keys, places, lowest = keys.copy(), [], np.iinfo(keys.dtype).min
    for _ in range(count):
        place = int(keys.argmax())
        places.append(place)
        keys[place] = lowest
    return np.array(places, dtype=np.int64)
