"""The request and the result of an attempt.

Owns how many nodes an attempt looks at, and the result: a `Struct`, made in a third of the time of
a named tuple. Upstream: pkg/scheduler/schedule_one.go ScheduleResult, numFeasibleNodesToFind
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kubesched.attempt.diagnosis import Diagnosis
from kubesched.attempt.kept.basis import Basis
from kubesched.framework.runtime.profile import Profile
from kubesched.framework.runtime.score_phase import Scores
from kubesched.snapshot.view import NodeTable

MIN_FEASIBLE_NODES_TO_FIND = 100
MIN_FEASIBLE_NODES_PERCENTAGE = 5
SPARE_NODES = 8


def nodes_to_find(node_count: int, percentage: int | None, *, default_percentage: int = 0) -> int:
    """Return the number of feasible nodes that ends the search among `node_count` nodes.

    Args:
        node_count: the number of candidates.
        percentage: the profile's percentageOfNodesToScore, None if it has none of its own.
        default_percentage: the configuration's; 0 lets the share shrink as the cluster grows.
    """
    if node_count < MIN_FEASIBLE_NODES_TO_FIND:
        return node_count
    share = default_percentage if percentage is None else percentage
    if share == 0:
        share = max(50 - node_count // 125, MIN_FEASIBLE_NODES_PERCENTAGE)
    return max(node_count * share // 100, MIN_FEASIBLE_NODES_TO_FIND)


def nodes_to_evaluate(wanted: int, evaluated: int, found: int) -> int:
    """Return roughly how many more nodes a one-node filter, which is slow, has to evaluate.

    Args:
        wanted: the number of feasible nodes that ends the search.
        evaluated: the number of nodes evaluated so far.
        found: how many of them are feasible.
    """
    if found == 0:
        return wanted
    # Enough if the share of feasible nodes stays the same; another round costs little.
    return min(wanted, (wanted - found) * evaluated // found + SPARE_NODES)


@dataclass(slots=True)
class Search:
    """How many nodes to evaluate, and from where; the start moves from attempt to attempt."""

    all_nodes: bool = False
    """Evaluate every node, whatever the configured percentage."""
    detail: bool = False
    """Have the result include the detail."""
    default_percentage: int = 0
    next_start_index: int = 0
    has_extender_filters: bool = False
    has_extender_prioritizers: bool = False
    extender_count: int = 0
    draw: Callable[[int], int] = lambda _bound: 0
    """Returns a random number below another, for ties among nodes that extenders scored."""

    def want(self, profile: Profile, node_count: int) -> int:
        """Return the number of feasible nodes that ends the search."""
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
    """The columns of an attempt, for explanations and reports."""

    feasible: NodeTable
    scores: Scores | None
    """None if there was nothing to choose from."""
    diagnosis: Diagnosis
    chosen: int = 0
    """The place of the chosen node among the feasible ones."""


class ScheduleResult(msgspec.Struct, frozen=True):
    """The chosen node, and how many nodes were evaluated."""

    suggested_host: str
    feasible_node_count: int
    evaluated_node_count: int
    detail: Detail | None = None
    """Only if the search requests it."""
    basis: Basis | None = None
    """Only for decisions by kept verdicts; valid until the cluster changes."""
