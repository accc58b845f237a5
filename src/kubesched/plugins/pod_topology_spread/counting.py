"""Which pods and which nodes a spread constraint counts.

Owns the lookup table over label classes and the inclusion of nodes. Never judges a node.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread/common.go
"""

from __future__ import annotations

import numpy as np

from kubesched.columns.node_columns import BoolColumn
from kubesched.columns.pod_columns import LabelClass
from kubesched.columns.rules import (
    DO_NOT_SCHEDULE_EFFECTS,
    required_node_affinity_mask,
    taints_tolerated_mask,
)
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.model.pod_info import PodInfo
from kubesched.objects.selectors import Selector
from kubesched.plugins.pod_topology_spread.constraints import Constraint, Constraints


def matching_classes(view: ClusterView, namespace: str, selector: Selector) -> BoolColumn:
    """Return which label classes a selector means in a namespace, by class id."""

    def matches(label_class: LabelClass) -> bool:
        return label_class.namespace == namespace and selector.matches(label_class.labels)

    table: BoolColumn = view.label_classes.lut(("spread", namespace, selector), matches)
    return table


def counted_rows(view: ClusterView, namespace: str, selector: Selector) -> Rows:
    """Return the row of every pod that counts, one entry per pod."""
    # Parity: podtopologyspread/common.go countPodsMatchSelector, v1.36: a selector that matches
    # everything counts nothing, and a pod that is being deleted does not count.
    if selector.is_empty:
        return np.zeros(0, dtype=np.int64)
    return view.matching_rows(matching_classes(view, namespace, selector), live_only=True)


def with_all_keys(nodes: NodeTable, constraints: Constraints) -> BoolColumn:
    """Return which nodes have the topology keys of all constraints."""
    present = np.ones(len(nodes), dtype=np.bool_)
    for constraint in constraints:
        present &= nodes.label(constraint.topology_key) >= 0
    return present


class Inclusion:
    """Which nodes a pod's constraints count on; each policy is worked out once."""

    def __init__(self, pod: PodInfo, nodes: NodeTable, eligible: BoolColumn) -> None:
        self._pod = pod
        self._nodes = nodes
        self._eligible = eligible
        self._affinity: BoolColumn | None = None
        self._taints: BoolColumn | None = None

    def rows(self, constraint: Constraint) -> BoolColumn:
        """Return the mask over all rows of the table, false for rows without a node."""
        # Parity: podtopologyspread/common.go matchNodeInclusionPolicies, v1.36.
        included = self._eligible
        if constraint.honors_affinity:
            included = included & self._affinity_mask()
        if constraint.honors_taints:
            included = included & self._taints_mask()
        whole = np.zeros(self._nodes.view.row_count, dtype=np.bool_)
        whole[self._nodes.rows] = included
        return whole

    def _affinity_mask(self) -> BoolColumn:
        if self._affinity is None:
            self._affinity = required_node_affinity_mask(self._nodes, self._pod)
        return self._affinity

    def _taints_mask(self) -> BoolColumn:
        if self._taints is None:
            self._taints = taints_tolerated_mask(
                self._nodes, self._pod.tolerations, DO_NOT_SCHEDULE_EFFECTS
            )
        return self._taints
