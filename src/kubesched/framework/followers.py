"""Answers that plugins keep current themselves, for all pods of one template.

Owns the contract, and which of a plan's plugins keep it. A plugin whose verdicts depend on where
other pods are has to be asked in every attempt; if it offers a follower, one call takes the place
of pre-filter and filter, another that of pre-score, score and normalise. What a follower answers
equals what these calls would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from kubesched.columns.counts import DomainTable, Topology
from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.interface import Rejected
from kubesched.framework.plan import Plan
from kubesched.framework.status import Status


class Added(NamedTuple):
    """What a plugin adds to some rows."""

    amounts: IntColumn
    """One for each row; or, where rows differ in few ways, one for each way."""
    ways: Rows | None = None
    """Each row's way; None if there is an amount for each row."""

    def take(self, places: Rows) -> IntColumn:
        """Return what is added at some places among the rows."""
        return self.amounts.take(places if self.ways is None else self.ways.take(places))

    def column(self) -> IntColumn:
        """Return what is added to each row."""
        return self.amounts if self.ways is None else self.amounts.take(self.ways)


Refusal: TypeAlias = tuple[BoolColumn, Status, DomainTable | None]
"""Rows that are refused, why, and the counts if they are `rows_above` of these."""


class FilterFollower(Protocol):
    """A filter's verdict on all rows of a plan: it iterates over what it said last."""

    key: str
    """Under what an attempt's state has what pre-filter would have written."""
    value: Any
    """What that is; true until the next call."""
    masks: list[BoolColumn]
    """The rows that are refused, which cannot be written."""
    number: int
    """Of the verdict: it moves on when others are refused."""
    moved: list[int] | None
    """The rows of the cluster of which the last verdict and the one before speak differently."""

    def follow(self, view: ClusterView) -> Status | FilterFollower | None:
        """Return itself with the verdict as it is now, or that the filter is skipped.

        None if a new follower is needed.
        """
        ...

    def __iter__(self) -> Iterator[Rejected]: ...


class RefusingFollower:
    """What a filter by counts refuses, and how that differs from what it refused before."""

    __slots__ = ("_nodes", "_refusals", "_topology", "_whole", "masks", "moved", "number")

    def __init__(self, topology: Topology, nodes: NodeTable) -> None:
        """Begin without a verdict.

        Args:
            topology: of the cluster.
            nodes: all rows.
        """
        self._topology = topology
        self._nodes = nodes
        self._refusals: list[Refusal] = []
        self._whole: list[BoolColumn] = []
        self.masks: list[BoolColumn] = []
        self.number = 0
        self.moved: list[int] | None = None

    def __iter__(self) -> Iterator[Rejected]:
        """Yield what is refused, in order."""
        for mask, (_, status, _) in zip(self.masks, self._refusals, strict=True):
            yield Rejected(mask, status)

    def refuse(self, refusals: list[Refusal]) -> Self:
        """Take over what is refused now, over all rows; no two have a mask in common."""
        whole = [refusal[0] for refusal in refusals]
        known = self._whole
        if len(whole) != len(known):
            self.moved = None
        elif all(map(is_, whole, known)):
            return self
        else:
            self.moved = _moved(known, refusals)
        self.number += 1
        self._whole, self._refusals = whole, refusals
        self.masks = self._topology.all_over(self._nodes, whole)
        return self


def _moved(before: list[BoolColumn], refusals: list[Refusal]) -> list[int] | None:
    moved: list[int] = []
    for known, (mask, _, table) in zip(before, refusals, strict=True):
        if mask is not known:
            above = None if table is None else table.above
            if above is None or above.before is not known:
                return None
            moved += above.moved
    return moved


class ScoreFollower(Protocol):
    """A plugin's normalised scores of the rows that fit."""

    key: str
    """Under what an attempt's state has what pre-score would have written."""
    value: Any
    """What that is; true until the next call."""

    def follow(self, view: ClusterView, rows: Rows) -> Added | Status | None:
        """Return the scores, or that the plugin is skipped; None if a new follower is needed."""
        ...


class Followers:
    """The plugins of a plan that are asked in every attempt, those apart that follow."""

    __slots__ = ("filters", "live_filters", "live_scores", "pre_filters", "pre_scores", "scores")

    def __init__(self, plan: Plan, view: ClusterView | None) -> None:
        """Ask each plugin for a follower; without a view, none follows."""
        self.filters: list[tuple[str, FilterFollower]] = []
        self.scores: list[tuple[str, ScoreFollower]] = []
        if view is not None:
            # One call stands for both points, so that a plugin has to take part in both.
            _find(self.filters, plan.live_filters, plan.live_pre_filters, plan, view)
            _find(self.scores, plan.live_scores, plan.live_pre_scores, plan, view)
        following, scoring = dict(self.filters), dict(self.scores)
        self.pre_filters = [p for p in plan.live_pre_filters if p.name not in following]
        self.live_filters = [p for p in plan.live_filters if p.name not in following]
        self.pre_scores = [p for p in plan.live_pre_scores if p.name not in scoring]
        self.live_scores = [p for p in plan.live_scores if p.name not in scoring]


def _find(
    found: list[Any], plugins: list[Any], before: list[Any], plan: Plan, view: ClusterView
) -> None:
    names = {plugin.name for plugin in before}
    for plugin in plugins:
        make: Callable[..., Any] | None = plugin.follower
        follower = make(plan.pod, view) if make is not None and plugin.name in names else None
        if follower is not None:
            found.append((plugin.name, follower))
