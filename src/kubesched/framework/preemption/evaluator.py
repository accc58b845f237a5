"""Preemption from eligibility to the chosen node: pure, it gives a plan.

Owns candidates, the order of looking, and the pick. Evicting is the binding side's work, and so is
waiting: where extenders have a say, what is returned is to be awaited.
Upstream: pkg/scheduler/framework/preemption/preemption.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from kubesched.columns.object_store import ObjectStore
from kubesched.columns.view import ClusterView, Rows
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Extender, ExtenderError, Handle
from kubesched.framework.interface import (
    NodeStatuses,
    PostFilterAnswer,
    PostFilterResult,
    Victims,
)
from kubesched.framework.preemption.budgets import Budgets, budgets_of
from kubesched.framework.preemption.candidates import DryRunOutcomes, pick_one, pick_one_of
from kubesched.framework.preemption.dry_run import NO_VICTIMS, DryRun
from kubesched.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from kubesched.framework.verdicts import NodeToStatus, Verdicts, unavailable_text
from kubesched.kit.log import Ref
from kubesched.model.pod_info import PodInfo
from kubesched.objects.field_errors import aggregate_text
from kubesched.objects.policy import PodDisruptionBudget

NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")


class Evaluator:
    """Finds whom to evict so that a pod fits."""

    def __init__(self, handle: Handle, candidate_count: Callable[[int], int]) -> None:
        """Make an evaluator.

        Args:
            handle: of the plugin that asks.
            candidate_count: how many candidates are enough, of so many nodes.
        """
        self._handle = handle
        self._candidate_count = candidate_count
        self._budgets: tuple[ObjectStore[PodDisruptionBudget], int, Budgets] | None = None

    def preempt(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterAnswer:
        """Return the plan, or why there is none; nobody outside is asked."""
        found = self._found(state, pod, statuses)
        return found if isinstance(found, tuple) else self._plan(pod, pick_one(found))

    def preempt_asking(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> PostFilterAnswer | Awaitable[PostFilterAnswer]:
        """Return the plan, or why there is none; extenders are asked where the state lets us wait.

        What is returned is to be awaited then.
        """
        found = self._found(state, pod, statuses)
        if isinstance(found, tuple):
            return found
        extenders = self._extenders_for(pod) if state.may_wait else ()
        return self._ask(extenders, pod, found) if extenders else self._plan(pod, pick_one(found))

    def _found(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> list[DryRunOutcomes] | PostFilterAnswer:
        """Return what was found where, if there is a candidate, else the answer."""
        # Parity: preemption.go Preempt, v1.36. Upstream reads the pod anew first; here no watch
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
        refusals = Verdicts(len(rows))
        found = self._dry_run(state, pod, rows, refusals)
        if any(one.is_candidate.any() for one in found):
            return found
        if refusals.first_error() is not None:
            given = (refusals[place] for place in range(len(rows)))
            errors = [status.message for status in given if status.code is Code.ERROR]
            return None, error(aggregate_text(errors))
        text = "No preemption candidate is found; preemption is not helpful for scheduling"
        log.info(text, level=2, pod=ref)
        given_up = NodeToStatus(view, NOT_HELPFUL)
        given_up.set_all(rows, refusals)
        return PostFilterResult(""), unschedulable(unavailable_text(view.node_count, given_up))

    def _plan(self, pod: PodInfo, best: Victims | None) -> PostFilterAnswer:
        if best is None:
            return None, unschedulable("no candidate node for preemption")
        text = "the target node for the preemption is determined"
        ref = Ref(pod.namespace, pod.name)
        self._handle.log.info(text, level=2, node=best.node_name, pod=ref)
        return PostFilterResult(best.node_name, best), SUCCESS

    # -- extenders --------------------------------------------------------------------------------

    def _extenders_for(self, pod: PodInfo) -> Sequence[Extender]:
        asked = (one for one in self._handle.extenders if one.supports_preemption)
        return [extender for extender in asked if extender.is_interested(pod)]

    async def _ask(
        self, extenders: Sequence[Extender], pod: PodInfo, found: Sequence[DryRunOutcomes]
    ) -> PostFilterAnswer:
        """Pick among the candidates that extenders leave, each seeing what the one before left."""
        # Parity: preemption.go callExtenders, v1.36.
        left: Mapping[str, Victims] = {
            victims.node_name: victims for one in found for victims in one.candidates()
        }
        for extender in extenders:
            answer = await self._left_by(extender, pod, left)
            if isinstance(answer, Status):
                return None, answer
            left = answer
            if not left:
                break
        return self._plan(pod, pick_one_of(left.values()))

    async def _left_by(
        self, extender: Extender, pod: PodInfo, candidates: Mapping[str, Victims]
    ) -> Mapping[str, Victims] | Status:
        """Return the candidates that one extender leaves, or the error that ends it all."""
        log = self._handle.log
        try:
            left = await extender.process_preemption(pod, candidates, self._handle.snapshot)
        except ExtenderError as problem:
            if not extender.is_ignorable:
                return error(str(problem))
            text = "Skipped extender as it returned error and has ignorable flag set"
            log.info(text, level=2, extender=extender.name, err=str(problem))
            return candidates
        for name in [name for name, victims in left.items() if not victims.pods]:
            if not extender.is_ignorable:
                return error(f'expected at least one victim pod on node "{name}"')
            del left[name]
            text = "Ignored node for which the extender didn't report victims"
            log.info(text, level=2, node=name, extender=extender.name)
        return left

    # -- dry runs ---------------------------------------------------------------------------------

    def _dry_run(
        self, state: CycleState, pod: PodInfo, rows: Rows, refusals: Verdicts
    ) -> list[DryRunOutcomes]:
        """Look at candidate nodes in their order until enough are found; note what refuses them."""
        view = self._handle.snapshot
        enough = self._candidate_count(len(rows))
        hopeless = view.importance.lowest_priority(rows) >= pod.priority
        refusals.refuse(hopeless, NO_VICTIMS)
        left = np.flatnonzero(~hopeless)
        outcomes: list[DryRunOutcomes] = []
        if len(left) == 0:
            return outcomes
        trial = DryRun(self._handle.filters, state, pod, self._current_budgets(view))
        found = found_without = start = 0
        while start < len(left) and not (found_without and found >= enough):
            # Never more at once than could still be wanted, so that looking stops where it should.
            size = 1 if trial.wants_single_rows else max(enough - found, 1)
            chunk = left[start : start + size]
            start += len(chunk)
            outcome = trial.select(view, rows[chunk])
            refusals.override(chunk, outcome.refusals)
            candidates = outcome.is_candidate
            found += int(np.count_nonzero(candidates))
            found_without += int(np.count_nonzero(candidates & (outcome.violations == 0)))
            outcomes.append(outcome)
        return outcomes

    def _current_budgets(self, view: ClusterView) -> Budgets:
        store, known = view.objects.pod_disruption_budgets, self._budgets
        if known is None or known[0] is not store or known[1] != store.epoch:
            coverage = None if known is None else known[2].coverage
            self._budgets = known = (store, store.epoch, budgets_of(store, coverage))
        return known[2]


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


def _rows_with(view: ClusterView, statuses: NodeStatuses, code: Code) -> Rows:
    if isinstance(statuses, NodeToStatus):
        return statuses.rows_with(code)
    return np.array([view.row_of(name) for name in statuses.names_with(code)], dtype=np.int64)
