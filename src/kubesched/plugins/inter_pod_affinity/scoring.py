"""Preferred terms, the pod's own and those of existing pods, as a weight per domain.

Owns the weights of an attempt's scoring. Never refuses a node.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go
"""

from __future__ import annotations

import numpy as np

from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.model.affinity_terms import TermSet
from kubesched.model.pod_info import PodInfo
from kubesched.plugins.inter_pod_affinity.matching import (
    WeighedTerms,
    classes_matching,
    resolve,
    rows_matching,
    subject_of,
)


class PreScoreState:
    """The weight of every domain that a term touches, by topology key."""

    __slots__ = ("_weights",)

    def __init__(self) -> None:
        # Each array has one zero more than domains, so that a node without the key (-1) reads zero.
        self._weights: dict[str, IntColumn] = {}

    @property
    def is_untouched(self) -> bool:
        """Return whether no term matched a pod on a node that has the key."""
        # Kept apart from the sums, which may cancel out.
        return not self._weights

    def count_own_terms(self, view: ClusterView, pod: PodInfo) -> None:
        """Weigh existing pods by the preferred terms of the incoming pod."""
        own = [(term, term.weight) for term in pod.terms.preferred_affinity]
        own += [(term, -term.weight) for term in pod.terms.preferred_anti_affinity]
        for term, weight in own:
            key = term.topology_key
            rows = rows_matching(view, classes_matching(view, resolve(view, term)))
            counts = view.domain_sums(key, rows)
            self._add(key, weight * counts, touched=bool(counts.any()))

    def count_existing_terms(
        self, view: ClusterView, pod: PodInfo, hard_pod_affinity_weight: int
    ) -> None:
        """Weigh existing pods by their own terms that match the incoming pod."""

        # Parity: interpodaffinity/scoring.go processExistingPod, v1.36.
        def terms_of(term_set: TermSet) -> WeighedTerms:
            if hard_pod_affinity_weight > 0:
                yield from ((t, hard_pod_affinity_weight) for t in term_set.required_affinity)
            yield from ((term, term.weight) for term in term_set.preferred_affinity)
            yield from ((term, -term.weight) for term in term_set.preferred_anti_affinity)

        question = ("score", hard_pod_affinity_weight)
        for key, weights in subject_of(view, pod).weights(view, question, terms_of).items():
            sums, touched = weights.domain_sums(view, key)
            self._add(key, sums, touched=touched)

    def _add(self, key: str, sums: IntColumn, *, touched: bool) -> None:
        if touched:
            padded, known = np.append(sums, 0), self._weights.get(key)
            self._weights[key] = padded if known is None else known + padded

    def raw_scores(self, nodes: NodeTable) -> IntColumn:
        """Return the sum of the weights of each node's domains."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        for key, weights in self._weights.items():
            scores += weights[nodes.label(key)]
        return scores


def normalized(scores: IntColumn) -> IntColumn:
    """Return the scores stretched from 0 to 100; all 0 if they are equal."""
    # Parity: interpodaffinity/scoring.go NormalizeScore, v1.36: truncated, not rounded.
    if not len(scores) or scores.max() == scores.min():
        return np.zeros_like(scores)
    lowest = scores.min()
    shares = (scores - lowest).astype(np.float64) / float(scores.max() - lowest)
    stretched: IntColumn = (float(NODE_SCORE_MAX) * shares).astype(np.int64)
    return stretched
