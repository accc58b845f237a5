"""A decision in plain values: the choice, how close it was, who refused what, and the event.

Owns the form that the command line, the live scheduler and a dashboard show, and its bounds: it
stays small however many nodes there are. It is made while the columns of the attempt still stand
and refers to nothing in them. Never decides; what would have to change is `counterfactual`'s.
Upstream: pkg/scheduler/schedule_one.go (the texts of events)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.engine.evidence import (
    Asked,
    DetailEvidence,
    Evidence,
    Group,
    Standing,
    plan_evidence,
    refused_groups,
)
from kubesched.engine.schedule_pod import run_without_extenders, schedule_pod
from kubesched.engine.search import ScheduleResult, Search
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.profile import Profile
from kubesched.framework.status import Code, Status
from kubesched.model.pod_info import PodInfo
from kubesched.objects.policy import PodDisruptionBudget
from kubesched.objects.selectors import label_selector

TOP = 10
EXAMPLES = 3
GROUPS_MAX = 20
VICTIMS_MAX = 100
REASONS_MAX = 20
# Parity: pkg/apis/core/validation/events.go NoteLengthLimit, v1.36.
EVENT_BYTES_MAX = 1024
_CUT = b" ..."
_CODE_NAMES = {code: code.wire_name for code in Code}

Outcome = Literal["placed", "unschedulable", "error"]
Why = Literal["", "highest", "shared", "only", "nominated", "unscored"]


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Immutable, comparable, and written in the spelling of the API."""


class Ranked(Value, frozen=True, kw_only=True):
    """A fitting node with each plugin's weighted score."""

    node: str
    total: int
    scores: dict[str, int]


class RunnerUp(Value, frozen=True, kw_only=True):
    """The next best node, and who made the difference."""

    node: str
    total: int
    behind: int
    """How many points the chosen node has more."""
    difference: dict[str, int]
    """By plugin, what the chosen node has more (or less); the largest first, no zeros."""


class Refusal(Value, frozen=True, kw_only=True):
    """The nodes one plugin refused for the same reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    count: int
    nodes: tuple[str, ...]
    """Some of them."""


class Victim(Value, frozen=True, kw_only=True):
    """A pod that would be evicted."""

    pod: str
    priority: int


class Budget(Value, frozen=True, kw_only=True):
    """A PodDisruptionBudget that covers victims."""

    name: str
    disruptions_allowed: int
    victims: tuple[str, ...]


class Preemption(Value, frozen=True, kw_only=True):
    """Whom to evict so that the pod fits."""

    node: str
    victims: tuple[Victim, ...]
    """Most important first."""
    victim_count: int
    budget_violations: int
    """How many victims the scheduler counts against a budget."""
    budgets: tuple[Budget, ...]


class Event(Value, frozen=True, kw_only=True):
    """The event as it would be written, cut where the scheduler cuts it."""

    type: str
    reason: str
    message: str


class Change(Value, frozen=True, kw_only=True):
    """Something that would make the pod fit on more nodes; tried out, not guessed."""

    kind: str
    plugin: str
    """Who would no longer refuse; several names if it takes several."""
    field: str = ""
    """What of the pod would change, as a path."""
    text: str
    opens: int
    """How many nodes would fit that do not now."""
    nodes: tuple[str, ...]
    """Some of them."""
    lacks: dict[str, int] = {}
    """For resources: what is missing on the first of the nodes, in millicores, bytes, units."""


class Explanation(Value, frozen=True, kw_only=True):
    """One decision, explained."""

    version: int = 1
    pod: str
    profile: str
    outcome: Outcome
    node: str
    """The node taken; empty if there is none."""
    why: Why
    node_count: int
    fit_count: int
    total: int | None
    """The chosen node's total, if there was something to score."""
    tied_count: int
    """How many nodes share the highest total, the chosen one included."""
    tied: tuple[str, ...]
    """Some of the others among them."""
    runner_up: RunnerUp | None
    ranking: tuple[Ranked, ...]
    ranking_left_out: int
    refused_count: int
    refusals: tuple[Refusal, ...]
    refusals_left_out: int
    """How many refused nodes are in none of the groups, which are the largest."""
    refused_whole: Refusal | None
    """A refusal of the pod before any node was looked at."""
    preemption: Preemption | None
    event: Event
    changes: tuple[Change, ...] | None = None
    """None: not asked for."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of a pod, with the columns it was decided over; ask it before they change."""

    profile: Profile
    view: ClusterView
    pod: PodInfo
    state: CycleState
    result: ScheduleResult | None = None
    failure: SchedulingError | FitError | None = None
    plan: PostFilterResult | None = None

    def explanation(self, *, top: int | None = TOP, examples: int = EXAMPLES) -> Explanation:
        """Return the explanation.

        Args:
            top: how many rows of the ranking to give, None for all.
            examples: how many nodes to name in each group.
        """
        if self.result is not None:
            return _placed(self, self.result, max(top, 1) if top is not None else None, examples)
        assert self.failure is not None, "an attempt ends with a result or a failure"
        return _not_placed(self, self.failure, examples)

    @property
    def is_by_nomination(self) -> bool:
        """Return whether only the node the pod was promised was looked at."""
        detail = None if self.result is None else self.result.detail
        return (
            detail is not None
            and detail.feasible.names == [self.pod.nominated_node_name]
            and len(detail.diagnosis.node_to_status) == 0
        )

    def evidence(self) -> Evidence:
        """Return what the choice was made from."""
        assert self.result is not None, "there was no choice"
        detail = self.result.detail
        if detail is None:
            by_plan = plan_evidence(self.profile, self.view, Asked(self.pod, self.state))
            if by_plan is not None:
                return by_plan
            again = attempt(self.profile, self.view, self.pod)
            return again.evidence()
        everywhere = not self.is_by_nomination
        return DetailEvidence(self.view, detail, looked_everywhere=everywhere)

    def groups(self) -> list[Group]:
        """Return the refused rows by status."""
        if self.result is not None:
            return self.evidence().groups()
        failure = self.failure
        nobody: Rows = np.zeros(0, dtype=np.int64)
        if isinstance(failure, FitError):
            if failure.diagnosis.pre_filter_status is not None:
                return []
            return refused_groups(self.view, failure.diagnosis.node_to_status, nobody)
        if failure is None or failure.diagnosis is None:
            return []
        feasible = nobody if failure.feasible is None else failure.feasible.rows
        return refused_groups(self.view, failure.diagnosis.node_to_status, feasible)

    def fitting_rows(self) -> Rows:
        """Return the rows that fit."""
        nobody: Rows = np.zeros(0, dtype=np.int64)
        if self.result is not None:
            assert self.result.detail is not None, "asked for by whoever wants to know"
            return self.result.detail.feasible.rows
        feasible = None if isinstance(self.failure, FitError) else _feasible(self.failure)
        return nobody if feasible is None else feasible


def _feasible(failure: SchedulingError | None) -> Rows | None:
    return None if failure is None or failure.feasible is None else failure.feasible.rows


def attempt(profile: Profile, view: ClusterView, pod: PodInfo) -> Attempt:
    """Try a pod on all nodes, making room included, and keep what is needed to explain it."""
    state = CycleState()
    search = Search(all_nodes=True, detail=True)
    try:
        result = run_without_extenders(schedule_pod(profile, view, state, pod, search))
    except FitError as failure:
        return Attempt(
            profile,
            view,
            pod,
            state,
            failure=failure,
            plan=_make_room(profile, state, pod, failure),
        )
    except SchedulingError as failure:
        return Attempt(profile, view, pod, state, failure=failure)
    return Attempt(profile, view, pod, state, result=result)


def _make_room(
    profile: Profile, state: CycleState, pod: PodInfo, failure: FitError
) -> PostFilterResult | None:
    if not profile.has_post_filter_plugins:
        return None
    statuses = failure.diagnosis.node_to_status
    plan, status = profile.run_post_filter_plugins(state, pod, statuses)
    failure.diagnosis.post_filter_message = status.message
    if not status.is_success or plan is None or not plan.nominated_node_name:
        return None
    return plan


# -- a pod that has a node ------------------------------------------------------------------------


def _placed(one: Attempt, result: ScheduleResult, top: int | None, examples: int) -> Explanation:
    view, pod, evidence = one.view, one.pod, one.evidence()
    chosen = view.row_of(result.suggested_host)
    # The runner-up is wanted even where one row is all that is shown.
    standings = evidence.standings(None if top is None else max(top, 2), chosen)
    scored = evidence.is_scored and any(s.scores for s in standings)
    tied = evidence.tied() if evidence.is_scored else np.array([chosen])
    shown = standings[:top] if scored else []
    refusals, left_out, refused_count = _refusals(view, evidence.groups(), examples)
    return Explanation(
        pod=pod.key,
        profile=one.profile.name,
        outcome="placed",
        node=result.suggested_host,
        why=_why(one, evidence, scored=scored, tied_count=len(tied)),
        node_count=view.node_count,
        fit_count=evidence.fit_count,
        total=standings[0].total if scored else None,
        tied_count=len(tied),
        tied=_names(view, tied[tied != chosen], examples),
        runner_up=_runner_up(view, standings) if scored else None,
        ranking=tuple(
            Ranked(node=view.name_of(s.row), total=s.total, scores=dict(s.scores)) for s in shown
        ),
        ranking_left_out=evidence.fit_count - len(shown) if scored else 0,
        refused_count=refused_count,
        refusals=refusals,
        refusals_left_out=left_out,
        refused_whole=None,
        preemption=None,
        # Parity: schedule_one.go bindingCycle, v1.36.
        event=Event(
            type="Normal",
            reason="Scheduled",
            message=f"Successfully assigned {pod.key} to {result.suggested_host}",
        ),
    )


def _why(one: Attempt, evidence: Evidence, *, scored: bool, tied_count: int) -> Why:
    if evidence.fit_count == 1:
        return "nominated" if one.view.node_count > 1 and one.is_by_nomination else "only"
    if not scored:
        return "unscored"
    return "shared" if tied_count > 1 else "highest"


def _runner_up(view: ClusterView, standings: list[Standing]) -> RunnerUp | None:
    if len(standings) < 2:
        return None
    first, second = standings[0], standings[1]
    return RunnerUp(
        node=view.name_of(second.row),
        total=second.total,
        behind=first.total - second.total,
        difference=difference(first.scores, second.scores),
    )


def difference(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return by plugin what the first has more than the second, the largest first."""
    names = dict.fromkeys((*first, *second))
    points = {name: first.get(name, 0) - second.get(name, 0) for name in names}
    return {name: points[name] for name in sorted(names, key=_largest(points)) if points[name]}


def _largest(points: Mapping[str, int]) -> Callable[[str], tuple[int, str]]:
    return lambda name: (-abs(points[name]), name)


# -- a pod that has none --------------------------------------------------------------------------


def _not_placed(one: Attempt, failure: SchedulingError | FitError, examples: int) -> Explanation:
    view, pod = one.view, one.pod
    refused = isinstance(failure, FitError | NoNodesError)
    refusals, left_out, refused_count = _refusals(view, one.groups(), examples)
    whole = failure.diagnosis.pre_filter_status if isinstance(failure, FitError) else None
    fitting = one.fitting_rows()
    return Explanation(
        pod=pod.key,
        profile=one.profile.name,
        outcome="unschedulable" if refused else "error",
        node="",
        why="",
        node_count=view.node_count,
        fit_count=len(fitting),
        total=None,
        tied_count=0,
        tied=(),
        runner_up=None,
        ranking=(),
        ranking_left_out=0,
        refused_count=refused_count if whole is None else view.node_count,
        refusals=refusals,
        refusals_left_out=left_out,
        refused_whole=None if whole is None else _refusal(whole, view.node_count, ()),
        preemption=None if one.plan is None else _preemption(view, one.plan),
        event=Event(type="Warning", reason="FailedScheduling", message=event_text(str(failure))),
    )


def event_text(message: str) -> str:
    """Return a message as an event carries it."""
    # Parity: schedule_one.go truncateMessage, v1.36. Go cuts bytes, not letters.
    data = message.encode("utf-8", "backslashreplace")
    if len(data) <= EVENT_BYTES_MAX:
        return message
    return (data[: EVENT_BYTES_MAX - len(_CUT)] + _CUT).decode("utf-8", "replace")


def _preemption(view: ClusterView, plan: PostFilterResult) -> Preemption:
    victims = () if plan.victims is None else plan.victims.pods
    return Preemption(
        node=plan.nominated_node_name,
        victims=tuple(Victim(pod=v.key, priority=v.priority) for v in victims[:VICTIMS_MAX]),
        victim_count=len(victims),
        budget_violations=0 if plan.victims is None else plan.victims.pdb_violation_count,
        budgets=tuple(_budgets(view, victims)),
    )


def _budgets(view: ClusterView, victims: tuple[BoundPod, ...]) -> Iterator[Budget]:
    for budget in view.objects.pod_disruption_budgets:
        covered = [victim.key for victim in victims if _covers(budget, victim)]
        if covered:
            yield Budget(
                name=budget.key,
                disruptions_allowed=budget.status.disruptions_allowed,
                victims=tuple(covered[:VICTIMS_MAX]),
            )


def _covers(budget: PodDisruptionBudget, pod: BoundPod) -> bool:
    if (budget.metadata.namespace or "") != pod.namespace or not pod.labels:
        return False
    try:
        selector = label_selector(budget.spec.selector)
    except ValueError:
        return False  # Parity: a budget with an invalid selector matches nothing.
    known = pod.name in (budget.status.disrupted_pods or ())
    return not selector.is_empty and not known and selector.matches(pod.labels)


# -- refusals -------------------------------------------------------------------------------------


def _refusals(
    view: ClusterView, groups: list[Group], examples: int
) -> tuple[tuple[Refusal, ...], int, int]:
    """Return the largest groups, how many nodes are in the others, and how many in all."""
    count = sum(len(group.rows) for group in groups)
    groups = sorted(groups, key=lambda g: (-len(g.rows), g.status.plugin, g.status.reasons))
    shown = tuple(
        _refusal(status, len(rows), _names(view, rows, examples))
        for status, rows in groups[:GROUPS_MAX]
    )
    return shown, count - sum(one.count for one in shown), count


def _refusal(status: Status, count: int, nodes: tuple[str, ...]) -> Refusal:
    return Refusal(
        plugin=status.plugin,
        code=_CODE_NAMES[status.code],
        reasons=tuple(sorted(status.reasons)[:REASONS_MAX]),
        count=count,
        nodes=nodes,
    )


def _names(view: ClusterView, rows: Rows, count: int) -> tuple[str, ...]:
    """Return the names of the first rows, in the order in which nodes came."""
    return tuple(view.name_of(row) for row in rows[:count].tolist())
