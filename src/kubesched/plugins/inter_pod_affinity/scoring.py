"""Preferred terms, the pod's own and those of existing pods, as a weight per domain.

Owns the weights of an attempt's scoring. Never refuses a node.
Upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kubesched.columns.counts import DomainTable, Places, Tally, Topology
from kubesched.columns.node_columns import IntColumn
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.model.affinity_terms import TermSet
from kubesched.model.pod_info import PodInfo
from kubesched.plugins.inter_pod_affinity.matching import (
    Subject,
    WeighedTerms,
    pods_matching_all,
    resolve,
    table_of,
)

# Up to so many distinct scores are stretched once for all nodes.
STRETCHED_MAX = 1024


class ScorePlan:
    """What all pods of a template are scored by, as long as namespaces are the same."""

    __slots__ = ("_existing", "_own", "_tables", "namespaces_epoch", "topology")

    def __init__(self, view: ClusterView, pod: PodInfo, hard_pod_affinity_weight: int) -> None:
        # Parity: interpodaffinity/scoring.go processExistingPod, v1.36.
        def terms_of(term_set: TermSet) -> WeighedTerms:
            if hard_pod_affinity_weight > 0:
                yield from ((t, hard_pod_affinity_weight) for t in term_set.required_affinity)
            yield from ((term, term.weight) for term in term_set.preferred_affinity)
            yield from ((term, -term.weight) for term in term_set.preferred_anti_affinity)

        self.namespaces_epoch = view.objects.namespaces.epoch
        own = [(term, term.weight) for term in pod.terms.preferred_affinity]
        own += [(term, -term.weight) for term in pod.terms.preferred_anti_affinity]
        self._own: list[tuple[str, Tally, int]] = [
            (term.topology_key, pods_matching_all(view, (resolve(view, term),)), weight)
            for term, weight in own
        ]
        self._existing = Subject(view, pod, terms_of)
        self._tables: list[tuple[str, DomainTable, int]] = []
        self.topology: Topology | None = None

    @property
    def byte_count(self) -> int:
        """Return about how much memory this takes."""
        own = sum(table.nbytes for _, table, _ in self._tables)
        return own + 100_000 * len(self._existing.by_key)

    def weights(self, topology: Topology) -> dict[str, IntColumn]:
        """Return the weight of each domain by topology key, for keys that a term touches.

        Each array has one zero more than domains, for nodes without the key.
        """
        if self.topology is not topology:
            self._tables = [(key, table_of(topology, tally, key), w) for key, tally, w in self._own]
            self.topology = topology
        weights: dict[str, IntColumn] = {}
        for key, table, weight in self._tables:
            counts = table.follow()
            if table.nonzero_count:
                _add(weights, key, counts * np.int64(weight))
        self._existing.follow()
        for key, matching in self._existing.by_key.items():
            table = matching.table(topology)
            if table.nonzero_count or matching.is_touched(topology):
                _add(weights, key, table.sums)
        return weights


def _add(weights: dict[str, IntColumn], key: str, more: IntColumn) -> None:
    known = weights.get(key)
    weights[key] = more if known is None else known + more


class PreScoreState:
    """The weight of every domain that a term touches, by topology key."""

    __slots__ = ("_by_domain", "_topology", "_weights")

    def __init__(self, plan: ScorePlan, topology: Topology) -> None:
        self._topology = topology
        self._weights = plan.weights(topology)
        self._by_domain: tuple[IntColumn, Places] | None = None
        """The last raw scores, if there is one key, and the domains that have them."""

    @property
    def is_untouched(self) -> bool:
        """Return whether no term matched a pod on a node that has the key."""
        # Kept apart from the sums, which may cancel out.
        return not self._weights

    def raw_scores(self, nodes: NodeTable) -> IntColumn:
        """Return the sum of the weights of each node's domains."""
        scores: IntColumn | None = None
        for key, weights in self._weights.items():
            column = self._topology.column(nodes, key)
            here = weights.take(column)
            if len(self._weights) == 1:
                self._by_domain = (here, column)
            scores = here if scores is None else np.add(scores, here, out=scores)
        return np.zeros(len(nodes), dtype=np.int64) if scores is None else scores

    def normalized(self, scores: IntColumn) -> IntColumn:
        """Return the scores stretched from 0 to 100; all 0 if they are equal."""
        if not len(scores):
            return scores
        # Looking for the places takes half the time of looking for the values.
        lowest, highest = scores.item(scores.argmin()), scores.item(scores.argmax())
        if lowest == highest:
            return np.zeros_like(scores)
        if self._by_domain is not None and self._by_domain[0] is scores:
            (weights,), column = self._weights.values(), self._by_domain[1]
            if len(weights) < len(scores) // 2:
                # Stretched once per domain, then handed to its nodes; one without any of the nodes
                # may be outside, which nobody is given.
                return _stretched(weights - lowest, highest - lowest).take(column)
        above = scores - lowest
        if highest - lowest <= STRETCHED_MAX:
            return _stretched_to(highest - lowest).take(above)
        return _stretched(above, highest - lowest)


@lru_cache(maxsize=256)
def _stretched_to(width: int) -> IntColumn:
    """Return the scores that 0, 1 ... up to a width are stretched to."""
    return _stretched(np.arange(width + 1), width)


def _stretched(above: IntColumn, width: int) -> IntColumn:
    # Parity: interpodaffinity/scoring.go NormalizeScore, v1.36: truncated, not rounded.
    shares = above / float(width)
    shares *= float(NODE_SCORE_MAX)
    return shares.astype(np.int64)
