"""Hard spread constraints: counts of matching pods by domain, and the nodes that would skew them.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kubesched.framework.incremental import RejectedRows, rejections
from kubesched.framework.interface import Rejected
from kubesched.framework.status import unresolvable, unschedulable
from kubesched.plugins.pod_topology_spread.constraints import Constraint, Constraints
from kubesched.plugins.pod_topology_spread.counting import (
    Inclusion,
    matching_classes,
    matching_pods,
)
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_counts import DomainTable, PodWeights
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.topology import Indexes, SameRows
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, NodeTable

CONSTRAINTS_NOT_MATCH = unschedulable("node(s) didn't match pod topology spread constraints")
NODE_LABEL_NOT_MATCH = unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)"
)
PRE_FILTER_KEY = "PreFilterPodTopologySpread"
# Upstream's minimum where there is no domain.
COUNT_MAX = 2**31 - 1


class Lowest(NamedTuple):
    """The lowest count of any domain, its domain, and the lowest count of the others."""

    domain: int
    least: int
    second: int


class DomainCounts:
    """The counts of one constraint in the cluster; a trial does not change them."""

    def __init__(
        self, view: ClusterView, pod: PodInfo, inclusion: Inclusion, constraint: Constraint
    ) -> None:
        key, selector = constraint.topology_key, constraint.selector
        self.domains = domains = view.counters.topology.domains(key)
        self.constraint = constraint
        self.bearable = constraint.max_skew - int(selector.matches(pod.labels))
        """How many pods more than the least a domain may have before this pod comes."""
        tally = matching_pods(view, pod.namespace, selector)
        self.included: BoolColumn = inclusion.rows(constraint)
        """Which rows count, over all rows."""
        slots = inclusion.slots(constraint, domains.count)
        self.table = DomainTable(tally, slots, domains)
        self._existing: Indexes = np.flatnonzero(
            np.bincount(slots, minlength=domains.count)[: domains.count]
        )
        self._are_all = len(self._existing) == domains.count > 0
        """Whether every domain has a node that counts."""
        self.is_critical = len(self._existing) < constraint.min_domains
        """Whether there are too few domains to spread over."""
        # An empty selector counts no pod of the cluster, but every pod of a trial.
        self.classes: PodWeights = (
            matching_classes(view, pod.namespace, selector) if selector.is_empty else tally.values
        )

    def least(self) -> int:
        """Return the lowest count of any domain, without trials."""
        counts = self.table.follow()
        if self.is_critical:
            return 0
        if self._are_all:
            # All there are but the last entry: an argmin takes half the time of a min.
            counts = counts[:-1]
            return counts.item(counts.argmin())
        return int(counts[self._existing].min(initial=COUNT_MAX))

    def lowest(self) -> Lowest:
        """Return the two lowest counts, without trials."""
        counts = self.table.follow()[self._existing]
        if not len(counts):
            return Lowest(-1, COUNT_MAX, COUNT_MAX)
        place = int(np.argmin(counts))
        others = np.delete(counts, place)
        return Lowest(
            int(self._existing[place]), int(counts[place]), int(others.min(initial=COUNT_MAX))
        )


class HardPlan:
    """The counts that all pods of a template share; valid until a node changes."""

    def __init__(self, view: ClusterView, pod: PodInfo, constraints: Constraints) -> None:
        # Parity: podtopologyspread/filtering.go calPreFilterState, v1.36.
        self.constraints = constraints
        self.topology = view.counters.topology
        inclusion = Inclusion(view, pod, constraints, require_all=True)
        self.counts = tuple(DomainCounts(view, pod, inclusion, c) for c in constraints)
        self.rejected_rows: list[RejectedRows] = []
        """In the order of the constraints; rows are too crowded by the last limit set."""
        for counts in self.counts:
            if not counts.domains.is_everywhere:
                self.rejected_rows.append((SameRows(counts.domains.lacking), NODE_LABEL_NOT_MATCH))
            self.rejected_rows.append((counts.table.above(COUNT_MAX), CONSTRAINTS_NOT_MATCH))

    @property
    def nbytes(self) -> int:
        """Return about how much memory this takes."""
        return sum(counts.table.nbytes for counts in self.counts)


class PreFilterState:
    """The counts of all hard constraints, and what a trial has added or removed on each row."""

    __slots__ = ("_deltas", "_least", "_lowest", "_plan")

    def __init__(self, plan: HardPlan) -> None:
        self._plan = plan
        self._least = [counts.least() for counts in plan.counts]
        self._lowest: list[Lowest | None] = [None] * len(plan.counts)
        self._deltas: list[IntColumn] | None = None
        """By constraint; None until a trial changes anything."""

    def follow(self) -> None:
        """Bring the counts up to date."""
        # Clones share the lists, so they are replaced.
        self._least = [counts.least() for counts in self._plan.counts]
        self._lowest = [None] * len(self._least)

    def clone(self) -> PreFilterState:
        """Return a state that a trial may change."""
        copy = object.__new__(PreFilterState)
        copy._plan, copy._least, copy._lowest = self._plan, self._least, self._lowest
        copy._deltas = self._deltas
        return copy

    def shift(self, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        """Add or remove one pod on each row."""
        # Parity: podtopologyspread/filtering.go updateWithPod, v1.36: neither a deletion timestamp
        # nor an empty selector is looked at, so that a count may go below zero.
        if not pods.present.any():
            return
        previous, deltas = self._deltas, list[IntColumn]()
        for place, matched in enumerate(self.matched(pods)):
            moved = matched & self._plan.counts[place].included[nodes.rows]
            change = sign * moved.astype(np.int64)
            deltas.append(change if previous is None else previous[place] + change)
        # Clones share the list and the arrays, so they are replaced and never written.
        self._deltas = deltas

    def matched(self, pods: PodRows) -> Iterator[BoolColumn]:
        """Yield a mask for each constraint: the pods that it counts, on any node."""
        label_class = pods.label_class
        for counts in self._plan.counts:
            yield pods.present & (counts.classes.up_to_date()[label_class] != 0)

    def rejected_rows(self) -> list[RejectedRows]:
        """Return the rejected rows of the present cluster; always the same list."""
        for counts, least in zip(self._plan.counts, self._least, strict=True):
            counts.table.above(counts.bearable + least)
        return self._plan.rejected_rows

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts in the order of the constraints."""
        # Parity: podtopologyspread/filtering.go Filter, v1.36.
        over, deltas = self._plan.topology.over, self._deltas
        if deltas is None:
            return list(rejections(self.rejected_rows(), self._plan.topology, nodes))
        verdicts: list[Rejected] = []
        for place, counts in enumerate(self._plan.counts):
            if not counts.domains.is_everywhere:
                lacking = over(nodes, counts.domains.lacking)
                verdicts.append(Rejected(lacking, NODE_LABEL_NOT_MATCH))
            column = self._plan.topology.column(nodes, counts.constraint.topology_key)
            own = counts.table.sums.take(column) + deltas[place]
            least = self._supposed_least(place, nodes, column, own)
            verdicts.append(Rejected(own - least > counts.bearable, CONSTRAINTS_NOT_MATCH))
        return verdicts

    def _supposed_least(
        self, place: int, nodes: NodeTable, column: Indexes, own: IntColumn
    ) -> IntColumn | int:
        """Return for each node the lowest count of any domain in its trial.

        Args:
            place: The index of the constraint.
            nodes: The rows of the trial.
            column: The domain of each row.
            own: The count of each row's own domain in its trial.
        """
        counts = self._plan.counts[place]
        if counts.is_critical:
            return 0
        lowest = self._lowest[place]
        if lowest is None:
            lowest = self._lowest[place] = counts.lowest()
        # Only the count of the row's own domain can change. Upstream's two minima are equivalent.
        others = np.where(column == lowest.domain, lowest.second, lowest.least)
        included = counts.included[nodes.rows]
        return np.where(included, np.minimum(own, others), lowest.least)
