"""Required terms: where matching pods are, and which nodes that rules out.

Owns the counts of an attempt and of its trials. Never scores.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kubesched.columns.counts import DomainTable, Sums, Tally, Topology
from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.framework.interface import Rejected
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.model.affinity_terms import TermSet
from kubesched.model.pod_info import PodInfo
from kubesched.plugins.inter_pod_affinity.matching import (
    Subject,
    WeighedTerms,
    matches_all,
    pods_matching_all,
    resolve,
    table_of,
)

AFFINITY_NOT_MATCH = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY_NOT_MATCH = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY_NOT_MATCH = unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules"
)


class FilterPlan:
    """What all pods of a template are filtered by, as long as namespaces are the same."""

    __slots__ = (
        "_tables",
        "affinity_keys",
        "affinity_tally",
        "anti_tallies",
        "existing",
        "matches_itself",
        "namespaces_epoch",
        "topology",
    )

    def __init__(self, view: ClusterView, pod: PodInfo) -> None:
        # Parity: interpodaffinity/filtering.go PreFilter, v1.36.
        terms = pod.terms
        self.namespaces_epoch = view.objects.namespaces.epoch
        affinity = tuple(resolve(view, term) for term in terms.required_affinity)
        self.matches_itself = matches_all(affinity, pod.namespace, pod.labels)
        # Upstream counts a pod once for each term of a key; that changes no sign.
        self.affinity_keys = tuple(dict.fromkeys(term.topology_key for term in affinity))
        self.affinity_tally: Tally | None = pods_matching_all(view, affinity) if affinity else None
        self.anti_tallies: tuple[tuple[str, Tally], ...] = tuple(
            (term.topology_key, pods_matching_all(view, (resolve(view, term),)))
            for term in terms.required_anti_affinity
        )
        self.existing = Subject(view, pod, _required_anti)
        self._tables: tuple[Tables, Tables] = ({}, {})
        self.topology: Topology | None = None

    @property
    def byte_count(self) -> int:
        """Return about how much memory this takes."""
        tables = [t for by_key in self._tables for key in by_key for t in by_key[key]]
        return sum(table.nbytes for table in tables) + 100_000 * len(self.existing.by_key)

    @property
    def has_own_terms(self) -> bool:
        """Return whether the pod itself requires anything."""
        return self.affinity_tally is not None or bool(self.anti_tallies)

    def tables(self, topology: Topology) -> tuple[Tables, Tables, Tables]:
        """Return the counts for own affinity, own anti-affinity and existing pods' anti-affinity.

        All of them are up to date.
        """
        if self.topology is not topology:
            self._tables = self._own_tables(topology)
            self.topology = topology
        near, far = self._tables
        for by_key in (near, far):
            for tables in by_key.values():
                for table in tables:
                    table.follow()
        self.existing.follow()
        existing = {
            key: [matching.table(topology)] for key, matching in self.existing.by_key.items()
        }
        return near, far, existing

    def _own_tables(self, topology: Topology) -> tuple[Tables, Tables]:
        near: Tables = {}
        if self.affinity_tally is not None:
            for key in self.affinity_keys:
                near[key] = [table_of(topology, self.affinity_tally, key)]
        far: Tables = {}
        for key, tally in self.anti_tallies:
            far.setdefault(key, []).append(table_of(topology, tally, key))
        return near, far


Tables = dict[str, list[DomainTable]]
"""By topology key; several of one key count together."""


class PairCounts:
    """Matches by topology key and domain, and what a trial has added or taken on each row."""

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

    @property
    def is_empty(self) -> bool:
        """Return whether no domain of the cluster, as it is, has a match."""
        return not any(table.nonzero_count for tables in self._tables.values() for table in tables)

    @property
    def is_as_it_is(self) -> bool:
        """Return whether no trial has changed anything."""
        return not self._deltas

    def sums(self, key: str) -> Sums:
        """Return the matches by domain as the cluster is, and a zero for rows in none."""
        tables = self._tables[key]
        total = tables[0].sums
        for table in tables[1:]:
            total = total + table.sums
        return total

    def shift(self, nodes: NodeTable, key: str, change: IntColumn) -> None:
        """Add a change at each row's own domain; a row without the key has none."""
        # Clones share the arrays, so they are replaced and never written.
        change = np.where(nodes.label(key) >= 0, change, 0)
        known = self._deltas.get(key)
        self._deltas[key] = change if known is None else known + change

    def at(self, nodes: NodeTable, key: str) -> IntColumn:
        """Return the matches in each node's domain, as its trial supposes them."""
        column = self._topology.column(nodes, key)
        here: IntColumn = (
            self.sums(key).take(column).astype(np.int64)
            if key in self._tables
            else np.zeros(len(nodes), dtype=np.int64)
        )
        delta = self._deltas.get(key)
        return here if delta is None else here + delta

    def none_anywhere(self, nodes: NodeTable) -> BoolColumn:
        """Return for each node whether its trial leaves no domain at all with a count."""
        # Upstream drops a pair whose count comes to zero, and keeps one below zero.
        pair_count = sum(int(np.count_nonzero(self.sums(key))) for key in self._tables)
        pairs = np.full(len(nodes), pair_count, dtype=np.int64)
        for key, delta in self._deltas.items():
            now = self.at(nodes, key)
            pairs += (now != 0).astype(np.int64) - (now - delta != 0).astype(np.int64)
        none: BoolColumn = pairs == 0
        return none

    def refusals(self, nodes: NodeTable, status: Status) -> Iterable[Rejected]:
        """Yield the nodes in whose domain there is a match, one topology key after the other."""
        for key in {**self._tables, **self._deltas}:
            if key in self._deltas:
                yield Rejected(self.at(nodes, key) > 0, status)
            elif any(table.nonzero_count for table in self._tables[key]):
                # Judged once per domain, then handed to its nodes.
                matched = self.sums(key) > 0
                yield Rejected(matched.take(self._topology.column(nodes, key)), status)


class PreFilterState:
    """The counts a pod's filter needs; only the three `PairCounts` change in a trial."""

    __slots__ = ("_affinity", "_anti_affinity", "_existing", "_plan", "_topology")

    def __init__(self, plan: FilterPlan, topology: Topology) -> None:
        near, far, existing = plan.tables(topology)
        self._plan = plan
        self._topology = topology
        self._affinity = PairCounts(near, topology)
        self._anti_affinity = PairCounts(far, topology)
        self._existing = PairCounts(existing, topology)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing required concerns the pod, from either side."""
        return not self._plan.has_own_terms and self._existing.is_empty

    def clone(self) -> PreFilterState:
        """Return a state that a trial may change."""
        copy = object.__new__(PreFilterState)
        copy._plan, copy._topology = self._plan, self._topology
        copy._affinity = self._affinity.clone()
        copy._anti_affinity = self._anti_affinity.clone()
        copy._existing = self._existing.clone()
        return copy

    def shift(self, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        """Add or take one pod on each row."""
        # Parity: interpodaffinity/filtering.go updateWithPod, v1.36.
        if not pods.present.any():
            return
        plan, label_class, term_set = self._plan, pods.label_class, pods.term_set

        def change(table: Sums, ids: IdColumn) -> IntColumn:
            return np.where(pods.present, sign * table[ids].astype(np.int64), 0)

        for key, matching in plan.existing.by_key.items():
            weights = matching.weights.up_to_date()
            self._existing.shift(nodes, key, change(weights, term_set))
        if plan.affinity_tally is not None:
            matched = change(plan.affinity_tally.values.up_to_date(), label_class)
            for key in plan.affinity_keys:
                self._affinity.shift(nodes, key, matched)
        for key, tally in plan.anti_tallies:
            self._anti_affinity.shift(nodes, key, change(tally.values.up_to_date(), label_class))

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts: own affinity, own anti-affinity, that of existing pods."""
        # Parity: interpodaffinity/filtering.go Filter, v1.36.
        verdicts: list[Rejected] = []
        if self._plan.affinity_keys:
            refused = self._without_affinity(nodes)
            if refused is not None:
                verdicts.append(Rejected(refused, AFFINITY_NOT_MATCH))
        verdicts += self._anti_affinity.refusals(nodes, ANTI_AFFINITY_NOT_MATCH)
        verdicts += self._existing.refusals(nodes, EXISTING_ANTI_AFFINITY_NOT_MATCH)
        return verdicts

    def _without_affinity(self, nodes: NodeTable) -> BoolColumn | None:
        """Return the nodes that break the pod's affinity; None if none can."""
        # Parity: interpodaffinity/filtering.go satisfyPodAffinity, v1.36.
        topology, counts = self._topology, self._affinity
        refused: BoolColumn | None = None
        # The first pod of a series that wants to be near itself finds nobody, and may start.
        starts: BoolColumn | bool = False
        if self._plan.matches_itself:
            starts = counts.is_empty if counts.is_as_it_is else counts.none_anywhere(nodes)
        for key in self._plan.affinity_keys:
            domains, column = topology.domains(key), topology.column(nodes, key)
            if starts is True and domains.is_everywhere:
                continue
            lacking = column == domains.count
            if starts is True:
                far = lacking
            elif counts.is_as_it_is:
                # Nothing is counted where the key is missing.
                far = (counts.sums(key) <= 0).take(column)
            else:
                far = counts.at(nodes, key) <= 0
            if isinstance(starts, np.ndarray):
                far = lacking | (far & ~starts)
            refused = far if refused is None else refused | far
        return refused


def _required_anti(term_set: TermSet) -> WeighedTerms:
    return ((term, 1) for term in term_set.required_anti_affinity)
