"""Kept verdicts: what local plugins said of every row, for all pods of one template.

Owns the columns of one template and their refreshing. A plugin is local to a pod if it declares
what it reads (`reads`); its verdicts and raw scores are then true until something it reads has
changed, and only changed rows are asked about again. All other plugins are asked in every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.adapt import ColumnFilter, ColumnScore, as_scores, guarded
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX, NODE_SCORE_MIN, Reads
from kubesched.framework.status import SKIP, Status
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.model.pod_info import PodInfo

# Up to so many rows are judged by integers; more are cheaper as columns.
ROWS_BY_INTEGERS_MAX = 12


ColumnT = TypeVar("ColumnT")


class NotLocalError(Exception):
    """The attempt is not one that kept verdicts can answer; the ordinary way must be gone."""


@dataclass(slots=True)
class LocalFilter:
    """One filter's verdict on every row."""

    plugin: ColumnFilter
    reads: Reads
    verdicts: Verdicts


@dataclass(slots=True)
class LocalScore:
    """One plugin's raw score of every row, and what it adds to the totals."""

    plugin: ColumnScore
    reads: Reads
    weight: int
    raw: NDArray[Any]
    constant: int | None = None
    """What it adds to every node, where that is the same for any choice of nodes."""


class Plan:
    """The kept columns of one template, in the order of the view's whole table."""

    def __init__(self, parts: PlanParts, view: ClusterView, pod: PodInfo) -> None:
        self._parts = parts
        self.pod = pod
        self.seen = view.stamp
        self.node_epoch = view.node_epoch
        nodes = view.whole()
        self.rows: Rows = nodes.rows
        self._is_whole = len(self.rows) == view.row_count
        self.state = CycleState()
        self.reads: dict[str, Reads | None] = {}
        # Before anything else: a pod that is refused or sent to named nodes has no plan.
        self.skipped_filters = self._keep_pre_filters(nodes)
        for name in parts.names:
            self._reads_of(name)
        self.stores = sorted({s for r in self.reads.values() if r for s in r.objects})
        self.epochs = self._store_epochs(view)
        self.filters = self._keep_filters(nodes)
        self.skipped_scores = self._keep_pre_scores(nodes)
        self.scores = self._keep_scores(nodes)
        self.refusals: NDArray[np.int8] = np.zeros(len(nodes), dtype=np.int8)
        for kept in self.filters:
            if len(kept.verdicts.statuses) > 1:
                self.refusals += kept.verdicts.ids != FITS
        self.plain_sum: IntColumn = np.zeros(len(nodes), dtype=np.int64)
        for score in self.scores:
            if score.plugin.normalize is None:
                self.plain_sum += np.multiply(score.raw, score.weight, dtype=np.int64)
        self.version = 0
        """Moves when a row begins or ceases to fit, or when a score relative to others changes."""
        self.ranking: Any = None
        """Kept here for whoever ranks the rows."""
        self.promised: Any = None
        """Kept here for whoever supposes pods on rows they were promised."""
        live = {name for name, reads in self.reads.items() if reads is None}
        self.live_pre_filters = [p for p in parts.pre_filters if p.name in live]
        self.live_filters = [p for p in parts.filters if p.name in live]
        self.live_pre_scores = [p for p in parts.pre_scores if p.name in live]
        self.live_scores = [p for p in parts.scores if p.name in live]
        self._skipping: dict[tuple[str, tuple[str, ...]], frozenset[str]] = {}

    # -- building -----------------------------------------------------------------------------

    def _reads_of(self, name: str) -> Reads | None:
        if name not in self.reads:
            self.reads[name] = self._parts.reads_of(name, self.pod)
        return self.reads[name]

    def _keep_pre_filters(self, nodes: NodeTable) -> set[str]:
        skipped = set()
        for plugin in self._parts.pre_filters:
            if self._reads_of(plugin.name) is None:
                continue
            result = guarded(plugin.pre_filter, self.state, self.pod, nodes)
            if result is SKIP:
                skipped.add(plugin.name)
            elif result is not None:
                # Whatever it says of the pod as a whole is said in the ordinary way.
                raise NotLocalError
        return skipped

    def _keep_filters(self, nodes: NodeTable) -> list[LocalFilter]:
        kept = []
        for plugin in self._parts.filters:
            reads = self.reads[plugin.name]
            if reads is not None and plugin.name not in self.skipped_filters:
                kept.append(LocalFilter(plugin, reads, self._verdicts(plugin, reads, nodes)))
        return kept

    def _verdicts(self, plugin: ColumnFilter, reads: Reads, nodes: NodeTable) -> Verdicts:
        def judge() -> Verdicts:
            verdicts = Verdicts(len(nodes))
            plugin.judge(self.state, self.pod, nodes, verdicts)
            if verdicts.first_error() is not None:
                raise NotLocalError
            return verdicts

        return self._parts.shared.column(
            "filter", plugin.name, self._fragment(plugin, reads), judge
        )

    def _keep_pre_scores(self, nodes: NodeTable) -> set[str]:
        skipped = set()
        for plugin in self._parts.pre_scores:
            if self.reads[plugin.name] is None:
                continue
            status = guarded(plugin.pre_score, self.state, self.pod, nodes)
            if status is SKIP:
                skipped.add(plugin.name)
            elif status is not None:
                raise NotLocalError
        return skipped

    def _keep_scores(self, nodes: NodeTable) -> list[LocalScore]:
        kept = []
        for plugin in self._parts.scores:
            reads = self.reads[plugin.name]
            if reads is not None and plugin.name not in self.skipped_scores:
                weight = self._parts.weights[plugin.name]
                raw, constant = self._raw(plugin, reads, nodes)
                kept.append(LocalScore(plugin, reads, weight, raw, constant))
        return kept

    def _raw(
        self, plugin: ColumnScore, reads: Reads, nodes: NodeTable
    ) -> tuple[NDArray[Any], int | None]:
        """Return the raw scores, and what they add where that is the same everywhere."""

        def score() -> tuple[NDArray[Any], int | None]:
            raw = plugin.score(self.state, self.pod, nodes)
            if isinstance(raw, Status):
                raise NotLocalError
            if plugin.normalize is None:
                _check_range(raw)
                return raw.astype(np.int8), None  # Plans are many, and the range is small.
            equal = plugin.keeps_equals_equal and not reads.usage and len(raw) > 0
            if not equal or raw.max() != raw.min():
                return np.array(raw), None
            weight = self._parts.weights[plugin.name]
            return np.array(raw), self._normalize(plugin, weight, raw[:1]).item(0)

        return self._parts.shared.column("score", plugin.name, self._fragment(plugin, reads), score)

    def _fragment(self, plugin: ColumnFilter | ColumnScore, reads: Reads) -> Hashable | None:
        """Return what plans may share a column by: it must not change with usage."""
        if reads.usage or plugin.fragment is None:
            return None
        epochs = dict(zip(self.stores, self.epochs, strict=True))
        read = tuple((store, epochs[store]) for store in reads.objects)
        return (self.node_epoch, read, plugin.fragment(self.pod))

    def _store_epochs(self, view: ClusterView) -> list[int]:
        if not self.stores:
            return []
        return [getattr(view.objects, store).epoch for store in self.stores]

    # -- keeping current ------------------------------------------------------------------------

    def follow(self, view: ClusterView) -> Sequence[int] | None:
        """Bring the columns up to date; return the changed positions, None if that cannot be."""
        if view.node_epoch != self.node_epoch or self._store_epochs(view) != self.epochs:
            return None
        changes = view.changes_since(self.seen)
        if changes is None:
            return None
        if not changes:
            return ()
        seen, self.seen = self.seen, view.stamp
        if len(changes) > ROWS_BY_INTEGERS_MAX:
            changed = view.rows_changed_since(seen)
            rows = changed[changed < len(self.rows)] if self._is_whole else changed
            positions = self._positions(rows)
            self._judge_rows(view, self.rows[positions], positions)
            return positions.tolist()
        few = list({change.row: None for change in changes})
        places = few if self._is_whole else self._positions(np.array(few)).tolist()
        # A row may be that of a node which is unknown, and only has pods.
        known = [place for place in places if place < len(self.rows)]
        for place in known:
            self._judge_row(view, self.rows.item(place), place)
        return known

    def _positions(self, rows: Rows) -> Rows:
        """Return where rows stand in the plan's columns, leaving out those that do not."""
        if self._is_whole:
            return rows
        places = np.searchsorted(self.rows, rows)
        known = places < len(self.rows)
        known[known] = self.rows[places[known]] == rows[known]
        return places[known]

    def rows_at(self, positions: Rows) -> Rows:
        """Return the rows at some positions."""
        return positions if self._is_whole else self.rows.take(positions)

    def _judge_row(self, view: ClusterView, row: int, position: int) -> None:
        node = view.row(row)
        for kept in self.filters:
            if kept.reads.usage:
                status = kept.plugin.judge_row(self.state, self.pod, node)
                if status is not None and not status.is_rejected:
                    raise NotLocalError
                new = FITS if status is None else kept.verdicts.id_for(status)
                self._set_verdict(kept, position, new)
        for score in self.scores:
            if score.reads.usage:
                value = score.plugin.score_row(self.state, self.pod, node)
                if isinstance(value, Status):
                    raise NotLocalError
                if score.plugin.normalize is None:
                    if not NODE_SCORE_MIN <= value <= NODE_SCORE_MAX:
                        raise NotLocalError
                    self.plain_sum[position] += score.weight * (value - score.raw.item(position))
                elif value != score.raw.item(position):
                    self.version += 1
                score.raw[position] = value

    def _set_verdict(self, kept: LocalFilter, position: int, new: int) -> None:
        ids = kept.verdicts.ids
        old = ids.item(position)
        if old == new:
            return
        ids[position] = new
        if (old == FITS) != (new == FITS):
            self.refusals[position] += 1 if old == FITS else -1
            self.version += 1

    def _judge_rows(self, view: ClusterView, rows: Rows, positions: Rows) -> None:
        nodes = view.nodes_at(rows)
        for kept in self.filters:
            if kept.reads.usage:
                part = Verdicts(len(rows))
                kept.plugin.judge(self.state, self.pod, nodes, part)
                self._set_verdicts(kept, positions, part)
        for score in self.scores:
            if score.reads.usage:
                values = score.plugin.score(self.state, self.pod, nodes)
                if isinstance(values, Status):
                    raise NotLocalError
                if score.plugin.normalize is None:
                    _check_range(values)
                    self.plain_sum[positions] += score.weight * (values - score.raw[positions])
                elif (values != score.raw[positions]).any():
                    self.version += 1
                score.raw[positions] = values

    def _set_verdicts(self, kept: LocalFilter, positions: Rows, part: Verdicts) -> None:
        if part.first_error() is not None:
            raise NotLocalError
        old = kept.verdicts.ids[positions] != FITS
        kept.verdicts.ids[positions] = FITS
        kept.verdicts.override(positions, part)
        new = part.ids != FITS
        if (old != new).any():
            self.refusals[positions] += new.astype(np.int8) - old.astype(np.int8)
            self.version += 1

    # -- reading --------------------------------------------------------------------------------

    def skipping(self, point: str, live: tuple[str, ...]) -> frozenset[str]:
        """Return who is left out of an attempt's filters or scores.

        Args:
            point: `filter` or `score`.
            live: those among the plugins asked anew that said so.
        """
        key = (point, live)
        found = self._skipping.get(key)
        if found is None:
            kept = self.skipped_filters if point == "filter" else self.skipped_scores
            found = self._skipping[key] = frozenset((*kept, *live))
        return found

    @property
    def fits(self) -> BoolColumn:
        """Return which rows no local filter refuses."""
        fits: BoolColumn = self.refusals == 0
        return fits

    def normalized(self, fits: BoolColumn) -> list[tuple[LocalScore, IntColumn | int]]:
        """Return what normalising plugins add to the rows that fit: a column, or one number."""
        return [
            (score, self._normalized(score, fits))
            for score in self.scores
            if score.plugin.normalize is not None
        ]

    def _normalized(self, score: LocalScore, fits: BoolColumn) -> IntColumn | int:
        if score.constant is not None:
            return score.constant
        raw = score.raw
        column = np.zeros(len(raw), dtype=np.int64)
        column[fits] = self._normalize(score.plugin, score.weight, raw[fits])
        return column

    def _normalize(self, plugin: ColumnScore, weight: int, raw: IntColumn) -> IntColumn:
        assert plugin.normalize is not None
        result = as_scores(guarded(plugin.normalize, self.state, self.pod, raw), len(raw))
        if isinstance(result, Status):
            raise NotLocalError
        _check_range(result)
        return result * weight

    def shared_by_nodes(self, what: str, make: Callable[[], ColumnT]) -> ColumnT:
        """Return what depends on the nodes alone, and so is the same for every plan."""
        return self._parts.shared.column("nodes", what, self.node_epoch, make)


class SharedColumns:
    """Columns that do not depend on usage, by what of the pod they depend on."""

    COUNT_MAX = 512

    def __init__(self) -> None:
        self._columns: dict[Hashable, Any] = {}

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
    scores: Sequence[ColumnScore]
    weights: Mapping[str, int]
    shared: SharedColumns = field(default_factory=SharedColumns)

    names: Sequence[str] = ()
    """The plugins that filter or score."""
    declarations: Mapping[str, Any] = field(default_factory=dict)
    """Their `reads` methods; None for those that have none."""

    def reads_of(self, name: str, pod: PodInfo) -> Reads | None:
        """Return what a plugin reads for a pod, None if it is to be asked in every attempt."""
        declare = self.declarations[name]
        if declare is None:
            return None
        found = guarded(declare, pod)
        return found if isinstance(found, Reads) else None


def _check_range(scores: IntColumn) -> None:
    # A plugin that leaves the range fails the attempt, in the words of the ordinary way.
    # Seen as unsigned, a negative score is a very large one.
    if len(scores) and scores.view(np.uint64).max() > NODE_SCORE_MAX:
        raise NotLocalError
