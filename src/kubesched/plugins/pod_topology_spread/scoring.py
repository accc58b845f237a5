"""Soft spread constraints: the fewer matching pods a node's domains have, the better the node.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.normalize import truncated_divide
from kubesched.golang.math import go_log
from kubesched.plugins.pod_topology_spread.constraints import HOSTNAME, Constraint, Constraints
from kubesched.plugins.pod_topology_spread.counting import Inclusion, matching_pods
from kubesched.snapshot.node_columns import BoolColumn, IntColumn
from kubesched.snapshot.pod_counts import DomainTable, Tally
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.topology import Indexes, Topology
from kubesched.snapshot.view import ClusterView, NodeTable

PRE_SCORE_KEY = "PreScorePodTopologySpread"
_INVALID_SCORE = -1


class SoftCounts:
    """One constraint: how many pods count for each row, or for each domain of rows."""

    def __init__(
        self, view: ClusterView, pod: PodInfo, inclusion: Inclusion, constraint: Constraint
    ) -> None:
        self.constraint = constraint
        self.key = constraint.topology_key
        self.tally: Tally = matching_pods(view, pod.namespace, constraint.selector)
        self.table: DomainTable | None = None
        """None for the hostname: the node's own pods count, whatever its label and the policies."""
        self._domains = domains = view.counters.topology.domains(self.key)
        # Nodes without the key are one domain, that of the empty value; they take part under the
        # system's defaults only.
        empty = view.label_values(self.key).id_of("")
        self.missing = empty if empty >= 0 else domains.count
        if self.key != HOSTNAME:
            slots = inclusion.slots(constraint, self.missing)
            self.table = DomainTable(self.tally, slots, domains)

    def by_domain(self, weight: np.float64) -> NDArray[np.float64]:
        """Return the constraint's part of the score by domain; 0 where the key is missing."""
        assert self.table is not None, "the hostname has none"
        by_domain: NDArray[np.float64] = self.table.sums * weight
        by_domain += float(self.constraint.max_skew - 1)
        by_domain[-1] = 0.0
        return by_domain

    def values(
        self, topology: Topology, nodes: NodeTable, weight: np.float64
    ) -> NDArray[np.float64]:
        """Return the constraint's part of each node's score; 0 for nodes without the key."""
        # Parity: podtopologyspread/scoring.go Score, scoreForCount, v1.36.
        more = float(self.constraint.max_skew - 1)
        if self.table is not None:
            return self.by_domain(weight).take(topology.column(nodes, self.key))
        by_row: NDArray[np.float64] = self.tally.rows.take(nodes.rows) * weight
        if more:
            by_row += more
        if not self._domains.is_everywhere:
            by_row[topology.over(nodes, self._domains.lacking)] = 0.0
        return by_row


class SoftPlan:
    """The counts by which all pods of a template are scored; valid until a node changes."""

    def __init__(
        self, view: ClusterView, pod: PodInfo, constraints: Constraints, *, require_all: bool
    ) -> None:
        # Parity: podtopologyspread/scoring.go PreScore, initPreScoreState, v1.36.
        self.constraints = constraints
        self.are_counts = all(constraint.max_skew >= 1 for constraint in constraints)
        """Whether no raw score is below the number of pods it stands for."""
        self.require_all = require_all
        self.topology = view.counters.topology
        inclusion = Inclusion(view, pod, constraints, require_all=require_all)
        self.counts = tuple(SoftCounts(view, pod, inclusion, c) for c in constraints)
        self._fitting: Fitting | None = None

    @property
    def nbytes(self) -> int:
        """Return about how much memory this takes."""
        by_place = 8 * len(self.topology.rows)
        return by_place + sum((counts.table or counts.tally).nbytes for counts in self.counts)

    def follow(self) -> None:
        """Bring all counts up to date."""
        for counts in self.counts:
            if counts.table is not None:
                counts.table.follow()
            else:
                counts.tally.follow()

    def fitting(self, nodes: NodeTable) -> Fitting:
        """Return the values that depend on the feasible nodes, cached while these are the same."""
        fitting = self._fitting
        if fitting is None or fitting.rows is not nodes.rows:
            ignored = self.lacking(nodes) if self.require_all else None
            weights = tuple(
                np.float64(go_log(self._size(c, nodes, ignored) + 2)) for c in self.counts
            )
            fitting = self._fitting = Fitting(nodes.rows, ignored, weights)
        return fitting

    def lacking(self, nodes: NodeTable) -> BoolColumn | None:
        """Return which nodes lack a topology key; None if all have them."""
        topology = self.topology
        keys = [c.key for c in self.counts if not topology.domains(c.key).is_everywhere]
        if not keys:
            return None
        lacking = np.zeros(len(nodes), dtype=np.bool_)
        for key in keys:
            lacking |= topology.column(nodes, key) == topology.domains(key).count
        return lacking if lacking.any() else None

    def _size(self, counts: SoftCounts, nodes: NodeTable, ignored: BoolColumn | None) -> int:
        """Return how many domains the scored nodes have."""
        if counts.table is None:
            return len(nodes) - (0 if ignored is None else int(np.count_nonzero(ignored)))
        column = self.topology.column(nodes, counts.key)
        seen = np.zeros(len(counts.table.sums), dtype=np.bool_)
        seen[column if ignored is None else column[~ignored]] = True
        if seen[-1] and counts.missing != len(seen) - 1:
            seen[counts.missing], seen[-1] = True, False
        return int(np.count_nonzero(seen))


@dataclass(frozen=True, slots=True)
class Fitting:
    """Values that depend on the set of feasible nodes."""

    rows: Indexes
    ignored: BoolColumn | None
    """A mask of the nodes that are not scored; None if all are scored."""
    weights: tuple[np.float64, ...]
    """The weight of one pod, by constraint."""


class PreScoreState:
    """The data for scoring the feasible nodes."""

    __slots__ = ("_fitting", "_plan")

    def __init__(self, plan: SoftPlan, nodes: NodeTable) -> None:
        plan.follow()
        self._plan = plan
        self._fitting = plan.fitting(nodes)

    def raw_scores(self, nodes: NodeTable) -> IntColumn:
        """Return the weighted number of pods in the domains of each node."""
        plan = self._plan
        totals: NDArray[np.float64] | None = None
        for counts, weight in zip(plan.counts, self._fitting.weights, strict=True):
            values = counts.values(plan.topology, nodes, weight)
            totals = values if totals is None else np.add(totals, values, out=totals)
        assert totals is not None, "a plan has a constraint"
        raw = rounded(totals, are_counts=plan.are_counts)
        fitting = self._fitting
        lacking = fitting.ignored
        if nodes.rows is not fitting.rows and plan.require_all:
            lacking = plan.lacking(nodes)
        if lacking is not None:
            raw[lacking] = 0
        return raw

    def normalized(self, scores: IntColumn) -> IntColumn:
        """Return normalized, inverted scores: the fewest pods give the highest score."""
        # Parity: podtopologyspread/scoring.go NormalizeScore, v1.36: the maximum starts at 0.
        ignored = self._fitting.ignored
        scored = scores if ignored is None else scores[~ignored]
        lowest, highest = np.iinfo(np.int64).max, 0
        if len(scored):
            # argmin and argmax take half the time of min and max.
            lowest = scored.item(scored.argmin())
            highest = max(scored.item(scored.argmax()), 0)
        if highest == 0:
            inverse = np.full_like(scores, NODE_SCORE_MAX)
        elif ignored is None and lowest >= 0:
            return inverted(scores, lowest, highest)
        else:
            inverse = truncated_divide(NODE_SCORE_MAX * (highest + lowest - scores), highest)
        if ignored is not None:
            inverse[ignored] = 0
        if lowest <= _INVALID_SCORE:
            inverse[scores == _INVALID_SCORE] = 0
        return inverse


def inverted(scores: IntColumn, lowest: int, highest: int) -> IntColumn:
    """Return normalized, inverted scores of raw scores that are not negative."""
    if highest == 0:
        return np.full_like(scores, NODE_SCORE_MAX)
    inverse: IntColumn = (highest + lowest) - scores
    inverse *= NODE_SCORE_MAX
    inverse //= highest
    return inverse


def rounded(values: NDArray[np.float64], *, are_counts: bool) -> IntColumn:
    """Return whole numbers, half away from zero; the values are overwritten."""
    if are_counts:
        # Each value is a whole number, or at least the logarithm of 2: adding a half cannot go
        # wrong as it does for 0.49999999999999994, and truncates to the nearest.
        values += 0.5
        return values.astype(np.int64)
    # Half away from zero, as Go rounds.
    whole = np.trunc(values)
    away = np.abs(values - whole) >= 0.5
    return (whole + np.where(away, np.copysign(1.0, values), 0.0)).astype(np.int64)
