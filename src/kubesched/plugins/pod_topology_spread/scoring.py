"""Soft spread constraints: the fewer matching pods a node's domains have, the better the node.

Owns the counts of an attempt's scoring. Never refuses a node.
Upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable
from kubesched.framework.interface import NODE_SCORE_MAX
from kubesched.framework.normalize import truncated_divide
from kubesched.model.pod_info import PodInfo
from kubesched.plugins.pod_topology_spread.constraints import HOSTNAME, Constraint, Constraints
from kubesched.plugins.pod_topology_spread.counting import Inclusion, counted_rows, with_all_keys
from kubesched.plugins.pod_topology_spread.logarithm import go_log

_INVALID_SCORE = -1


@dataclass(frozen=True, slots=True)
class ConstraintScore:
    """One constraint: how many pods count for each row, and what one of them weighs."""

    constraint: Constraint
    counts: IntColumn
    """Over all rows."""
    weight: float


@dataclass(frozen=True, slots=True)
class PreScoreState:
    """What scoring the fitting nodes needs."""

    scores: tuple[ConstraintScore, ...]
    require_all: bool
    ignored: BoolColumn
    """Which of the fitting nodes are not scored, in their order."""

    def raw_scores(self, nodes: NodeTable) -> IntColumn:
        """Return the weighted number of pods in the domains of each node."""
        # Parity: podtopologyspread/scoring.go Score, scoreForCount, v1.36.
        totals = np.zeros(len(nodes), dtype=np.float64)
        for score in self.scores:
            constraint = score.constraint
            present = nodes.label(constraint.topology_key) >= 0
            value = score.counts[nodes.rows] * score.weight + float(constraint.max_skew - 1)
            totals += np.where(present, value, 0.0)
        raw = _rounded(totals)
        if self.require_all:
            raw[~with_all_keys(nodes, tuple(s.constraint for s in self.scores))] = 0
        return raw

    def normalized(self, scores: IntColumn) -> IntColumn:
        """Return the scores turned round: the fewest pods give the most."""
        # Parity: podtopologyspread/scoring.go NormalizeScore, v1.36: the maximum starts at 0.
        scored = scores[~self.ignored]
        lowest = int(scored.min(initial=np.iinfo(np.int64).max))
        highest = int(scored.max(initial=0))
        invalid = self.ignored | (scores == _INVALID_SCORE)
        if highest == 0:
            turned = np.full_like(scores, NODE_SCORE_MAX)
        else:
            turned = truncated_divide(NODE_SCORE_MAX * (highest + lowest - scores), highest)
        return np.where(invalid, 0, turned)


def pre_score_state(
    pod: PodInfo, nodes: NodeTable, constraints: Constraints, *, require_all: bool
) -> PreScoreState:
    """Return what scoring needs: domains of the fitting nodes, counts over all nodes."""
    # Parity: podtopologyspread/scoring.go PreScore, initPreScoreState, v1.36.
    view = nodes.view
    all_nodes = view.all_nodes()
    ignored = np.zeros(len(nodes), dtype=np.bool_)
    eligible = np.ones(len(all_nodes), dtype=np.bool_)
    if require_all:
        ignored = ~with_all_keys(nodes, constraints)
        eligible = with_all_keys(all_nodes, constraints)
    inclusion = Inclusion(pod, all_nodes, eligible)
    scored = nodes.rows[~ignored]
    # Default constraints share one selector, and asking about all pods is the dear part.
    selectors = dict.fromkeys(constraint.selector for constraint in constraints)
    rows_of = {selector: counted_rows(view, pod.namespace, selector) for selector in selectors}
    scores = []
    for constraint in constraints:
        rows = rows_of[constraint.selector]
        if constraint.topology_key == HOSTNAME:
            # The node's own pods count, whatever its label says and the policies want.
            size, counts = len(scored), np.bincount(rows, minlength=view.row_count)
        else:
            domains = _domains(view, constraint.topology_key)
            rows = rows[inclusion.rows(constraint)[rows]]
            size = int(np.count_nonzero(np.bincount(domains[scored])))
            counts = np.bincount(domains[rows], minlength=domains.max(initial=0) + 1)[domains]
        scores.append(ConstraintScore(constraint, counts.astype(np.int64), go_log(size + 2)))
    return PreScoreState(tuple(scores), require_all, ignored)


def _domains(view: ClusterView, key: str) -> NDArray[np.int64]:
    """Return the domain of each row; nodes without the key are one domain, that of the empty value.

    Such nodes take part under the system's defaults only.
    """
    values = view.label_values(key)
    ids = view.label_ids(key).astype(np.int64)
    empty = values.id_of("")
    return np.where(ids < 0, empty if empty >= 0 else len(values), ids)


def _rounded(values: NDArray[np.float64]) -> IntColumn:
    # Half away from zero, as Go rounds; adding a half first would round 0.49999999999999994 up.
    whole = np.trunc(values)
    away = np.abs(values - whole) >= 0.5
    return (whole + np.where(away, np.copysign(1.0, values), 0.0)).astype(np.int64)
