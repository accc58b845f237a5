"""The quick way through an attempt: kept verdicts for local plugins, the others asked anew.

Owns the attempt over a plan, and who is asked in it. What it answers equals what the ordinary way
would; where it cannot answer it says so, and the ordinary way is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.engine.diagnosis import Diagnosis, FitError, SchedulingError
from kubesched.engine.rankings import (
    Begun,
    Ranking,
    Sample,
    current_ranking,
    follow_changes,
    in_visiting_order,
    latest_of_all,
    used_last,
    visited_positions,
)
from kubesched.engine.sampling import nodes_to_ask
from kubesched.engine.search import Basis, Detail, ScheduleResult, Search
from kubesched.engine.selection import TOTAL_MAX
from kubesched.framework.adapt import OneNodeFilter, asked
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.followers import Added, FilterFollower, Followers
from kubesched.framework.interface import AllReasons, FilterVerdict, PreFilterResult
from kubesched.framework.named_rows import NamedRows, NamedTemplate
from kubesched.framework.plan_frame import NotLocalError
from kubesched.framework.planner import Planner
from kubesched.framework.profile import Profile
from kubesched.framework.promised_rows import joined_verdicts, judge_promised, suppose_promised
from kubesched.framework.score_phase import Scores, normalized_and_weighted
from kubesched.framework.status import SKIP, Code, Status
from kubesched.framework.verdicts import FITS, NodeToStatus, Verdicts
from kubesched.model.pod_info import PodInfo


def schedule_planned(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult | None:
    """Choose a node by kept verdicts; None if they cannot answer for this attempt.

    Raises:
        FitError: No node fits.
        SchedulingError: A filter for one node failed.
    """
    planner = profile.planner
    if planner is None or pod.nominated_node_name or search.extender_count:
        return None
    if planner.total_max >= TOTAL_MAX:
        return None
    if view.pods.nominated_of and pod.uid in view.pods.index_of:
        return None  # It was promised a node itself, which is a matter of its own.
    schedule = _schedule if profile.measuring is None else _schedule_measured
    try:
        return schedule(profile, view, state, pod, search)
    except NotLocalError:
        state.clear()
        return None


def _schedule_measured(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult:
    measuring = profile.measuring
    assert measuring is not None, "who calls this knows"
    measuring.begin()
    try:
        result = _schedule(profile, view, state, pod, search)
    except FitError:
        measuring.planned(state, view.node_count, 0)
        raise
    except SchedulingError:
        measuring.failed(state)
        raise
    measuring.planned(state, result.evaluated_node_count, result.feasible_node_count)
    return result


def _schedule(
    profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, search: Search
) -> ScheduleResult:
    assert profile.planner is not None, "without one there are no plans"
    named_rows = profile.planner.named_rows
    if named_rows is not None and pod.shape.named_node:
        return _schedule_named(named_rows, profile, view, state, pod, search)
    plan, changed = profile.planner.plan_for(view, pod)
    if plan.promised is not None or view.pods.nominated_of:
        suppose_promised(plan, view, pod, profile.filters, changed)
    start, want, count = 0, len(plan.rows), len(plan.rows)
    if not search.all_nodes:
        start, want = search.next_start_index % count, search.want(profile, count)
    # The changes are told once, so that they are taken over before anything can go wrong.
    if plan.rankings:
        follow_changes(plan, changed if want >= count else None, start)
    state.adopt(plan.state)
    if plan.is_all_kept and not search.detail:
        ranking: Ranking | Sample | None = latest_of_all(plan)
        if ranking is None:
            begun = Begun(plan, start, want, count, changed is None)
            ranking = current_ranking(begun, view, None, ())
        if ranking.fit_count:
            if profile.measuring is not None:
                profile.measuring.filtered()
            search.next_start_index = (start + ranking.visited_count) % count
            row, keys, by_position = ranking.best_row()
            basis = Basis(plan, profile.planner.parts, ranking, start, keys, by_position)
            name, visited = view.name_of(row), ranking.visited_count
            return ScheduleResult(name, ranking.fit_count, visited, None, basis)
    begun = Begun(plan, start, want, count, changed is None)
    return _Attempt(profile, view, state, pod, begun).choose(search)


def _schedule_named(
    named_rows: NamedRows,
    profile: Profile,
    view: ClusterView,
    state: CycleState,
    pod: PodInfo,
    search: Search,
) -> ScheduleResult:
    """Choose the node that a pod names."""
    if search.detail:
        raise NotLocalError
    template = named_rows.template_of(view, pod)
    row = template.row_of(view, pod)
    node = view.nodes_at(np.array((row,)))
    if view.nominated_on(row) and not _fits_with_promised(template, profile, node, pod):
        raise NotLocalError
    if profile.measuring is not None:
        profile.measuring.filtered()
    state.adopt(template.state)
    search.next_start_index = (search.next_start_index + 1) % view.node_count
    statuses = NodeToStatus(view, template.absent)
    diagnosis = Diagnosis(statuses, None, {template.named_by}, candidates=node.rows)
    return ScheduleResult(view.name_of(row), 1, 1, Detail(node, None, diagnosis))


def _fits_with_promised(
    template: NamedTemplate, profile: Profile, node: NodeTable, pod: PodInfo
) -> bool:
    """Return whether the node fits with the pods, too, that were promised it."""
    if profile.filters.follows_pods(template.state):
        return False  # It keeps a state of its own, which a template knows nothing of.
    promised = profile.filters.promised(node, pod)
    return promised is None or template.fits_with(promised.steps, node, pod)


class _Attempt:
    """One pod over a plan: what plugins said that are asked anew, joined with what is kept."""

    __slots__ = (
        "_followers",
        "_following",
        "_live_on_promised",
        "_masks",
        "_measuring",
        "_nodes",
        "_one_by_one",
        "_plan",
        "_planner",
        "_pod",
        "_ranking",
        "_said",
        "_start",
        "_state",
        "_view",
    )

    def __init__(
        self, profile: Profile, view: ClusterView, state: CycleState, pod: PodInfo, begun: Begun
    ) -> None:
        assert profile.planner is not None, "without one there are no plans"
        self._planner: Planner = profile.planner
        self._view = view
        self._state = state
        self._pod = pod
        plan = self._plan = begun.plan
        self._start = begun.start
        self._nodes: NodeTable | None = None
        self._measuring = profile.measuring
        self._said: dict[str, FilterVerdict | FilterFollower] = {}
        """What filters that are asked anew say of all rows."""
        self._masks: list[BoolColumn] = []
        """The rows that those of them refuse who do not follow."""
        self._following: list[FilterFollower] = []
        """Those that do."""
        self._followers = _followers_of(begun, view, state)
        self._pre_filter_live()
        if self._measuring is not None:
            self._measuring.pre_filtered()
        self._live_on_promised: dict[str, Verdicts] = {}
        if plan.promised is not None:
            following = dict(self._followers.filters)
            self._live_on_promised = judge_promised(
                plan, view, state, pod, profile.filters, following
            )
        self._one_by_one: Verdicts | None = None
        self._ask_filters()
        if self._planner.parts.one_node_filters:
            self._ranking: Ranking | Sample = self._ranking_one_by_one(begun)
        elif self._said:
            self._ranking = self._ranking_by(begun)
        else:
            self._ranking = current_ranking(begun, view, None, ())
        if self._measuring is not None:
            self._measuring.filtered()

    def choose(self, search: Search) -> ScheduleResult:
        """Return the best row's node."""
        ranking = self._ranking
        found = ranking.fit_count
        if found == 0:
            raise FitError(self._view.node_count, self._diagnosis())
        live: dict[str, Added] = {}
        if found > 1:
            live = self._score_live(ranking)
            best = ranking.best_row_with(list(live.values())) if live else ranking.best_row()
            row, keys, by_position = best
        else:
            row, keys, by_position = ranking.rows.item(0), None, False
        name, visited = self._view.name_of(row), ranking.visited_count
        search.next_start_index = (self._start + visited) % len(self._plan.rows)
        detail = self._detail(live, scored=found > 1) if search.detail else None
        basis = Basis(
            self._plan,
            self._planner.parts,
            ranking,
            self._start,
            keys,
            by_position,
            live,
            ranking.narrowed,
            self._said,
            self._live_on_promised,
            self._one_by_one,
        )
        return ScheduleResult(name, found, visited, detail, basis)

    def _whole(self) -> NodeTable:
        nodes = self._nodes
        if nodes is None:
            nodes = self._nodes = self._view.whole()
        return nodes

    # -- filtering ------------------------------------------------------------------------------

    def _pre_filter_live(self) -> None:
        plan, state, followers = self._plan, self._state, self._followers
        skipped = self._follow_filters() if followers.filters else ()
        for plugin in followers.pre_filters:
            call = plugin.pre_filter
            result = asked("PreFilter", plugin.name, call, state, self._pod, self._whole())
            if result is SKIP:
                skipped = (*skipped, plugin.name)
            elif result is not None and not _is_plain(result):
                raise NotLocalError
        state.skip_filter_plugins = plan.skipping("filter", skipped)

    def _follow_filters(self) -> tuple[str, ...]:
        """Have the verdicts of filters that follow; return those that are skipped."""
        view, state, skipped = self._view, self._state, tuple[str, ...]()
        try:
            for name, follower in self._followers.filters:
                said = follower.follow(view)
                if said is follower:
                    state.write(follower.key, follower.value)
                    self._said[name] = follower
                    self._following.append(follower)
                elif said is None:
                    raise self._outdated()
                else:
                    skipped = (*skipped, name)
        except Exception as problem:
            raise _not_local(problem) from problem
        return skipped

    def _outdated(self) -> NotLocalError:
        """Have new followers made in the next attempt."""
        self._plan.followers = None
        return NotLocalError()

    def _ask_filters(self) -> None:
        skipped = self._state.skip_filter_plugins
        for plugin in self._followers.live_filters:
            if plugin.name not in skipped:
                said = plugin.ask(self._state, self._pod, self._whole())
                self._said[plugin.name] = said
                for rejected in said.rejections if isinstance(said, AllReasons) else said:
                    if not rejected.status.is_rejected:
                        raise NotLocalError
                    self._masks.append(rejected.mask)

    def _ranking_by(self, begun: Begun) -> Ranking | Sample:
        """Return the rows that fit and that nobody refuses who was asked."""
        following = self._following
        is_followed = len(following) == len(self._said) == 1
        if not is_followed or self._live_on_promised or begun.want < begun.row_count:
            return self._ranking_anew(begun)
        follower = following[0]
        rankings: list[Ranking] = self._plan.rankings
        if rankings and rankings[-1].look_again(follower):
            return rankings[-1]
        sign = follower.sign()
        for known in rankings:
            if known.is_signed(follower, sign):
                return used_last(self._plan, known)
        ranking = self._ranking_anew(begun)
        assert isinstance(ranking, Ranking), "all rows were wanted"
        ranking.follow(follower, sign)
        return ranking

    def _ranking_anew(self, begun: Begun) -> Ranking | Sample:
        plan, promised, masks = self._plan, self._live_on_promised, self._all_masks()
        # A mask that nobody can write is the same whenever it comes again; so are followers'.
        are_lasting = not promised and not any(map(_is_writeable, self._masks))
        if are_lasting and begun.want >= begun.row_count:
            for known in plan.rankings:
                if known.is_by(masks):
                    known.meetings += 1
                    return used_last(plan, known)
        fits = self._outside_of(masks)
        for verdicts in promised.values():
            fits[plan.promised.positions] &= verdicts.fits
        return current_ranking(begun, self._view, fits, masks if are_lasting else None)

    def _all_masks(self) -> list[BoolColumn]:
        """Return all rows that are refused by those who were asked."""
        masks = [mask for follower in self._following for mask in follower.masks()]
        return masks + self._masks if self._masks else masks

    def _outside_of(self, masks: list[BoolColumn]) -> BoolColumn:
        """Return which rows fit by what is kept, and are in none of the masks."""
        fits = self._plan.fits
        for mask in masks:
            # What fits and is not in the mask is greater than the mask.
            np.greater(fits, mask, out=fits)
        return fits

    def _ranking_one_by_one(self, begun: Begun) -> Ranking | Sample:
        """Return the rows that fit and that nobody refuses, those included asked one by one."""
        plan, filters = self._plan, self._planner.parts.one_node_filters
        fits = self._outside_of(self._all_masks())
        order = in_visiting_order(plan, self._view, begun.start, fits)
        skipped = self._state.skip_filter_plugins
        asked = [plugin for plugin in filters if plugin.name not in skipped]
        said = judged_in_turn(asked, self._state, self._pod, self._whole(), order, begun.want)
        failure = said.first_error()
        if failure is not None:
            # A row after the last one wanted was never visited.
            standing = said.fits.take(order).nonzero()[0]
            enough = len(standing) >= begun.want
            visited = order[: standing.item(begun.want - 1)] if enough else order
            failure = said.at(visited).first_error()
        if failure is not None:
            raise SchedulingError(failure.message)
        self._one_by_one = said
        return current_ranking(begun, self._view, fits & said.fits, None)

    def _diagnosis(self) -> Diagnosis:
        """Return every row's first refusal, in the order of the filters."""
        statuses = self._statuses()
        return Diagnosis(
            statuses,
            unschedulable_plugins=statuses.plugins(),
            pending_plugins=statuses.plugins(Code.PENDING),
        )

    def _statuses(self) -> NodeToStatus:
        plan = self._plan
        is_visited = self._ranking.visited_count == len(plan.rows)
        if not is_visited or not plan.is_all_kept:
            return self._statuses_anew()
        key, known = (plan.seen, self._view.nomination_epoch, self._pod.priority), plan.refused
        if known is None or known[0] != key:
            known = plan.refused = (key, self._statuses_anew())
        return known[1]

    def _statuses_anew(self) -> NodeToStatus:
        live: dict[str, Verdicts] = {}
        for plugin in self._plan.live_filters:
            if plugin.name not in self._state.skip_filter_plugins:
                verdicts = live[plugin.name] = Verdicts(len(self._whole()))
                plugin.judge(self._state, self._pod, self._whole(), verdicts)
        joined = joined_verdicts(
            self._plan, self._planner.parts.filters, live, self._live_on_promised
        )
        if self._one_by_one is not None:
            standing = joined.fits.nonzero()[0]
            joined.override(standing, self._one_by_one.at(standing))
        statuses = NodeToStatus(self._view)
        visited = self._visited_positions()
        if visited is None:
            statuses.set_all(self._plan.rows, joined)
        else:
            statuses.set_all(self._plan.rows_at(visited), joined.at(visited))
        return statuses

    def _visited_positions(self) -> Rows | None:
        """Return the plan's positions that were looked at; None for all."""
        visited = self._ranking.visited_count
        if visited == len(self._plan.rows):
            return None
        return visited_positions(self._plan, self._view, self._start, visited)

    # -- scoring --------------------------------------------------------------------------------

    def _score_live(self, fit: Ranking | Sample) -> dict[str, Added]:
        """Return what each plugin that is asked anew adds to the fitting rows."""
        followers, live = self._followers, dict[str, Added]()
        # What plugins look up is kept with the table: one serves all of them.
        fitting: NodeTable | None = None
        skipped: tuple[str, ...] = ()
        if followers.pre_scores or followers.live_scores:
            fitting = self._view.nodes_at(fit.rows)
            skipped = self._pre_score_live(fitting)
        if self._measuring is not None and self._plan.live_pre_scores:
            self._measuring.pre_scored()
        weights = self._planner.parts.weights
        if followers.scores:
            skipped += self._follow_scores(fit, live)
        for score in followers.live_scores:
            if score.name not in skipped:
                assert fitting is not None, "it was made for them"
                weight = weights[score.name]
                added = normalized_and_weighted(score, weight, self._state, self._pod, fitting)
                if isinstance(added, Status):
                    raise NotLocalError
                live[score.name] = Added(added)
        self._state.skip_score_plugins = self._plan.skipping("score", skipped)
        return live

    def _pre_score_live(self, fitting: NodeTable) -> tuple[str, ...]:
        """Have plugins prepare that do not follow; return those that are skipped."""
        skipped: tuple[str, ...] = ()
        for plugin in self._followers.pre_scores:
            call = plugin.pre_score
            status = asked("PreScore", plugin.name, call, self._state, self._pod, fitting)
            if status is SKIP:
                skipped = (*skipped, plugin.name)
            elif status is not None and not _is_plain(status):
                raise NotLocalError
        return skipped

    def _follow_scores(self, fit: Ranking | Sample, live: dict[str, Added]) -> tuple[str, ...]:
        """Have the scores of plugins that follow; return those that are skipped."""
        weights, skipped = self._planner.parts.weights, tuple[str, ...]()
        try:
            for name, follower in self._followers.scores:
                said = follower.follow(self._view, fit)
                if said is SKIP:
                    skipped = (*skipped, name)
                elif isinstance(said, Added):
                    self._state.write(follower.key, follower.value)
                    live[name] = self._followers.weighed(name, said, weights[name])
                else:
                    raise self._outdated()
        except Exception as problem:
            raise _not_local(problem) from problem
        return skipped

    def _detail(self, live: dict[str, Added], *, scored: bool) -> Detail:
        """Return what led to the choice, in visiting order."""
        feasible = self._view.nodes_at(self._ranking.rows)
        return Detail(feasible, self._scores(live) if scored else None, self._diagnosis())

    def _scores(self, live: dict[str, Added]) -> Scores:
        plan, positions = self._plan, self._ranking.positions
        fits = np.zeros(len(plan.rows), dtype=np.bool_)
        fits[positions] = True
        by_plugin: dict[str, IntColumn] = {}
        normalized = {score.plugin.name: column for score, column in plan.normalized(fits)}
        plain = {
            score.plugin.name: column.astype(np.int64) * score.weight
            for score, column in plan.plain_at(self._view, positions)
        }
        for plugin in self._planner.parts.scores:
            name = plugin.name
            if name in live:
                by_plugin[name] = live[name].column()
            elif name in normalized:
                by_plugin[name] = np.broadcast_to(normalized[name], len(fits))[positions]
            elif name in plain:
                by_plugin[name] = plain[name]
        total = np.zeros(len(positions), dtype=np.int64)
        for column in by_plugin.values():
            total += column
        return Scores(by_plugin, total)


def judged_in_turn(
    filters: Sequence[OneNodeFilter],
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    order: Rows,
    want: int,
) -> Verdicts:
    """Return what filters for one node say of nodes that no other filter refuses.

    Args:
        filters: in their order.
        state: of the attempt.
        pod: to be placed.
        nodes: all nodes.
        order: the positions of those to ask about, in visiting order.
        want: after so many that fit no more is asked.
    """
    verdicts, done, found = Verdicts(len(nodes)), 0, 0
    while done < len(order) and found < want:
        part = order[done : done + nodes_to_ask(want, done, found)]
        done += len(part)
        for plugin in filters:
            plugin.judge_at(state, pod, nodes, part, verdicts)
            part = part[verdicts.ids.take(part) == FITS]
        found += len(part)
    return verdicts


def _followers_of(begun: Begun, view: ClusterView, state: CycleState) -> Followers:
    """Return how the plugins are asked that have to be asked anew."""
    plan = begun.plan
    # Following pays from the second attempt on; calls that are measured are made one by one.
    if begun.is_new or state.plugin_times is not None:
        return Followers(plan, None)
    found: Followers | None = plan.followers
    if found is None:
        try:
            found = plan.followers = Followers(plan, view)
        except Exception as problem:
            raise _not_local(problem) from problem
    return found


def _not_local(problem: Exception) -> NotLocalError:
    """Have the ordinary way be gone, which asks again and tells what went wrong."""
    return problem if isinstance(problem, NotLocalError) else NotLocalError()


def _is_writeable(mask: BoolColumn) -> bool:
    return mask.flags.writeable


def _is_plain(result: Status | PreFilterResult) -> bool:
    """Return whether a plugin that was asked has nothing to say against the pod as a whole."""
    # Skip with reasons of its own is rare, and the ordinary way knows what to do with it.
    return isinstance(result, Status) and result.is_success
