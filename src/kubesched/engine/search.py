"""What an attempt is asked, and what it answers.

Owns how far to look, and the result. Upstream: pkg/scheduler/schedule_one.go ScheduleResult
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kubesched.columns.view import NodeTable
from kubesched.engine.diagnosis import Diagnosis
from kubesched.engine.sampling import nodes_to_find
from kubesched.framework.profile import Profile
from kubesched.framework.score_phase import Scores


@dataclass(slots=True)
class Search:
    """How far to look for nodes, and from where; the start moves on from attempt to attempt."""

    all_nodes: bool = False
    """Evaluate every node, whatever the configured percentage."""
    detail: bool = False
    """Have the result tell what led to it."""
    default_percentage: int = 0
    next_start_index: int = 0
    has_extender_filters: bool = False
    has_extender_prioritizers: bool = False
    extender_count: int = 0

    def want(self, profile: Profile, node_count: int) -> int:
        """Return how many fitting nodes are enough."""
        if self.all_nodes:
            return node_count
        scores = profile.has_score_plugins or self.has_extender_prioritizers
        if not scores and not self.has_extender_filters:
            return 1
        return nodes_to_find(
            node_count,
            profile.percentage_of_nodes_to_score,
            default_percentage=self.default_percentage,
        )


@dataclass(frozen=True, slots=True)
class Detail:
    """What led to a choice."""

    feasible: NodeTable
    scores: Scores | None
    """None when there was nothing to choose."""
    diagnosis: Diagnosis


class ScheduleResult(NamedTuple):
    """The chosen node, and how many were looked at."""

    suggested_host: str
    feasible_node_count: int
    evaluated_node_count: int
    detail: Detail | None = None
    """There if the search asked for it."""
