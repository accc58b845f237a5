"""An attempt by kept verdicts: kept columns for most plugins, the others run as usual.

Owns the entry, and the attempt over the kept verdicts of a signature. Its result equals that of the
ordinary path. It returns None when the ordinary path must run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.attempt.diagnosis import Diagnosis, FitError, SchedulingError
from kubesched.attempt.kept.basis import Basis
from kubesched.attempt.kept.feasible_set import (
    FeasibleSet,
    Window,
    feasible_set,
    in_visiting_order,
    visited_positions,
)
from kubesched.attempt.kept.layout import UncachedPlugins
from kubesched.attempt.kept.nominated_rows import (
    forget_nominated,
    joined_verdicts,
    refresh_nominated,
    uncached_verdicts_on_nominated,
)
from kubesched.attempt.kept.verdict_cache import VerdictCache, cache_of
from kubesched.attempt.kept.verdicts import (
    ChangedPositions,
    KeptVerdicts,
    PluginFailedError,
)
from kubesched.attempt.request import Detail, ScheduleResult, Search, nodes_to_evaluate
from kubesched.attempt.select_host import PackedColumn
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.fast import GroupedScores, IncrementalFilter
from kubesched.framework.interface import AllReasons, FilterVerdict
from kubesched.framework.runtime.adapters import OneNodeFilter, call_plugin
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.score_phase import Scores, normalized_and_weighted
from kubesched.framework.status import SKIP, Code, Status
from kubesched.framework.verdicts import FITS, NodeToStatus, Verdicts
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable, Rows


def schedule_by_kept_verdicts(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult | None:
    """Choose a node by kept verdicts; None if the ordinary path has to be taken.

    Raises:
        FitError: No node fits.
        SchedulingError: A filter for one node failed.
    """
    # A pod that names its node has one candidate, for which columns do not pay.
    if search.extender_count or pod.nominated_node_name or pod.shape.named_node:
        return None
    if view.pods.nominated_of and pod.uid in view.pods.index_of:
        return None  # It is nominated itself.
    cache = cache_of(profile)
    if cache is None:
        return None
    schedule = _schedule if profile.measuring is None else _schedule_measured
    result = schedule(cache, profile, view, state, pod, search)
    if result is None:
        state.clear()
    return result


def _schedule_measured(
    cache: VerdictCache,
    profile: Profile,
    view: ClusterView,
    state: CycleState,
    pod: PodInfo,
    search: Search,
) -> ScheduleResult | None:
    measuring = profile.measuring
    assert measuring is not None, "the caller checks it"
    measuring.begin()
    try:
        result = _schedule(cache, profile, view, state, pod, search)
    except FitError:
        measuring.finish(state, view.node_count, 0)
        raise
    except SchedulingError:
        measuring.fail(state)
        raise
    if result is not None:
        measuring.finish(state, result.evaluated_node_count, result.feasible_node_count)
    return result


def _schedule(
    cache: VerdictCache,
    profile: Profile,
    view: ClusterView,
    state: CycleState,
    pod: PodInfo,
    search: Search,
) -> ScheduleResult | None:
    found = cache.lookup(view, pod)
    if found is None:
        return None
    kept, changed, is_new = found
    count = len(kept.rows)
    start, wanted = 0, count
    if not search.all_nodes:
        start, wanted = search.next_start_index % count, search.want(profile, count)
    window = Window(start, wanted, count)
    if not _update_dependents(kept, view, pod, profile, changed, window):
        return None
    state.adopt(kept.state)
    fast_path = _FastPath(profile, view, state, pod, kept, window)
    try:
        return fast_path.choose(search, is_new=is_new)
    except PluginFailedError:
        kept.uncached = None
        return None


def _update_dependents(
    kept: KeptVerdicts,
    view: ClusterView,
    pod: PodInfo,
    profile: Profile,
    changed: ChangedPositions,
    window: Window,
) -> bool:
    """Update what depends on kept columns; return whether the fast path can be taken.

    Changes are reported once, so all dependents are updated before anything can fail.
    """
    is_possible = True
    if kept.nominated is not None or view.pods.nominated_of:
        try:
            is_possible = refresh_nominated(kept, view, pod, profile.filters, changed)
        except PluginFailedError:
            forget_nominated(kept)
            is_possible = False
    feasible = kept.feasible
    if feasible is not None:
        if not window.is_complete or not feasible.is_current(window.start):
            kept.feasible = None
        else:
            feasible.update(changed)
    return is_possible


class _FastPath:
    """One pod over the kept verdicts of its signature."""

    __slots__ = (
        "_feasible",
        "_incremental",
        "_kept",
        "_masks",
        "_measuring",
        "_nodes",
        "_one_by_one",
        "_pod",
        "_profile",
        "_state",
        "_uncached",
        "_uncached_on_nominated",
        "_uncached_verdicts",
        "_view",
        "_window",
    )
    _feasible: FeasibleSet

    def __init__(
        self,
        profile: Profile,
        view: ClusterView,
        state: CycleState,
        pod: PodInfo,
        kept: KeptVerdicts,
        window: Window,
    ) -> None:
        self._profile = profile
        self._view = view
        self._state = state
        self._pod = pod
        self._kept = kept
        self._window = window
        self._measuring = profile.measuring
        self._nodes: NodeTable | None = None
        self._uncached: UncachedPlugins | None = None
        self._uncached_verdicts: dict[str, FilterVerdict | IncrementalFilter] = {}
        """Verdicts of uncached filters on all rows."""
        self._incremental: list[IncrementalFilter] = []
        """The incremental ones of these filters."""
        self._masks: list[BoolColumn] = []
        """The rows that the others reject."""
        self._uncached_on_nominated: dict[str, Verdicts] = {}
        self._one_by_one: Verdicts | None = None

    def choose(self, search: Search, *, is_new: bool) -> ScheduleResult | None:
        """Return the node of the best row; None if the ordinary path has to be taken.

        Args:
            search: of the attempt.
            is_new: whether the verdicts were built for this attempt.
        """
        kept, view, window = self._kept, self._view, self._window
        if kept.layout.is_all_kept:
            self._feasible = feasible_set(kept, view, window, None)
        else:
            self._uncached = self._uncached_plugins(is_new=is_new)
            if not self._filter():
                return None
        if self._measuring is not None:
            self._measuring.filtered()
        feasible = self._feasible
        count, visited_count = len(feasible.rows), feasible.visited_count
        if count == 0:
            raise FitError(view.node_count, self._diagnosis())
        uncached_scores: dict[str, GroupedScores] = {}
        if (
            count > 1
            and self._uncached is not None
            and not self._score(self._uncached, uncached_scores)
        ):
            return None
        keys: PackedColumn | None = None
        if window.is_complete:
            row = feasible.best_row(uncached_scores.values())
        else:
            keys = feasible.keys_by_place(uncached_scores.values())
            row = feasible.rows.item(keys.argmax())
        search.next_start_index = (window.start + visited_count) % window.row_count
        basis = Basis(
            kept,
            feasible,
            window.start,
            uncached_scores,
            self._uncached_verdicts,
            self._uncached_on_nominated,
            self._one_by_one,
            keys,
        )
        detail = self._detail(uncached_scores, scored=count > 1) if search.detail else None
        return ScheduleResult(view.name_of(row), count, visited_count, detail, basis)

    def _uncached_plugins(self, *, is_new: bool) -> UncachedPlugins:
        kept = self._kept
        # Incremental plugins pay from the second attempt on; measured calls are made one by one.
        if is_new or self._state.plugin_times is not None:
            return UncachedPlugins.called_each(kept.layout)
        if kept.uncached is None:
            try:
                kept.uncached = UncachedPlugins.incremental(kept.layout, kept.pod, self._view)
            except Exception as problem:
                raise PluginFailedError from problem
        return kept.uncached

    def _all_nodes(self) -> NodeTable:
        nodes = self._nodes
        if nodes is None:
            nodes = self._nodes = self._view.whole()
        return nodes

    # -- filtering ------------------------------------------------------------------------------

    def _filter(self) -> bool:
        """Find the feasible rows; return False if the ordinary path must run."""
        kept, view, state = self._kept, self._view, self._state
        assert self._uncached is not None
        if not self._pre_filter(self._uncached):
            return False
        if self._measuring is not None:
            self._measuring.pre_filtered()
        if kept.nominated is not None:
            incremental, filters = self._uncached.incremental_filters, self._profile.filters
            on_nominated = uncached_verdicts_on_nominated(
                kept, view, state, self._pod, filters, incremental
            )
            if on_nominated is None:
                return False
            self._uncached_on_nominated = on_nominated
        if not self._run_filters(self._uncached):
            return False
        if kept.layout.profile.one_node_filters:
            self._feasible = self._feasible_one_by_one()
        elif self._uncached_verdicts:
            self._feasible = self._feasible_by_uncached()
        else:
            self._feasible = feasible_set(kept, view, self._window, None)
        return True

    def _pre_filter(self, uncached: UncachedPlugins) -> bool:
        state, skipped = self._state, list[str]()
        for name, incremental in uncached.incremental_filters.items():
            try:
                refreshed = incremental.refresh(self._view)
            except Exception as problem:
                raise PluginFailedError from problem
            if refreshed is incremental:
                state.write(incremental.key, incremental.value)
                self._uncached_verdicts[name] = incremental
                self._incremental.append(incremental)
            elif refreshed is SKIP:
                skipped.append(name)
            else:
                self._kept.uncached = None
                return False
        for plugin in uncached.pre_filters:
            call = plugin.pre_filter
            result = call_plugin(
                "PreFilter", plugin.name, call, state, self._pod, self._all_nodes()
            )
            if result is SKIP:
                skipped.append(plugin.name)
            elif result is not None and not _is_success(result):
                return False
        if skipped:
            state.skip_filter_plugins = state.skip_filter_plugins.union(skipped)
        return True

    def _run_filters(self, uncached: UncachedPlugins) -> bool:
        for plugin in uncached.filters:
            if plugin.name not in self._state.skip_filter_plugins:
                verdict = plugin.verdict(self._state, self._pod, self._all_nodes())
                self._uncached_verdicts[plugin.name] = verdict
                for rejected in verdict.rejections if isinstance(verdict, AllReasons) else verdict:
                    if not rejected.status.is_rejected:
                        return False
                    self._masks.append(rejected.mask)
        return True

    def _feasible_by_uncached(self) -> FeasibleSet:
        """Return the rows that neither kept nor uncached filters reject."""
        only_filter, previous = None, self._kept.feasible
        if (
            len(self._incremental) == len(self._uncached_verdicts) == 1
            and not self._uncached_on_nominated
        ):
            only_filter = (self._incremental[0], self._incremental[0].version)
            if previous is not None and previous.filtered_by == only_filter:
                return previous
        return feasible_set(self._kept, self._view, self._window, self._fitting(), only_filter)

    def _fitting(self) -> BoolColumn:
        """Return the rows that neither kept nor uncached filters reject."""
        fits = self._kept.fitting()
        masks = self._masks
        for incremental in self._incremental:
            masks = masks + incremental.masks()
        for mask in masks:
            # A row that fits and is not in the mask is greater than the mask.
            np.greater(fits, mask, out=fits)
        if self._kept.nominated is not None:
            for verdicts in self._uncached_on_nominated.values():
                fits[self._kept.nominated.positions] &= verdicts.fits
        return fits

    def _feasible_one_by_one(self) -> FeasibleSet:
        """Return the rows that one-node filters accept too, as many as are wanted."""
        kept, window = self._kept, self._window
        fits = self._fitting()
        order = in_visiting_order(kept, self._view, window.start, fits)
        skipped = self._state.skip_filter_plugins
        filters = [p for p in kept.layout.profile.one_node_filters if p.name not in skipped]
        verdicts = evaluate_one_by_one(
            filters, self._state, self._pod, self._all_nodes(), order, window.wanted
        )
        failure = verdicts.first_error()
        if failure is not None:
            # Rows after the last one wanted are not visited.
            fitting = verdicts.fits.take(order).nonzero()[0]
            is_enough = len(fitting) >= window.wanted
            visited = order[: fitting.item(window.wanted - 1)] if is_enough else order
            failure = verdicts.at(visited).first_error()
        if failure is not None:
            raise SchedulingError(failure.message)
        self._one_by_one = verdicts
        return feasible_set(kept, self._view, window, fits & verdicts.fits)

    def _diagnosis(self) -> Diagnosis:
        """Return every row's first rejection, in the order of the filters."""
        statuses = self._statuses()
        return Diagnosis(
            statuses,
            unschedulable_plugins=statuses.plugins(),
            pending_plugins=statuses.plugins(Code.PENDING),
        )

    def _statuses(self) -> NodeToStatus:
        kept, uncached = self._kept, dict[str, Verdicts]()
        for plugin in kept.layout.uncached_filters:
            if plugin.name in self._uncached_verdicts:
                verdicts = uncached[plugin.name] = Verdicts(len(kept.rows))
                plugin.apply(self._uncached_verdicts[plugin.name], verdicts)
        joined = joined_verdicts(
            kept, kept.layout.profile.filters, uncached, self._uncached_on_nominated
        )
        if self._one_by_one is not None:
            unrejected = joined.fits.nonzero()[0]
            joined.add_rejections(unrejected, self._one_by_one.at(unrejected))
        statuses, visited_count = NodeToStatus(self._view), self._feasible.visited_count
        if visited_count == len(kept.rows):
            statuses.set_all(kept.rows, joined)
        else:
            visited = visited_positions(kept, self._view, self._window.start, visited_count)
            statuses.set_all(kept.rows_at(visited), joined.at(visited))
        return statuses

    # -- scoring --------------------------------------------------------------------------------

    def _score(self, uncached: UncachedPlugins, scores: dict[str, GroupedScores]) -> bool:
        """Add the scores of uncached plugins; return False if the ordinary path must run."""
        skipped: list[str] = []
        # Plugins keep lookups with the table: one serves all of them.
        nodes: NodeTable | None = None
        if uncached.pre_scores or uncached.scores:
            nodes = self._view.nodes_at(self._feasible.rows)
        for plugin in uncached.pre_scores:
            call = plugin.pre_score
            status = call_plugin("PreScore", plugin.name, call, self._state, self._pod, nodes)
            if status is SKIP:
                skipped.append(plugin.name)
            elif status is not None and not _is_success(status):
                return False
        if self._measuring is not None and self._kept.layout.uncached_pre_scores:
            self._measuring.pre_scored()
        if not self._refresh_scores(uncached, scores, skipped):
            return False
        if nodes is not None and not self._run_scores(uncached, nodes, scores, skipped):
            return False
        if skipped:
            self._state.skip_score_plugins = self._state.skip_score_plugins.union(skipped)
        return True

    def _run_scores(
        self,
        uncached: UncachedPlugins,
        nodes: NodeTable,
        scores: dict[str, GroupedScores],
        skipped: list[str],
    ) -> bool:
        """Add the weighted scores of plugins that are not incremental."""
        state, weights = self._state, self._kept.layout.profile.weights
        for plugin in uncached.scores:
            if plugin.name not in skipped:
                weight = weights[plugin.name]
                weighted = normalized_and_weighted(plugin, weight, state, self._pod, nodes)
                if isinstance(weighted, Status):
                    return False
                scores[plugin.name] = GroupedScores(weighted)
        return True

    def _refresh_scores(
        self, uncached: UncachedPlugins, scores: dict[str, GroupedScores], skipped: list[str]
    ) -> bool:
        """Add the weighted scores of incremental plugins."""
        weights = self._kept.layout.profile.weights
        for name, incremental in uncached.incremental_scores.items():
            try:
                refreshed = incremental.refresh(self._view, self._feasible)
            except Exception as problem:
                raise PluginFailedError from problem
            if refreshed is SKIP:
                skipped.append(name)
            elif isinstance(refreshed, GroupedScores):
                self._state.write(incremental.key, incremental.value)
                scores[name] = GroupedScores(refreshed.scores * weights[name], refreshed.groups)
            else:
                self._kept.uncached = None
                return False
        return True

    def _detail(self, uncached: dict[str, GroupedScores], *, scored: bool) -> Detail:
        nodes = self._view.nodes_at(self._feasible.rows)
        return Detail(nodes, self._scores(uncached) if scored else None, self._diagnosis())

    def _scores(self, uncached: dict[str, GroupedScores]) -> Scores:
        """Return the weighted scores of all plugins, in their order."""
        kept, feasible = self._kept, self._feasible
        columns = {name: grouped.column() for name, grouped in uncached.items()}
        for score in kept.scores:
            if score.constant is not None:
                columns[score.plugin.name] = np.full(len(feasible), score.constant)
        for score, column in feasible.normalized:
            columns[score.plugin.name] = column
        for score, raw in kept.plain_at(self._view, feasible.positions):
            columns[score.plugin.name] = raw.astype(np.int64) * score.weight
        names = [plugin.name for plugin in kept.layout.profile.scores]
        by_plugin: dict[str, IntColumn] = {name: columns[name] for name in names if name in columns}
        total = np.zeros(len(feasible), dtype=np.int64)
        for column in by_plugin.values():
            total += column
        return Scores(by_plugin, total)


def evaluate_one_by_one(
    filters: Sequence[OneNodeFilter],
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    order: Rows,
    wanted: int,
) -> Verdicts:
    """Return the verdicts of one-node filters.

    Args:
        filters: in their order.
        state: of the attempt.
        pod: to be placed.
        nodes: all nodes.
        order: the positions to evaluate, in visiting order.
        wanted: the number of fitting nodes that ends the evaluation.
    """
    verdicts, evaluated, feasible = Verdicts(len(nodes)), 0, 0
    while evaluated < len(order) and feasible < wanted:
        positions = order[evaluated:][: nodes_to_evaluate(wanted, evaluated, feasible)]
        evaluated += len(positions)
        for plugin in filters:
            plugin.judge_at(state, pod, nodes, positions, verdicts)
            positions = positions[verdicts.ids.take(positions) == FITS]
        feasible += len(positions)
    return verdicts


def _is_success(result: object) -> bool:
    return isinstance(result, Status) and result.is_success
