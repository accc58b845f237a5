"""Preemption candidates: the victims that a dry run found on each node, and the choice of a node.

Outcomes are columns over all nodes of the dry run; the victims of one node become objects when they
are read.
Upstream: pkg/scheduler/framework/preemption/preemption.go pickOneNodeForPreemption
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.interface import Victims
from kubesched.framework.status import Status
from kubesched.framework.verdicts import Verdicts
from kubesched.snapshot.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.snapshot.view import ClusterView, Rows

# Upstream adds it to each priority, so that more victims cost more even if negative.
_PRIORITY_OFFSET = 2**31


class DryRunOutcomes:
    """The outcome of a dry run on some rows: victims, or a rejection."""

    __slots__ = ("is_victim", "pods", "rejections", "rows", "view", "violations")

    def __init__(
        self,
        view: ClusterView,
        rows: Rows,
        rejections: Verdicts,
        victims: tuple[IdColumn, BoolColumn, BoolColumn] | None = None,
    ) -> None:
        """Store the outcomes.

        Args:
            view: The cluster.
            rows: The rows of the dry run.
            rejections: Why a row is no candidate; success for a candidate.
            victims: The pods of each row, the most important first; which of them are victims; and
                which of them violate a budget. None if no row is a candidate.
        """
        no_pods = np.zeros((len(rows), 0), dtype=np.int32)
        pods, is_victim, violates = victims or (no_pods, no_pods >= 0, no_pods >= 0)
        self.view = view
        self.rows = rows
        self.rejections = rejections
        self.pods = pods
        self.is_victim = is_victim
        self.violations: IntColumn = (is_victim & violates).sum(axis=1)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Victims | Status]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, position: int) -> Victims | Status:
        rejection = self.rejections[position]
        if not rejection.is_success:
            return rejection
        pods = self.pods[position, self.is_victim[position]].tolist()
        return Victims(
            self.view.name_of(int(self.rows[position])),
            tuple(map(self.view.bound_pod, pods)),
            int(self.violations[position]),
        )

    def candidates(self) -> Iterator[Victims]:
        """Yield the victims of each candidate row."""
        return (outcome for outcome in self if isinstance(outcome, Victims))

    @property
    def is_candidate(self) -> BoolColumn:
        """Return which rows are candidates."""
        return self.rejections.fits


def pick_one(chunks: Sequence[DryRunOutcomes]) -> Victims | None:
    """Return the best candidate by upstream's criteria, in their order."""
    # Parity: preemption.go pickOneNodeForPreemption, v1.36. The first of full ties is one of the
    # outcomes that upstream's map order can give.
    ties = [(outcomes, np.flatnonzero(outcomes.is_candidate)) for outcomes in chunks]
    for criterion in _CRITERIA:
        # Each criterion judges only the ties of the one before.
        ties = [(outcomes, rows) for outcomes, rows in ties if len(rows)]
        values = [criterion(outcomes, rows) for outcomes, rows in ties]
        best = min((column.min() for column in values), default=None)
        ties = [
            (outcomes, rows[column == best])
            for (outcomes, rows), column in zip(ties, values, strict=True)
        ]
    for outcomes, rows in ties:
        if len(rows):
            victims = outcomes[rows.item(0)]
            assert isinstance(victims, Victims)
            return victims
    return None


def pick_one_of(candidates: Collection[Victims]) -> Victims | None:
    """Return the best candidate of those that extenders returned."""
    # Parity: preemption.go SelectCandidate, v1.36, as in `pick_one`. Extenders may return victims
    # in any order; the first one counts as the most important.
    return min(candidates, key=_cost, default=None)


def _cost(victims: Victims) -> tuple[int, int, int, int, float]:
    pods = victims.pods
    highest = max(pod.priority for pod in pods)
    starts_s = [pod.start_s for pod in pods if pod.priority == highest and pod.start_s is not None]
    return (
        victims.pdb_violation_count,
        pods[0].priority,
        sum(pod.priority + _PRIORITY_OFFSET for pod in pods),
        len(pods),
        -min(starts_s, default=math.inf),
    )


def _violations(outcomes: DryRunOutcomes, chosen: Rows) -> IntColumn:
    return outcomes.violations[chosen]


def _highest_priority(outcomes: DryRunOutcomes, chosen: Rows) -> IntColumn:
    # Every candidate has a victim; the first is the most important one.
    first = outcomes.is_victim[chosen].argmax(axis=1)
    return outcomes.view.pods.priority[outcomes.pods[chosen, first]]


def _summed_priorities(outcomes: DryRunOutcomes, chosen: Rows) -> IntColumn:
    priorities = outcomes.view.pods.priority.take(outcomes.pods[chosen], mode="wrap")
    priorities += _PRIORITY_OFFSET
    priorities *= outcomes.is_victim[chosen]
    return priorities.sum(axis=1)


def _victim_count(outcomes: DryRunOutcomes, chosen: Rows) -> IntColumn:
    return outcomes.is_victim[chosen].sum(axis=1)


def _earliest_start(outcomes: DryRunOutcomes, chosen: Rows) -> NDArray[np.float64]:
    # Parity: pkg/scheduler/util/utils.go GetEarliestPodStartTime, v1.36: of the most important
    # victims; a victim that has not started counts as starting now.
    pods, columns = outcomes.pods[chosen], outcomes.view.pods
    highest = _highest_priority(outcomes, chosen)
    counts = outcomes.is_victim[chosen] & (columns.priority[pods] == highest[:, None])
    start_s = np.where(counts, columns.start_s[pods], np.inf).min(axis=1, initial=np.inf)
    return -start_s


_CRITERIA: tuple[Callable[[DryRunOutcomes, Rows], NDArray[Any]], ...] = (
    _violations,
    _highest_priority,
    _summed_priorities,
    _victim_count,
    _earliest_start,
)
"""The columns by which candidates are compared; lower is better."""
