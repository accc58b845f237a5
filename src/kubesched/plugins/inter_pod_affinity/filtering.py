"""Required terms: counts of matching pods by domain, and the nodes that these reject.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import numpy as np

from kubesched.api.namespace import Namespace
from kubesched.framework.incremental import RejectedRows, rejections
from kubesched.framework.interface import Rejected
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.plugins.inter_pod_affinity.matching import (
    Subject,
    WeighedTerms,
    matches_all,
    pods_matching_all,
    resolve,
    table_of,
)
from kubesched.snapshot.affinity_terms import TermSet
from kubesched.snapshot.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.snapshot.pod_counts import DomainTable, Tally
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.topology import RowsNotAbove, SameRows, Sums, Topology
from kubesched.snapshot.trial import PodRows
from kubesched.snapshot.view import ClusterView, NodeTable

PRE_FILTER_KEY = "PreFilterInterPodAffinity"
AFFINITY_NOT_MATCH = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY_NOT_MATCH = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY_NOT_MATCH = unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules"
)
CountName: TypeAlias = Literal["affinity", "anti_affinity", "existing"]
Tables: TypeAlias = dict[str, list[DomainTable]]
"""By topology key; terms with the same key are counted together."""


class FilterPlan:
    """The counts by which all pods of a template are filtered; valid until a namespace changes."""

    def __init__(self, view: ClusterView, pod: PodInfo) -> None:
        # Parity: interpodaffinity/filtering.go PreFilter, v1.36.
        terms = pod.terms
        self.namespaces_epoch = view.objects.store_of(Namespace).epoch
        affinity = tuple(resolve(view, term) for term in terms.required_affinity)
        self.matches_itself = matches_all(affinity, pod.namespace, pod.labels)
        # Upstream counts a pod once for each term of a key; the sign is the same.
        self.affinity_keys = tuple(dict.fromkeys(term.topology_key for term in affinity))
        self.affinity_tally: Tally | None = pods_matching_all(view, affinity) if affinity else None
        self.anti_tallies: tuple[tuple[str, Tally], ...] = tuple(
            (term.topology_key, pods_matching_all(view, (resolve(view, term),)))
            for term in terms.required_anti_affinity
        )
        self.has_own_terms = self.affinity_tally is not None or bool(self.anti_tallies)
        """Whether the pod itself requires anything."""
        self.existing = Subject(view, pod, _required_anti)
        self.affinity: Tables = {}
        """The pods that match the pod's own affinity."""
        self.anti_affinity: Tables = {}
        """The pods that match its own anti-affinity."""
        self.existing_tables: Tables = {}
        """The pods whose anti-affinity matches the pod."""
        self._tables: list[DomainTable] = []
        """All tables of the three."""
        self._listed = -1
        """How many topology keys existing pods' terms had when the tables were listed."""
        self._affinity_tables: list[DomainTable] = []
        self._rejections: list[RejectedRows] = []
        self._rejections_at_first: list[RejectedRows] = []
        """Used instead while no pod but itself matches the pod's own affinity."""
        self.topology: Topology = view.counters.topology
        self._sum_up_own()
        self.follow(self.topology)

    @property
    def nbytes(self) -> int:
        """Return about how much memory this takes."""
        return sum(table.nbytes for table in self._tables)

    def follow(self, topology: Topology) -> None:
        """Bring all counts up to date."""
        existing = self.existing
        existing.follow()
        if self.topology is not topology:
            self.topology = topology
            self._sum_up_own()
            self.existing_tables = {}
            self._listed = -1
        if self._listed != len(existing.by_key):
            for key, matching in existing.by_key.items():
                self.existing_tables[key] = [matching.table(topology)]
            self._list_tables()
        for table in self._tables:
            table.follow()

    def _sum_up_own(self) -> None:
        topology, tally = self.topology, self.affinity_tally
        self.anti_affinity = {}
        if tally is not None:
            self.affinity = {key: [table_of(topology, tally, key)] for key in self.affinity_keys}
        for key, anti_tally in self.anti_tallies:
            tables = self.anti_affinity.setdefault(key, [])
            tables.append(table_of(topology, anti_tally, key))

    @property
    def is_idle(self) -> bool:
        """Return whether no required term, its own or another pod's, concerns the pod."""
        return not self.has_own_terms and not any(table.nonzero_count for table in self._tables)

    def _list_tables(self) -> None:
        topology, lacking = self.topology, list[RejectedRows]()
        self._affinity_tables = _all_of(self.affinity)
        for key in self.affinity:
            domains = topology.domains(key)
            if not domains.is_everywhere:
                lacking.append((SameRows(domains.lacking), AFFINITY_NOT_MATCH))
        # Nothing is counted where the key is missing.
        no_match: list[RejectedRows] = [
            (RowsNotAbove(table.above(0), topology.all_rows), AFFINITY_NOT_MATCH)
            for table in self._affinity_tables
        ]
        anti, existing = _all_of(self.anti_affinity), _all_of(self.existing_tables)
        matched: list[RejectedRows] = [(table.above(0), ANTI_AFFINITY_NOT_MATCH) for table in anti]
        matched += [(table.above(0), EXISTING_ANTI_AFFINITY_NOT_MATCH) for table in existing]
        self._tables = [*self._affinity_tables, *anti, *existing]
        self._listed = len(self.existing_tables)
        self._rejections, self._rejections_at_first = no_match + matched, lacking + matched

    def rejected_rows(self) -> list[RejectedRows]:
        """Return the rejected rows as masks over all rows; the same list until the terms change."""
        for table in self._tables:
            table.above(0)
        if self.matches_itself and not any(table.nonzero_count for table in self._affinity_tables):
            # The first of several pods with affinity to each other finds no match, and is accepted.
            return self._rejections_at_first
        return self._rejections

    def weights_of(self, pods: PodRows) -> Iterator[tuple[CountName, str, IntColumn]]:
        """Yield how much each pod adds to the counts of a topology key, 0 where there is no pod."""
        label_class, term_set = pods.label_class, pods.term_set

        def at(table: Sums, ids: IdColumn) -> IntColumn:
            return np.where(pods.present, table[ids].astype(np.int64), 0)

        for key, matching in self.existing.by_key.items():
            yield "existing", key, at(matching.weights.up_to_date(), term_set)
        if self.affinity_tally is not None:
            matches = at(self.affinity_tally.values.up_to_date(), label_class)
            for key in self.affinity_keys:
                yield "affinity", key, matches
        for key, tally in self.anti_tallies:
            yield "anti_affinity", key, at(tally.values.up_to_date(), label_class)


def _all_of(by_key: Tables) -> list[DomainTable]:
    return [table for tables in by_key.values() for table in tables]


class PairCounts:
    """Matches by topology key and domain, with the changes of a trial by row."""

    __slots__ = ("_deltas", "_tables", "_topology")

    def __init__(self, tables: Tables, topology: Topology) -> None:
        self._tables = tables
        self._topology = topology
        self._deltas: dict[str, IntColumn] = {}

    def clone(self) -> PairCounts:
        """Return counts that a trial may change."""
        copy = PairCounts(self._tables, self._topology)
        copy._deltas = dict(self._deltas)
        return copy

    def _sums(self, key: str) -> Sums:
        """Return the matches by domain without the trial, and a zero for rows in no domain."""
        tables = self._tables[key]
        total = tables[0].sums
        for table in tables[1:]:
            total = total + table.sums
        return total

    def shift(self, nodes: NodeTable, key: str, change: IntColumn) -> None:
        """Add a change at each row's own domain; a row without the key has none."""
        # Clones share the arrays, so they are replaced and never written.
        change = np.where(nodes.label(key) >= 0, change, 0)
        previous = self._deltas.get(key)
        self._deltas[key] = change if previous is None else previous + change

    def at(self, nodes: NodeTable, key: str) -> IntColumn:
        """Return the matches in each node's domain with the changes of its trial."""
        column = self._topology.column(nodes, key)
        matches: IntColumn = (
            self._sums(key).take(column).astype(np.int64)
            if key in self._tables
            else np.zeros(len(nodes), dtype=np.int64)
        )
        delta = self._deltas.get(key)
        return matches if delta is None else matches + delta

    def none_anywhere(self, nodes: NodeTable) -> BoolColumn:
        """Return for each node whether its trial leaves no domain with a match."""
        # Upstream drops a pair whose count comes to zero, and keeps one below zero.
        pair_count = sum(int(np.count_nonzero(self._sums(key))) for key in self._tables)
        pairs = np.full(len(nodes), pair_count, dtype=np.int64)
        for key, delta in self._deltas.items():
            now = self.at(nodes, key)
            pairs += (now != 0).astype(np.int64) - (now - delta != 0).astype(np.int64)
        none: BoolColumn = pairs == 0
        return none

    def rejected_rows(self, nodes: NodeTable, status: Status) -> Iterable[Rejected]:
        """Yield a mask of the nodes with a match in their domain, for each topology key."""
        for key in {**self._tables, **self._deltas}:
            yield Rejected(self.at(nodes, key) > 0, status)


class PreFilterState:
    """The counts that a pod's filter reads: those of its template, with the changes of a trial."""

    __slots__ = ("_plan", "_trial")

    def __init__(self, plan: FilterPlan) -> None:
        self._plan = plan
        self._trial: dict[CountName, PairCounts] | None = None
        """None until a trial changes anything."""

    def clone(self) -> PreFilterState:
        """Return a state that a trial may change."""
        copy = PreFilterState(self._plan)
        if self._trial is not None:
            copy._trial = {name: counts.clone() for name, counts in self._trial.items()}
        return copy

    def shift(self, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        """Add or remove one pod on each row."""
        # Parity: interpodaffinity/filtering.go updateWithPod, v1.36.
        if not pods.present.any():
            return
        plan = self._plan
        if self._trial is None:
            self._trial = {
                "affinity": PairCounts(plan.affinity, plan.topology),
                "anti_affinity": PairCounts(plan.anti_affinity, plan.topology),
                "existing": PairCounts(dict(plan.existing_tables), plan.topology),
            }
        for name, key, weights in plan.weights_of(pods):
            self._trial[name].shift(nodes, key, sign * weights)

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts: own affinity, own anti-affinity, existing pods' anti-affinity."""
        # Parity: interpodaffinity/filtering.go Filter, v1.36.
        plan, trial = self._plan, self._trial
        if trial is None:
            return list(rejections(plan.rejected_rows(), plan.topology, nodes))
        verdicts: list[Rejected] = []
        if plan.affinity_keys:
            unmet = self._unmet_affinity(trial["affinity"], nodes)
            verdicts.append(Rejected(unmet, AFFINITY_NOT_MATCH))
        verdicts += trial["anti_affinity"].rejected_rows(nodes, ANTI_AFFINITY_NOT_MATCH)
        verdicts += trial["existing"].rejected_rows(nodes, EXISTING_ANTI_AFFINITY_NOT_MATCH)
        return verdicts

    def _unmet_affinity(self, counts: PairCounts, nodes: NodeTable) -> BoolColumn:
        # Parity: interpodaffinity/filtering.go satisfyPodAffinity, v1.36.
        lacks_key = np.zeros(len(nodes), dtype=np.bool_)
        no_match = np.zeros(len(nodes), dtype=np.bool_)
        for key in self._plan.affinity_keys:
            lacks_key |= nodes.label(key) < 0
            no_match |= counts.at(nodes, key) <= 0
        if self._plan.matches_itself:
            no_match &= ~counts.none_anywhere(nodes)
        unmet: BoolColumn = lacks_key | no_match
        return unmet


def _required_anti(term_set: TermSet) -> WeighedTerms:
    return ((term, 1) for term in term_set.required_anti_affinity)
