"""Answers that plugins keep current themselves, for all pods of one template.

Owns the contract, and which of a plan's plugins keep it. A plugin whose verdicts depend on where
other pods are has to be asked in every attempt; if it offers a follower, one call takes the place
of pre-filter and filter, another that of pre-score, score and normalise. What a follower answers
equals what these calls would.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from kubesched.columns.domains import Marked, Topology
from kubesched.columns.node_columns import BoolColumn, IntColumn
from kubesched.columns.trial import PodRows
from kubesched.columns.view import ClusterView, NodeTable, Rows
from kubesched.framework.interface import Rejected
from kubesched.framework.plan import Plan
from kubesched.framework.status import Status
from kubesched.framework.totals import ORDER_BITS


class Added(NamedTuple):
    """What a plugin adds to some rows.

    As long as a follower returns the very same one, the amounts are the same, and rows have another
    way only where that was noted.
    """

    amounts: IntColumn
    """One for each row; or, where rows differ in few ways, one for each way."""
    ways: Rows | None = None
    """Each row's way; None if there is an amount for each row."""
    moved: Sequence[int] = ()
    """The places of rows that got another way since this was first returned."""

    def take(self, places: Rows) -> IntColumn:
        """Return what is added at some places among the rows."""
        return self.amounts.take(places if self.ways is None else self.ways.take(places))

    def raised_at(self, place: int) -> int:
        """Return what is added at one place, raised as totals are."""
        ways = self.ways
        return self.amounts.item(place if ways is None else ways.item(place)) << ORDER_BITS

    def column(self) -> IntColumn:
        """Return what is added to each row."""
        return self.amounts if self.ways is None else self.amounts.take(self.ways)


Refusal: TypeAlias = tuple[Marked, Status]
"""Rows that are refused, and why."""


class FilterFollower(Protocol):
    """A filter's verdict on all rows of a plan: it iterates over what it said last."""

    key: str
    """Under what an attempt's state has what pre-filter would have written."""
    value: Any
    """What that is; true until the next call."""
    refusals: list[Refusal]
    """What is refused of all rows of the cluster."""
    number: int
    """Of the verdict: it moves on when others are refused."""
    moved: list[int] | None
    """The rows of the cluster of which the last verdict and the one before speak differently."""

    def follow(self, view: ClusterView) -> Status | FilterFollower | None:
        """Return itself with the verdict as it is now, or that the filter is skipped.

        None if a new follower is needed.
        """
        ...

    def sign(self) -> Hashable:
        """Return what is equal for verdicts that are the same, as far as that can be known."""
        ...

    def masks(self) -> list[BoolColumn]:
        """Return the plan's rows that are refused; nobody can write the columns."""
        ...

    def concerns(self, pods: PodRows) -> bool:
        """Return whether the verdict on any node may be another if these pods were on it."""
        ...

    def __iter__(self) -> Iterator[Rejected]: ...


class RefusingFollower:
    """What a filter by counts refuses, and how that differs from what it refused before."""

    __slots__ = (
        "_list_number",
        "_masks",
        "_nodes",
        "_numbers",
        "_topology",
        "moved",
        "number",
        "refusals",
    )

    def __init__(self, topology: Topology, nodes: NodeTable) -> None:
        """Begin without a verdict.

        Args:
            topology: of the cluster.
            nodes: all rows.
        """
        self._topology = topology
        self._nodes = nodes
        self.refusals: list[Refusal] = []
        self._list_number = 0
        """Of the list: another one is about others, whatever their numbers are."""
        self._numbers: list[int] = []
        """Of each refusal's rows, when they were last looked at."""
        self._masks: list[BoolColumn] | None = None
        self.number = 0
        self.moved: list[int] | None = None

    def __iter__(self) -> Iterator[Rejected]:
        """Yield what is refused, in order."""
        return rejections(self.refusals, self._topology, self._nodes)

    def sign(self) -> Hashable:
        """Return what is equal for verdicts that are the same, as far as that can be known."""
        return (self._list_number, *[rows.sign() for rows, _ in self.refusals])

    def masks(self) -> list[BoolColumn]:
        """Return the rows that are refused; nobody can write the columns."""
        masks = self._masks
        if masks is None:
            masks = self._masks = [rejected.mask for rejected in self]
        return masks

    def refuse(self, refusals: list[Refusal]) -> Self:
        """Take over what is refused now, over all rows; it is known by the very list."""
        moved: list[int] | None = []
        if refusals is self.refusals:
            numbers, is_same = self._numbers, True
            for place, (rows, _) in enumerate(refusals):
                ahead = rows.number - numbers[place]
                if ahead:
                    is_same = False
                    numbers[place] += ahead
                    here = rows.moved if ahead == 1 else None
                    moved = None if moved is None or here is None else moved + here
            if is_same:
                return self
        else:
            self.refusals, moved = refusals, None
            self._list_number += 1
            self._numbers = [rows.number for rows, _ in refusals]
        self.number += 1
        self.moved, self._masks = moved, None
        return self


def rejections(refusals: list[Refusal], topology: Topology, nodes: NodeTable) -> Iterator[Rejected]:
    """Yield what is refused of the nodes of a table."""
    for rows, status in refusals:
        column = rows.column()
        if column is not None:
            yield Rejected(topology.over(nodes, column), status)


class Fitting(Protocol):
    """The rows that fit."""

    @property
    def rows(self) -> Rows:
        """Return them: the very same array as long as they are the same."""
        ...


class ScoreFollower(Protocol):
    """A plugin's normalised scores of the rows that fit."""

    key: str
    """Under what an attempt's state has what pre-score would have written."""
    value: Any
    """What that is; true until the next call."""

    def follow(self, view: ClusterView, fitting: Fitting) -> Added | Status | None:
        """Return the scores, or that the plugin is skipped; None if a new follower is needed."""
        ...


class Followers:
    """The plugins of a plan that are asked in every attempt, those apart that follow."""

    __slots__ = (
        "_weighed",
        "filters",
        "live_filters",
        "live_scores",
        "pre_filters",
        "pre_scores",
        "scores",
    )

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
        self._weighed: dict[str, tuple[Added, Added]] = {}
        """By plugin: what was last added, without and with the plugin's weight."""

    def weighed(self, plugin: str, added: Added, weight: int) -> Added:
        """Return what a plugin adds times its weight; the same for the same."""
        known = self._weighed.get(plugin)
        if known is None or known[0] is not added:
            weighed = Added(added.amounts * weight, added.ways, added.moved)
            known = self._weighed[plugin] = (added, weighed)
        return known[1]


def _find(
    found: list[Any], plugins: list[Any], before: list[Any], plan: Plan, view: ClusterView
) -> None:
    names = {plugin.name for plugin in before}
    for plugin in plugins:
        make: Callable[..., Any] | None = plugin.follower
        follower = make(plan.pod, view) if make is not None and plugin.name in names else None
        if follower is not None:
            found.append((plugin.name, follower))
