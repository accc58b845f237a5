"""Which pods a term means, in both directions.

Owns the lookup tables: own terms over label classes, existing pods' terms over term sets. Never
knows what a match is worth to a node.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.pod_columns import LabelClass, label_class_of
from kubesched.columns.view import ClusterView, Rows
from kubesched.model.affinity_terms import NO_LABELS, AffinityTerm, TermSet
from kubesched.model.pod_info import PodInfo

WeighedTerms: TypeAlias = "Iterable[tuple[AffinityTerm, int]]"


def matches_all(terms: Sequence[AffinityTerm], namespace: str, labels: Mapping[str, str]) -> bool:
    """Return whether there are terms and a pod matches every one of them."""
    # Parity: interpodaffinity/filtering.go podMatchesAllAffinityTerms, v1.36: namespace labels are
    # never handed over here.
    return bool(terms) and all(term.matches(namespace, labels, NO_LABELS) for term in terms)


def resolve(view: ClusterView, term: AffinityTerm) -> AffinityTerm:
    """Return a term of the incoming pod with the namespaces it selects listed by name."""
    # Parity: interpodaffinity/plugin.go mergeAffinityTermNamespacesIfNotEmpty, v1.36. It means to
    # drop the selector afterwards, but does so on a copy: the selector stays, is met with no
    # labels, and one that no label satisfies (NotIn, DoesNotExist) matches every namespace.
    selector = term.namespace_selector
    if selector.is_empty or not selector.selectable:
        return term
    selected = {
        namespace.metadata.name
        for namespace in view.objects.namespaces
        if selector.matches(namespace.metadata.labels)
    }
    return replace(term, namespaces=term.namespaces | selected) if selected else term


def classes_matching(view: ClusterView, term: AffinityTerm) -> BoolColumn:
    """Return which label classes a resolved term means, by class id."""

    def matches(label_class: LabelClass) -> bool:
        return term.matches(label_class.namespace, label_class.labels, NO_LABELS)

    table: BoolColumn = view.label_classes.lut(("affinity", term), matches)
    return table


def rows_matching(view: ClusterView, classes: BoolColumn) -> Rows:
    """Return the row of every counted pod of the classes; quick if there are none."""
    return view.matching_rows(classes) if classes.any() else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TermSetWeights:
    """For one topology key: which term sets match the incoming pod, and what each adds."""

    touched: BoolColumn
    """Whether any term matches, by term set id; the weights may cancel out."""
    weights: IntColumn

    def domain_sums(self, view: ClusterView, key: str) -> tuple[IntColumn, bool]:
        """Return the weights of counted pods per domain of the key, and whether there were any."""
        pods, count = view.pods, view.pods.count
        term_sets = pods.term_set[:count]
        chosen = np.flatnonzero(pods.counted[:count] & self.touched[term_sets])
        rows = pods.row[chosen].astype(np.int64)
        sums = view.domain_sums(key, rows, self.weights[term_sets[chosen]])
        return sums, bool((view.label_ids(key)[rows] >= 0).any())


@dataclass(frozen=True, slots=True)
class Subject:
    """All that an existing pod's term can tell the incoming pod by."""

    label_class: LabelClass
    namespace_labels: tuple[tuple[str, str], ...]

    def weights(
        self,
        view: ClusterView,
        question: tuple[object, ...],
        terms_of: Callable[[TermSet], WeighedTerms],
    ) -> dict[str, TermSetWeights]:
        """Return by topology key which term sets have a term that matches this pod.

        Args:
            view: the cluster.
            question: what identifies `terms_of`; equal questions must ask the same.
            terms_of: the terms of a set that are asked about, each with its weight.
        """
        labels, namespace_labels = self.label_class.labels, dict(self.namespace_labels)
        namespace = self.label_class.namespace

        def matching(term_set: TermSet) -> list[tuple[AffinityTerm, int]]:
            return [
                (term, weight)
                for term, weight in terms_of(term_set)
                if term.matches(namespace, labels, namespace_labels)
            ]

        term_sets = view.term_sets
        table = term_sets.lut((*question, self), lambda term_set: bool(matching(term_set)))
        found: dict[str, TermSetWeights] = {}
        for place in np.flatnonzero(table).tolist():
            for term, weight in matching(term_sets.values[place]):
                key = term.topology_key
                if key not in found:
                    zeros = np.zeros(len(term_sets), dtype=np.int64)
                    found[key] = TermSetWeights(np.zeros(len(term_sets), dtype=np.bool_), zeros)
                found[key].touched[place] = True
                found[key].weights[place] += weight
        return found


def subject_of(view: ClusterView, pod: PodInfo) -> Subject:
    """Return the incoming pod as existing pods' terms see it."""
    namespace_labels = view.namespace_labels(pod.namespace)
    return Subject(
        label_class_of(pod.namespace, pod.labels), tuple(sorted(namespace_labels.items()))
    )
