"""Required terms: where matching pods are, and which nodes that rules out.

Owns the counts of an attempt and of its trials. Never scores.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go
"""

from __future__ import annotations

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IdColumn, IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.framework.interface import Rejected
from kubesched.framework.status import unresolvable, unschedulable
from kubesched.model.affinity_terms import AffinityTerm, TermSet
from kubesched.model.pod_info import PodInfo
from kubesched.plugins.inter_pod_affinity.matching import (
    Subject,
    TermSetWeights,
    WeighedTerms,
    classes_matching,
    matches_all,
    resolve,
    rows_matching,
    subject_of,
)

AFFINITY_NOT_MATCH = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY_NOT_MATCH = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY_NOT_MATCH = unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules"
)


class PairCounts:
    """Matches by topology key and domain, and what a trial has added or taken on each row."""

    __slots__ = ("_deltas", "_sums")

    def __init__(self) -> None:
        # Each array has one zero more than domains, so that a node without the key (-1) reads zero.
        self._sums: dict[str, IntColumn] = {}
        self._deltas: dict[str, IntColumn] = {}

    def clone(self) -> PairCounts:
        """Return counts that a trial may change."""
        copy = PairCounts()
        copy._sums, copy._deltas = self._sums, dict(self._deltas)
        return copy

    def add(self, key: str, sums: IntColumn) -> None:
        """Count the matches of one more term."""
        padded, known = np.append(sums, 0), self._sums.get(key)
        self._sums[key] = padded if known is None else known + padded

    @property
    def keys(self) -> list[str]:
        """Return the topology keys that have, or ever had, a match."""
        return list({**self._sums, **self._deltas})

    @property
    def is_empty(self) -> bool:
        """Return whether no domain of the cluster, as it is, has a match."""
        return not any(sums.any() for sums in self._sums.values())

    def shift(self, nodes: NodeTable, key: str, change: IntColumn) -> None:
        """Add a change at each row's own domain; a row without the key has none."""
        # Clones share the arrays, so they are replaced and never written.
        change = np.where(nodes.label(key) >= 0, change, 0)
        known = self._deltas.get(key)
        self._deltas[key] = change if known is None else known + change

    def at(self, nodes: NodeTable, key: str) -> IntColumn:
        """Return the matches in each node's domain, as its trial supposes them."""
        sums, delta = self._sums.get(key), self._deltas.get(key)
        here = np.zeros(len(nodes), dtype=np.int64) if sums is None else sums[nodes.label(key)]
        return here if delta is None else here + delta

    def none_anywhere(self, nodes: NodeTable) -> BoolColumn:
        """Return for each node whether its trial leaves no domain at all with a count."""
        # Upstream drops a pair whose count comes to zero, and keeps one below zero.
        pair_count = sum(int(np.count_nonzero(sums)) for sums in self._sums.values())
        pairs = np.full(len(nodes), pair_count, dtype=np.int64)
        for key, delta in self._deltas.items():
            now = self.at(nodes, key)
            pairs += (now != 0).astype(np.int64) - (now - delta != 0).astype(np.int64)
        none: BoolColumn = pairs == 0
        return none


class PreFilterState:
    """The counts a pod's filter needs; only the three `PairCounts` change in a trial."""

    __slots__ = (
        "_affinity",
        "_affinity_classes",
        "_affinity_terms",
        "_anti_affinity",
        "_anti_terms",
        "_existing",
        "_existing_weights",
        "_matches_itself",
    )

    def __init__(self, view: ClusterView, pod: PodInfo) -> None:
        # Parity: interpodaffinity/filtering.go PreFilter, v1.36.
        terms = pod.terms
        self._affinity_terms = tuple(resolve(view, t) for t in terms.required_affinity)
        self._matches_itself = matches_all(self._affinity_terms, pod.namespace, pod.labels)
        self._affinity_classes = _classes_matching_all(view, self._affinity_terms)
        self._anti_terms = tuple(
            (term.topology_key, classes_matching(view, term))
            for term in (resolve(view, t) for t in terms.required_anti_affinity)
        )
        self._existing_weights = _existing_weights(view, subject_of(view, pod))
        self._affinity, self._anti_affinity = PairCounts(), PairCounts()
        self._existing = PairCounts()
        self._count(view)

    def _count(self, view: ClusterView) -> None:
        if self._affinity_classes is not None:
            rows = rows_matching(view, self._affinity_classes)
            for term in self._affinity_terms:
                key = term.topology_key
                self._affinity.add(key, view.domain_sums(key, rows))
        for key, classes in self._anti_terms:
            rows = rows_matching(view, classes)
            self._anti_affinity.add(key, view.domain_sums(key, rows))
        for key, weights in self._existing_weights.items():
            sums, _ = weights.domain_sums(view, key)
            self._existing.add(key, sums)

    @property
    def is_idle(self) -> bool:
        """Return whether nothing required concerns the pod, from either side."""
        return not self._affinity_terms and not self._anti_terms and self._existing.is_empty

    def clone(self) -> PreFilterState:
        """Return a state that a trial may change."""
        copy = object.__new__(PreFilterState)
        copy._affinity_terms = self._affinity_terms
        copy._affinity_classes = self._affinity_classes
        copy._anti_terms = self._anti_terms
        copy._existing_weights = self._existing_weights
        copy._matches_itself = self._matches_itself
        copy._affinity = self._affinity.clone()
        copy._anti_affinity = self._anti_affinity.clone()
        copy._existing = self._existing.clone()
        return copy

    def shift(self, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        """Add or take one pod on each row."""
        # Parity: interpodaffinity/filtering.go updateWithPod, v1.36.
        if not pods.present.any():
            return
        label_class, term_set = pods.label_class, pods.term_set

        def change(table: BoolColumn | IntColumn, ids: IdColumn) -> IntColumn:
            return np.where(pods.present, sign * table[ids].astype(np.int64), 0)

        for key, weights in self._existing_weights.items():
            self._existing.shift(nodes, key, change(weights.weights, term_set))
        if self._affinity_classes is not None:
            matched = change(self._affinity_classes, label_class)
            for term in self._affinity_terms:
                self._affinity.shift(nodes, term.topology_key, matched)
        for key, classes in self._anti_terms:
            self._anti_affinity.shift(nodes, key, change(classes, label_class))

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts: own affinity, own anti-affinity, that of existing pods."""
        # Parity: interpodaffinity/filtering.go Filter, v1.36.
        verdicts = []
        if self._affinity_terms:
            verdicts.append(Rejected(~self._affinity_satisfied(nodes), AFFINITY_NOT_MATCH))
        for counts, status in (
            (self._anti_affinity, ANTI_AFFINITY_NOT_MATCH),
            (self._existing, EXISTING_ANTI_AFFINITY_NOT_MATCH),
        ):
            verdicts += [Rejected(counts.at(nodes, key) > 0, status) for key in counts.keys]
        return verdicts

    def _affinity_satisfied(self, nodes: NodeTable) -> BoolColumn:
        # Parity: interpodaffinity/filtering.go satisfyPodAffinity, v1.36.
        labelled = np.ones(len(nodes), dtype=np.bool_)
        near = np.ones(len(nodes), dtype=np.bool_)
        for key in dict.fromkeys(term.topology_key for term in self._affinity_terms):
            labelled &= nodes.label(key) >= 0
            near &= self._affinity.at(nodes, key) > 0
        if self._matches_itself:
            # The first pod of a series that wants to be near itself finds nobody, and may start.
            near |= self._affinity.none_anywhere(nodes)
        return labelled & near


def _classes_matching_all(view: ClusterView, terms: tuple[AffinityTerm, ...]) -> BoolColumn | None:
    """Return which label classes match every term; None if there is no term."""
    tables = [classes_matching(view, term) for term in terms]
    return np.logical_and.reduce(tables) if tables else None


def _existing_weights(view: ClusterView, subject: Subject) -> dict[str, TermSetWeights]:
    def required_anti(term_set: TermSet) -> WeighedTerms:
        return ((term, 1) for term in term_set.required_anti_affinity)

    return subject.weights(view, ("required anti-affinity",), required_anti)
