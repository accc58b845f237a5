"""Which pods match a term: tallies of own terms by label class, of existing pods' by term set.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec
import numpy as np

from kubesched.api.namespace import Namespace
from kubesched.plugins.pod_changes import (
    REQUIRED,
    PodChange,
    RejectedPod,
    distinct_texts,
    selector_text,
    with_affinity,
    without_one,
)
from kubesched.snapshot.affinity_terms import NO_LABELS, AffinityTerm, TermSet
from kubesched.snapshot.interning import Interner, LookupTable, grown
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_columns import LabelClass
from kubesched.snapshot.pod_counts import DomainTable, Tally
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.topology import Sums, Topology
from kubesched.snapshot.view import ClusterView

WeighedTerms: TypeAlias = "Iterable[tuple[AffinityTerm, int]]"


def matches_all(terms: Sequence[AffinityTerm], namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether there are terms and a pod matches all of them."""
    # Parity: interpodaffinity/filtering.go podMatchesAllAffinityTerms, v1.36: namespace labels are
    # never passed to this function.
    return bool(terms) and all(term.matches(namespace, labels, NO_LABELS) for term in terms)


def resolve(view: ClusterView, term: AffinityTerm) -> AffinityTerm:
    """Return a term of the incoming pod with the namespaces it selects listed by name."""
    # Parity: interpodaffinity/plugin.go mergeAffinityTermNamespacesIfNotEmpty, v1.36. It means to
    # drop the selector afterwards, but does so on a copy: the selector stays, is matched against no
    # labels, and one that is true without labels (NotIn, DoesNotExist) matches every namespace.
    selector = term.namespace_selector
    if selector.is_empty or not selector.selectable:
        return term
    selected = {
        namespace.metadata.name
        for namespace in view.objects.store_of(Namespace)
        if selector.matches(namespace.metadata.labels)
    }
    return replace(term, namespaces=term.namespaces | selected) if selected else term


def pods_matching_all(view: ClusterView, terms: tuple[AffinityTerm, ...]) -> Tally:
    """Return how many pods on each row match every one of some resolved terms."""
    counters = view.counters

    def matches(label_class: LabelClass) -> int:
        return matches_all(terms, label_class.namespace, label_class.labels)

    def make() -> Tally:
        candidates = counters.class_postings.candidates(terms[0].selector)
        return Tally(counters, LookupTable(view.label_classes, matches, candidates))

    # Which pods match depends neither on the weight nor on the topology key.
    parts = ((t.namespaces, t.selector, t.namespace_selector) for t in terms)
    return counters.tally(("affinity", *parts), make)


def table_of(topology: Topology, tally: Tally, key: str) -> DomainTable:
    """Return a tally's sums by domain of a topology key, over all nodes that have it."""
    domains = topology.domains(key)
    return DomainTable(tally, domains.ids, domains)


class TermSetColumn:
    """A number for every term set, by id."""

    def __init__(self, term_sets: Interner[TermSet]) -> None:
        self._term_sets = term_sets
        self._column: IntColumn = np.zeros(max(len(term_sets), 16), dtype=np.int64)

    def add(self, place: int, amount: int) -> None:
        """Add to the number of a term set that no tally has read yet."""
        self._column = grown(self._column, place + 1)
        self._column[place] += amount

    def up_to_date(self) -> Sums:
        """Return the numbers of all term sets."""
        count = len(self._term_sets)
        self._column = grown(self._column, count)
        return self._column[:count]


class MatchingTerms:
    """For one topology key: the term sets that match the incoming pod, and their weights."""

    def __init__(self, view: ClusterView, key: str) -> None:
        self._view = view
        self.key = key
        self.weights = TermSetColumn(view.term_sets)
        self._touched = TermSetColumn(view.term_sets)
        self._table: DomainTable | None = None
        self._touched_table: DomainTable | None = None
        self._topology: Topology | None = None

    def add(self, place: int, weight: int) -> None:
        """Record that a term of a term set matches."""
        self.weights.add(place, weight)
        self._touched.add(place, 1)

    def table(self, topology: Topology) -> DomainTable:
        """Return the weights of existing pods per domain; the table is up to date."""
        if self._topology is not topology or self._table is None:
            tally = self._tally(self.weights) if self._table is None else self._table.tally
            self._table = table_of(topology, tally, self.key)
            if self._touched_table is not None:
                self._touched_table = table_of(topology, self._touched_table.tally, self.key)
            self._topology = topology
        self._table.follow()
        return self._table

    def is_touched(self, topology: Topology) -> bool:
        """Return whether any existing pod's term matches, on a node that has the key."""
        if self.table(topology).nonzero_count:
            return True
        # Weights may cancel out.
        if self._touched_table is None:
            self._touched_table = table_of(topology, self._tally(self._touched), self.key)
        self._touched_table.follow()
        return self._touched_table.nonzero_count > 0

    def _tally(self, column: TermSetColumn) -> Tally:
        return Tally(self._view.counters, column, by_terms=True)


class Subject:
    """Existing pods' terms that match the incoming pod."""

    def __init__(
        self, view: ClusterView, pod: PodInfo, terms_of: Callable[[TermSet], WeighedTerms]
    ) -> None:
        """Take the pod, and a function that returns the terms of a set with their weights."""
        self._view = view
        self._term_sets = view.term_sets
        self._namespace = pod.namespace
        self._labels = pod.labels
        self._namespace_labels = view.namespace_labels(pod.namespace)
        self._terms_of = terms_of
        self._known = 0
        self.by_key: dict[str, MatchingTerms] = {}

    def follow(self) -> None:
        """Match the term sets that are new."""
        term_sets = self._term_sets
        count = len(term_sets.values)
        if self._known == count:
            return
        new: Iterable[int] = range(self._known, count)
        if self._known == 0:
            new = self._view.counters.term_postings.candidates(self._labels)
        self._known = count
        for place in new:
            for term, weight in self._terms_of(term_sets.values[place]):
                if term.matches(self._namespace, self._labels, self._namespace_labels):
                    key = term.topology_key
                    if key not in self.by_key:
                        self.by_key[key] = MatchingTerms(self._view, key)
                    self.by_key[key].add(place, weight)


def affinity_changes(rejected: RejectedPod) -> Iterator[PodChange]:
    """Yield the pod without each required term of pod affinity and anti-affinity."""
    affinity = rejected.pod.object.spec.affinity
    if affinity is None:
        return
    for attribute, wire_name, words in (
        ("pod_affinity", "podAffinity", "pod affinity"),
        ("pod_anti_affinity", "podAntiAffinity", "pod anti-affinity"),
    ):
        part = getattr(affinity, attribute)
        terms = () if part is None else part.required_during_scheduling_ignored_during_execution
        details = {
            number: (
                term.topology_key,
                selector_text(term.label_selector),
                f"in {', '.join(term.namespaces)}" if term.namespaces else "",
            )
            for number, term in enumerate(terms)
        }
        for number, text in distinct_texts(details, least=1).items():
            yield PodChange(
                f"{words.replace(' ', '-')}-term",
                f"spec.affinity.{wire_name}.{REQUIRED}[{number}]",
                f"without the {words} term over {text}",
                _without_term(attribute, terms[number]),
            )


def _without_term(attribute: str, term: object) -> Callable[[PodInfo], PodInfo]:
    def edit(pod: PodInfo) -> PodInfo:
        affinity = pod.object.spec.affinity
        part = getattr(affinity, attribute)
        terms = part.required_during_scheduling_ignored_during_execution
        fewer = msgspec.structs.replace(
            part, required_during_scheduling_ignored_during_execution=without_one(terms, term)
        )
        return with_affinity(pod, **{attribute: fewer})

    return edit
