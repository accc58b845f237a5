"""The dry run of a preemption: selects the victims on many candidate nodes at once.

Removes all pods of lower priority in a trial, then adds them back one by one, the most important
first, where the preemptor still fits. Evicts nothing.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
SelectVictimsOnNode
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.preemption.candidates import DryRunOutcomes
from kubesched.framework.preemption.disruption_budgets import DisruptionBudgets
from kubesched.framework.runtime.filter_phase import Filter, FilterPhase
from kubesched.framework.status import Status, error, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.node_columns import BoolColumn, IdColumn
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.trial import NO_POD, PodRows, Trial, Turns
from kubesched.snapshot.view import ClusterView, Rows

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class DryRun:
    """Selects victims on some rows; all rows advance in lockstep."""

    def __init__(
        self, filters: FilterPhase, state: CycleState, pod: PodInfo, budgets: DisruptionBudgets
    ) -> None:
        self._filters = filters
        self._state = state
        self._pod = pod
        self._budgets = budgets
        self._pod_dependent: Sequence[Filter] = filters.pod_dependent(state, pod)
        # Filters that only read usage need no AddPod and RemovePod calls.
        self._follows_pods = filters.follows_pods(state)

    @property
    def needs_single_rows(self) -> bool:
        """Return whether rows must be judged one by one."""
        return self._filters.needs_single_rows(self._state)

    def select(self, view: ClusterView, rows: Rows) -> DryRunOutcomes:
        """Return the victims of each row, or why evictions do not help there."""
        assert len(rows) <= 1 or not self.needs_single_rows, "rows must come one by one"
        pods = potential_victims(view, rows, self._pod.priority)
        trial, state = Trial(view, rows), self._state.clone()
        rejections = self._judge_without(trial, state, pods)
        rejections.ids[~(pods != NO_POD).any(axis=1)] = rejections.id_for(NO_VICTIMS)
        alive = rejections.fits
        if not alive.any():
            return DryRunOutcomes(view, rows, rejections)
        violates = self._budgets.violating(view, pods)
        order = _reprieve_order(pods, violates) if violates.any() else None
        is_victim = self._reprieve_all(trial, state, pods, order, alive)
        if isinstance(is_victim, Status):
            rejections.reject(alive, is_victim)
            return DryRunOutcomes(view, rows, rejections)
        for position in np.flatnonzero(alive & ~is_victim.any(axis=1)).tolist():
            # Parity: preemption.go DryRunPreemption, v1.36.
            text = f'expected at least one victim pod on node "{view.name_of(int(rows[position]))}"'
            rejections.ids[position] = rejections.id_for(error(text))
        return DryRunOutcomes(view, rows, rejections, (pods, is_victim, violates))

    def _judge_without(self, trial: Trial, state: CycleState, pods: IdColumn) -> Verdicts:
        """Judge the rows with all potential victims removed."""
        if not pods.size:
            return Verdicts(len(pods))
        failed = self._remove_all(trial, state, pods)
        if failed is None:
            return self._filters.judge_with_nominated(state, self._pod, trial.nodes)
        verdicts = Verdicts(len(pods))
        verdicts.reject(np.ones(len(pods), dtype=np.bool_), failed)
        return verdicts

    def _remove_all(self, trial: Trial, state: CycleState, pods: IdColumn) -> Status | None:
        if not self._follows_pods:
            trial.remove(pods)
            return None
        for number in range(pods.shape[1]):
            failed = self._change_pods("remove", trial, state, trial.remove(pods[:, number]))
            if failed is not None:
                return failed
        return None

    def _reprieve_all(
        self,
        trial: Trial,
        state: CycleState,
        pods: IdColumn,
        order: NDArray[np.intp] | None,
        alive: BoolColumn,
    ) -> BoolColumn | Status:
        """Try to add back each pod of every row; return which pods remain victims.

        Args:
            trial: The trial with all potential victims removed.
            state: The CycleState of the trial.
            pods: The potential victims, one line per row.
            order: The order in which a row's pods are tried; None for that of the lines.
            alive: The rows that may be candidates.
        """
        in_order = pods if order is None else np.take_along_axis(pods, order, axis=1)
        # One line per turn, over all rows.
        turns = Turns(trial.view, np.where(alive, in_order.T, NO_POD))
        by_turn = np.zeros(turns.index.shape, dtype=np.bool_)
        for turn, victims in enumerate(by_turn):
            blocking = self._reprieve(trial, state, turns, turn)
            if isinstance(blocking, Status):
                return blocking
            victims[:] = blocking
        if order is None:
            return np.ascontiguousarray(by_turn.T)
        is_victim = np.zeros(pods.shape, dtype=np.bool_)
        np.put_along_axis(is_victim, order, by_turn.T, axis=1)
        return is_victim

    def _reprieve(
        self, trial: Trial, state: CycleState, turns: Turns, turn: int
    ) -> BoolColumn | Status:
        """Add back one pod per row, and remove it again where the preemptor does not fit."""
        present: BoolColumn = turns.index[turn] != NO_POD
        if not present.any():
            return present
        failed = self._change_pods("add", trial, state, trial.add_turn(turns, turn))
        if failed is not None:
            return failed
        fits = present.copy()
        filters, nodes = self._pod_dependent, trial.nodes
        self._filters.clear_rejected_with_nominated(filters, state, self._pod, nodes, fits)
        blocking: BoolColumn = present & ~fits
        if blocking.any():
            failed = self._change_pods("remove", trial, state, trial.take_back(blocking))
        return blocking if failed is None else failed

    def _change_pods(
        self, verb: str, trial: Trial, state: CycleState, changed: PodRows
    ) -> Status | None:
        if not self._follows_pods:
            return None
        return self._filters.change_pods(verb, state, self._pod, changed, trial)


def potential_victims(view: ClusterView, rows: Rows, priority: int) -> IdColumn:
    """Return the pods of lower priority of each row, most important first, padded with -1."""
    pods = view.importance.matrix(rows)
    is_victim = (pods != NO_POD) & (view.pods.priority[pods] < priority)
    # They are the last ones of a row in the order of importance; they move to its front.
    counts = is_victim.sum(axis=1)
    first = (pods != NO_POD).sum(axis=1) - counts
    width = int(counts.max(initial=0))
    numbers = np.arange(width)
    if not first.any():
        return pods[:, :width]
    places = np.minimum(first[:, None] + numbers, max(pods.shape[1] - 1, 0))
    moved = np.take_along_axis(pods, places, axis=1)
    moved[numbers >= counts[:, None]] = NO_POD
    return moved


def _reprieve_order(pods: IdColumn, violates: BoolColumn) -> NDArray[np.intp]:
    """Return the order of each row's pods; pods whose eviction violates a budget come first."""
    rank = np.where(pods == NO_POD, 2, np.where(violates, 0, 1)).astype(np.int8)
    return np.argsort(rank, axis=1, kind="stable")
