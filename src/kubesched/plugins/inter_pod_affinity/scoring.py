"""Preferred terms, the pod's own and those of existing pods, as a weight per domain.

Upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from kubesched.api.namespace import Namespace
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.plugins.inter_pod_affinity.matching import (
    MatchingTerms,
    Subject,
    WeighedTerms,
    pods_matching_all,
    resolve,
    table_of,
)
from kubesched.snapshot.affinity_terms import TermSet
from kubesched.snapshot.node_columns import IntColumn
from kubesched.snapshot.pod_counts import DomainTable, Tally
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.topology import Topology
from kubesched.snapshot.view import ClusterView, NodeTable

PRE_SCORE_KEY = "PreScoreInterPodAffinity"
# Up to this many distinct scores are normalized once for all nodes.
SCALED_MAX = 1024


WeighedTable: TypeAlias = tuple[DomainTable, int]
"""Counts by domain, and the weight of one pod."""


class ScorePlan:
    """The counts by which all pods of a template are scored; valid until a namespace changes."""

    def __init__(self, view: ClusterView, pod: PodInfo, hard_pod_affinity_weight: int) -> None:
        # Parity: interpodaffinity/scoring.go processExistingPod, v1.36.
        def terms_of(term_set: TermSet) -> WeighedTerms:
            if hard_pod_affinity_weight > 0:
                yield from ((t, hard_pod_affinity_weight) for t in term_set.required_affinity)
            yield from ((term, term.weight) for term in term_set.preferred_affinity)
            yield from ((term, -term.weight) for term in term_set.preferred_anti_affinity)

        self.namespaces_epoch = view.objects.store_of(Namespace).epoch
        own = [(term, term.weight) for term in pod.terms.preferred_affinity]
        own += [(term, -term.weight) for term in pod.terms.preferred_anti_affinity]
        self._own: list[tuple[str, Tally, int]] = [
            (term.topology_key, pods_matching_all(view, (resolve(view, term),)), weight)
            for term, weight in own
        ]
        self._existing = Subject(view, pod, terms_of)
        self._tables: list[tuple[str, DomainTable, int, MatchingTerms | None]] = []
        """Those of own terms and then those of existing pods' terms."""
        self._known = 0
        """How many topology keys the latter have."""
        self._touched: list[bool] = []
        """Which of the tables a term touched last time."""
        self._by_key: dict[str, list[WeighedTable]] = {}
        self.topology: Topology | None = None

    @property
    def nbytes(self) -> int:
        """Return about how much memory this takes."""
        own = sum(table.nbytes for _, table, _, matching in self._tables if matching is None)
        return own + 100_000 * len(self._existing.by_key)

    def tables(self, topology: Topology) -> dict[str, list[WeighedTable]]:
        """Return current counts with their weights, by topology key.

        A key without matching terms is left out. The same object is returned until it changes.
        """
        self._existing.follow()
        if self.topology is not topology or self._known != len(self._existing.by_key):
            self._list_tables(topology)
        touched: list[bool] = []
        for _, table, _, matching in self._tables:
            table.follow()
            is_any = table.nonzero_count > 0
            touched.append(is_any or (matching is not None and matching.is_touched(topology)))
        if touched != self._touched:
            self._touched, self._by_key = touched, {}
            for (key, table, weight, _), is_any in zip(self._tables, touched, strict=True):
                if is_any:
                    self._by_key.setdefault(key, []).append((table, weight))
        return self._by_key

    def _list_tables(self, topology: Topology) -> None:
        existing = self._existing.by_key
        own = self._own
        self._tables = [(key, table_of(topology, tally, key), w, None) for key, tally, w in own]
        self._tables += [(key, terms.table(topology), 1, terms) for key, terms in existing.items()]
        self._known, self._touched, self._by_key = len(existing), [], {}
        self.topology = topology

    def weights(self, topology: Topology) -> dict[str, IntColumn]:
        """Return the weight of each domain by topology key, for keys that a term touches.

        Each array has one zero more than domains, for nodes without the key.
        """
        return {key: summed(tables) for key, tables in self.tables(topology).items()}


def summed(tables: Iterable[WeighedTable]) -> IntColumn:
    """Return the weights of some tables of one topology key, added up by domain."""
    total: IntColumn | None = None
    for table, weight in tables:
        more: IntColumn = table.sums if weight == 1 else table.sums * np.int64(weight)
        total = more if total is None else total + more
    assert total is not None, "a key that is touched has a table"
    return total.astype(np.int64, copy=False)


class PreScoreState:
    """The weight of every domain that a term touches, by topology key."""

    __slots__ = ("_plan", "_topology", "_weights")

    def __init__(self, plan: ScorePlan, topology: Topology) -> None:
        self._plan = plan
        self._topology = topology
        self._weights: dict[str, IntColumn] | None = None
        """None until they are needed."""

    def weights(self) -> dict[str, IntColumn]:
        """Return the weight of each domain by topology key, for keys that a term touches."""
        weights = self._weights
        if weights is None:
            weights = self._weights = self._plan.weights(self._topology)
        return weights

    @property
    def is_untouched(self) -> bool:
        """Return whether no term matches a pod on a node that has the key."""
        # Not derived from the sums: weights may cancel out.
        return not self.weights()

    def raw_scores(self, nodes: NodeTable) -> IntColumn:
        """Return the sum of the weights of each node's domains."""
        scores: IntColumn | None = None
        for key, weights in self.weights().items():
            more = weights.take(self._topology.column(nodes, key))
            scores = more if scores is None else np.add(scores, more, out=scores)
        return np.zeros(len(nodes), dtype=np.int64) if scores is None else scores

    def normalized(self, scores: IntColumn) -> IntColumn:
        """Return the scores scaled to 0 to 100; all 0 if they are equal."""
        if not len(scores):
            return scores
        # argmin and argmax take half the time of min and max.
        lowest, highest = scores.item(scores.argmin()), scores.item(scores.argmax())
        above = scores - lowest
        if 0 < highest - lowest <= SCALED_MAX:
            return _scaled_range(highest - lowest).take(above)
        return scaled(above, highest - lowest)


@lru_cache(maxsize=256)
def _scaled_range(width: int) -> IntColumn:
    """Return the normalized scores of 0, 1 and so on up to the difference of all scores."""
    return scaled(np.arange(width + 1), width)


def scaled_one_by_one(above: Iterable[int], width: int) -> list[int]:
    """Return the result of `scaled` for a few numbers, in a third of the time."""
    if width == 0:
        return [0 for _ in above]
    whole, highest = float(width), float(NODE_SCORE_MAX)
    return [int(score / whole * highest) for score in above]


def scaled(above: IntColumn, width: int) -> IntColumn:
    """Return differences from the lowest score, scaled to 0 to 100; all 0 if `width` is 0."""
    # Parity: interpodaffinity/scoring.go NormalizeScore, v1.36: truncated, not rounded.
    if width == 0:
        return np.zeros_like(above)
    shares = above / float(width)
    shares *= float(NODE_SCORE_MAX)
    return shares.astype(np.int64)
