"""Hard spread constraints: how many pods each domain has, and which nodes would skew it.

Owns the counts of an attempt and of its trials. Never scores.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import NodeTable
from kubesched.framework.interface import Rejected
from kubesched.framework.status import unresolvable, unschedulable
from kubesched.model.pod_info import PodInfo
from kubesched.plugins.pod_topology_spread.constraints import Constraint, Constraints
from kubesched.plugins.pod_topology_spread.counting import (
    Inclusion,
    counted_rows,
    matching_classes,
    with_all_keys,
)

CONSTRAINTS_NOT_MATCH = unschedulable("node(s) didn't match pod topology spread constraints")
NODE_LABEL_NOT_MATCH = unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)"
)
# What upstream takes the least count to be where there is no domain.
COUNT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """One constraint's counts as the cluster is; nothing here changes in a trial."""

    constraint: Constraint
    self_match: int
    classes: BoolColumn
    """Which label classes match, by class id."""
    included: BoolColumn
    """Which rows count, over all rows."""
    counts: IntColumn
    """Pods by domain, and one zero more, so that a node without the key (-1) reads zero."""
    domain_count: int
    least: int
    least_domain: int
    second: int

    def minimum(self, nodes: NodeTable, own: IntColumn | None) -> IntColumn | int:
        """Return the least count of any domain, for each node as its trial supposes it.

        Args:
            nodes: the rows of the trial.
            own: the count of each row's own domain in its trial; None if there is no trial.
        """
        if self.domain_count < self.constraint.min_domains:
            return 0
        if own is None:
            return self.least
        # Only the row's own domain can have moved. Upstream's two slots come to the same.
        domains = nodes.label(self.constraint.topology_key)
        others = np.where(domains == self.least_domain, self.second, self.least)
        return np.where(self.included[nodes.rows], np.minimum(own, others), self.least)


class PreFilterState:
    """The counts of all hard constraints, and what a trial has added or taken on each row."""

    __slots__ = ("_deltas", "counts")

    def __init__(self, counts: tuple[DomainCounts, ...]) -> None:
        self.counts = counts
        self._deltas: list[IntColumn | None] = [None] * len(counts)

    def clone(self) -> PreFilterState:
        """Return a state that a trial may change."""
        copy = PreFilterState(self.counts)
        copy._deltas = list(self._deltas)
        return copy

    def shift(self, pods: PodRows, nodes: NodeTable, sign: int) -> None:
        """Add or take one pod on each row."""
        # Parity: podtopologyspread/filtering.go updateWithPod, v1.36: neither a deletion timestamp
        # nor an empty selector is looked at, so that a count may go below zero.
        if not pods.present.any():
            return
        label_class = pods.label_class
        for place, counts in enumerate(self.counts):
            moved = pods.present & counts.classes[label_class] & counts.included[nodes.rows]
            delta = self._deltas[place]
            change = sign * moved.astype(np.int64)
            # Clones share the arrays, so they are replaced and never written.
            self._deltas[place] = change if delta is None else delta + change

    def rejections(self, nodes: NodeTable) -> list[Rejected]:
        """Return the verdicts in the order of the constraints."""
        # Parity: podtopologyspread/filtering.go Filter, v1.36.
        verdicts = []
        for counts, delta in zip(self.counts, self._deltas, strict=True):
            domains = nodes.label(counts.constraint.topology_key)
            verdicts.append(Rejected(domains < 0, NODE_LABEL_NOT_MATCH))
            own = counts.counts[domains]
            if delta is not None:
                own = own + delta
            least = counts.minimum(nodes, None if delta is None else own)
            skew = own + counts.self_match - least
            verdicts.append(Rejected(skew > counts.constraint.max_skew, CONSTRAINTS_NOT_MATCH))
        return verdicts


def pre_filter_state(pod: PodInfo, nodes: NodeTable, constraints: Constraints) -> PreFilterState:
    """Return the counts of a pod's hard constraints over all nodes."""
    # Parity: podtopologyspread/filtering.go calPreFilterState, v1.36.
    inclusion = Inclusion(pod, nodes, with_all_keys(nodes, constraints))
    return PreFilterState(tuple(_count(pod, nodes, inclusion, c) for c in constraints))


def _count(
    pod: PodInfo, nodes: NodeTable, inclusion: Inclusion, constraint: Constraint
) -> DomainCounts:
    view, key = nodes.view, constraint.topology_key
    included = inclusion.rows(constraint)
    rows = counted_rows(view, pod.namespace, constraint.selector)
    counts = view.domain_sums(key, rows[included[rows]])
    domains = np.flatnonzero(view.domain_sums(key, np.flatnonzero(included)))
    least_domain, least, second = -1, COUNT_MAX, COUNT_MAX
    if len(domains):
        least_domain = int(domains[np.argmin(counts[domains])])
        least = int(counts[least_domain])
        second = int(counts[domains[domains != least_domain]].min(initial=COUNT_MAX))
    return DomainCounts(
        constraint=constraint,
        self_match=int(constraint.selector.matches(pod.labels)),
        classes=matching_classes(view, pod.namespace, constraint.selector),
        included=included,
        counts=np.append(counts, 0),
        domain_count=len(domains),
        least=least,
        least_domain=least_domain,
        second=second,
    )
