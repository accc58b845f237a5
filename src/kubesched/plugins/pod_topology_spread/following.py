"""Both kinds of constraints for all pods of a template, answered by what changed since last time.

Owns what is kept from attempt to attempt beside the counts. The rules are those of the modules
beside it; what is answered here equals what they would say if they were asked anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.counts import Tally
from kubesched.columns.domains import Places
from kubesched.columns.node_columns import IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.followers import Added, Fitting, RefusingFollower
from kubesched.framework.status import SKIP, Status
from kubesched.plugins.pod_topology_spread.constraints import Constraints
from kubesched.plugins.pod_topology_spread.filtering import (
    PRE_FILTER_KEY,
    HardPlan,
    PreFilterState,
)
from kubesched.plugins.pod_topology_spread.scoring import (
    PRE_SCORE_KEY,
    PreScoreState,
    SoftCounts,
    SoftPlan,
    rounded,
    turned_round,
)

# Up to so many ways in which nodes can differ are worked out on their own.
WAYS_MAX = 2048


class Given:
    """The constraints of a template, as long as no service or owner gives it others."""

    __slots__ = ("_find", "_seen", "constraints")

    def __init__(self, view: ClusterView, find: Callable[[], Constraints]) -> None:
        self._find = find
        self._seen = view.objects.change_count
        self.constraints = find()

    def still_hold(self, view: ClusterView) -> bool:
        """Return whether they are still the same."""
        if self._seen == view.objects.change_count:
            return True
        self._seen = view.objects.change_count
        return self._find() == self.constraints


class HardFollower(RefusingFollower):
    """Which nodes hard constraints refuse."""

    __slots__ = ("_given", "value")
    key = PRE_FILTER_KEY

    def __init__(self, given: Given, plan: HardPlan | None, nodes: NodeTable) -> None:
        """Begin without an answer.

        Args:
            given: the constraints.
            plan: with the counts; None if there is no constraint.
            nodes: all rows.
        """
        super().__init__(nodes.view.counters.topology, nodes)
        self._given = given
        self.value = None if plan is None else PreFilterState(plan)

    def follow(self, view: ClusterView) -> Self | Status | None:
        """Return the verdict as it is now."""
        if not self._given.still_hold(view):
            return None
        if self.value is None:
            return SKIP
        self.value.follow()
        return self.refuse(self.value.refusals())

    def concerns(self, pods: PodRows) -> bool:
        """Return whether a constraint counts any of the pods."""
        return self.value is not None and any(one.any() for one in self.value.matched(pods))


class SoftFollower:
    """What soft constraints add to the nodes that fit."""

    __slots__ = ("_given", "_grid", "_plan", "_rows", "value")
    key = PRE_SCORE_KEY

    def __init__(self, given: Given, plan: SoftPlan | None) -> None:
        """Begin without an answer.

        Args:
            given: the constraints.
            plan: with the counts; None if there is no constraint.
        """
        self._given = given
        self._plan = plan
        self._rows: Rows | None = None
        self._grid: Grid | None = None
        self.value: PreScoreState | None = None

    def follow(self, view: ClusterView, fitting: Fitting) -> Added | Status | None:
        """Return the scores as they are now."""
        if not self._given.still_hold(view):
            return None
        plan = self._plan
        if plan is None:
            return SKIP
        rows = fitting.rows
        if self._rows is rows and self._grid is not None:
            plan.follow()
            scores = self._grid.scores()
            if scores is not None:
                return scores
        nodes = view.nodes_at(rows)
        self.value = value = PreScoreState(plan, nodes)
        # What differs is worth finding only if the same nodes fit again.
        self._grid = grid_of(plan, nodes) if self._rows is rows else None
        self._rows = rows
        return Added(value.normalized(value.raw_scores(nodes)))


class Grid:
    """All ways in which nodes can differ to the constraints, and which of them is each node's.

    The score is worked out once for each way, and handed to the nodes. A way is the number of pods
    on the node, if a constraint is about hosts, and the node's domain of each other constraint.
    """

    __slots__ = (
        "_having",
        "_host_values",
        "_hosts",
        "_more",
        "_parts",
        "_places",
        "_rows",
        "_seen",
        "_size",
        "_static",
        "_used",
        "_ways",
    )

    def __init__(
        self, plan: SoftPlan, nodes: NodeTable, hosts: Tally | None, static: Places, size: int
    ) -> None:
        """Begin without having looked at the pods.

        Args:
            plan: with the constraints.
            nodes: that fit.
            hosts: the number of pods by row, if a constraint is about hosts.
            static: each node's domains as one number.
            size: how many such numbers there are.
        """
        weights = plan.fitting(nodes).weights
        self._parts = list(zip(plan.counts, weights, _shapes(plan), strict=True))
        """The constraints, what one pod weighs, and along which side their values stand."""
        self._rows = nodes.rows
        self._places = plan.topology.places(nodes.rows)
        """The node of each row, -1 if it is not among them."""
        self._hosts = hosts
        self._host_values: NDArray[np.float64] = np.zeros(0)
        self._static = static
        self._size = size
        self._ways: Places = static
        self._having: list[int] = []
        """How many nodes have each way."""
        self._used: Places = static
        """The ways that are some node's, in order."""
        self._more = 1
        """How many numbers of pods on a node are reckoned with."""
        self._seen = -1
        if hosts is None:
            self._count()

    def scores(self) -> Added | None:
        """Return the score of each way, turned round; None if there are too many ways."""
        self._follow()
        if self._more * self._size > WAYS_MAX:
            return None
        raw = self._raw()
        used = raw.take(self._used)
        lowest, highest = used.item(used.argmin()), used.item(used.argmax())
        # What is nobody's way may come out anyhow.
        return Added(turned_round(raw, lowest, highest), self._ways)

    def _raw(self) -> IntColumn:
        """Return the raw score of each way."""
        totals: NDArray[np.float64] | None = None
        for counts, weight, shape in self._parts:
            if counts.table is None:
                values = self._by_hosts(counts, weight)
            else:
                values = counts.by_domain(weight)
            values = values.reshape(shape)
            totals = values if totals is None else totals + values
        assert totals is not None, "a plan has a constraint"
        if len(self._parts) == 1:
            totals = totals.copy()
        return rounded(totals.ravel(), are_counts=True)

    def _by_hosts(self, counts: SoftCounts, weight: np.float64) -> NDArray[np.float64]:
        """Return what the constraint adds for each number of pods on a node."""
        values = self._host_values
        if len(values) != self._more:
            values = np.arange(self._more) * weight
            values += float(counts.constraint.max_skew - 1)
            self._host_values = values
        return values

    def _follow(self) -> None:
        """Have the way of each node as it is now."""
        tally = self._hosts
        if tally is None:
            return
        done = tally.first_hit + len(tally.hits)
        if self._seen < tally.first_hit:
            counts = tally.rows.take(self._rows).astype(np.intp)
            self._ways = counts * self._size + self._static
            self._more = int(counts.max(initial=0)) + 1
            self._count()
        elif self._seen != done:
            for row, amount in tally.hits[self._seen - tally.first_hit :]:
                place = self._places.item(row) if row < len(self._places) else -1
                if place >= 0:
                    self._more = max(self._more, tally.rows.item(row) + 1)
                    self._move(place, amount * self._size)
        self._seen = done

    def _count(self) -> None:
        having = np.bincount(self._ways)
        self._having, self._used = having.tolist(), having.nonzero()[0]

    def _move(self, place: int, by: int) -> None:
        """Have one node be of another way."""
        having, old = self._having, self._ways.item(place)
        new = old + by
        self._ways[place] = new
        if new >= len(having):
            having += [0] * (new + 1 - len(having))
        having[old] -= 1
        having[new] += 1
        if having[old] == 0 or having[new] == 1:
            self._used = np.array([way for way, count in enumerate(having) if count])


def _shapes(plan: SoftPlan) -> list[list[int]]:
    """Return along which side of the grid each constraint's values stand; hosts come first."""
    shapes, axis = [], 1
    for counts in plan.counts:
        shape = [1] * (1 + sum(one.table is not None for one in plan.counts))
        if counts.table is None:
            shape[0] = -1
        else:
            shape[axis] = -1
            axis += 1
        shapes.append(shape)
    return shapes


def grid_of(plan: SoftPlan, nodes: NodeTable) -> Grid | None:
    """Return the ways in which nodes can differ; None if these are not few."""
    if not plan.are_counts or not len(nodes) or plan.fitting(nodes).ignored is not None:
        return None
    topology = plan.topology
    static: Places = np.zeros(len(nodes), dtype=np.intp)
    size, hosts = 1, None
    for counts in plan.counts:
        if counts.table is not None:
            domain_count = len(counts.table.sums)
            size *= domain_count
            if size > WAYS_MAX:
                return None
            static = static * domain_count + topology.column(nodes, counts.key)
        elif hosts is not None or not topology.domains(counts.key).is_everywhere:
            return None
        else:
            hosts = counts.tally
    return Grid(plan, nodes, hosts, static, size)
