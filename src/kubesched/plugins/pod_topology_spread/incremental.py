"""Incremental filter and score of PodTopologySpread, kept from attempt to attempt.

The rules are those of `filtering` and `scoring`, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.fast import FeasibleRows, GroupedScores
from kubesched.framework.incremental import IncrementalRejections
from kubesched.framework.status import SKIP, Status
from kubesched.plugins.pod_topology_spread.constraints import Constraints
from kubesched.plugins.pod_topology_spread.filtering import PRE_FILTER_KEY, HardPlan, PreFilterState
from kubesched.plugins.pod_topology_spread.scoring import (
    PRE_SCORE_KEY,
    PreScoreState,
    SoftCounts,
    SoftPlan,
    inverted,
    rounded,
)
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_counts import Tally
from kubesched.snapshot.topology import Indexes
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

# With more groups, every node is scored on its own.
GROUPS_MAX = 2048


class TemplateConstraints:
    """The constraints of a template, valid until a service or owner changes its defaults."""

    def __init__(self, view: ClusterView, find: Callable[[], Constraints]) -> None:
        self._find = find
        self._seen = view.objects.change_count
        self.constraints = find()

    def still_hold(self, view: ClusterView) -> bool:
        if self._seen == view.objects.change_count:
            return True
        self._seen = view.objects.change_count
        return self._find() == self.constraints


class IncrementalHardSpread(IncrementalRejections):
    """The nodes that hard constraints reject."""

    key = PRE_FILTER_KEY

    def __init__(
        self, constraints: TemplateConstraints, counts: HardPlan | None, nodes: NodeTable
    ) -> None:
        super().__init__(nodes.view.counters.topology, nodes)
        self._constraints = constraints
        self.value = None if counts is None else PreFilterState(counts)

    def refresh(self, view: ClusterView) -> Self | Status | None:
        """Bring the rejected rows up to date."""
        if not self._constraints.still_hold(view):
            return None
        if self.value is None:
            return SKIP
        self.value.follow()
        return self.set_rejected(self.value.rejected_rows())

    def concerns(self, pods: PodRows) -> bool:
        """Return whether a constraint counts any of the pods."""
        return self.value is not None and any(mask.any() for mask in self.value.matched(pods))


class IncrementalSoftSpread:
    """The scores of feasible nodes by soft constraints."""

    key = PRE_SCORE_KEY

    def __init__(self, constraints: TemplateConstraints, counts: SoftPlan | None) -> None:
        self._constraints = constraints
        self._counts = counts
        self._rows: Rows | None = None
        self._grid: Grid | None = None
        self.value: PreScoreState | None = None

    def refresh(self, view: ClusterView, feasible: FeasibleRows) -> GroupedScores | Status | None:
        """Return the present scores."""
        if not self._constraints.still_hold(view):
            return None
        counts = self._counts
        if counts is None:
            return SKIP
        rows = feasible.rows
        if self._rows is rows and self._grid is not None:
            counts.follow()
            scores = self._grid.scores()
            if scores is not None:
                return scores
        nodes = view.nodes_at(rows)
        self.value = value = PreScoreState(counts, nodes)
        # Grouping pays only if the same nodes are feasible again.
        self._grid = grid_of(counts, nodes) if self._rows is rows else None
        self._rows = rows
        return GroupedScores(value.normalized(value.raw_scores(nodes)))


class Grid:
    """Groups of nodes that the constraints do not distinguish; each group is scored once.

    A group is given by the number of pods on the node, if a constraint is about hosts, and by the
    node's domain of each other constraint.
    """

    def __init__(
        self, plan: SoftPlan, nodes: NodeTable, hosts: Tally | None, static: Indexes, size: int
    ) -> None:
        """Take the pods by row if a constraint is about hosts, and each node's domains as a number.

        `size` is how many such numbers there are.
        """
        weights = plan.fitting(nodes).weights
        self._constraints = list(zip(plan.counts, weights, _shapes(plan), strict=True))
        """Each constraint with the weight of one pod and its axis of the grid."""
        self._rows = nodes.rows
        self._places = plan.topology.places(nodes.rows)
        """The node of each row, -1 if it is not among them."""
        self._hosts = hosts
        self._host_values: NDArray[np.float64] = np.zeros(0)
        self._static = static
        self._size = size
        self._groups: Indexes = static
        self._sizes: list[int] = []
        """The number of nodes in each group."""
        self._used: Indexes = static
        """The groups that have nodes, in order."""
        self._host_count_end = 1
        """One more than the highest number of pods on a node."""
        self._seen = -1
        if hosts is None:
            static.flags.writeable = False
            self._count()

    def scores(self) -> GroupedScores | None:
        """Return the normalized score of each group; None if there are too many groups."""
        self._refresh()
        if self._host_count_end * self._size > GROUPS_MAX:
            return None
        raw = self._raw()
        used = raw.take(self._used)
        lowest, highest = used.item(used.argmin()), used.item(used.argmax())
        # The score of an empty group is arbitrary.
        return GroupedScores(inverted(raw, lowest, highest), self._groups)

    def _raw(self) -> IntColumn:
        """Return the raw score of each group."""
        totals: NDArray[np.float64] | None = None
        for counts, weight, shape in self._constraints:
            if counts.table is None:
                values = self._by_hosts(counts, weight)
            else:
                values = counts.by_domain(weight)
            values = values.reshape(shape)
            totals = values if totals is None else totals + values
        assert totals is not None, "a plan has a constraint"
        if len(self._constraints) == 1:
            totals = totals.copy()
        return rounded(totals.ravel(), are_counts=True)

    def _by_hosts(self, counts: SoftCounts, weight: np.float64) -> NDArray[np.float64]:
        """Return the raw score for each number of pods on a node."""
        values = self._host_values
        if len(values) != self._host_count_end:
            values = np.arange(self._host_count_end) * weight
            values += float(counts.constraint.max_skew - 1)
            self._host_values = values
        return values

    def _refresh(self) -> None:
        """Bring the group of each node up to date."""
        tally = self._hosts
        if tally is None:
            return
        done = tally.first_hit + len(tally.hits)
        if self._seen < tally.first_hit:
            counts = tally.rows.take(self._rows).astype(np.intp)
            self._groups = counts * self._size + self._static
            self._host_count_end = int(counts.max(initial=0)) + 1
            self._count()
        elif self._seen != done:
            for row, amount in tally.hits[self._seen - tally.first_hit :]:
                place = self._places.item(row) if row < len(self._places) else -1
                if place >= 0:
                    self._host_count_end = max(self._host_count_end, tally.rows.item(row) + 1)
                    self._move(place, amount * self._size)
        self._seen = done

    def _count(self) -> None:
        sizes = np.bincount(self._groups)
        self._sizes, self._used = sizes.tolist(), sizes.nonzero()[0]

    def _move(self, place: int, by: int) -> None:
        """Put one node into another group."""
        sizes, old = self._sizes, self._groups.item(place)
        new = old + by
        self._groups[place] = new
        if new >= len(sizes):
            sizes += [0] * (new + 1 - len(sizes))
        sizes[old] -= 1
        sizes[new] += 1
        if sizes[old] == 0 or sizes[new] == 1:
            self._used = np.array([group for group, count in enumerate(sizes) if count])


def _shapes(plan: SoftPlan) -> list[list[int]]:
    """Return the axis of the grid of each constraint; hosts come first."""
    shapes, axis = [], 1
    for counts in plan.counts:
        shape = [1] * (1 + sum(other.table is not None for other in plan.counts))
        if counts.table is None:
            shape[0] = -1
        else:
            shape[axis] = -1
            axis += 1
        shapes.append(shape)
    return shapes


def grid_of(plan: SoftPlan, nodes: NodeTable) -> Grid | None:
    """Return the groups of nodes; None if these are not few."""
    if not plan.are_counts or not len(nodes) or plan.fitting(nodes).ignored is not None:
        return None
    topology = plan.topology
    static: Indexes = np.zeros(len(nodes), dtype=np.intp)
    size, hosts = 1, None
    for counts in plan.counts:
        if counts.table is not None:
            domain_count = len(counts.table.sums)
            size *= domain_count
            if size > GROUPS_MAX:
                return None
            static = static * domain_count + topology.column(nodes, counts.key)
        elif hosts is not None or not topology.domains(counts.key).is_everywhere:
            return None
        else:
            hosts = counts.tally
    return Grid(plan, nodes, hosts, static, size)
