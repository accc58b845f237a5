"""One attempt, kept for a moment: what it came to, and over which columns.

Owns how a decision is taken down while the columns of the attempt still stand, and the bounds of
that: it stays small however many nodes there are. Never decides; the form is `explained`'s, what
would have to change is `counterfactual`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.view import ClusterView, Rows
from kubesched.engine.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.engine.digest import (
    EVENT_BYTES_MAX,
    REASONS_MAX,
    BestNodes,
    Counted,
    Digest,
    NotPlacedDigest,
    PlacedDigest,
    Refused,
    difference,
    event_text,
)
from kubesched.engine.evidence import (
    DetailEvidence,
    Evidence,
    Group,
    PlanEvidence,
    is_current,
    refused_groups,
)
from kubesched.engine.explained import (
    Budget,
    Change,
    ChangePart,
    Event,
    Explanation,
    Hold,
    Preemption,
    Ranked,
    Refusal,
    RunnerUp,
    Value,
    Victim,
)
from kubesched.engine.schedule_pod import schedule_without_extenders
from kubesched.engine.search import ScheduleResult, Search
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.profile import Profile
from kubesched.model.pod_info import PodInfo
from kubesched.objects.policy import PodDisruptionBudget
from kubesched.objects.selectors import label_selector

__all__ = [
    "BUDGETS_MAX",
    "BUDGET_VICTIMS_MAX",
    "EVENT_BYTES_MAX",
    "EXAMPLES",
    "GROUPS_MAX",
    "REASONS_MAX",
    "TOP",
    "VICTIMS_MAX",
    "Attempt",
    "Budget",
    "Change",
    "ChangePart",
    "Digest",
    "Event",
    "Explanation",
    "Hold",
    "Preemption",
    "Ranked",
    "Refusal",
    "RunnerUp",
    "Value",
    "Victim",
    "attempt",
    "difference",
    "event_text",
]

TOP: Final = 10
EXAMPLES: Final = 3
GROUPS_MAX: Final = 20
VICTIMS_MAX: Final = 100
BUDGETS_MAX: Final = 10
BUDGET_VICTIMS_MAX: Final = 10
_NOBODY: Final = Refused(0, ())


@dataclass(slots=True)
class Attempt:
    """What became of a pod, with the columns it was decided over; ask it before they change."""

    profile: Profile
    view: ClusterView
    pod: PodInfo
    state: CycleState
    result: ScheduleResult | None = None
    failure: SchedulingError | FitError | None = None
    plan: PostFilterResult | None = None
    message: str | None = None
    """The text of the failure, if it was made already."""

    def explanation(self, *, top: int | None = TOP, examples: int = EXAMPLES) -> Explanation:
        """Return the explanation.

        Args:
            top: how many rows of the ranking to give, None for all.
            examples: how many nodes to name in each group.
        """
        found = self.digest(top=top, examples=examples).explanation()
        return replace(found, held=self.held())

    def held(self) -> tuple[Hold, ...] | None:
        """Return who keeps the pod from being tried at all; None if nobody does."""
        held = self.profile.run_pre_enqueue_plugins(self.pod)
        return None if held is None else (Hold(plugin=held.plugin, message=held.message),)

    def digest(self, *, top: int | None = TOP, examples: int = EXAMPLES) -> Digest:
        """Return what an explanation can be made from at any time; arguments as there."""
        if self.result is not None:
            if not self._is_current:
                return attempt(self.profile, self.view, self.pod).digest(top=top, examples=examples)
            return _placed(self, self.result, max(top, 1) if top is not None else None, examples)
        assert self.failure is not None, "an attempt ends with a result or a failure"
        return _not_placed(self, self.failure, examples)

    @property
    def _is_current(self) -> bool:
        result = self.result
        assert result is not None
        return result.detail is not None or (
            result.basis is not None and is_current(result.basis, self.view)
        )

    @property
    def is_by_nomination(self) -> bool:
        """Return whether only the node the pod was promised was looked at."""
        if not self.pod.nominated_node_name or self.result is None:
            return False
        detail = self.result.detail
        return (
            detail is not None
            and detail.feasible.names == [self.pod.nominated_node_name]
            and len(detail.diagnosis.node_to_status) == 0
        )

    def evidence(self) -> Evidence:
        """Return what the choice was made from."""
        assert self.result is not None, "there was no choice"
        if self.result.detail is not None:
            return DetailEvidence(self.view, self.result.detail)
        assert self.result.basis is not None, "a choice is made by the one or by the other"
        return PlanEvidence(self.view, self.result.basis)

    def groups(self) -> list[Group]:
        """Return the refused rows by status."""
        if self.result is not None:
            return self.evidence().groups()
        failure = self.failure
        if failure is None or failure.diagnosis is None:
            return []
        if failure.diagnosis.pre_filter_status is not None:
            return []
        return refused_groups(self.view, failure.diagnosis)

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
        result = schedule_without_extenders(profile, view, state, pod, search)
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


def _placed(one: Attempt, result: ScheduleResult, top: int | None, examples: int) -> PlacedDigest:
    view, evidence = one.view, one.evidence()
    # The runner-up and some of those as good are wanted even where one row is all that is shown.
    standings = evidence.best(None if top is None else max(top, 2, examples + 1))
    best = None
    if standings is not None:
        rows, totals, scores, tied_count = standings
        best = BestNodes(tuple(map(view.name_of, rows)), totals, scores, tied_count)
    return PlacedDigest(
        one.pod.key,
        one.profile.name,
        result.suggested_host,
        one.is_by_nomination and view.node_count > 1,
        view.node_count,
        evidence.fit_count,
        best,
        top,
        examples,
        _refused(view, evidence.groups(), examples),
    )


# -- a pod that has none --------------------------------------------------------------------------


def _not_placed(
    one: Attempt, failure: SchedulingError | FitError, examples: int
) -> NotPlacedDigest:
    view = one.view
    is_refused = isinstance(failure, FitError | NoNodesError)
    whole = failure.diagnosis.pre_filter_status if isinstance(failure, FitError) else None
    return NotPlacedDigest(
        one.pod.key,
        one.profile.name,
        "unschedulable" if is_refused else "error",
        view.node_count,
        len(one.fitting_rows()),
        _refused(view, one.groups(), examples),
        whole,
        None if one.plan is None else _preemption(view, one.plan),
        event_text(str(failure) if one.message is None else one.message),
    )


def _preemption(view: ClusterView, plan: PostFilterResult) -> Preemption:
    victims = () if plan.victims is None else plan.victims.pods
    budgets = _budgets(view, victims)
    return Preemption(
        node=plan.nominated_node_name,
        victims=tuple(Victim(pod=v.key, priority=v.priority) for v in victims[:VICTIMS_MAX]),
        victim_count=len(victims),
        budget_violations=0 if plan.victims is None else plan.victims.pdb_violation_count,
        budgets=tuple(budgets[:BUDGETS_MAX]),
        budgets_left_out=max(len(budgets) - BUDGETS_MAX, 0),
    )


def _budgets(view: ClusterView, victims: tuple[BoundPod, ...]) -> list[Budget]:
    """Return the budgets that cover any of the victims, those exceeded most first."""
    found = []
    for budget in view.objects.pod_disruption_budgets:
        covered = _covered(budget, victims)
        if covered:
            found.append(
                Budget(
                    name=budget.key,
                    disruptions_allowed=budget.status.disruptions_allowed,
                    victims=tuple(victim.key for victim in covered[:BUDGET_VICTIMS_MAX]),
                    victim_count=len(covered),
                )
            )
    return sorted(found, key=lambda one: (one.disruptions_allowed - one.victim_count, one.name))


def _covered(budget: PodDisruptionBudget, pods: Iterable[BoundPod]) -> list[BoundPod]:
    try:
        selector = label_selector(budget.spec.selector)
    except ValueError:
        return []  # Parity: a budget with an invalid selector matches nothing.
    if selector.is_empty:
        return []
    namespace, known = budget.metadata.namespace or "", budget.status.disrupted_pods or ()
    return [
        pod
        for pod in pods
        if pod.namespace == namespace
        and pod.labels
        and pod.name not in known
        and selector.matches(pod.labels)
    ]


# -- refusals -------------------------------------------------------------------------------------


def _refused(view: ClusterView, groups: list[Group], examples: int) -> Refused:
    """Return the largest groups, and how many nodes are in all of them."""
    if not groups:
        return _NOBODY
    if len(groups) > 1:
        groups = sorted(groups, key=lambda g: (-len(g.rows), g.status.plugin, g.status.reasons))
    name_of = view.name_of
    shown = tuple(
        Counted(status, len(rows), tuple(map(name_of, rows[:examples].tolist())))
        for status, rows in groups[:GROUPS_MAX]
    )
    return Refused(sum(len(group.rows) for group in groups), shown)
