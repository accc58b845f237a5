"""Values of an explanation and of a pod report, as JSON shows them, and summaries of attempts.

Owns the format that the command line, `/debug/explain` and dashboards read, and the compact
summaries from which explanations are assembled on demand. A summary holds no reference to a
snapshot and stays small on clusters of any size. Never decides.
Upstream: pkg/scheduler/schedule_one.go (event messages)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from kubesched.framework.status import Code, Status
from kubesched.golang.strconv import go_quote
from kubesched.snapshot.pod_info import PodInfo

Outcome = Literal["placed", "unschedulable", "error"]
Why = Literal["", "highest", "shared", "only", "first", "nominated", "unscored"]


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An immutable value with camelCase keys in JSON."""


class Ranked(Value, frozen=True, kw_only=True):
    """A fitting node with each plugin's weighted score."""

    node: str
    total: int
    scores: dict[str, int]


class RunnerUp(Value, frozen=True, kw_only=True):
    """The next best node, and the plugins that made the difference."""

    node: str
    total: int
    behind: int
    """How many points the node is behind the chosen one."""
    difference: dict[str, int]
    """Lead (or deficit) of the chosen node by plugin; the largest first, no zeros."""


class Rejection(Value, frozen=True, kw_only=True):
    """The nodes one plugin rejected for the same reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    reasons_left_out: int = 0
    """Number of reasons not listed."""
    count: int
    nodes: tuple[str, ...]
    """Example nodes."""


class Victim(Value, frozen=True, kw_only=True):
    """A pod that would be evicted."""

    pod: str
    priority: int


class Budget(Value, frozen=True, kw_only=True):
    """A PodDisruptionBudget that covers victims."""

    name: str
    disruptions_allowed: int
    victims: tuple[str, ...]
    """Some of the victims it covers, most important first."""
    victim_count: int = 0


class Preemption(Value, frozen=True, kw_only=True):
    """A preemption that would make the pod fit."""

    node: str
    victims: tuple[Victim, ...]
    """The most important first; the list is truncated if there are many."""
    victim_count: int
    budget_violations: int
    """Number of victims that violate a budget."""
    budgets: tuple[Budget, ...]
    """The most exceeded first."""
    budgets_left_out: int = 0


class Event(Value, frozen=True, kw_only=True):
    """The event the scheduler would write, truncated as the scheduler truncates it."""

    type: str
    reason: str
    message: str


class Hold(Value, frozen=True, kw_only=True):
    """A plugin that holds the pod back, and its message."""

    plugin: str
    message: str = ""


class ChangePart(Value, frozen=True, kw_only=True):
    """One of several changes that make nodes fit together."""

    kind: str
    field: str
    text: str
    lacks: dict[str, int] = {}


class Change(Value, frozen=True, kw_only=True):
    """A tested change that would make the pod fit on more nodes."""

    kind: str
    plugin: str
    """The plugins that would no longer reject the pod, comma-separated."""
    field: str = ""
    """The path of the pod's field to change."""
    text: str
    opens: int
    """Number of additional nodes that would fit."""
    nodes: tuple[str, ...]
    """Example nodes."""
    lacks: dict[str, int] = {}
    """For resources: by how much the request exceeds the free amount of the first node, at most the
    whole request, in millicores, bytes or units; for pods, the number of excess pods."""
    parts: tuple[ChangePart, ...] = ()
    """For a combined change: its parts, all of which are required."""


class Explanation(Value, frozen=True, kw_only=True):
    """One decision, explained."""

    version: int = 1
    pod: str
    profile: str
    outcome: Outcome
    held: tuple[Hold, ...] | None = None
    """The plugins that keep the pod out of the queue; the rest is computed as if they did not.
    None if there are none."""
    node: str = ""
    """The chosen node; empty if there is none."""
    why: Why = ""
    node_count: int
    fit_count: int
    total: int | None = None
    """The chosen node's total score; None if nothing was scored."""
    tied_count: int = 0
    """Number of nodes that share the highest total, the chosen one included."""
    tied: tuple[str, ...] = ()
    """Some of the other nodes with the highest total."""
    runner_up: RunnerUp | None = None
    ranking: tuple[Ranked, ...] = ()
    ranking_left_out: int = 0
    rejected_count: int
    unvisited_count: int = 0
    """Number of nodes not visited because enough fitting nodes were found."""
    rejections: tuple[Rejection, ...]
    rejections_left_out: int
    """Number of rejected nodes in none of the listed groups; the largest groups are listed."""
    rejected_whole: Rejection | None = None
    """A rejection of the pod by PreFilter, before any node was visited."""
    preemption: Preemption | None = None
    event: Event
    changes: tuple[Change, ...] | None = None
    """None if changes were not tested."""


REASONS_MAX: Final = 20
# Parity: pkg/apis/core/validation/events.go NoteLengthLimit, v1.36.
EVENT_BYTES_MAX: Final = 1024
_CUT: Final = b" ..."
_CODE_NAMES: Final = {code: code.wire_name for code in Code}


class Counted(NamedTuple):
    """The number of nodes with the same status, and example nodes."""

    status: Status
    node_count: int
    nodes: tuple[str, ...]


class Rejected(NamedTuple):
    """The rejected nodes, in the largest groups."""

    node_count: int
    groups: tuple[Counted, ...]

    @property
    def left_out(self) -> int:
        return self.node_count - sum(group.node_count for group in self.groups)

    def as_values(self) -> tuple[Rejection, ...]:
        return tuple(_rejection(*group) for group in self.groups)


class BestNodes(NamedTuple):
    """The best nodes, the chosen one first, with each plugin's scores."""

    nodes: tuple[str, ...]
    totals: list[int]
    scores: dict[str, list[int]]
    tied_count: int
    """Number of nodes that share the highest total."""


class PlacedSummary(NamedTuple):
    """The summary of a placed pod."""

    pod: str
    profile: str
    node: str
    is_by_nomination: bool
    node_count: int
    fit_count: int
    best: BestNodes | None
    """None if nothing was scored."""
    top: int | None
    """Number of ranked nodes to show, None for all."""
    examples: int
    """Number of tied nodes to name."""
    rejected: Rejected

    @property
    def why(self) -> Why:
        if self.fit_count == 1:
            if self.is_by_nomination:
                return "nominated"
            return "only" if self.rejected.node_count == self.node_count - 1 else "first"
        if self.best is None:
            return "unscored"
        return "shared" if self.best.tied_count > 1 else "highest"

    def explanation(self) -> Explanation:
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
            rejected_count=self.rejected.node_count,
            # An extender may add nodes.
            unvisited_count=max(self.node_count - self.fit_count - self.rejected.node_count, 0),
            rejections=self.rejected.as_values(),
            rejections_left_out=self.rejected.left_out,
            # Parity: schedule_one.go bindingCycle, v1.36.
            event=Event(
                type="Normal",
                reason="Scheduled",
                message=f"Successfully assigned {self.pod} to {self.node}",
            ),
        )


class NotPlacedSummary(NamedTuple):
    """The summary of a pod that was not placed."""

    pod: str
    profile: str
    outcome: Outcome
    node_count: int
    fit_count: int
    rejected: Rejected
    rejected_whole: Status | None
    preemption: Preemption | None
    message: str
    """Truncated as in an event."""

    def explanation(self) -> Explanation:
        whole = self.rejected_whole
        rejected_count = self.rejected.node_count if whole is None else self.node_count
        is_rejected = self.outcome == "unschedulable"
        return Explanation(
            pod=self.pod,
            profile=self.profile,
            outcome=self.outcome,
            node_count=self.node_count,
            fit_count=self.fit_count,
            rejected_count=rejected_count,
            unvisited_count=0 if is_rejected else self.node_count - self.fit_count - rejected_count,
            rejections=self.rejected.as_values(),
            rejections_left_out=self.rejected.left_out,
            rejected_whole=None if whole is None else _rejection(whole, self.node_count, ()),
            preemption=self.preemption,
            event=Event(type="Warning", reason="FailedScheduling", message=self.message),
        )


Summary: TypeAlias = PlacedSummary | NotPlacedSummary


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
    """Return the lead of the first over the second by plugin, the largest first."""
    points = {name: value - second.get(name, 0) for name, value in first.items()}
    points |= {name: -value for name, value in second.items() if name not in first}
    apart = [(-abs(value), name) for name, value in points.items() if value]
    return {name: points[name] for _, name in sorted(apart)}


def event_text(message: str) -> str:
    """Return a message truncated to the size of an event."""
    # Parity: schedule_one.go truncateMessage, v1.36. Go truncates bytes, not characters.
    if len(message) * 4 <= EVENT_BYTES_MAX:
        return message
    data = message.encode("utf-8", "backslashreplace")
    if len(data) <= EVENT_BYTES_MAX:
        return message
    return (data[: EVENT_BYTES_MAX - len(_CUT)] + _CUT).decode("utf-8", "replace")


def _rejection(status: Status, count: int, nodes: tuple[str, ...]) -> Rejection:
    return Rejection(
        plugin=status.plugin,
        code=_CODE_NAMES[status.code],
        reasons=tuple(sorted(status.reasons)[:REASONS_MAX]),
        reasons_left_out=max(len(status.reasons) - REASONS_MAX, 0),
        count=count,
        nodes=nodes,
    )


State = Literal[
    "active",
    "backoff",
    "unschedulable",
    "gated",
    "preempting",
    "scheduling",
    "waitingOnPermit",
    "preBinding",
    "binding",
    "bound",
    "foreign",
    "deleting",
    "pending",
]


class Wake(Value, frozen=True, kw_only=True):
    """The cluster events after which one plugin may accept the pod."""

    plugin: str
    events: tuple[str, ...]
    """Upstream's event names, as in logs and metrics; the plugin's queueing hint checks each."""


class ReportedEvent(Value, frozen=True, kw_only=True):
    """The last event about the pod."""

    type: str
    reason: str
    message: str
    time: str


class PodReport(Value, frozen=True, kw_only=True):
    """The scheduling state of a pod and the last decision."""

    version: int = 1
    source: Literal["scheduler", "api"] = "scheduler"
    """A running scheduler, or a new attempt on the objects of the API server."""
    pod: str
    uid: str
    scheduler_name: str
    """The pod's `spec.schedulerName`."""
    profiles: tuple[str, ...]
    """The scheduler names of the configured profiles."""
    state: State
    text: str
    """The state in one sentence."""
    until: str = ""
    """The end of the backoff, the deadline of Permit, or the time of the next attempt if no event
    occurs before."""
    node: str = ""
    """The node the pod is bound to or is being bound to."""
    bound_at: str = ""
    nominated_node: str = ""
    victims_left: tuple[str, ...] = ()
    """Preempted pods that have not terminated yet."""
    attempts: int = 0
    rejected_by: tuple[str, ...] = ()
    """The plugins that rejected the pod at its last attempt or before it."""
    holds: tuple[Hold, ...] = ()
    """The plugins that hold the pod before scheduling or before binding."""
    wakes: tuple[Wake, ...] = ()
    """The events that would requeue the pod."""
    last_event: ReportedEvent | None = None
    decided_at: str = ""
    explanation: Explanation | None = None
    """The last decision; null if there was none yet or it was dropped from the history."""


def foreign_text(pod: PodInfo, profiles: Mapping[str, Any]) -> str:
    """Return a sentence about a pod that no profile is responsible for."""
    names = ", ".join(go_quote(name) for name in profiles)
    return (
        f"{pod.key} has the scheduler name {go_quote(pod.scheduler_name)}, which no profile has "
        f"(profiles: {names}); the pod stays pending unless another scheduler uses that name"
    )
