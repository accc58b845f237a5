"""Preemption from eligibility to the chosen node: pure, it gives a plan.

Owns candidates, the order of looking, and the pick. Evicting is the binding side's work.
Upstream: pkg/scheduler/framework/preemption/preemption.go
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kubesched.columns.view import ClusterView, Rows
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.interface import NodeStatuses, PostFilterResult, Victims
from kubesched.framework.preemption.budgets import budgets_of
from kubesched.framework.preemption.dry_run import DryRun
from kubesched.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from kubesched.framework.verdicts import NodeToStatus, unavailable_text
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text

NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Finds whom to evict so that a pod fits."""

    handle: Handle
    candidate_count: Callable[[int], int]
    """How many candidates are enough, of so many nodes."""

    def preempt(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Return the plan, or why there is none."""
        # Parity: preemption.go Preempt, v1.36.
        view = self.handle.snapshot
        reason = why_not_eligible(view, pod, statuses)
        if reason:
            return None, unschedulable(reason)
        rows = _rows_with(view, statuses, Code.UNSCHEDULABLE)
        candidates, refused = self._dry_run(state, pod, view, rows)
        if not candidates:
            errors = [s.message for s in refused.values() if s.code is Code.ERROR]
            if errors:
                return None, error(aggregate_text(errors))
            found = NodeToStatus(view, NOT_HELPFUL)
            for row, status in refused.items():
                found.set_one(row, status)
            text = unavailable_text(view.node_count, found)
            return PostFilterResult(""), unschedulable(text)
        best = pick_one(candidates)
        return PostFilterResult(best.node_name, best), SUCCESS

    def _dry_run(
        self, state: CycleState, pod: PodInfo, view: ClusterView, rows: Rows
    ) -> tuple[list[Victims], dict[int, Status]]:
        """Look at candidate nodes from a random start until enough are found."""
        if len(rows) == 0:
            return [], {}
        enough = self.candidate_count(len(rows))
        trial = DryRun(
            self.handle.filters, state, pod, budgets_of(view.objects.pod_disruption_budgets)
        )
        ordered = np.roll(rows, -self.handle.rng.below(len(rows)))
        without: list[Victims] = []
        with_violation: list[Victims] = []
        refused: dict[int, Status] = {}
        start = 0
        while start < len(ordered):
            found = len(without) + len(with_violation)
            if without and found >= enough:
                break
            # Never more at once than could still be wanted, so that looking stops where it should.
            chunk = ordered[start : start + max(enough - found, 1)]
            start += len(chunk)
            for row, outcome in zip(chunk.tolist(), trial.select(view, chunk), strict=True):
                if isinstance(outcome, Status):
                    refused[row] = outcome
                else:
                    (with_violation if outcome.pdb_violation_count else without).append(outcome)
        return without + with_violation, refused


def why_not_eligible(view: ClusterView, pod: PodInfo, statuses: NodeStatuses) -> str:
    """Return why the pod may not evict others now; empty if it may."""
    # Parity: default_preemption.go PodEligibleToPreemptOthers, v1.36.
    if pod.shape.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = pod.nominated_node_name
    if not nominated or statuses.get(nominated).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    row = view.row_of(nominated)
    leaving = row >= 0 and any(
        other.priority < pod.priority and other.terminating and other.disruption_target
        for other in map(view.bound_pod, view.pods_on(row))
    )
    return "not eligible due to a terminating pod on the nominated node." if leaving else ""


def pick_one(candidates: Sequence[Victims]) -> Victims:
    """Return the candidate that hurts least, by upstream's criteria in their order."""
    # Parity: preemption.go pickOneNodeForPreemption, v1.36. The first of full ties is one of the
    # outcomes that upstream's map order can give.
    criteria: tuple[Callable[[Victims], float], ...] = (
        lambda c: c.pdb_violation_count,
        lambda c: c.pods[0].priority,
        lambda c: sum(pod.priority + 2**31 for pod in c.pods),
        lambda c: len(c.pods),
        lambda c: -_earliest_start_s(c),
    )
    left = list(candidates)
    for criterion in criteria:
        scores = [criterion(candidate) for candidate in left]
        least = min(scores)
        left = [candidate for candidate, s in zip(left, scores, strict=True) if s == least]
        if len(left) == 1:
            break
    return left[0]


def _earliest_start_s(candidate: Victims) -> float:
    """Return when the first of the most important victims started; one that has not, starts now."""
    # Parity: pkg/scheduler/util/utils.go GetEarliestPodStartTime, v1.36.
    highest = max(pod.priority for pod in candidate.pods)
    starts = (p.start_s for p in candidate.pods if p.priority == highest)
    return min(float("inf") if start is None else start for start in starts)


def _rows_with(view: ClusterView, statuses: NodeStatuses, code: Code) -> Rows:
    if isinstance(statuses, NodeToStatus):
        return statuses.rows_with(code)
    return np.array([view.row_of(name) for name in statuses.names_with(code)], dtype=np.int64)
