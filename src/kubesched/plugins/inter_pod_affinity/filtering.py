"""Required terms: where matching pods are, and which nodes that rules out.

Owns the counts of an attempt and of its trials. Never scores.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from kubesched.columns.counts import DomainTable, Tally
from kubesched.columns.domains import RowsNotAbove, SameRows, Sums, Topology
from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.framework.followers import Refusal, rejections
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

PRE_FILTER_KEY = "PreFilterInterPodAffinity"
AFFINITY_NOT_MATCH = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY_NOT_MATCH = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY_NOT_MATCH = unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules"
)


class Weighed(NamedTuple):
    """What some pods count in some counts, one number for each of them."""

    counts: Literal["near", "far", "existing"]
    """Those of the plan."""
    keys: tuple[str, ...]
    """By which topology keys."""
    weights: IntColumn


class FilterPlan:
    """What all pods of a template are filtered by, as long as namespaces are the same."""

    __slots__ = (
        "_listed",
        "_near_tables",
        "_refusals",
        "_refusals_at_first",
        "_tables",
        "affinity_keys",
        "affinity_tally",
        "anti_tallies",
        "existing",
        "existing_tables",
        "far",
        "has_own_terms",
        "matches_itself",
        "namespaces_epoch",
        "near",
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
        self.has_own_terms = self.affinity_tally is not None or bool(self.anti_tallies)
        """Whether the pod itself requires anything."""
        self.existing = Subject(view, pod, _required_anti)
        self.near: Tables = {}
        """Where pods are that match the pod's own affinity."""
        self.far: Tables = {}
        """Where pods are that match its own anti-affinity."""
        self.existing_tables: Tables = {}
        """Where pods are whose anti-affinity matches the pod."""
        self._tables: list[DomainTable] = []
        """All of these."""
        self._listed = -1
        """How many topology keys existing pods' terms had when these were listed."""
        self._near_tables: list[DomainTable] = []
        self._refusals: list[Refusal] = []
        self._refusals_at_first: list[Refusal] = []
        """Instead of those, where nobody matches the pod's own affinity but itself."""
        self.topology: Topology = view.counters.topology
        self._sum_up_own()
        self.follow(self.topology)

    @property
    def byte_count(self) -> int:
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
                self.existing_tables[key] = (matching.table(topology),)
            self._list_tables()
        for table in self._tables:
            table.follow()

    def _sum_up_own(self) -> None:
        topology, tally = self.topology, self.affinity_tally
        self.far = {}
        if tally is not None:
            self.near = {key: (table_of(topology, tally, key),) for key in self.affinity_keys}
        for key, anti_tally in self.anti_tallies:
            self.far[key] = (*self.far.get(key, ()), table_of(topology, anti_tally, key))

    @property
    def is_idle(self) -> bool:
        """Return whether nothing required concerns the pod, from either side."""
        return not self.has_own_terms and not any(table.nonzero_count for table in self._tables)

    def _list_tables(self) -> None:
        topology, lacking = self.topology, list[Refusal]()
        self._near_tables = _all_of(self.near)
        for key in self.near:
            domains = topology.domains(key)
            if not domains.is_everywhere:
                lacking.append((SameRows(domains.lacking), AFFINITY_NOT_MATCH))
        # Nothing is counted where the key is missing.
        far_off: list[Refusal] = [
            (RowsNotAbove(table.above(0), topology.all_rows()), AFFINITY_NOT_MATCH)
            for table in self._near_tables
        ]
        far, existing = _all_of(self.far), _all_of(self.existing_tables)
        too_near: list[Refusal] = [(table.above(0), ANTI_AFFINITY_NOT_MATCH) for table in far]
        too_near += [(table.above(0), EXISTING_ANTI_AFFINITY_NOT_MATCH) for table in existing]
        self._tables = [*self._near_tables, *far, *existing]
        self._listed = len(self.existing_tables)
        self._refusals, self._refusals_at_first = far_off + too_near, lacking + too_near

    def refusals(self) -> list[Refusal]:
        """Return which rows are refused, over all rows: the same list as long as terms are."""
        for table in self._tables:
            table.above(0)
        if self.matches_itself and not any(table.nonzero_count for table in self._near_tables):
            # The first pod of a series that wants to be near itself finds nobody, and may start.
            return self._refusals_at_first
        return self._refusals

    def weighed(self, pods: PodRows) -> Iterator[Weighed]:
        """Yield what each pod counts, 0 where there is none."""
        label_class, term_set = pods.label_class, pods.term_set

        def at(table: Sums, ids: IdColumn) -> IntColumn:
            return np.where(pods.present, table[ids].astype(np.int64), 0)

        for key, matching in self.existing.by_key.items():
            yield Weighed("existing", (key,), at(matching.weights.up_to_date(), term_set))
        if self.affinity_tally is not None:
            matched = at(self.affinity_tally.values.up_to_date(), label_class)
            yield Weighed("near", self.affinity_keys, matched)
        for key, tally in self.anti_tallies:
            yield Weighed("far", (key,), at(tally.values.up_to_date(), label_class))

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts on nodes as they are."""
        return list(rejections(self.refusals(), self.topology, nodes))


def _all_of(by_key: Tables) -> list[DomainTable]:
    return [table for tables in by_key.values() for table in tables]


Tables = dict[str, tuple[DomainTable, ...]]
"""By topology key; several of one key count together."""


class PairCounts:
    """Matches by topology key and domain, with what a trial has added or taken on each row."""

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
            self._sums(key).take(column).astype(np.int64)
            if key in self._tables
            else np.zeros(len(nodes), dtype=np.int64)
        )
        delta = self._deltas.get(key)
        return here if delta is None else here + delta

    def none_anywhere(self, nodes: NodeTable) -> BoolColumn:
        """Return for each node whether its trial leaves no domain at all with a count."""
        # Upstream drops a pair whose count comes to zero, and keeps one below zero.
        pair_count = sum(int(np.count_nonzero(self._sums(key))) for key in self._tables)
        pairs = np.full(len(nodes), pair_count, dtype=np.int64)
        for key, delta in self._deltas.items():
            now = self.at(nodes, key)
            pairs += (now != 0).astype(np.int64) - (now - delta != 0).astype(np.int64)
        none: BoolColumn = pairs == 0
        return none

    def refusals(self, nodes: NodeTable, status: Status) -> Iterable[Rejected]:
        """Yield the nodes in whose domain there is a match, one topology key after the other."""
        for key in {**self._tables, **self._deltas}:
            yield Rejected(self.at(nodes, key) > 0, status)


class TrialCounts:
    """The counts of one trial, which are the cluster's and some changes on each row."""

    __slots__ = ("_counts", "_plan")

    def __init__(self, plan: FilterPlan) -> None:
        self._plan = plan
        self._counts = {
            "near": PairCounts(plan.near, plan.topology),
            "far": PairCounts(plan.far, plan.topology),
            "existing": PairCounts(dict(plan.existing_tables), plan.topology),
        }

    def clone(self) -> TrialCounts:
        """Return counts that go on from here."""
        copy = object.__new__(TrialCounts)
        copy._plan = self._plan
        copy._counts = {name: counts.clone() for name, counts in self._counts.items()}
        return copy

    def shift(self, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        """Add or take one pod on each row."""
        for name, keys, weights in self._plan.weighed(pods):
            for key in keys:
                self._counts[name].shift(nodes, key, sign * weights)

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts on nodes as the trial supposes them."""
        verdicts: list[Rejected] = []
        if self._plan.affinity_keys:
            verdicts.append(Rejected(self._without_affinity(nodes), AFFINITY_NOT_MATCH))
        verdicts += self._counts["far"].refusals(nodes, ANTI_AFFINITY_NOT_MATCH)
        verdicts += self._counts["existing"].refusals(nodes, EXISTING_ANTI_AFFINITY_NOT_MATCH)
        return verdicts

    def _without_affinity(self, nodes: NodeTable) -> BoolColumn:
        # Parity: interpodaffinity/filtering.go satisfyPodAffinity, v1.36.
        counts = self._counts["near"]
        lacking = np.zeros(len(nodes), dtype=np.bool_)
        far = np.zeros(len(nodes), dtype=np.bool_)
        for key in self._plan.affinity_keys:
            lacking |= nodes.label(key) < 0
            far |= counts.at(nodes, key) <= 0
        if self._plan.matches_itself:
            far &= ~counts.none_anywhere(nodes)
        refused: BoolColumn = lacking | far
        return refused


class PreFilterState:
    """The counts a pod's filter needs: the plan's, until a trial changes them."""

    __slots__ = ("_plan", "_trial")

    def __init__(self, plan: FilterPlan) -> None:
        self._plan = plan
        self._trial: TrialCounts | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether nothing required concerns the pod, from either side."""
        return self._plan.is_idle

    def clone(self) -> PreFilterState:
        """Return a state that a trial may change."""
        copy = PreFilterState(self._plan)
        copy._trial = None if self._trial is None else self._trial.clone()
        return copy

    def shift(self, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        """Add or take one pod on each row."""
        # Parity: interpodaffinity/filtering.go updateWithPod, v1.36.
        if pods.present.any():
            if self._trial is None:
                self._trial = TrialCounts(self._plan)
            self._trial.shift(pods, nodes, sign)

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts: own affinity, own anti-affinity, that of existing pods."""
        # Parity: interpodaffinity/filtering.go Filter, v1.36.
        return (self._plan if self._trial is None else self._trial).rejections(nodes)


def _required_anti(term_set: TermSet) -> WeighedTerms:
    return ((term, 1) for term in term_set.required_anti_affinity)
