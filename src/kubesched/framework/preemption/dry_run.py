"""Who would have to go: victims on many candidate nodes together, step by step.

Owns the trial: all less important pods gone, then each tried again, most important first. Nothing
is evicted here.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
SelectVictimsOnNode
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn, IdColumn
from kubesched.columns.trial import NO_POD, PodRows, Trial, Turns
from kubesched.columns.view import ClusterView, Rows
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.filter_phase import Filter, FilterPhase, TrialRows
from kubesched.framework.preemption.budgets import Budgets
from kubesched.framework.preemption.candidates import DryRunOutcomes
from kubesched.framework.status import Status, error, unresolvable
from kubesched.framework.verdicts import Verdicts
from kubesched.model.pod_info import PodInfo

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class DryRun:
    """Victims on some rows, each row by itself, all rows in lockstep."""

    def __init__(
        self, filters: FilterPhase, state: CycleState, pod: PodInfo, budgets: Budgets
    ) -> None:
        self._filters = filters
        self._state = state
        self._pod = pod
        self._budgets = budgets
        self._moving: Sequence[Filter] = filters.moving(state, pod)
        # Who only reads usage is told of nobody; usage changes by whole columns then.
        self._follows_pods = filters.follows_pods(state)

    @property
    def wants_single_rows(self) -> bool:
        """Return whether rows have to be looked at one by one."""
        return self._filters.needs_single_rows(self._state)

    def select(self, view: ClusterView, rows: Rows) -> DryRunOutcomes:
        """Return, per row, who would have to go, or why nobody's going helps."""
        assert len(rows) <= 1 or not self.wants_single_rows, "rows must come one by one"
        pods = potential_victims(view, rows, self._pod.priority)
        trial, state = Trial(view, rows), self._state.clone()
        refusals = self._judge_without(trial, state, pods)
        refusals.ids[~(pods != NO_POD).any(axis=1)] = refusals.id_for(NO_VICTIMS)
        alive = refusals.fits
        if not alive.any():
            return DryRunOutcomes(view, rows, refusals)
        breaks = self._budgets.violating(view, pods)
        order = _reprieve_order(pods, breaks) if breaks.any() else None
        found = self._reprieve_all(trial, state, pods, order, alive)
        if isinstance(found, Status):
            refusals.refuse(alive, found)
            return DryRunOutcomes(view, rows, refusals)
        for place in np.flatnonzero(alive & ~found.any(axis=1)).tolist():
            # Parity: preemption.go DryRunPreemption, v1.36.
            name = view.name_of(int(rows[place]))
            refusals.refuse_one(place, error(f'expected at least one victim pod on node "{name}"'))
        return DryRunOutcomes(view, rows, refusals, (pods, found, breaks))

    def _judge_without(self, trial: Trial, state: CycleState, pods: IdColumn) -> Verdicts:
        """Judge the rows with all their potential victims gone."""
        if not pods.size:
            return Verdicts(len(pods))
        failed = self._remove_all(trial, state, pods)
        if failed is None:
            return self._filters.judge_with_nominated(state, self._pod, trial.nodes)
        verdicts = Verdicts(len(pods))
        verdicts.refuse(np.ones(len(pods), dtype=np.bool_), failed)
        return verdicts

    def _remove_all(self, trial: Trial, state: CycleState, pods: IdColumn) -> Status | None:
        if not self._follows_pods:
            trial.remove_all(pods)
            return None
        for number in range(pods.shape[1]):
            failed = self._tell("remove", trial, state, trial.remove(pods[:, number]))
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
        """Try each pod of every row again; return which of them have to go all the same.

        Args:
            trial: with all of them gone.
            state: of the trial.
            pods: a line for each row.
            order: in which a row's pods are tried; None: in their own.
            alive: the rows that are worth it.
        """
        in_order = pods if order is None else np.take_along_axis(pods, order, axis=1)
        # A line for each turn, that of all rows.
        turns = Turns(trial.view, np.where(alive, in_order.T, NO_POD))
        goes = np.zeros(turns.index.shape, dtype=np.bool_)
        for turn, victims in enumerate(goes):
            in_the_way = self._reprieve(trial, state, turns, turn)
            if isinstance(in_the_way, Status):
                return in_the_way
            victims[:] = in_the_way
        if order is None:
            return np.ascontiguousarray(goes.T)
        is_victim = np.zeros(pods.shape, dtype=np.bool_)
        np.put_along_axis(is_victim, order, goes.T, axis=1)
        return is_victim

    def _reprieve(
        self, trial: Trial, state: CycleState, turns: Turns, turn: int
    ) -> BoolColumn | Status:
        """Put one pod of each row back, and take it away again where it does not fit."""
        wanted: BoolColumn = turns.index[turn] != NO_POD
        if not wanted.any():
            return wanted
        failed = self._tell("add", trial, state, trial.add_turn(turns, turn))
        if failed is not None:
            return failed
        rows = TrialRows(trial.nodes, wanted)
        fits = self._filters.narrow_with_nominated(self._moving, state, self._pod, rows)
        in_the_way: BoolColumn = wanted & ~fits
        if in_the_way.any():
            failed = self._tell("remove", trial, state, trial.take_back(in_the_way))
        return in_the_way if failed is None else failed

    def _tell(self, verb: str, trial: Trial, state: CycleState, changed: PodRows) -> Status | None:
        if not self._follows_pods:
            return None
        return self._filters.change_pods(verb, state, self._pod, changed, trial)


def potential_victims(view: ClusterView, rows: Rows, priority: int) -> IdColumn:
    """Return the less important pods of each row, most important first, filled up with -1."""
    pods = view.importance.matrix(rows)
    is_victim = (pods != NO_POD) & (view.pods.priority[pods] < priority)
    # In the order of importance they are the last ones of a row; they are moved to its front.
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


def _reprieve_order(pods: IdColumn, breaks: BoolColumn) -> NDArray[np.intp]:
    """Return where each row's pods stand, those first whose eviction breaks a budget."""
    rank = np.where(pods == NO_POD, 2, np.where(breaks, 0, 1)).astype(np.int8)
    return np.argsort(rank, axis=1, kind="stable")
