"""What a dry run found on each node: victims, or why there are none; and whose hurt least.

Owns the form, columns over all nodes that were looked at, and the pick among them. One node's
victims are put together when they are asked for.
Upstream: pkg/scheduler/framework/preemption/preemption.go pickOneNodeForPreemption
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

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
    chosen = [np.flatnonzero(outcomes.is_candidate) for outcomes in found]
    places = np.arange(sum(map(len, chosen)))
    if len(places) == 0:
        return None
    columns = zip(*map(_criteria, found, chosen), strict=True)
    for values in map(np.concatenate, columns):
        here = values[places]
        places = places[here == here.min()]
        if len(places) == 1:
            break
    ends = np.cumsum([len(candidates) for candidates in chosen])
    number = int(np.searchsorted(ends, places[0], side="right"))
    place = int(np.concatenate(chosen)[places[0]])
    victims = found[number][place]
    assert isinstance(victims, Victims)
    return victims


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


def _criteria(outcomes: DryRunOutcomes, chosen: Rows) -> tuple[NDArray[np.generic], ...]:
    """Return the five columns by which candidates are compared; less is better."""
    pods, is_victim = outcomes.pods[chosen], outcomes.is_victim[chosen]
    columns = outcomes.view.pods
    priority = columns.priority[pods]
    # Every candidate has a victim, so that the least number is never the answer.
    least = np.iinfo(np.int64).min
    highest = np.where(is_victim, priority, least).max(axis=1, initial=least)
    # Parity: pkg/scheduler/util/utils.go GetEarliestPodStartTime, v1.36: of the most important
    # victims; one that has not started, starts now.
    most_important = is_victim & (priority == highest[:, None])
    start_s = np.where(most_important, columns.start_s[pods], np.inf).min(axis=1, initial=np.inf)
    return (
        outcomes.violations[chosen],
        highest,
        np.where(is_victim, priority + _PRIORITY_OFFSET, 0).sum(axis=1),
        is_victim.sum(axis=1),
        -start_s,
    )
