"""Incremental filter and score of InterPodAffinity, kept from attempt to attempt.

The rules are those of `filtering` and `scoring`, with the same results.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from kubesched.api.namespace import Namespace
from kubesched.framework.fast import FeasibleRows, GroupedScores
from kubesched.framework.incremental import IncrementalRejections
from kubesched.framework.status import SKIP, Status
from kubesched.plugins.inter_pod_affinity.filtering import (
    PRE_FILTER_KEY,
    FilterPlan,
    PreFilterState,
)
from kubesched.plugins.inter_pod_affinity.scoring import (
    PRE_SCORE_KEY,
    PreScoreState,
    ScorePlan,
    WeighedTable,
    scaled,
    scaled_one_by_one,
    summed,
)
from kubesched.snapshot.interning import grown
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_counts import HITS_ONE_BY_ONE_MAX
from kubesched.snapshot.topology import Domains, Indexes, Topology
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, NodeTable, Rows

# At most this many domains are scored in plain Python.
FEW_DOMAINS_MAX = 16
# With more distinct raw scores, each node is normalized on its own.
VALUES_MAX = 1024


class IncrementalTerms(IncrementalRejections):
    """The nodes that required terms reject."""

    key = PRE_FILTER_KEY

    def __init__(self, plan: FilterPlan, nodes: NodeTable) -> None:
        super().__init__(plan.topology, nodes)
        self._plan = plan
        self.value = PreFilterState(plan)

    def refresh(self, view: ClusterView) -> Self | Status | None:
        """Bring the rejected rows up to date."""
        plan = self._plan
        if plan.namespaces_epoch != view.objects.store_of(Namespace).epoch:
            return None
        plan.follow(plan.topology)
        if not plan.has_own_terms and plan.is_idle:
            return SKIP
        return self.set_rejected(plan.rejected_rows())

    def concerns(self, pods: PodRows) -> bool:
        """Return whether required terms match: the pod's own match the pods, or theirs the pod."""
        return any(weights.any() for _, _, weights in self._plan.weights_of(pods))


class IncrementalPreferences:
    """The scores of feasible nodes by preferred terms."""

    key = PRE_SCORE_KEY

    def __init__(self, plan: ScorePlan | None) -> None:
        """Take the counts of a template; without them, its pods are not scored."""
        self._plan = plan
        self._rows: Rows | None = None
        self._grouped: FewDomains | ManyDomains | None = None
        self.value: PreScoreState | None = None

    def refresh(self, view: ClusterView, feasible: FeasibleRows) -> GroupedScores | Status | None:
        """Return the current scores."""
        plan = self._plan
        if plan is None:
            return SKIP
        if plan.namespaces_epoch != view.objects.store_of(Namespace).epoch:
            return None
        topology = plan.topology
        assert topology is not None, "plugins make the tables first"
        by_key = plan.tables(topology)
        if not by_key:
            return SKIP
        rows = feasible.rows
        self.value = value = PreScoreState(plan, topology)
        if self._rows is rows and len(by_key) == 1:
            ((key, tables),) = by_key.items()
            grouped = self._grouped
            if grouped is None or not grouped.is_of(tables):
                grouped = self._grouped = _grouped_by(topology, key, tables, rows)
            scores = grouped.scores()
            if scores is not None:
                return scores
        # Grouping pays only if the same nodes are feasible again.
        self._rows, self._grouped = rows, None
        return GroupedScores(value.normalized(value.raw_scores(view.nodes_at(rows))))


def _grouped_by(
    topology: Topology, key: str, tables: list[WeighedTable], rows: Rows
) -> FewDomains | ManyDomains:
    domains = topology.domains(key)
    if domains.count < len(rows) // 2:
        return FewDomains(tables, domains, rows)
    return ManyDomains(tables, domains, rows, topology.places(rows))


class FewDomains:
    """Scores by domain, for domains of many nodes: nodes of one domain have the same score."""

    def __init__(self, tables: list[WeighedTable], domains: Domains, rows: Rows) -> None:
        self._tables = tables
        self._domains: Indexes = domains.ids.take(rows)
        self._domains.flags.writeable = False
        """The domain of each node."""
        self._used: Indexes = np.bincount(self._domains).nonzero()[0]
        self._used_list: list[int] = self._used.tolist()

    def is_of(self, tables: list[WeighedTable]) -> bool:
        """Return whether these tables are the ones in use."""
        return self._tables is tables

    def scores(self) -> GroupedScores:
        """Return the score of each domain; that of a domain without nodes is arbitrary."""
        sums = summed(self._tables)
        if len(sums) <= FEW_DOMAINS_MAX:
            values = sums.tolist()
            used = [values[domain] for domain in self._used_list]
            lowest, highest = min(used), max(used)
            few = scaled_one_by_one([value - lowest for value in values], highest - lowest)
            return GroupedScores(np.array(few), self._domains)
        by_domain = sums.take(self._used)
        lowest, highest = by_domain.item(by_domain.argmin()), by_domain.item(by_domain.argmax())
        return GroupedScores(scaled(sums - lowest, highest - lowest), self._domains)


def counted_values(raw: IntColumn) -> tuple[IntColumn, NDArray[np.intp], Indexes]:
    """Return the distinct values in order, how often each occurs, and the index of each entry."""
    lowest = int(raw.min())
    above = raw - lowest
    # Counting takes a tenth of the time of sorting if the range of values is small.
    if above.max() > len(raw):
        values, groups, sizes = np.unique(raw, return_inverse=True, return_counts=True)
        return values, sizes, groups
    counts = np.bincount(above)
    used = counts.nonzero()[0]
    group_of = np.zeros(len(counts), dtype=np.intp)
    group_of[used] = np.arange(len(used))
    return used + lowest, counts.take(used), group_of.take(above)


class ManyDomains:
    """Scores by raw score, where domains have few nodes: many of them are equal."""

    def __init__(
        self, tables: list[WeighedTable], domains: Domains, rows: Rows, places: Indexes
    ) -> None:
        self._tables = tables
        self._domains = domains
        self._rows = rows
        self._places = places
        """The index of each row among the nodes, -1 if it is not one of them."""
        self._groups: Indexes = rows
        """The group of each node: one group per raw score."""
        self._values: IntColumn = np.zeros(0, dtype=np.int64)
        """The raw score of each group, with room for more; a group may be empty."""
        self._group_of: dict[int, int] = {}
        """The group of each raw score."""
        self._sizes: list[int] = []
        """The number of nodes in each group."""
        self._lowest = self._highest = 0
        """Raw scores of groups with nodes."""
        self._scores: IntColumn | None = None
        """The normalized score of each group; None if it has to be computed."""
        self._seen = [-1] * len(tables)
        """The number of the first unread hit of each table."""

    def is_of(self, tables: list[WeighedTable]) -> bool:
        """Return whether these tables are the ones in use."""
        return self._tables is tables

    def scores(self) -> GroupedScores | None:
        """Return the normalized score of each raw score; None if there are too many."""
        if not self._apply_hits():
            self._count_all()
        if len(self._sizes) > VALUES_MAX:
            return None
        if self._scores is None:
            lowest = self._lowest
            above: IntColumn = self._values[: len(self._sizes)] - lowest
            self._scores = scaled(above, self._highest - lowest)
        return GroupedScores(self._scores, self._groups)

    def _apply_hits(self) -> bool:
        """Apply the new hits of the tables; return whether they could be applied."""
        for place, (table, weight) in enumerate(self._tables):
            tally, seen = table.tally, self._seen[place]
            done = tally.first_hit + len(tally.hits)
            if seen == done:
                continue
            if seen < tally.first_hit or done - seen > HITS_ONE_BY_ONE_MAX:
                return False
            for row, amount in tally.hits[seen - tally.first_hit :]:
                if not self._hit(row, amount * weight):
                    return False
            self._seen[place] = done
        return True

    def _hit(self, row: int, by: int) -> bool:
        domains = self._domains
        # A row that is newer than the topology has no node.
        domain = domains.ids.item(row) if row < len(domains.ids) else domains.count
        if domain == domains.count:
            return True
        near = domains.few_rows_of(domain)
        if near is None:
            return False
        for near_row in near:
            place = self._places.item(near_row)
            if place >= 0:
                self._move(place, by)
        return True

    def _move(self, place: int, by: int) -> None:
        """Change the raw score of one node."""
        sizes, old = self._sizes, self._groups.item(place)
        before = self._values.item(old)
        value = before + by
        new = self._group_of.get(value)
        if new is None:
            new = self._group_of[value] = len(sizes)
            self._values = grown(self._values, new + 1)
            self._values[new] = value
            sizes.append(0)
            self._scores = None
        self._groups[place] = new
        sizes[old] -= 1
        sizes[new] += 1
        if value > self._highest or value < self._lowest:
            self._highest, self._lowest = max(value, self._highest), min(value, self._lowest)
            self._scores = None
        if sizes[old] == 0 and before in (self._highest, self._lowest):
            self._find_bounds()

    def _find_bounds(self) -> None:
        used = self._values.take(np.array(self._sizes).nonzero()[0])
        self._lowest, self._highest = int(used.min()), int(used.max())
        self._scores = None

    def _count_all(self) -> None:
        raw = summed(self._tables).take(self._domains.ids.take(self._rows))
        values, sizes, self._groups = counted_values(raw)
        self._values, self._sizes = values, sizes.tolist()
        self._group_of = {value: group for group, value in enumerate(values.tolist())}
        self._find_bounds()
        tallies = (table.tally for table, _ in self._tables)
        self._seen = [tally.first_hit + len(tally.hits) for tally in tallies]
