"""What a dry run found on each node: victims, or why there are none; and whose hurt least.

Owns the form, columns over all nodes that were looked at, and the pick among them. One node's
victims are put together when they are asked for.
Upstream: pkg/scheduler/framework/preemption/preemption.go pickOneNodeForPreemption
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.columns.view import ClusterView, Rows
from kubesched.framework.interface import Victims
from kubesched.framework.status import Status
from kubesched.framework.verdicts import Verdicts

# Upstream adds it to each priority, so that more victims are worse whatever their sign.
_PRIORITY_OFFSET = 2**31


class DryRunOutcomes:
    """Some rows, each with victims or with a refusal."""

    __slots__ = ("is_victim", "pods", "refusals", "rows", "view", "violations")

    def __init__(
        self,
        view: ClusterView,
        rows: Rows,
        refusals: Verdicts,
        victims: tuple[IdColumn, BoolColumn, BoolColumn] | None = None,
    ) -> None:
        """Take over what was found.

        Args:
            view: of the cluster.
            rows: that were looked at.
            refusals: why a row is no candidate, or that it is one.
            victims: a line of pods for each row, most important first; which of them have to go;
                and which of them break a budget. None if no row is a candidate.
        """
        nobody = np.zeros((len(rows), 0), dtype=np.int32)
        pods, is_victim, breaks = victims or (nobody, nobody >= 0, nobody >= 0)
        self.view = view
        self.rows = rows
        self.refusals = refusals
        self.pods = pods
        self.is_victim = is_victim
        self.violations: IntColumn = (is_victim & breaks).sum(axis=1)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Victims | Status]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> Victims | Status:
        refusal = self.refusals[place]
        if not refusal.is_success:
            return refusal
        pods = self.pods[place, self.is_victim[place]].tolist()
        return Victims(
            self.view.name_of(int(self.rows[place])),
            tuple(map(self.view.bound_pod, pods)),
            int(self.violations[place]),
        )

    def candidates(self) -> Iterator[Victims]:
        """Yield the victims on each row where evicting makes room."""
        return (found for found in self if isinstance(found, Victims))

    @property
    def is_candidate(self) -> BoolColumn:
        """Return where evicting makes room."""
        return self.refusals.fits


def pick_one(found: Sequence[DryRunOutcomes]) -> Victims | None:
    """Return the candidate that hurts least, by upstream's criteria in their order."""
    # Parity: preemption.go pickOneNodeForPreemption, v1.36. The first of full ties is one of the
    # outcomes that upstream's map order can give.
    left = [(outcomes, np.flatnonzero(outcomes.is_candidate)) for outcomes in found]
    for criterion in _CRITERIA:
        # Who is worse by one criterion is not asked about by the next.
        left = [(outcomes, places) for outcomes, places in left if len(places)]
        values = [criterion(outcomes, places) for outcomes, places in left]
        best = min((column.min() for column in values), default=None)
        left = [
            (one, places[of_one == best])
            for (one, places), of_one in zip(left, values, strict=True)
        ]
    for outcomes, places in left:
        if len(places):
            victims = outcomes[places.item(0)]
            assert isinstance(victims, Victims)
            return victims
    return None


def pick_one_of(candidates: Collection[Victims]) -> Victims | None:
    """Return the candidate that hurts least, where victims are as somebody else named them."""
    # Parity: preemption.go SelectCandidate, v1.36, as in `pick_one`; there the victims of a row are
    # in the order of importance, here the first stands for the most important one.
    return min(candidates, key=_hurt, default=None)


def _hurt(victims: Victims) -> tuple[int, int, int, int, float]:
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
    raised = outcomes.view.pods.priority.take(outcomes.pods[chosen], mode="wrap")
    raised += _PRIORITY_OFFSET
    raised *= outcomes.is_victim[chosen]
    summed: IntColumn = raised.sum(axis=1)
    return summed


def _victim_count(outcomes: DryRunOutcomes, chosen: Rows) -> IntColumn:
    count: IntColumn = outcomes.is_victim[chosen].sum(axis=1)
    return count


def _earliest_start(outcomes: DryRunOutcomes, chosen: Rows) -> NDArray[np.float64]:
    # Parity: pkg/scheduler/util/utils.go GetEarliestPodStartTime, v1.36: of the most important
    # victims; one that has not started, starts now.
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
"""The columns by which candidates are compared; less is better."""
