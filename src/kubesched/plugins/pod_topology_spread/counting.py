"""Which pods and which nodes a spread constraint counts.

Upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from kubesched.api.label_selectors import Selector
from kubesched.plugins.pod_topology_spread.constraints import Constraint, Constraints
from kubesched.snapshot.expressions import (
    DO_NOT_SCHEDULE_EFFECTS,
    is_allowed,
    is_tolerated,
)
from kubesched.snapshot.interning import LookupTable
from kubesched.snapshot.node_columns import BoolColumn
from kubesched.snapshot.pod_columns import LabelClass
from kubesched.snapshot.pod_counts import Tally
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.topology import Indexes
from kubesched.snapshot.view import ClusterView


def matching_classes(
    view: ClusterView, namespace: str, selector: Selector
) -> LookupTable[LabelClass]:
    """Return 1 for each label class of a namespace that a selector matches, else 0, by class id."""

    def matches(label_class: LabelClass) -> int:
        return label_class.namespace == namespace and selector.matches(label_class.labels)

    candidates = view.counters.class_postings.candidates(selector)
    return LookupTable(view.label_classes, matches, candidates)


def matching_pods(view: ClusterView, namespace: str, selector: Selector) -> Tally:
    """Return the number of counted pods on each row."""
    counters = view.counters

    def make() -> Tally:
        # Parity: podtopologyspread/common.go countPodsMatchSelector, v1.36: a selector that matches
        # everything counts nothing, and a pod that is being deleted does not count.
        classes = (
            LookupTable(view.label_classes, _nothing, ())
            if selector.is_empty
            else matching_classes(view, namespace, selector)
        )
        return Tally(counters, classes, live_only=True)

    return counters.tally(("spread", namespace, selector), make)


def _nothing(label_class: LabelClass) -> int:
    return 0


class Inclusion:
    """Which nodes a pod's constraints count on."""

    def __init__(
        self, view: ClusterView, pod: PodInfo, constraints: Constraints, *, require_all: bool
    ) -> None:
        self._view = view
        self._topology = view.counters.topology
        self._pod = pod
        self._keys = (
            frozenset(constraint.topology_key for constraint in constraints)
            if require_all
            else frozenset()
        )

    def rows(self, constraint: Constraint) -> BoolColumn:
        """Return the mask over all rows of the table, false for rows without a node."""
        return self._topology.fact(
            ("included", self._key(constraint)), lambda: self._mask(constraint)
        )

    def slots(self, constraint: Constraint, missing: int) -> Indexes:
        """Return each row's domain, the count of domains for a row that does not count.

        Args:
            constraint: names the topology key.
            missing: the domain of an included node without the key.
        """

        def make() -> Indexes:
            domains = self._topology.domains(constraint.topology_key)
            slots = np.where(domains.ids == domains.count, missing, domains.ids)
            slots[~self.rows(constraint)] = domains.count
            return slots

        key = ("slots", constraint.topology_key, missing, self._key(constraint))
        return self._topology.fact(key, make)

    def _key(self, constraint: Constraint) -> Hashable:
        shape = self._pod.shape
        affinity: Hashable = None
        if constraint.honors_affinity:
            selector = shape.node_selector
            labels = None if selector is None else tuple(sorted(selector.items()))
            affinity = (labels, shape.required_node_affinity)
        tolerations = shape.tolerations if constraint.honors_taints else None
        return (self._keys, affinity, tolerations)

    def _mask(self, constraint: Constraint) -> BoolColumn:
        # Parity: podtopologyspread/common.go matchNodeInclusionPolicies, v1.36.
        nodes = self._view.all_nodes()
        included = np.ones(len(nodes), dtype=np.bool_)
        for key in sorted(self._keys):
            included &= nodes.label(key) >= 0
        if constraint.honors_affinity:
            included &= is_allowed(nodes, self._pod)
        if constraint.honors_taints:
            tolerations = self._pod.tolerations
            included &= is_tolerated(nodes, tolerations, DO_NOT_SCHEDULE_EFFECTS)
        over_rows = np.zeros(self._topology.row_count, dtype=np.bool_)
        over_rows[nodes.rows] = included
        return over_rows
