"""The preemption evaluator: from the pod's eligibility to the chosen node and its victims.

Evicts nothing: `scheduler.preemption` does. With extenders that support preemption, the result must
be awaited.
Upstream: pkg/scheduler/framework/preemption/preemption.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from kubesched.api.field_errors import aggregate_text
from kubesched.api.policy import PodDisruptionBudget
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Extender, ExtenderError, Handle
from kubesched.framework.interface import (
    NodeStatuses,
    PostFilterResult,
    PostFilterReturn,
    Victims,
)
from kubesched.framework.preemption.candidates import DryRunOutcomes, pick_one, pick_one_of
from kubesched.framework.preemption.disruption_budgets import DisruptionBudgets, budgets_of
from kubesched.framework.preemption.dry_run import NO_VICTIMS, DryRun
from kubesched.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from kubesched.framework.verdicts import NodeToStatus, Verdicts, unavailable_text
from kubesched.kit.log import Ref
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, Rows

NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")


class Evaluator:
    """Finds victims whose eviction lets a pod fit."""

    def __init__(self, handle: Handle, candidate_count: Callable[[int], int]) -> None:
        """Create an evaluator; `candidate_count` returns how many suffice for a number of nodes."""
        self._handle = handle
        self._candidate_count = candidate_count
        self._budgets: DisruptionBudgets | None = None
        self._budgets_key: tuple[object, int] = (None, -1)

    def preempt(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> PostFilterReturn | Awaitable[PostFilterReturn]:
        """Return the chosen node, or why there is none.

        Extenders are called if the state permits waiting; then the result must be awaited.
        """
        outcomes = self._find_candidates(state, pod, statuses)
        if isinstance(outcomes, tuple):
            return outcomes
        extenders = self._extenders_for(pod) if state.may_wait else ()
        if not extenders:
            return self._nominate(pod, pick_one(outcomes))
        return self._call_extenders(extenders, pod, outcomes)

    def _find_candidates(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> list[DryRunOutcomes] | PostFilterReturn:
        """Return the outcomes of the dry run if there is a candidate, otherwise the result."""
        # Parity: preemption.go Preempt, v1.36. Upstream re-reads the pod first; here no watch
        # event is applied between the start of an attempt and this.
        view, log, ref = self._handle.snapshot, self._handle.log, Ref(pod.namespace, pod.name)
        reason = why_not_eligible(view, pod, statuses)
        if reason:
            log.info("Pod is not eligible for preemption", level=5, pod=ref, reason=reason)
            return None, unschedulable(reason)
        rows = _rows_with(view, statuses, Code.UNSCHEDULABLE)
        if len(rows):
            first = self._handle.rng.below(len(rows))
            rows = np.concatenate((rows[first:], rows[:first]))
        else:
            log.info("Preemption will not help schedule pod on any node", level=3, pod=ref)
        rejections = Verdicts(len(rows))
        outcomes = self._dry_run(state, pod, rows, rejections)
        if any(chunk.is_candidate.any() for chunk in outcomes):
            return outcomes
        if rejections.first_error() is not None:
            by_row = (rejections[position] for position in range(len(rows)))
            errors = [status.message for status in by_row if status.code is Code.ERROR]
            return None, error(aggregate_text(errors))
        text = "No preemption candidate is found; preemption is not helpful for scheduling"
        log.info(text, level=2, pod=ref)
        rejected = NodeToStatus(view, NOT_HELPFUL)
        rejected.set_all(rows, rejections)
        return PostFilterResult(""), unschedulable(unavailable_text(view.node_count, rejected))

    def _nominate(self, pod: PodInfo, best: Victims | None) -> PostFilterReturn:
        if best is None:
            return None, unschedulable("no candidate node for preemption")
        text = "the target node for the preemption is determined"
        ref = Ref(pod.namespace, pod.name)
        self._handle.log.info(text, level=2, node=best.node_name, pod=ref)
        return PostFilterResult(best.node_name, best), SUCCESS

    # -- extenders --------------------------------------------------------------------------------

    def _extenders_for(self, pod: PodInfo) -> Sequence[Extender]:
        supporting = (e for e in self._handle.extenders if e.supports_preemption)
        return [extender for extender in supporting if extender.is_interested(pod)]

    async def _call_extenders(
        self, extenders: Sequence[Extender], pod: PodInfo, outcomes: Sequence[DryRunOutcomes]
    ) -> PostFilterReturn:
        """Choose among the candidates that extenders accept, one extender after the other."""
        # Parity: preemption.go callExtenders, v1.36.
        candidates: Mapping[str, Victims] = {
            victims.node_name: victims for chunk in outcomes for victims in chunk.candidates()
        }
        for extender in extenders:
            accepted = await self._accepted_by(extender, pod, candidates)
            if isinstance(accepted, Status):
                return None, accepted
            candidates = accepted
            if not candidates:
                break
        return self._nominate(pod, pick_one_of(candidates.values()))

    async def _accepted_by(
        self, extender: Extender, pod: PodInfo, candidates: Mapping[str, Victims]
    ) -> Mapping[str, Victims] | Status:
        """Return the candidates that one extender accepts, or the error that ends preemption."""
        log = self._handle.log
        try:
            accepted = await extender.process_preemption(pod, candidates, self._handle.snapshot)
        except ExtenderError as problem:
            if not extender.is_ignorable:
                return error(str(problem))
            text = "Skipped extender as it returned error and has ignorable flag set"
            log.info(text, level=2, extender=extender.name, err=str(problem))
            return candidates
        for name in [name for name, victims in accepted.items() if not victims.pods]:
            if not extender.is_ignorable:
                return error(f'expected at least one victim pod on node "{name}"')
            del accepted[name]
            text = "Ignored node for which the extender didn't report victims"
            log.info(text, level=2, node=name, extender=extender.name)
        return accepted

    # -- dry runs ---------------------------------------------------------------------------------

    def _dry_run(
        self, state: CycleState, pod: PodInfo, rows: Rows, rejections: Verdicts
    ) -> list[DryRunOutcomes]:
        """Dry-run nodes in order until enough candidates are found; collect rejections."""
        view = self._handle.snapshot
        enough = self._candidate_count(len(rows))
        hopeless = view.importance.lowest_priority(rows) >= pod.priority
        rejections.reject(hopeless, NO_VICTIMS)
        remaining = np.flatnonzero(~hopeless)
        outcomes: list[DryRunOutcomes] = []
        if len(remaining) == 0:
            return outcomes
        dry_run = DryRun(self._handle.filters, state, pod, self._current_budgets(view))
        found = found_without_violation = 0
        while len(remaining) and not (found_without_violation and found >= enough):
            # Never more at once than still needed: the search stops where upstream's does.
            size = 1 if dry_run.needs_single_rows else max(enough - found, 1)
            chunk, remaining = remaining[:size], remaining[size:]
            outcome = dry_run.select(view, rows[chunk])
            rejections.add_rejections(chunk, outcome.rejections)
            candidates = outcome.is_candidate
            found += int(np.count_nonzero(candidates))
            without_violation = candidates & (outcome.violations == 0)
            found_without_violation += int(np.count_nonzero(without_violation))
            outcomes.append(outcome)
        return outcomes

    def _current_budgets(self, view: ClusterView) -> DisruptionBudgets:
        store, budgets = view.objects.store_of(PodDisruptionBudget), self._budgets
        if budgets is None or self._budgets_key != (store, store.epoch):
            previous = None if budgets is None else budgets.coverage
            self._budgets = budgets = budgets_of(store, previous)
            self._budgets_key = (store, store.epoch)
        return budgets


def why_not_eligible(view: ClusterView, pod: PodInfo, statuses: NodeStatuses) -> str:
    """Return why the pod may not preempt others now; empty if it may."""
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


def _rows_with(view: ClusterView, statuses: NodeStatuses, code: Code) -> Rows:
    if isinstance(statuses, NodeToStatus):
        return statuses.rows_with(code)
    return np.array([view.row_of(name) for name in statuses.names_with(code)], dtype=np.int64)
