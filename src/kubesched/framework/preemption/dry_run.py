"""Who would have to go: victims on many candidate nodes together, step by step.

Owns the trial: all less important pods gone, then each tried again, most important first. Nothing
is evicted here.
Upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go
SelectVictimsOnNode
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IdColumn
from kubesched.columns.pod_columns import BoundPod
from kubesched.columns.trial import NO_POD, Trial
from kubesched.columns.view import ClusterView, Rows
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.filter_phase import FilterPhase
from kubesched.framework.interface import Victims
from kubesched.framework.preemption.budgets import Budget, violating
from kubesched.framework.status import Status, error, unresolvable
from kubesched.model.pod_info import PodInfo

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class DryRun:
    """Victims on some rows, each row by itself, all rows in lockstep."""

    def __init__(
        self, filters: FilterPhase, state: CycleState, pod: PodInfo, budgets: Sequence[Budget]
    ) -> None:
        self._filters = filters
        self._state = state
        self._pod = pod
        self._budgets = budgets

    def select(self, view: ClusterView, rows: Rows) -> list[Victims | Status]:
        """Return, per row, who would have to go, or why nobody's going helps."""
        if self._filters.needs_single_rows(self._state) and len(rows) > 1:
            return [self.select(view, rows[[place]])[0] for place in range(len(rows))]
        lists = [potential_victims(view, int(row), self._pod.priority) for row in rows]
        outcome: list[Victims | Status] = [NO_VICTIMS] * len(rows)
        possible = np.array(
            [place for place, victims in enumerate(lists) if victims], dtype=np.int64
        )
        if len(possible):
            found = self._select(view, rows[possible], [lists[place] for place in possible])
            for place, result in zip(possible.tolist(), found, strict=True):
                outcome[place] = result
        return outcome

    def _select(
        self, view: ClusterView, rows: Rows, lists: list[list[BoundPod]]
    ) -> list[Victims | Status]:
        trial, state = Trial(view, rows), self._state.clone()
        outcome: list[Victims | Status | None] = [None] * len(rows)
        for step in _steps(lists):
            failed = self._change("remove", trial, state, step)
            if failed is not None:
                return [failed] * len(rows)
        verdicts = self._filters.judge_with_nominated(state, self._pod, trial.nodes)
        alive = verdicts.fits.copy()
        for place in np.flatnonzero(~alive).tolist():
            outcome[place] = verdicts[place]
        ordered, breaks = self._reprieve_order(lists)
        victims: list[list[int]] = [[] for _ in rows]
        for number, step in enumerate(_steps(ordered)):
            tried = np.where(alive, step, NO_POD).astype(np.int32)
            failed = self._reprieve(trial, state, tried, victims, number)
            if failed is not None:
                return [failed if o is None else o for o in outcome]
        names = view.nodes_at(rows).names
        for place in np.flatnonzero(alive).tolist():
            outcome[place] = _victims(names[place], ordered[place], breaks[place], victims[place])
        return [o for o in outcome if o is not None]

    def _reprieve_order(
        self, lists: list[list[BoundPod]]
    ) -> tuple[list[list[BoundPod]], list[list[bool]]]:
        """Return each row's pods with those first whose eviction breaks a budget."""
        ordered: list[list[BoundPod]] = []
        breaks: list[list[bool]] = []
        for pods in lists:
            marks = violating(pods, self._budgets)
            pairs = sorted(zip(pods, marks, strict=True), key=lambda pair: not pair[1])
            ordered.append([pod for pod, _ in pairs])
            breaks.append([mark for _, mark in pairs])
        return ordered, breaks

    def _reprieve(
        self,
        trial: Trial,
        state: CycleState,
        tried: IdColumn,
        victims: list[list[int]],
        number: int,
    ) -> Status | None:
        """Put one pod of each row back, and take it away again where it does not fit."""
        failed = self._change("add", trial, state, tried)
        if failed is not None:
            return failed
        verdicts = self._filters.judge_with_nominated(state, self._pod, trial.nodes)
        in_the_way: BoolColumn = ~verdicts.fits & (tried != NO_POD)
        for place in np.flatnonzero(in_the_way).tolist():
            victims[place].append(number)
        return self._change(
            "remove", trial, state, np.where(in_the_way, tried, NO_POD).astype(np.int32)
        )

    def _change(self, verb: str, trial: Trial, state: CycleState, step: IdColumn) -> Status | None:
        if not (step != NO_POD).any():
            return None
        changed = trial.add(step) if verb == "add" else trial.remove(step)
        return self._filters.change_pods(verb, state, self._pod, changed, trial.nodes)


def potential_victims(view: ClusterView, row: int, priority: int) -> list[BoundPod]:
    """Return the less important pods of a row, most important first."""
    # Parity: pkg/scheduler/util/utils.go MoreImportantPod, v1.36. Among pods of equal priority and
    # start upstream goes by arrival; the key makes it repeatable.
    pods = [p for p in map(view.bound_pod, view.pods_on(row)) if p.priority < priority]
    return sorted(pods, key=lambda pod: (-pod.priority, view.pods.start_s[pod.index], pod.key))


def _steps(lists: Sequence[Sequence[BoundPod]]) -> list[IdColumn]:
    """Return the n-th pod of each row as a column of indices, for every n."""
    longest = max(map(len, lists), default=0)
    return [
        np.array([pods[n].index if n < len(pods) else NO_POD for pods in lists], dtype=np.int32)
        for n in range(longest)
    ]


def _victims(
    node_name: str, ordered: list[BoundPod], breaks: list[bool], numbers: list[int]
) -> Victims | Status:
    if not numbers:
        # Parity: preemption.go DryRunPreemption, v1.36.
        return error(f'expected at least one victim pod on node "{node_name}"')
    start = float("inf")
    pods = sorted(
        (ordered[n] for n in numbers),
        key=lambda pod: (-pod.priority, start if pod.start_s is None else pod.start_s),
    )
    return Victims(node_name, tuple(pods), sum(breaks[n] for n in numbers))
