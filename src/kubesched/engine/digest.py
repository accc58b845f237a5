"""What is kept of a decision until somebody asks: names, numbers and statuses, but no text.

Owns the compact form, and how an explanation is put together from it. A digest refers to nothing in
the columns, and stays small however many nodes there are. Never reads a column.
Upstream: pkg/scheduler/schedule_one.go (the texts of events)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kubesched.engine.explained import (
    Event,
    Explanation,
    Outcome,
    Preemption,
    Ranked,
    Refusal,
    RunnerUp,
    Why,
)
from kubesched.framework.status import Code, Status

REASONS_MAX: Final = 20
# Parity: pkg/apis/core/validation/events.go NoteLengthLimit, v1.36.
EVENT_BYTES_MAX: Final = 1024
_CUT: Final = b" ..."
_CODE_NAMES: Final = {code: code.wire_name for code in Code}


class Counted(NamedTuple):
    """How many nodes got one and the same status, and the names of some."""

    status: Status
    node_count: int
    nodes: tuple[str, ...]


class Refused(NamedTuple):
    """The nodes that were refused, the largest groups of them."""

    node_count: int
    groups: tuple[Counted, ...]

    @property
    def left_out(self) -> int:
        """Return how many refused nodes are in none of the groups."""
        return self.node_count - sum(group.node_count for group in self.groups)

    def shown(self) -> tuple[Refusal, ...]:
        """Return the groups."""
        return tuple(_refusal(*group) for group in self.groups)


class BestNodes(NamedTuple):
    """The best nodes, the chosen one first, with what each plugin gives them."""

    nodes: tuple[str, ...]
    totals: list[int]
    scores: dict[str, list[int]]
    tied_count: int
    """How many nodes share the highest total."""


class PlacedDigest(NamedTuple):
    """A pod that was given a node."""

    pod: str
    profile: str
    node: str
    is_by_nomination: bool
    node_count: int
    fit_count: int
    best: BestNodes | None
    """None if nothing was scored."""
    top: int | None
    """How many rows of the ranking are shown, None for all."""
    examples: int
    """How many of those are named that are as good."""
    refused: Refused

    @property
    def why(self) -> Why:
        """Return what decided."""
        if self.fit_count == 1:
            if self.is_by_nomination:
                return "nominated"
            return "only" if self.refused.node_count == self.node_count - 1 else "first"
        if self.best is None:
            return "unscored"
        return "shared" if self.best.tied_count > 1 else "highest"

    def explanation(self) -> Explanation:
        """Return the explanation."""
        best = self.best
        ranking = () if best is None else _ranking(best)
        shown = ranking[: self.top]
        total = None if best is None else best.totals[0]
        tied = [row.node for row in ranking[1 : self.examples + 1] if row.total == total]
        return Explanation(
            pod=self.pod,
            profile=self.profile,
            outcome="placed",
            node=self.node,
            why=self.why,
            node_count=self.node_count,
            fit_count=self.fit_count,
            total=total,
            tied_count=1 if best is None else best.tied_count,
            tied=tuple(tied),
            runner_up=_runner_up(ranking),
            ranking=shown,
            ranking_left_out=self.fit_count - len(shown) if best is not None else 0,
            refused_count=self.refused.node_count,
            # An extender may bring nodes of its own.
            unvisited_count=max(self.node_count - self.fit_count - self.refused.node_count, 0),
            refusals=self.refused.shown(),
            refusals_left_out=self.refused.left_out,
            refused_whole=None,
            preemption=None,
            # Parity: schedule_one.go bindingCycle, v1.36.
            event=Event(
                type="Normal",
                reason="Scheduled",
                message=f"Successfully assigned {self.pod} to {self.node}",
            ),
        )


class NotPlacedDigest(NamedTuple):
    """A pod that was given no node."""

    pod: str
    profile: str
    outcome: Outcome
    node_count: int
    fit_count: int
    refused: Refused
    refused_whole: Status | None
    preemption: Preemption | None
    message: str
    """Cut as in an event."""

    def explanation(self) -> Explanation:
        """Return the explanation."""
        whole = self.refused_whole
        refused_count = self.refused.node_count if whole is None else self.node_count
        is_over = self.outcome == "unschedulable"
        return Explanation(
            pod=self.pod,
            profile=self.profile,
            outcome=self.outcome,
            node="",
            why="",
            node_count=self.node_count,
            fit_count=self.fit_count,
            total=None,
            tied_count=0,
            tied=(),
            runner_up=None,
            ranking=(),
            ranking_left_out=0,
            refused_count=refused_count,
            unvisited_count=0 if is_over else self.node_count - self.fit_count - refused_count,
            refusals=self.refused.shown(),
            refusals_left_out=self.refused.left_out,
            refused_whole=None if whole is None else _refusal(whole, self.node_count, ()),
            preemption=self.preemption,
            event=Event(type="Warning", reason="FailedScheduling", message=self.message),
        )


Digest: TypeAlias = PlacedDigest | NotPlacedDigest


def _ranking(best: BestNodes) -> tuple[Ranked, ...]:
    lines = zip(best.nodes, best.totals, *best.scores.values(), strict=True)
    return tuple(
        Ranked(node=node, total=total, scores=dict(zip(best.scores, points, strict=True)))
        for node, total, *points in lines
    )


def _runner_up(ranking: tuple[Ranked, ...]) -> RunnerUp | None:
    if len(ranking) < 2:
        return None
    first, second = ranking[:2]
    return RunnerUp(
        node=second.node,
        total=second.total,
        behind=first.total - second.total,
        difference=difference(first.scores, second.scores),
    )


def difference(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return by plugin what the first has more than the second, the largest first."""
    points = {name: value - second.get(name, 0) for name, value in first.items()}
    points |= {name: -value for name, value in second.items() if name not in first}
    apart = [(-abs(value), name) for name, value in points.items() if value]
    return {name: points[name] for _, name in sorted(apart)}


def event_text(message: str) -> str:
    """Return a message as an event carries it."""
    # Parity: schedule_one.go truncateMessage, v1.36. Go cuts bytes, not letters.
    if len(message) * 4 <= EVENT_BYTES_MAX:
        return message
    data = message.encode("utf-8", "backslashreplace")
    if len(data) <= EVENT_BYTES_MAX:
        return message
    return (data[: EVENT_BYTES_MAX - len(_CUT)] + _CUT).decode("utf-8", "replace")


def _refusal(status: Status, count: int, nodes: tuple[str, ...]) -> Refusal:
    return Refusal(
        plugin=status.plugin,
        code=_CODE_NAMES[status.code],
        reasons=tuple(sorted(status.reasons)[:REASONS_MAX]),
        reasons_left_out=max(len(status.reasons) - REASONS_MAX, 0),
        count=count,
        nodes=nodes,
    )
