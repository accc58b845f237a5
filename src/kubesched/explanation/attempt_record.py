"""One scheduling attempt, recorded together with the snapshot it was made on.

Owns how an attempt is summarized while its snapshot is still current, and the size limits of a
summary, which do not depend on the number of nodes. Never decides. `report` holds the values,
`counterfactual` tests changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from kubesched.api.policy import PodDisruptionBudget
from kubesched.attempt.diagnosis import FitError, NoNodesError, SchedulingError
from kubesched.attempt.request import ScheduleResult, Search
from kubesched.attempt.schedule_pod import run_without_extenders, schedule_pod
from kubesched.explanation.ranked_nodes import (
    CachedNodes,
    DetailedNodes,
    Group,
    rejected_groups,
)
from kubesched.explanation.report import (
    BestNodes,
    Budget,
    Counted,
    Explanation,
    Hold,
    NotPlacedSummary,
    PlacedSummary,
    Preemption,
    Rejected,
    Summary,
    Victim,
    event_text,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.preemption.disruption_budgets import covered_pods
from kubesched.framework.runtime.profile import Profile
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, Rows

TOP: Final = 10
EXAMPLES: Final = 3
GROUPS_MAX: Final = 20
VICTIMS_MAX: Final = 100
BUDGETS_MAX: Final = 10
BUDGET_VICTIMS_MAX: Final = 10
_NO_REJECTIONS: Final = Rejected(0, ())


@dataclass(slots=True)
class AttemptRecord:
    """The outcome for one pod and the snapshot behind it; read it before the snapshot changes."""

    profile: Profile
    view: ClusterView
    pod: PodInfo
    state: CycleState
    result: ScheduleResult | None = None
    failure: SchedulingError | FitError | None = None
    plan: PostFilterResult | None = None
    message: str | None = None
    """The text of the failure, if it was formatted already."""
    message_before_post_filter: str | None = None
    """The text of the failure before preemption was tried."""

    def explanation(self, *, top: int | None = TOP, examples: int = EXAMPLES) -> Explanation:
        """Return the explanation.

        Args:
            top: number of ranked nodes, None for all.
            examples: number of nodes to name in each group.
        """
        explanation = self.summary(top=top, examples=examples).explanation()
        return replace(explanation, held=self.held())

    def held(self) -> tuple[Hold, ...] | None:
        """Return the PreEnqueue plugin that holds the pod back; None if there is none."""
        held = self.profile.run_pre_enqueue_plugins(self.pod)
        return None if held is None else (Hold(plugin=held.plugin, message=held.message),)

    def summary(self, *, top: int | None = TOP, examples: int = EXAMPLES) -> Summary:
        """Return a summary that outlives the snapshot; arguments as for `explanation`.

        If the result has no detail and its basis is missing or stale, makes a second attempt.
        """
        result = self.result
        if result is None:
            assert self.failure is not None, "an attempt ends with a result or a failure"
            return _not_placed(self, self.failure, examples)
        if result.detail is None and (
            result.basis is None or not result.basis.is_current(self.view)
        ):
            repeated = attempt(self.profile, self.view, self.pod)
            return repeated.summary(top=top, examples=examples)
        return _placed(self, result, max(top, 1) if top is not None else None, examples)

    @property
    def is_by_nomination(self) -> bool:
        """Return whether only the nominated node was evaluated."""
        if not self.pod.nominated_node_name or self.result is None:
            return False
        detail = self.result.detail
        return (
            detail is not None
            and detail.feasible.names == [self.pod.nominated_node_name]
            and len(detail.diagnosis.node_to_status) == 0
        )

    @property
    def is_error(self) -> bool:
        """Return whether the attempt failed for another reason than a rejection."""
        return self.failure is not None and not isinstance(self.failure, FitError | NoNodesError)

    def ranked_nodes(self) -> DetailedNodes | CachedNodes:
        assert self.result is not None, "no node was chosen"
        if self.result.detail is not None:
            return DetailedNodes(self.view, self.result.detail)
        assert self.result.basis is not None, "a result has either a detail or a basis"
        return CachedNodes(self.view, self.result.basis)

    def groups(self) -> list[Group]:
        if self.result is not None:
            return self.ranked_nodes().groups()
        diagnosis = None if self.failure is None else self.failure.diagnosis
        if diagnosis is None or diagnosis.pre_filter_status is not None:
            return []
        return rejected_groups(self.view, diagnosis)

    def fitting_rows(self) -> Rows:
        if self.result is not None:
            assert self.result.detail is not None, "the attempt was made with detail"
            return self.result.detail.feasible.rows
        if isinstance(self.failure, SchedulingError) and self.failure.feasible is not None:
            return self.failure.feasible.rows
        return np.zeros(0, dtype=np.int64)


def attempt(profile: Profile, view: ClusterView, pod: PodInfo) -> AttemptRecord:
    """Evaluate a pod on all nodes, preemption included, and record what explains the outcome."""
    attempted = AttemptRecord(profile, view, pod, CycleState())
    search = Search(all_nodes=True, detail=True)
    scheduling = schedule_pod(profile, view, attempted.state, pod, search)
    try:
        attempted.result = run_without_extenders(scheduling)
    except FitError as failure:
        attempted.failure = failure
        attempted.message_before_post_filter = str(failure)
        attempted.plan = _preempt(profile, attempted.state, pod, failure)
    except SchedulingError as failure:
        attempted.failure = failure
    return attempted


def _preempt(
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


# -- placed pods ----------------------------------------------------------------------------------


def _placed(
    attempted: AttemptRecord, result: ScheduleResult, top: int | None, examples: int
) -> PlacedSummary:
    view, ranked = attempted.view, attempted.ranked_nodes()
    # The runner-up and examples of ties are reported even if only one ranked node is shown.
    best_rows = ranked.best(None if top is None else max(top, 2, examples + 1))
    best = None
    if best_rows is not None:
        rows, totals, scores, tied_count = best_rows
        best = BestNodes(tuple(map(view.name_of, rows)), totals, scores, tied_count)
    return PlacedSummary(
        attempted.pod.key,
        attempted.profile.name,
        result.suggested_host,
        attempted.is_by_nomination and view.node_count > 1,
        view.node_count,
        ranked.fit_count,
        best,
        top,
        examples,
        _rejected(view, ranked.groups(), examples),
    )


# -- unplaced pods --------------------------------------------------------------------------------


def _not_placed(
    attempted: AttemptRecord, failure: SchedulingError | FitError, examples: int
) -> NotPlacedSummary:
    view, plan = attempted.view, attempted.plan
    return NotPlacedSummary(
        attempted.pod.key,
        attempted.profile.name,
        "error" if attempted.is_error else "unschedulable",
        view.node_count,
        len(attempted.fitting_rows()),
        _rejected(view, attempted.groups(), examples),
        failure.diagnosis.pre_filter_status if isinstance(failure, FitError) else None,
        None if plan is None else _preemption(view, plan),
        event_text(str(failure) if attempted.message is None else attempted.message),
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
    """Return the budgets that cover any of the victims, the most exceeded first."""
    budgets = [
        Budget(
            name=budget.key,
            disruptions_allowed=budget.status.disruptions_allowed,
            victims=tuple(victim.key for victim in covered[:BUDGET_VICTIMS_MAX]),
            victim_count=len(covered),
        )
        for budget in view.objects.store_of(PodDisruptionBudget)
        if (covered := covered_pods(budget, victims))
    ]
    return sorted(budgets, key=lambda b: (b.disruptions_allowed - b.victim_count, b.name))


# -- rejections -----------------------------------------------------------------------------------


def _rejected(view: ClusterView, groups: list[Group], examples: int) -> Rejected:
    """Return the largest groups and the total number of rejected nodes."""
    if not groups:
        return _NO_REJECTIONS
    if len(groups) > 1:
        groups = sorted(groups, key=lambda g: (-len(g.rows), g.status.plugin, g.status.reasons))
    name_of = view.name_of
    shown = tuple(
        Counted(status, len(rows), tuple(map(name_of, rows[:examples].tolist())))
        for status, rows in groups[:GROUPS_MAX]
    )
    return Rejected(sum(len(group.rows) for group in groups), shown)
