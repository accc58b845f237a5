"""Kept verdicts: what local plugins said of every row, for all pods of one template.

Owns the columns of one template and their refreshing. A plugin is local to a pod if it declares
what it reads (`reads`); its verdicts and raw scores are then true until something it reads has
changed, and only changed rows are asked about again. All other plugins are asked in every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.change_log import Change
from kubesched.columns.node_columns import BoolColumn, IntColumn, NodeCells, NodeLines
from kubesched.columns.view import ClusterView, NodeRow, NodeTable, Rows
from kubesched.framework.adapt import ColumnFilter, ColumnScore, as_scores, guarded
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import NODE_SCORE_MAX, NODE_SCORE_MIN, Reads
from kubesched.framework.kept_columns import Fixed, LocalFilter, LocalScore, PlanParts
from kubesched.framework.plan_frame import Family, Frame, NotLocalError
from kubesched.framework.status import Status
from kubesched.framework.totals import ORDER_BITS, RaisedColumn, raise_all
from kubesched.framework.verdicts import FITS, NodeToStatus, Verdicts
from kubesched.model.pod_info import PodInfo

# Up to so many rows are judged by integers; more are cheaper as columns.
ROWS_BY_INTEGERS_MAX = 8
_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


ColumnT = TypeVar("ColumnT")


# Plain tuples: those with names take several times as long to take apart.
_RowFilter: TypeAlias = (
    "tuple[_CellsRule, Callable[[CycleState, PodInfo, NodeRow], Status | None], Verdicts]"
)
"""What tells by numbers that a row is certainly not refused; who is asked if it might be; verdicts.
"""
_RowScore: TypeAlias = (
    "tuple[_CellsRule, Callable[[CycleState, PodInfo, NodeRow], int | Status], "
    "NDArray[Any] | None, int, bool]"
)
"""What scores a row by numbers, where none is large; who is asked if one is; the scores if
they are kept, their weight, and whether they are not normalised."""
_CellsRule: TypeAlias = "Callable[[NodeCells], Any] | None"


class Plan:
    """The kept columns of one template, in the order of the view's whole table."""

    counted_bytes = 0
    """Kept here for whoever counts how much memory plans take."""
    refused: tuple[Hashable, NodeToStatus] | None = None
    """Kept here for whoever tells why no row fits: the verdicts, and when they were true."""
    followers: Any = None
    """Kept here for whoever asks plugins anew."""

    def __init__(self, parts: PlanParts, view: ClusterView, pod: PodInfo) -> None:
        self._parts = parts
        self.pod = pod
        self.seen, self.node_epoch = view.stamp, view.node_epoch
        nodes = view.whole()
        self.rows: Rows = nodes.rows
        self._is_whole = len(self.rows) == view.row_count
        # Before anything else: a pod that is refused or sent to named nodes has no plan.
        self.frame, self.state = self._framed(nodes)
        frame = self.frame
        self.is_all_kept = frame.is_all_kept
        self.live_pre_filters, self.live_filters = frame.live_pre_filters, frame.live_filters
        self.live_pre_scores, self.live_scores = frame.live_pre_scores, frame.live_scores
        self.skipping = frame.skipping
        self.stores = frame.stores
        self.epochs = self._store_epochs(view)
        self._objects_seen = view.objects.change_count
        self._term_count = len(view.term_sets)
        self.fixed = self._fixed(nodes)
        self.version = 0
        """Moves when a row begins or ceases to fit, or when a score relative to others changes."""
        self.refusals: NDArray[np.int8] = self.fixed.refusals.copy()
        """By how many filters each row is refused."""
        self.moving_refusal_count = 0
        """How many refusals there are beside the fixed ones."""
        self.raised_sum: RaisedColumn = self.fixed.plain_sum.copy()
        """What plugins that do not normalise give to each row, raised."""
        self._moving_filters: list[LocalFilter] = []
        self._moving_scores: list[LocalScore] = []
        self._judge_all(view, nodes)
        raise_all(self.raised_sum)
        self.filters = self.fixed.filters + self._moving_filters
        self.scores = self.fixed.scores + self._moving_scores
        self.rankings: list[Any] = []
        """Kept here for whoever ranks the rows."""
        self.promised: Any = None
        """Kept here for whoever supposes pods on rows they were promised."""

    # -- building -----------------------------------------------------------------------------

    def _framed(self, nodes: NodeTable) -> tuple[Frame, CycleState]:
        """Return what plans of such pods have in common, and what plugins wrote for this pod."""
        parts, pod = self._parts, self.pod
        parts.shared.follow(self.node_epoch)
        family: Family = parts.shared.column(
            "family", pod.node_name, pod.shape.family, lambda: Family(parts, pod, nodes)
        )
        return family.frame_of(pod, nodes)

    def _fixed(self, nodes: NodeTable) -> Fixed:
        frame = self.frame
        fixed = frame.fixed
        if fixed is None:
            fixed = self._shared_fixed(frame.still_filters, frame.still_scores, nodes)
            if frame.is_still_by_family:
                frame.fixed = fixed
        return fixed

    def _shared_fixed(
        self,
        still_filters: list[tuple[ColumnFilter, Reads]],
        still_scores: list[tuple[ColumnScore, Reads]],
        nodes: NodeTable,
    ) -> Fixed:
        fragments: dict[str, Hashable | None] = {}
        for plugin, reads in still_filters:
            fragments[plugin.name] = self._fragment(plugin, reads)
        for score, reads in still_scores:
            if score.name not in fragments:
                fragments[score.name] = self._fragment(score, reads)
        shared, weights = self._parts.shared, self._parts.weights

        def make() -> Fixed:
            kept_filters, kept_scores = [], []
            for plugin, reads in still_filters:
                judge = partial(self._verdicts, plugin, nodes)
                verdicts = shared.column("filter", plugin.name, fragments[plugin.name], judge)
                kept_filters.append(LocalFilter(plugin, reads, verdicts))
            for score, reads in still_scores:
                ask = partial(self._raw, score, reads, nodes)
                raw = shared.column("score", score.name, fragments[score.name], ask)
                kept_scores.append(LocalScore(score, reads, weights[score.name], *raw))
            return Fixed(kept_filters, kept_scores, len(nodes), self._parts.width)

        if None in fragments.values():
            return make()
        key = (
            self.node_epoch,
            tuple(fragments.items()),
            tuple(plugin.name for plugin, _ in still_filters),
        )
        return shared.column("fixed", "", key, make)

    def _judge_all(self, view: ClusterView, nodes: NodeTable) -> None:
        """Ask whoever reads what pods take about all rows."""
        frame = self.frame
        try:
            lines = view.lines(None if self._is_whole else self.rows)
            for plugin, reads in frame.moving_filters:
                self._moving_filters.append(self._keep_filter(plugin, reads, nodes, lines))
            for score, reads in frame.moving_scores:
                self._moving_scores.append(self._keep_score(score, reads, nodes, lines))
        except NotLocalError:
            raise
        except Exception as problem:  # The ordinary way asks again, and tells what went wrong.
            raise NotLocalError from problem

    def _keep_filter(
        self, plugin: ColumnFilter, reads: Reads, nodes: NodeTable, lines: NodeLines | None
    ) -> LocalFilter:
        make = plugin.refuses_by_lines
        refuses = None if make is None else make(self.state, self.pod)
        if lines is not None and refuses is not None and not refuses(lines):
            return LocalFilter(plugin, reads, Verdicts(len(nodes)), refuses)
        verdicts = self._verdicts(plugin, nodes)
        if len(verdicts.statuses) > 1:
            self.shift_refusals(slice(None), (verdicts.ids != FITS).view(np.int8))
        return LocalFilter(plugin, reads, verdicts, refuses)

    def _keep_score(
        self, plugin: ColumnScore, reads: Reads, nodes: NodeTable, lines: NodeLines | None
    ) -> LocalScore:
        weight = self._parts.weights[plugin.name]
        if plugin.normalize is not None:
            return LocalScore(plugin, reads, weight, *self._raw(plugin, reads, nodes))
        make = plugin.scores_by_lines
        ask = None if make is None else make(self.state, self.pod)
        raw = self._plain(plugin, nodes) if lines is None or ask is None else ask(lines)
        self.raised_sum += self._weighed(raw, weight)
        # Plans are many: what is quickly told again when somebody asks is not kept.
        kept = raw.astype(np.int8, copy=False) if ask is None else None
        return LocalScore(plugin, reads, weight, kept, None, ask)

    def _plain(self, plugin: ColumnScore, nodes: NodeTable) -> NDArray[np.int8]:
        """Return scores that are not normalised."""
        raw = plugin.narrow_score(self.state, self.pod, nodes)
        if isinstance(raw, Status):
            raise NotLocalError
        _check_range(raw)
        return raw.astype(np.int8)

    def _verdicts(self, plugin: ColumnFilter, nodes: NodeTable) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        plugin.judge(self.state, self.pod, nodes, verdicts)
        if verdicts.first_error() is not None:
            raise NotLocalError
        return verdicts

    def _raw(
        self, plugin: ColumnScore, reads: Reads, nodes: NodeTable
    ) -> tuple[NDArray[Any], int | None]:
        """Return the raw scores, and what they add where that is the same everywhere."""
        if plugin.normalize is None:
            return self._plain(plugin, nodes), None
        raw = plugin.score(self.state, self.pod, nodes)
        if isinstance(raw, Status):
            raise NotLocalError
        equal = plugin.keeps_equals_equal and not reads.usage and len(raw) > 0
        if not equal or raw.max() != raw.min():
            return np.array(raw), None
        weight = self._parts.weights[plugin.name]
        return np.array(raw), self._normalize(plugin, weight, raw[:1]).item(0)

    def _fragment(self, plugin: ColumnFilter | ColumnScore, reads: Reads) -> Hashable | None:
        """Return what plans may share a column by: it must not change with usage."""
        if plugin.fragment is None:
            return None
        read = tuple(self.epochs[self.stores.index(store)] for store in reads.objects)
        return (self.node_epoch, read, plugin.fragment(self.pod))

    def _store_epochs(self, view: ClusterView) -> list[int]:
        return [getattr(view.objects, store).epoch for store in self.stores]

    @cached_property
    def _row_filters(self) -> list[_RowFilter]:
        """Return how single rows are judged; many plans never judge any."""
        return [self._row_filter(kept) for kept in self._moving_filters]

    @cached_property
    def _row_scores(self) -> list[_RowScore]:
        """Return how single rows are scored."""
        return [self._row_score(score) for score in self._moving_scores]

    def _row_filter(self, kept: LocalFilter) -> _RowFilter:
        make = kept.plugin.refuses_by_cells
        refuses = None if make is None else make(self.state, self.pod)
        return refuses, kept.plugin.judge_row, kept.verdicts

    def _row_score(self, kept: LocalScore) -> _RowScore:
        plugin = kept.plugin
        make = plugin.scores_by_cells
        score = None if make is None else make(self.state, self.pod)
        return score, plugin.score_row, kept.raw, kept.weight, plugin.normalize is None

    def release(self) -> None:
        """Let go of what refers back to the plan, so that its memory is free at once."""
        self.rankings.clear()
        self.promised = self.followers = None

    # -- keeping current ------------------------------------------------------------------------

    def follow(self, view: ClusterView) -> Sequence[int] | Rows | None:
        """Bring the columns up to date; return the changed positions, None if that cannot be."""
        if not self._still_holds(view):
            return None
        seen, self.seen = self.seen, view.stamp
        if seen == self.seen:
            return ()
        try:
            if self.seen - seen <= ROWS_BY_INTEGERS_MAX:
                changes = view.changes_since(seen)
                if changes is not None:
                    return self._follow_few(view, changes)
            positions = self._positions(view.rows_changed_since(seen), view.row_count)
            if len(positions):
                self._judge_rows(view, self.rows_at(positions), positions)
        except NotLocalError:
            raise
        except Exception as problem:  # The ordinary way asks again, and tells what went wrong.
            raise NotLocalError from problem
        return positions

    def _follow_few(self, view: ClusterView, changes: Sequence[Change]) -> Sequence[int]:
        few = [changes[0][0]] if len(changes) == 1 else list({one[0]: None for one in changes})
        if not self._is_whole:
            few = self._positions(np.array(few), view.row_count).tolist()
        elif max(few) >= len(self.rows):
            # A row may be that of a node which is unknown, and only has pods.
            few = [place for place in few if place < len(self.rows)]
        for place in few:
            self._judge_row(view, place if self._is_whole else self.rows.item(place), place)
        return few

    def _still_holds(self, view: ClusterView) -> bool:
        """Return whether all that is not of single rows is as it was."""
        if view.node_epoch != self.node_epoch:
            return False
        if self._objects_seen != view.objects.change_count:
            if self.stores and self._store_epochs(view) != self.epochs:
                return False
            self._objects_seen = view.objects.change_count
        if self.frame.by_terms and self._term_count != len(view.term_sets.values):
            if any(self._parts.reads_of(name, self.pod) is None for name in self.frame.by_terms):
                return False
            self._term_count = len(view.term_sets)
        return True

    def _positions(self, rows: Rows, row_count: int) -> Rows:
        """Return where rows stand in the plan's columns, leaving out those that do not.

        Args:
            rows: of the cluster.
            row_count: how many it has now.
        """
        count = len(self.rows)
        if self._is_whole:
            return rows if row_count == count else rows[rows < count]
        places = np.searchsorted(self.rows, rows)
        known = places < count
        known[known] = self.rows[places[known]] == rows[known]
        return places[known]

    def rows_at(self, positions: Rows) -> Rows:
        """Return the rows at some positions."""
        return positions if self._is_whole else self.rows.take(positions)

    def _judge_row(self, view: ClusterView, row: int, position: int) -> None:
        """Judge one row by plain integers."""
        cells, node, state, pod = view.cells(row), None, self.state, self.pod
        for refuses, judge, verdicts in self._row_filters:
            status = None
            if refuses is None or cells is None or refuses(cells):
                node = node or view.row(row)
                status = judge(state, pod, node)
            if status is not None or len(verdicts.statuses) > 1:
                self._set_verdict(verdicts, position, status)
        total = self.fixed.plain_sum.item(position)
        for score, ask, raw, weight, is_plain in self._row_scores:
            if score is not None and cells is not None:
                value = score(cells)
            else:
                node = node or view.row(row)
                value = ask(state, pod, node)
                if isinstance(value, Status):
                    raise NotLocalError
            if not is_plain:
                assert raw is not None, "what is normalised is kept"
                self.version += value != raw.item(position)
            elif NODE_SCORE_MIN <= value <= NODE_SCORE_MAX:
                total += weight * value
            else:
                raise NotLocalError
            if raw is not None:
                raw[position] = value
        self.raised_sum[position] = total << ORDER_BITS

    def _set_verdict(self, verdicts: Verdicts, position: int, status: Status | None) -> None:
        if status is not None and not status.is_rejected:
            raise NotLocalError
        new = FITS if status is None else verdicts.id_for(status)
        old = verdicts.ids.item(position)
        verdicts.ids[position] = new
        if (old == FITS) != (new == FITS):
            by = 1 if old == FITS else -1
            self.refusals[position] += by
            self.moving_refusal_count += by
            self.version += 1

    def shift_refusals(self, positions: Rows | slice, by: NDArray[np.int8]) -> None:
        """Have rows be refused by more filters, or by fewer."""
        self.refusals[positions] += by
        self.moving_refusal_count += int(by.sum())
        self.version += 1

    def _judge_rows(self, view: ClusterView, rows: Rows, positions: Rows) -> None:
        """Judge many rows as a table."""
        lines, nodes = view.lines(rows), None
        for kept in self._moving_filters:
            part, refuses = None, kept.by_lines
            if lines is None or refuses is None or refuses(lines):
                nodes = nodes or view.nodes_at(rows)
                part = Verdicts(len(rows))
                kept.plugin.judge(self.state, self.pod, nodes, part)
            if len(kept.verdicts.statuses) > 1 or (part is not None and len(part.statuses) > 1):
                self._set_verdicts(kept.verdicts, positions, part or Verdicts(len(rows)))
        total: RaisedColumn = self.fixed.plain_sum.take(positions)
        for score in self._moving_scores:
            raw = score.raw
            if lines is not None and score.by_lines is not None:
                values = score.by_lines(lines)
            else:
                nodes = nodes or view.nodes_at(rows)
                values = self._new_values(score, nodes)
            if score.plugin.normalize is None:
                total += self._weighed(values, score.weight)
            elif raw is not None:
                self.version += bool((values != raw[positions]).any())
            if raw is not None:
                raw[positions] = values
        self.raised_sum[positions] = raise_all(total)

    def _weighed(self, scores: NDArray[Any], weight: int) -> NDArray[Any]:
        return scores if weight == 1 else np.multiply(scores, weight, dtype=self._parts.width)

    def _new_values(self, score: LocalScore, nodes: NodeTable) -> NDArray[Any]:
        return self._raw(score.plugin, score.reads, nodes)[0]

    def _set_verdicts(self, verdicts: Verdicts, positions: Rows, part: Verdicts) -> None:
        if part.first_error() is not None:
            raise NotLocalError
        old = verdicts.ids[positions] != FITS
        verdicts.ids[positions] = FITS
        verdicts.override(positions, part)
        new = part.ids != FITS
        if (old != new).any():
            self.shift_refusals(positions, new.view(np.int8) - old.view(np.int8))

    # -- reading --------------------------------------------------------------------------------

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

    def normalized_at(self, positions: Rows) -> Iterator[tuple[LocalScore, IntColumn]]:
        """Yield what normalising plugins add to some rows, if those alone fit.

        Those that add the same to every row are left out.
        """
        for score in self.scores:
            if score.plugin.normalize is not None and score.constant is None:
                assert score.raw is not None, "what is normalised is kept"
                raw = score.raw.take(positions)
                yield score, self._normalize(score.plugin, score.weight, raw)

    def plain_at(
        self, view: ClusterView, positions: Rows
    ) -> Iterator[tuple[LocalScore, NDArray[Any]]]:
        """Yield what plugins that do not normalise give to some rows, not weighed.

        Of a plan that is up to date.
        """
        rows = self.rows_at(positions)
        lines = view.lines(rows)
        for score in self.scores:
            if score.plugin.normalize is not None:
                continue
            if score.raw is not None:
                yield score, score.raw.take(positions)
            elif lines is not None and score.by_lines is not None:
                yield score, score.by_lines(lines)
            else:
                yield score, self._plain(score.plugin, view.nodes_at(rows))

    def _normalized(self, score: LocalScore, fits: BoolColumn) -> IntColumn | int:
        if score.constant is not None:
            return score.constant
        raw = score.raw
        assert raw is not None, "what is normalised is kept"
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


def _check_range(scores: NDArray[Any]) -> None:
    # A plugin that leaves the range fails the attempt, in the words of the ordinary way.
    # Seen as unsigned, a negative score is a very large one.
    if len(scores):
        unsigned = scores.view(_UNSIGNED[scores.itemsize])
        # Looking for the place takes half the time of looking for the value.
        if unsigned.item(unsigned.argmax()) > NODE_SCORE_MAX:
            raise NotLocalError
