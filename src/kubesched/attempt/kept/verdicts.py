"""The kept verdicts of one pod signature: a column per kept plugin, refreshed row by row.

Owns the columns and their validity. A plugin is kept if it declares what it reads (`reads`); its
verdicts and raw scores then hold until one of these things changes, and only changed rows are
evaluated again. The other plugins run in every attempt (`fast_path`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.attempt.kept.columns import FixedColumns, KeptFilter, KeptScore, Positions
from kubesched.attempt.kept.layout import ProfileLayout, SignatureLayout, UncachedPlugins
from kubesched.attempt.select_host import ORDER_BITS, PackedColumn, pack_all
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.fast import RowRule
from kubesched.framework.interface import NODE_SCORE_MAX, NODE_SCORE_MIN, Reads
from kubesched.framework.runtime.adapters import (
    ColumnFilter,
    ColumnScore,
    as_scores,
    declared_reads,
    guarded,
)
from kubesched.framework.status import Status
from kubesched.framework.verdicts import FITS, Verdicts
from kubesched.snapshot.change_log import Change
from kubesched.snapshot.node_columns import BoolColumn, IntColumn, ResourceMatrix
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeRow, NodeTable, Rows

if TYPE_CHECKING:
    from kubesched.attempt.kept.feasible_set import FeasibleSet
    from kubesched.attempt.kept.nominated_rows import NominatedRows

# Up to this many changes, the changed rows are evaluated by integers; more are cheaper as columns.
CHANGES_BY_INTEGERS_MAX = 8
_UNSIGNED = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}

ChangedPositions: TypeAlias = "Sequence[int] | Positions"

# Plain tuples: unpacking named ones takes several times as long.
_RowFilter: TypeAlias = (
    "tuple[RowRule | None, Callable[[CycleState, PodInfo, NodeRow], Status | None], Verdicts]"
)
"""The quick check of a row, the filter itself, and its verdicts."""
_RowScore: TypeAlias = (
    "tuple[RowRule | None, Callable[[CycleState, PodInfo, NodeRow], int | Status], "
    "NDArray[Any] | None, int, bool]"
)
"""The quick score of a row, the plugin's own, raw scores if kept, weight, whether it is plain."""


class PluginFailedError(Exception):
    """A plugin failed while its columns were computed; the ordinary path reports the failure."""


class Validity:
    """The state of the cluster for which kept verdicts hold."""

    __slots__ = (
        "_change_count",
        "_epochs",
        "_layout",
        "_pod",
        "_term_set_count",
        "node_epoch",
        "stamp",
    )

    def __init__(self, view: ClusterView, layout: SignatureLayout, pod: PodInfo) -> None:
        self._layout = layout
        self._pod = pod
        self.stamp = view.stamp
        """The last change of a row that the verdicts include."""
        self.node_epoch = view.node_epoch
        self._change_count = view.objects.change_count
        self._epochs = self._present_epochs(view)
        self._term_set_count = len(view.term_sets)

    def _present_epochs(self, view: ClusterView) -> list[int]:
        return [getattr(view.objects, store).epoch for store in self._layout.stores]

    def epochs_of(self, reads: Reads) -> tuple[int, ...]:
        """Return the epochs of the objects that a plugin reads."""
        stores = self._layout.stores
        return tuple(self._epochs[stores.index(store)] for store in reads.objects)

    def advance(self, view: ClusterView) -> int:
        """Note that the verdicts include all changes of rows; return the stamp before."""
        before, self.stamp = self.stamp, view.stamp
        return before

    def is_current(self, view: ClusterView) -> bool:
        """Return whether no node has changed, nor any pod on a node."""
        return self.stamp == view.stamp and self.node_epoch == view.node_epoch

    def confirm(self, view: ClusterView) -> bool:
        """Return whether nothing has changed but the usage of single rows.

        Changes that turn out not to matter are remembered, so that they are examined once.
        """
        if self.node_epoch != view.node_epoch:
            return False
        if self._change_count != view.objects.change_count:
            if self._epochs and self._present_epochs(view) != self._epochs:
                return False
            self._change_count = view.objects.change_count
        readers = self._layout.term_readers
        if readers and self._term_set_count != len(view.term_sets):
            if any(declared_reads(reader, self._pod) is None for reader in readers):
                return False
            self._term_set_count = len(view.term_sets)
        return True


class KeptVerdicts:
    """The columns of one signature, in the order of the view's whole table."""

    byte_count = 0
    """As counted by the cache."""
    feasible: FeasibleSet | None = None
    """The feasible rows of the last attempt."""
    nominated: NominatedRows | None = None
    """The rows with nominated pods, evaluated with these pods."""
    uncached: UncachedPlugins | None = None
    """The plugins to run in every attempt, from the second attempt on."""

    @classmethod
    def build(cls, profile: ProfileLayout, view: ClusterView, pod: PodInfo) -> KeptVerdicts | None:
        """Evaluate all rows; None if a plugin rejects the pod as a whole or names nodes.

        Raises:
            PluginFailedError: A plugin failed.
        """
        profile.shared.clear_unless(view.node_epoch)
        nodes = view.whole()
        prepared = profile.prepare(pod, nodes)
        return None if prepared is None else cls(*prepared, view, pod, nodes)

    def __init__(
        self,
        layout: SignatureLayout,
        state: CycleState,
        view: ClusterView,
        pod: PodInfo,
        nodes: NodeTable,
    ) -> None:
        self.layout = layout
        self.state = state
        self.pod = pod
        self.validity = Validity(view, layout, pod)
        self.rows: Rows = nodes.rows
        self._has_all_rows = len(self.rows) == view.row_count
        self._width = layout.profile.width
        self.fixed = self._fixed(nodes)
        self.version = 0
        """Changes if a row starts or ceases to fit, or if a normalized score may have changed."""
        self.rejections: NDArray[np.int8] = self.fixed.rejections.copy()
        """The number of filters that reject each row."""
        self.usage_rejection_count = 0
        """The number of rejections beside the fixed ones."""
        self.totals: PackedColumn = self.fixed.totals.copy()
        """The packed sum of the scores that are not normalized."""
        # While no number is large, the matrix has all that rules need.
        matrix = view.resource_matrix(None if self._has_all_rows else self.rows)
        self._usage_filters = [
            self._keep_filter(plugin, reads, nodes, matrix)
            for plugin, reads in layout.usage_filters
        ]
        self._usage_scores = [
            self._keep_score(plugin, reads, nodes, matrix) for plugin, reads in layout.usage_scores
        ]
        pack_all(self.totals)
        self.filters = self.fixed.filters + self._usage_filters
        self.scores = self.fixed.scores + self._usage_scores
        self._order: tuple[Positions | None] | None = None

    # -- building -----------------------------------------------------------------------------

    def _fixed(self, nodes: NodeTable) -> FixedColumns:
        """Return the columns of plugins that do not read usage, shared where possible."""
        layout, profile = self.layout, self.layout.profile
        shared, weights = profile.shared, profile.weights
        fragments: dict[str, Hashable | None] = {}
        for plugin, reads in layout.fixed_filters:
            fragments[plugin.name] = self._fragment(plugin, reads)
        for score, reads in layout.fixed_scores:
            if score.name not in fragments:
                fragments[score.name] = self._fragment(score, reads)

        def make() -> FixedColumns:
            filters, scores = [], []
            for plugin, reads in layout.fixed_filters:
                evaluate = partial(self._verdicts, plugin, nodes)
                verdicts = shared.column("filter", plugin.name, fragments[plugin.name], evaluate)
                filters.append(KeptFilter(plugin, reads, verdicts))
            for score, reads in layout.fixed_scores:
                compute = partial(self._raw, score, reads, nodes)
                raw = shared.column("score", score.name, fragments[score.name], compute)
                scores.append(KeptScore(score, reads, weights[score.name], *raw))
            return FixedColumns(filters, scores, len(nodes), self._width)

        if None in fragments.values():
            return make()
        names = tuple(plugin.name for plugin, _ in layout.fixed_filters)
        return shared.column("fixed", "", (tuple(fragments.items()), names), make)

    def _fragment(self, plugin: ColumnFilter | ColumnScore, reads: Reads) -> Hashable | None:
        """Return the key under which signatures share a column; None if they do not."""
        if plugin.fragment is None or plugin.name in self.layout.profile.keys.guarded:
            return None
        validity = self.validity
        return (validity.node_epoch, validity.epochs_of(reads), plugin.fragment(self.pod))

    def _keep_filter(
        self, plugin: ColumnFilter, reads: Reads, nodes: NodeTable, matrix: ResourceMatrix | None
    ) -> KeptFilter:
        rule = plugin.any_row_rejected(self.state, self.pod)
        if matrix is not None and rule is not None and not rule(matrix):
            return KeptFilter(plugin, reads, Verdicts(len(nodes)), rule)
        verdicts = self._verdicts(plugin, nodes)
        if len(verdicts.statuses) > 1:
            self.shift_rejections(slice(None), (verdicts.ids != FITS).view(np.int8))
        return KeptFilter(plugin, reads, verdicts, rule)

    def _keep_score(
        self, plugin: ColumnScore, reads: Reads, nodes: NodeTable, matrix: ResourceMatrix | None
    ) -> KeptScore:
        weight = self.layout.profile.weights[plugin.name]
        if plugin.normalize is not None:
            return KeptScore(plugin, reads, weight, *self._raw(plugin, reads, nodes))
        rule = plugin.matrix_score(self.state, self.pod)
        raw = self._plain(plugin, nodes) if matrix is None or rule is None else rule(matrix)
        self.totals += self._weighted(raw, weight)
        kept = raw.astype(np.int8, copy=False) if rule is None else None
        return KeptScore(plugin, reads, weight, kept, None, rule)

    def _plain(self, plugin: ColumnScore, nodes: NodeTable) -> NDArray[np.int8]:
        """Return scores that are not normalized."""
        raw = plugin.compact_score(self.state, self.pod, nodes)
        if isinstance(raw, Status):
            raise PluginFailedError
        _check_range(raw)
        return raw.astype(np.int8)

    def _verdicts(self, plugin: ColumnFilter, nodes: NodeTable) -> Verdicts:
        return verdicts_of(plugin, self.state, self.pod, nodes)

    def _raw(
        self, plugin: ColumnScore, reads: Reads, nodes: NodeTable
    ) -> tuple[NDArray[Any], int | None]:
        """Return the raw scores, and the weighted score if it is the same for all nodes."""
        if plugin.normalize is None:
            return self._plain(plugin, nodes), None
        raw = plugin.score(self.state, self.pod, nodes)
        if isinstance(raw, Status):
            raise PluginFailedError
        may_be_equal = plugin.normalizes_by_scaling and not reads.usage and len(raw) > 0
        if not may_be_equal or raw.max() != raw.min():
            return np.array(raw), None
        weight = self.layout.profile.weights[plugin.name]
        return np.array(raw), self._normalize(plugin, weight, raw[:1]).item(0)

    @cached_property
    def _row_filters(self) -> list[_RowFilter]:
        """Return the rules of single rows; many signatures never need them."""
        state, pod = self.state, self.pod
        return [
            (kept.plugin.row_rejects(state, pod), kept.plugin.judge_row, kept.verdicts)
            for kept in self._usage_filters
        ]

    @cached_property
    def _row_scores(self) -> list[_RowScore]:
        state, pod = self.state, self.pod
        return [
            (
                kept.plugin.row_score(state, pod),
                kept.plugin.score_row,
                kept.raw,
                kept.weight,
                kept.plugin.normalize is None,
            )
            for kept in self._usage_scores
        ]

    def release(self) -> None:
        """Break reference cycles, so that the memory is free at once."""
        self.feasible = self.nominated = self.uncached = None

    # -- refreshing -----------------------------------------------------------------------------

    def refresh(self, view: ClusterView) -> ChangedPositions | None:
        """Bring the columns up to date; return the changed positions, None if none hold any more.

        Raises:
            PluginFailedError: A plugin failed.
        """
        if not self.validity.confirm(view):
            return None
        seen, stamp = self.validity.advance(view), view.stamp
        if seen == stamp:
            return ()
        if stamp - seen <= CHANGES_BY_INTEGERS_MAX:
            changes = view.changes_since(seen)
            if changes is not None:
                return self._refresh_few(view, changes)
        positions = self._positions(view.rows_changed_since(seen), view.row_count)
        if len(positions):
            self._refresh_many(view, self.rows_at(positions), positions)
        return positions

    def _refresh_few(self, view: ClusterView, changes: Sequence[Change]) -> Sequence[int]:
        rows = [changes[0][0]] if len(changes) == 1 else list({row: None for row, *_ in changes})
        positions = rows
        if not self._has_all_rows:
            positions = self._positions(np.array(rows), view.row_count).tolist()
        elif max(rows) >= len(self.rows):
            # The row of an unknown node, which only has pods.
            positions = [row for row in rows if row < len(self.rows)]
        for position in positions:
            self._refresh_row(view, self.row_at(position), position)
        return positions

    def _positions(self, rows: Rows, row_count: int) -> Positions:
        """Return the positions of rows in the columns, without those of unknown nodes.

        Args:
            rows: of the cluster.
            row_count: the number of rows of the cluster now.
        """
        count = len(self.rows)
        if self._has_all_rows:
            return rows if row_count == count else rows[rows < count]
        positions = np.searchsorted(self.rows, rows)
        is_known = positions < count
        is_known[is_known] = self.rows[positions[is_known]] == rows[is_known]
        return positions[is_known]

    def row_at(self, position: int) -> int:
        """Return the row at a position."""
        return position if self._has_all_rows else self.rows.item(position)

    def rows_at(self, positions: Positions) -> Rows:
        """Return the rows at some positions."""
        return positions if self._has_all_rows else self.rows.take(positions)

    def _refresh_row(self, view: ClusterView, row: int, position: int) -> None:
        """Evaluate one row by plain integers."""
        counters, node, state, pod = view.node_counters(row), None, self.state, self.pod
        for rule, judge, verdicts in self._row_filters:
            status = None
            if rule is None or counters is None or rule(counters):
                node = node or view.row(row)
                status = judge(state, pod, node)
            if status is not None or len(verdicts.statuses) > 1:
                self._set_verdict(verdicts, position, status)
        total = self.fixed.totals.item(position)
        for rule, score, raw, weight, is_plain in self._row_scores:
            if rule is not None and counters is not None:
                value = rule(counters)
            else:
                node = node or view.row(row)
                value = score(state, pod, node)
                if isinstance(value, Status):
                    raise PluginFailedError
            if not is_plain:
                assert raw is not None, "raw scores to normalize are kept"
                self.version += value != raw.item(position)
            elif NODE_SCORE_MIN <= value <= NODE_SCORE_MAX:
                total += weight * value
            else:
                raise PluginFailedError
            if raw is not None:
                raw[position] = value
        self.totals[position] = total << ORDER_BITS

    def _set_verdict(self, verdicts: Verdicts, position: int, status: Status | None) -> None:
        if status is not None and not status.is_rejected:
            raise PluginFailedError
        new = FITS if status is None else verdicts.id_for(status)
        old = verdicts.ids.item(position)
        verdicts.ids[position] = new
        if (old == FITS) != (new == FITS):
            by = 1 if old == FITS else -1
            self.rejections[position] += by
            self.usage_rejection_count += by
            self.version += 1

    def shift_rejections(self, positions: Positions | slice, by: NDArray[np.int8]) -> None:
        """Change the number of filters that reject each of some rows."""
        self.rejections[positions] += by
        self.usage_rejection_count += int(by.sum())
        self.version += 1

    def _refresh_many(self, view: ClusterView, rows: Rows, positions: Positions) -> None:
        """Evaluate many rows as a table."""
        matrix, nodes = view.resource_matrix(rows), None
        for kept in self._usage_filters:
            verdicts, rule = None, kept.matrix_rule
            if matrix is None or rule is None or rule(matrix):
                nodes = nodes or view.nodes_at(rows)
                verdicts = self._verdicts(kept.plugin, nodes)
            has_rejected = len(kept.verdicts.statuses) > 1
            if has_rejected or (verdicts is not None and len(verdicts.statuses) > 1):
                self._set_verdicts(kept.verdicts, positions, verdicts or Verdicts(len(rows)))
        total: PackedColumn = self.fixed.totals.take(positions)
        for score in self._usage_scores:
            raw = score.raw
            if matrix is not None and score.matrix_rule is not None:
                values = score.matrix_rule(matrix)
            else:
                nodes = nodes or view.nodes_at(rows)
                values = self._raw(score.plugin, score.reads, nodes)[0]
            if score.plugin.normalize is None:
                total += self._weighted(values, score.weight)
            elif raw is not None:
                self.version += bool((values != raw[positions]).any())
            if raw is not None:
                raw[positions] = values
        self.totals[positions] = pack_all(total)

    def _weighted(self, scores: NDArray[Any], weight: int) -> NDArray[Any]:
        return scores if weight == 1 else np.multiply(scores, weight, dtype=self._width)

    def _set_verdicts(self, verdicts: Verdicts, positions: Positions, new: Verdicts) -> None:
        was_rejected = verdicts.ids[positions] != FITS
        verdicts.ids[positions] = FITS
        verdicts.add_rejections(positions, new)
        is_rejected = new.ids != FITS
        if (was_rejected != is_rejected).any():
            by = is_rejected.view(np.int8) - was_rejected.view(np.int8)
            self.shift_rejections(positions, by)

    # -- reading --------------------------------------------------------------------------------

    def fitting(self) -> BoolColumn:
        """Return which rows no kept filter rejects, as a new column."""
        fits: BoolColumn = self.rejections == 0
        return fits

    def normalized_at(self, positions: Positions) -> list[tuple[KeptScore, IntColumn]]:
        """Return the weighted scores of normalizing plugins, if just these rows are feasible.

        Plugins that score every row the same are left out.
        """
        normalized = []
        for score in self.scores:
            if score.plugin.normalize is not None and score.constant is None:
                assert score.raw is not None, "raw scores to normalize are kept"
                raw = score.raw.take(positions)
                normalized.append((score, self._normalize(score.plugin, score.weight, raw)))
        return normalized

    def plain_at(
        self, view: ClusterView, positions: Positions
    ) -> Iterator[tuple[KeptScore, NDArray[Any]]]:
        """Yield the unweighted scores of plugins that do not normalize; columns are current."""
        rows = self.rows_at(positions)
        matrix = view.resource_matrix(rows)
        for score in self.scores:
            if score.plugin.normalize is not None:
                continue
            if score.raw is not None:
                yield score, score.raw.take(positions)
            elif matrix is not None and score.matrix_rule is not None:
                yield score, score.matrix_rule(matrix)
            else:
                yield score, self._plain(score.plugin, view.nodes_at(rows))

    def _normalize(self, plugin: ColumnScore, weight: int, raw: IntColumn) -> IntColumn:
        assert plugin.normalize is not None
        result = as_scores(guarded(plugin.normalize, self.state, self.pod, raw), len(raw))
        if isinstance(result, Status):
            raise PluginFailedError
        _check_range(result)
        return result * weight

    def visiting_order(self, view: ClusterView) -> Positions | None:
        """Return all positions in visiting order; None if that is their own."""
        if self._order is None:

            def make() -> tuple[Positions | None]:
                order = np.argsort(view.rank()[self.rows], kind="stable")
                return (None if (order[1:] > order[:-1]).all() else order,)

            # It depends on the nodes alone, and is the same for every signature.
            shared, epoch = self.layout.profile.shared, self.validity.node_epoch
            self._order = shared.column("visiting order", "", epoch, make)
        return self._order[0]


def verdicts_of(
    plugin: ColumnFilter, state: CycleState, pod: PodInfo, nodes: NodeTable
) -> Verdicts:
    """Return a filter's verdicts on some nodes.

    Raises:
        PluginFailedError: It failed on one of them.
    """
    verdicts = Verdicts(len(nodes))
    plugin.judge(state, pod, nodes, verdicts)
    if verdicts.first_error() is not None:
        raise PluginFailedError
    return verdicts


def _check_range(scores: NDArray[Any]) -> None:
    # A negative score, taken as unsigned, is a very large one.
    if len(scores):
        unsigned = scores.view(_UNSIGNED[scores.itemsize])
        # Finding the place takes half the time of finding the value.
        if unsigned.item(unsigned.argmax()) > NODE_SCORE_MAX:
            raise PluginFailedError
