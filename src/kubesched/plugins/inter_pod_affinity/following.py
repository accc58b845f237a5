"""Required and preferred terms for all pods of a template, answered by what changed.

Owns what is kept from attempt to attempt beside the counts. The rules are those of the modules
beside it; what is answered here equals what they would say if they were asked anew.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.counts import HITS_ONE_BY_ONE_MAX
from kubesched.columns.domains import Domains, Places, Topology
from kubesched.columns.interning import grown
from kubesched.columns.node_columns import IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.followers import Added, Fitting, RefusingFollower
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
    stretched,
    stretched_one_by_one,
    summed,
)

# The scores of so many domains are worked out one by one.
FEW_DOMAINS_MAX = 16
# With more distinct raw scores, each node's is stretched on its own.
VALUES_MAX = 1024
# So many nodes that got another raw score are noted before all are handed over anew.
MOVED_MAX = 256


class RequiredFollower(RefusingFollower):
    """Which nodes required terms refuse."""

    __slots__ = ("_plan", "value")
    key = PRE_FILTER_KEY

    def __init__(self, plan: FilterPlan, nodes: NodeTable) -> None:
        """Begin without an answer.

        Args:
            plan: with the counts.
            nodes: all rows.
        """
        super().__init__(plan.topology, nodes)
        self._plan = plan
        self.value = PreFilterState(plan)

    def follow(self, view: ClusterView) -> Self | Status | None:
        """Return the verdict as it is now."""
        plan = self._plan
        if plan.namespaces_epoch != view.objects.namespaces.epoch:
            return None
        plan.follow(plan.topology)
        if not plan.has_own_terms and plan.is_idle:
            return SKIP
        return self.refuse(plan.refusals())

    def concerns(self, pods: PodRows) -> bool:
        """Return whether required terms match the pods, or those of the pods this one."""
        return any(part.weights.any() for part in self._plan.weighed(pods))


class PreferredFollower:
    """What preferred terms add to the nodes that fit."""

    __slots__ = ("_leaning", "_plan", "_rows", "value")
    key = PRE_SCORE_KEY

    def __init__(self, plan: ScorePlan | None) -> None:
        """Begin without an answer; with no plan, always skip."""
        self._plan = plan
        self._rows: Rows | None = None
        self._leaning: FewDomains | ManyDomains | None = None
        self.value: PreScoreState | None = None

    def follow(self, view: ClusterView, fitting: Fitting) -> Added | Status | None:
        """Return the scores as they are now."""
        plan = self._plan
        if plan is None:
            return SKIP
        if plan.namespaces_epoch != view.objects.namespaces.epoch:
            return None
        topology = plan.topology
        assert topology is not None, "there is one once tables were asked for"
        by_key = plan.tables(topology)
        if not by_key:
            return SKIP
        rows = fitting.rows
        self.value = value = PreScoreState(plan, topology)
        if self._rows is rows and len(by_key) == 1:
            ((key, tables),) = by_key.items()
            leaning = self._leaning
            if leaning is None or not leaning.is_of(tables):
                leaning = self._leaning = _leaning(topology, key, tables, rows)
            scores = leaning.scores()
            if scores is not None:
                return scores
        # What differs is worth finding only if the same nodes fit again.
        self._rows, self._leaning = rows, None
        return Added(value.normalized(value.raw_scores(view.nodes_at(rows))))


def _leaning(
    topology: Topology, key: str, tables: list[WeighedTable], rows: Rows
) -> FewDomains | ManyDomains:
    domains = topology.domains(key)
    if domains.count < len(rows) // 2:
        return FewDomains(tables, domains, rows)
    return ManyDomains(tables, domains, rows, topology.places(rows))


class FewDomains:
    """Scores by domain, where a domain has many nodes: these differ by their domain alone."""

    __slots__ = ("_added", "_domains", "_few_amounts", "_tables", "_used", "_used_ones")

    def __init__(self, tables: list[WeighedTable], domains: Domains, rows: Rows) -> None:
        """Look which domains the nodes have.

        Args:
            tables: the counts of one topology key.
            domains: of that key.
            rows: of the nodes.
        """
        self._tables = tables
        self._domains: Places = domains.ids.take(rows)
        self._used: Places = np.bincount(self._domains).nonzero()[0]
        self._used_ones: list[int] = self._used.tolist()
        self._added: Added | None = None
        self._few_amounts: list[int] = []
        """What is added, where domains are few."""

    def is_of(self, tables: list[WeighedTable]) -> bool:
        """Return whether these are still the counts."""
        return self._tables is tables

    def scores(self) -> Added:
        """Return the score of each domain; that of one without nodes may come out anyhow.

        Sums that move give the same scores most of the time.
        """
        sums, added = summed(self._tables), self._added
        if len(sums) <= FEW_DOMAINS_MAX:
            values = sums.tolist()
            used = [values[domain] for domain in self._used_ones]
            lowest, highest = min(used), max(used)
            few = stretched_one_by_one([value - lowest for value in values], highest - lowest)
            if added is None or few != self._few_amounts:
                added = self._added = Added(np.array(few), self._domains)
                self._few_amounts = few
            return added
        by_domain = sums.take(self._used)
        lowest, highest = by_domain.item(by_domain.argmin()), by_domain.item(by_domain.argmax())
        amounts = stretched(sums - lowest, highest - lowest)
        if added is None or amounts.tobytes() != added.amounts.tobytes():
            added = self._added = Added(amounts, self._domains)
        return added


def counted_values(raw: IntColumn) -> tuple[IntColumn, NDArray[np.intp], Places]:
    """Return the distinct values in order, how many have each, and which of them each has."""
    lowest = int(raw.min())
    above = raw - lowest
    # Counting takes a tenth of the time of sorting, as long as values are near each other.
    if above.max() > len(raw):
        values, ways, having = np.unique(raw, return_inverse=True, return_counts=True)
        return values, having, ways
    counts = np.bincount(above)
    used = counts.nonzero()[0]
    way_of = np.zeros(len(counts), dtype=np.intp)
    way_of[used] = np.arange(len(used))
    return used + lowest, counts.take(used), way_of.take(above)


class ManyDomains:
    """Scores by raw score, where domains have few nodes: many of them are equal."""

    __slots__ = (
        "_added",
        "_domains",
        "_having",
        "_highest",
        "_lowest",
        "_moved",
        "_places",
        "_rows",
        "_seen",
        "_tables",
        "_values",
        "_way_of",
        "_ways",
    )

    def __init__(
        self, tables: list[WeighedTable], domains: Domains, rows: Rows, places: Places
    ) -> None:
        """Begin without having looked at the counts.

        Args:
            tables: the counts of one topology key.
            domains: of that key.
            rows: of the nodes.
            places: the node of each row, -1 if it is not among them.
        """
        self._tables = tables
        self._domains = domains
        self._rows = rows
        self._places = places
        self._ways: Places = rows
        """Of each node, which of the raw scores it has."""
        self._values: IntColumn = np.zeros(0, dtype=np.int64)
        """The raw scores, those included that nobody has any longer, and room for more."""
        self._way_of: dict[int, int] = {}
        """Where each of them is."""
        self._having: list[int] = []
        """How many nodes have each of them."""
        self._lowest = self._highest = 0
        """Of those that somebody has."""
        self._added: Added | None = None
        """What they are stretched to, as long as it is that."""
        self._moved: list[int] = []
        """The nodes that have another raw score since then."""
        self._seen = [-1] * len(tables)
        """The number of the first hit of each table that was not looked at."""

    def is_of(self, tables: list[WeighedTable]) -> bool:
        """Return whether these are still the counts."""
        return self._tables is tables

    def scores(self) -> Added | None:
        """Return what each raw score is stretched to; None if there are too many."""
        if not self._follow():
            self._look_at_all()
        if len(self._having) > VALUES_MAX:
            return None
        added = self._added
        if added is None or len(self._moved) > MOVED_MAX:
            lowest = self._lowest
            above: IntColumn = self._values[: len(self._having)] - lowest
            self._moved = []
            amounts = stretched(above, self._highest - lowest)
            added = self._added = Added(amounts, self._ways, self._moved)
        return added

    def _follow(self) -> bool:
        """Take over what was hit since last time; return whether that can be."""
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
        # A row that came after the nodes were looked at has no node.
        domain = domains.ids.item(row) if row < len(domains.ids) else domains.count
        if domain == domains.count:
            return True
        near = domains.few_rows_of([domain])
        if near is None:
            return False
        for one in near:
            place = self._places.item(one)
            if place >= 0:
                self._move(place, by)
        return True

    def _move(self, place: int, by: int) -> None:
        """Have one node have another raw score."""
        having, old = self._having, self._ways.item(place)
        before = self._values.item(old)
        value = before + by
        new = self._way_of.get(value)
        if new is None:
            new = self._way_of[value] = len(having)
            self._values = grown(self._values, new + 1)
            self._values[new] = value
            having.append(0)
            self._added = None
        self._ways[place] = new
        self._moved.append(place)
        having[old] -= 1
        having[new] += 1
        if value > self._highest or value < self._lowest:
            self._highest, self._lowest = max(value, self._highest), min(value, self._lowest)
            self._added = None
        if having[old] == 0 and before in (self._highest, self._lowest):
            self._find_bounds()

    def _find_bounds(self) -> None:
        used = self._values.take(np.array(self._having).nonzero()[0])
        self._lowest, self._highest = int(used.min()), int(used.max())
        self._added = None

    def _look_at_all(self) -> None:
        raw = summed(self._tables).take(self._domains.ids.take(self._rows))
        values, having, self._ways = counted_values(raw)
        self._values, self._having = values, having.tolist()
        self._way_of = {value: way for way, value in enumerate(values.tolist())}
        self._find_bounds()
        tallies = (table.tally for table, _ in self._tables)
        self._seen = [tally.first_hit + len(tally.hits) for tally in tallies]
