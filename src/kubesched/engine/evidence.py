"""What an attempt left behind, read again for an explanation: standings and refusals.

Owns the reading, in both forms an attempt can have: with its detail, or by a plan's kept columns
alone, which is what makes an explanation of every decision affordable. Never orders more rows than
are asked for, and never decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.planned import SCORED_ROWS_KEY
from kubesched.engine.search import Detail
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plan import Plan
from kubesched.framework.planner import Planner
from kubesched.framework.profile import Profile
from kubesched.framework.promised_rows import joined_verdicts, judge_promised, suppose_promised
from kubesched.framework.score_phase import normalized_and_weighted
from kubesched.framework.status import Status
from kubesched.framework.verdicts import FITS, NodeToStatus, Verdicts
from kubesched.model.pod_info import PodInfo

_NORMALIZED_KEY = "explanation: normalized"


class Standing(NamedTuple):
    """One fitting row with its total and each plugin's weighted score."""

    row: int
    total: int
    scores: Mapping[str, int]


class Group(NamedTuple):
    """The rows that got one and the same status, in ascending order."""

    status: Status
    rows: Rows


class Asked(NamedTuple):
    """A pod, and the state its attempt left behind."""

    pod: PodInfo
    state: CycleState


class Evidence(Protocol):
    """What can be asked about an attempt that found a node."""

    @property
    def is_scored(self) -> bool: ...
    @property
    def fit_count(self) -> int: ...
    def standings(self, top: int | None, chosen: int) -> list[Standing]: ...
    def tied(self) -> Rows: ...
    def groups(self) -> list[Group]: ...


class DetailEvidence:
    """Reads the detail that an attempt was asked to keep."""

    def __init__(self, view: ClusterView, detail: Detail, *, looked_everywhere: bool) -> None:
        self._view = view
        self._detail = detail
        self._looked_everywhere = looked_everywhere

    @property
    def is_scored(self) -> bool:
        """Return whether the fitting nodes were scored."""
        return self._detail.scores is not None

    @property
    def fit_count(self) -> int:
        """Return how many nodes fit."""
        return len(self._detail.feasible)

    def standings(self, top: int | None, chosen: int) -> list[Standing]:
        """Return the best rows, the chosen one among them, best first."""
        scores, rows = self._detail.scores, self._detail.feasible.rows
        if scores is None:
            return [Standing(chosen, 0, {})]
        places = _best_places(scores.total, top, int(np.flatnonzero(rows == chosen)[0]))
        return _standings(rows, scores.total, _scores_at(scores.by_plugin, places), places)

    def of_row(self, row: int) -> Standing | None:
        """Return how one row stands, None if it does not fit or was not scored."""
        scores, rows = self._detail.scores, self._detail.feasible.rows
        places = np.flatnonzero(rows == row).tolist()
        if scores is None or not places:
            return None
        return _standings(rows, scores.total, _scores_at(scores.by_plugin, places), places)[0]

    def place_of(self, row: int) -> int:
        """Return how many rows have a higher total, plus one."""
        standing, scores = self.of_row(row), self._detail.scores
        if standing is None or scores is None:
            return 1
        return int((scores.total > standing.total).sum()) + 1

    def tied(self) -> Rows:
        """Return the rows of the highest total, in ascending order."""
        scores, rows = self._detail.scores, self._detail.feasible.rows
        best = rows if scores is None else rows[scores.total == scores.total.max()]
        return np.sort(best)

    def groups(self) -> list[Group]:
        """Return the refused rows by status."""
        if not self._looked_everywhere:
            return []
        statuses = self._detail.diagnosis.node_to_status
        return refused_groups(self._view, statuses, self._detail.feasible.rows)


class PlanEvidence:
    """Reads a plan's columns; plugins that no plan keeps are asked once more, with their state."""

    def __init__(self, profile: Profile, plan: Plan, view: ClusterView, asked: Asked) -> None:
        assert profile.planner is not None, "without one there are no plans"
        self._planner: Planner = profile.planner
        self._filters = profile.filters
        self._plan = plan
        self._view = view
        self._state = asked.state
        self._pod = asked.pod

    @property
    def is_scored(self) -> bool:
        """Return whether the fitting nodes were scored."""
        return self.fit_count > 1

    @cached_property
    def fit_count(self) -> int:
        """Return how many nodes fit."""
        return int(np.count_nonzero(self._fits))

    @cached_property
    def _live(self) -> dict[str, Verdicts]:
        live: dict[str, Verdicts] = {}
        nodes = self._view.whole()
        for plugin in self._plan.live_filters:
            if plugin.name not in self._state.skip_filter_plugins:
                verdicts = live[plugin.name] = Verdicts(len(nodes))
                plugin.judge(self._state, self._pod, nodes, verdicts)
        return live

    @cached_property
    def _live_on_promised(self) -> dict[str, Verdicts]:
        return judge_promised(self._plan, self._view, self._state, self._pod, self._filters)

    @cached_property
    def _fits(self) -> BoolColumn:
        fits = self._plan.fits
        for verdicts in self._live.values():
            fits &= verdicts.fits
        for verdicts in self._live_on_promised.values():
            fits[self._plan.promised.positions] &= verdicts.fits
        return fits

    @cached_property
    def _added(self) -> dict[str, IntColumn | int]:
        """Return what each plugin adds whose scores are not simply its raw ones."""
        plan, fits = self._plan, self._fits
        live_scores = [s for s in plan.live_scores if s.name not in self._state.skip_score_plugins]
        added = dict(self._normalized())
        if live_scores:
            # In the very order in which they were scored: a plugin may have it in its state.
            rows = self._state.read(SCORED_ROWS_KEY)
            fitting, positions = self._view.nodes_at(rows), np.searchsorted(plan.rows, rows)
            for score in live_scores:
                weight = self._planner.parts.weights[score.name]
                part = normalized_and_weighted(score, weight, self._state, self._pod, fitting)
                assert not isinstance(part, Status), "it scored a moment ago"
                column = np.zeros(len(fits), dtype=np.int64)
                column[positions] = part
                added[score.name] = column
        return added

    def _normalized(self) -> dict[str, IntColumn | int]:
        """Return what normalising plugins add, kept for as long as the same rows fit."""
        plan, ranking = self._plan, self._plan.ranking
        by_plan = ranking is not None and ranking.is_of(self._fits)
        if by_plan:
            kept_for, kept = plan.state.get(_NORMALIZED_KEY) or (None, {})
            if kept_for is ranking:
                return kept
        columns = {score.plugin.name: column for score, column in plan.normalized(self._fits)}
        if by_plan:
            plan.state.write(_NORMALIZED_KEY, (ranking, columns))
        return columns

    @cached_property
    def _total(self) -> IntColumn:
        """Return the totals, lower than any possible one where a row does not fit."""
        total: IntColumn = np.array(self._plan.plain_sum)
        for column in self._added.values():
            total += column
        if self.fit_count < len(total):
            total[~self._fits] = -1
        return total

    def standings(self, top: int | None, chosen: int) -> list[Standing]:
        """Return the best rows, the chosen one among them, best first."""
        if not self.is_scored:
            return [Standing(chosen, 0, {})]
        wanted = self.fit_count if top is None else min(top, self.fit_count)
        place = int(np.searchsorted(self._plan.rows, chosen))
        places = _best_places(self._total, wanted, place)
        return _standings(self._plan.rows, self._total, self._scores_at(places), places)

    def _scores_at(self, places: list[int]) -> dict[str, list[int]]:
        """Return the weighted scores at some places by plugin, in the order of the profile."""
        added = self._added
        kept = {score.plugin.name: score for score in self._plan.scores}
        scores: dict[str, list[int]] = {}
        for plugin in self._planner.parts.scores:
            name = plugin.name
            if name in added:
                column = added[name]
                scores[name] = (
                    [column] * len(places) if isinstance(column, int) else column[places].tolist()
                )
            elif name in kept:
                raw = kept[name].raw[places].astype(np.int64)
                scores[name] = (raw * kept[name].weight).tolist()
        return scores

    def tied(self) -> Rows:
        """Return the rows of the highest total, in ascending order."""
        if not self.is_scored:
            return self._plan.rows[self._fits]
        return self._plan.rows[self._total == self._total.max()]

    def groups(self) -> list[Group]:
        """Return the refused rows by status, each row under its first refusal."""
        plan = self._plan
        if self.fit_count == len(plan.rows):
            return []
        if plan.promised is not None:
            order = self._planner.parts.filters
            joined = joined_verdicts(plan, order, self._live, self._live_on_promised)
            refused = np.flatnonzero(joined.ids)
            return _by_status(plan.rows[refused], joined.ids[refused], joined.statuses)
        kept = {local.plugin.name: local.verdicts for local in plan.filters}
        places = (~self._fits).nonzero()[0]
        groups: list[Group] = []
        for plugin in self._planner.parts.filters:
            said = kept.get(plugin.name) or self._live.get(plugin.name)
            if said is None or len(said.statuses) == 1 or not len(places):
                continue  # It has never refused anything.
            ids = said.ids[places]
            refused = ids.nonzero()[0]
            if len(refused):
                groups += _by_status(plan.rows[places[refused]], ids[refused], said.statuses)
                places = places[ids == FITS]
        return groups


def plan_evidence(profile: Profile, view: ClusterView, asked: Asked) -> PlanEvidence | None:
    """Return what a plan has to say, None if it is not as the attempt left it.

    A plan is told of each change once, by whoever decides next; here it is only looked at.
    """
    planner = profile.planner
    if planner is None:
        return None
    plan = planner._plans.get(asked.pod.template)  # noqa: SLF001 - plan_for() would bring it up to date
    if plan is None or planner._cluster is not view.identity:  # noqa: SLF001
        return None
    if plan.seen != view.stamp or plan.node_epoch != view.node_epoch:
        return None
    suppose_promised(plan, view, asked.pod, profile.filters, ())
    return PlanEvidence(profile, plan, view, asked)


def refused_groups(view: ClusterView, statuses: NodeToStatus, feasible: Rows) -> list[Group]:
    """Return the rows that do not fit by status, those never looked at included."""
    # What the statuses are made of; asking them by name would cost a dictionary of all nodes.
    rows, verdicts, singles = statuses._rows, statuses._verdicts, statuses._singles  # noqa: SLF001
    groups = _by_status(rows, verdicts.ids, verdicts.statuses)
    groups += [Group(status, np.array([row])) for row, status in singles.items()]
    if len(feasible) + len(statuses) < view.node_count:
        known = np.concatenate((feasible, rows, np.array(list(singles), dtype=np.int64)))
        others = np.setdiff1d(view.visiting_rows(), known)
        groups.append(Group(statuses.absent, others))
    return _merged(groups)


def _by_status(rows: Rows, ids: IdColumn, statuses: Sequence[Status]) -> list[Group]:
    if len(statuses) == 2:
        return [Group(statuses[1], rows)] if len(rows) else []
    counts = np.bincount(ids, minlength=len(statuses))
    return [
        Group(statuses[status_id], rows[ids == status_id])
        for status_id in np.flatnonzero(counts).tolist()
    ]


def _merged(groups: Iterable[Group]) -> list[Group]:
    """Return one group for each status, its rows in order; a nominated node may make two."""
    by_status: dict[Status, list[Rows]] = {}
    for status, rows in groups:
        by_status.setdefault(status, []).append(rows)
    return [
        Group(status, np.sort(parts[0] if len(parts) == 1 else np.concatenate(parts)))
        for status, parts in by_status.items()
    ]


def _best_places(total: IntColumn, top: int | None, chosen: int) -> list[int]:
    """Return the places of the highest totals, best first, the chosen one before its equals."""
    if top is None or top >= len(total):
        found: list[int] = list(range(len(total)))
    else:
        least = np.partition(total, len(total) - top)[len(total) - top]
        above: list[int] = (total > least).nonzero()[0].tolist()
        equal: list[int] = (total == least).nonzero()[0][: top - len(above)].tolist()
        found = above + equal
        if chosen not in found:
            found[-1] = chosen  # It is among the best, so that the last one is its equal.
    values = dict(zip(found, total[found].tolist(), strict=True))
    return sorted(found, key=lambda place: (-values[place], place != chosen, place))


def _standings(
    rows: Rows, total: IntColumn, scores: Mapping[str, list[int]], places: list[int]
) -> list[Standing]:
    lines = zip(rows[places].tolist(), total[places].tolist(), *scores.values(), strict=True)
    return [
        Standing(row, sum_, dict(zip(scores, parts, strict=True))) for row, sum_, *parts in lines
    ]


def _scores_at(columns: Mapping[str, IntColumn], places: list[int]) -> dict[str, list[int]]:
    return {name: column[places].tolist() for name, column in columns.items()}
