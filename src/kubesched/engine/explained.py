"""A decision in plain values: the choice, how close it was, who refused what, and the event.

Owns the form that the command line, the live scheduler and a dashboard show, as it is written in
JSON. Never works anything out.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["placed", "unschedulable", "error"]
Why = Literal["", "highest", "shared", "only", "first", "nominated", "unscored"]


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Immutable, comparable, and written in the spelling of the API."""


class Ranked(Value, frozen=True, kw_only=True):
    """A fitting node with each plugin's weighted score."""

    node: str
    total: int
    scores: dict[str, int]


class RunnerUp(Value, frozen=True, kw_only=True):
    """The next best node, and who made the difference."""

    node: str
    total: int
    behind: int
    """How many points the chosen node has more."""
    difference: dict[str, int]
    """By plugin, what the chosen node has more (or less); the largest first, no zeros."""


class Refusal(Value, frozen=True, kw_only=True):
    """The nodes one plugin refused for the same reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    reasons_left_out: int = 0
    """How many more there are."""
    count: int
    nodes: tuple[str, ...]
    """Some of them."""


class Victim(Value, frozen=True, kw_only=True):
    """A pod that would be evicted."""

    pod: str
    priority: int


class Budget(Value, frozen=True, kw_only=True):
    """A PodDisruptionBudget that covers victims."""

    name: str
    disruptions_allowed: int
    victims: tuple[str, ...]
    """Some of those it covers, most important first."""
    victim_count: int = 0


class Preemption(Value, frozen=True, kw_only=True):
    """Whom to evict so that the pod fits."""

    node: str
    victims: tuple[Victim, ...]
    """Most important first, some of them if there are many."""
    victim_count: int
    budget_violations: int
    """How many victims the scheduler counts against a budget."""
    budgets: tuple[Budget, ...]
    """Those exceeded most come first."""
    budgets_left_out: int = 0


class Event(Value, frozen=True, kw_only=True):
    """The event as it would be written, cut where the scheduler cuts it."""

    type: str
    reason: str
    message: str


class Hold(Value, frozen=True, kw_only=True):
    """A plugin that keeps the pod, and what it says."""

    plugin: str
    message: str = ""


class ChangePart(Value, frozen=True, kw_only=True):
    """One of several changes that open nodes together."""

    kind: str
    field: str
    text: str
    lacks: dict[str, int] = {}


class Change(Value, frozen=True, kw_only=True):
    """Something that would make the pod fit on more nodes; tried out, not guessed."""

    kind: str
    plugin: str
    """Who would no longer refuse; several names if it takes several."""
    field: str = ""
    """What of the pod would change, as a path."""
    text: str
    opens: int
    """How many nodes would fit that do not now."""
    nodes: tuple[str, ...]
    """Some of them."""
    lacks: dict[str, int] = {}
    """For resources: how much less has to be asked for on the first of the nodes, all of it at
    most, in millicores, bytes, units; of pods, how many are too many."""
    parts: tuple[ChangePart, ...] = ()
    """For several fields at once: each of them, none of which can be left out."""


class Explanation(Value, frozen=True, kw_only=True):
    """One decision, explained."""

    version: int = 1
    pod: str
    profile: str
    outcome: Outcome
    held: tuple[Hold, ...] | None = None
    """Who keeps the pod from being tried at all: all else is as if nobody did. None: nobody."""
    node: str
    """The node taken; empty if there is none."""
    why: Why
    node_count: int
    fit_count: int
    total: int | None
    """The chosen node's total, if there was something to score."""
    tied_count: int
    """How many nodes share the highest total, the chosen one included."""
    tied: tuple[str, ...]
    """Some of the others among them."""
    runner_up: RunnerUp | None
    ranking: tuple[Ranked, ...]
    ranking_left_out: int
    refused_count: int
    unvisited_count: int = 0
    """How many nodes were not looked at, since enough that fit were found before."""
    refusals: tuple[Refusal, ...]
    refusals_left_out: int
    """How many refused nodes are in none of the groups, which are the largest."""
    refused_whole: Refusal | None
    """A refusal of the pod before any node was looked at."""
    preemption: Preemption | None
    event: Event
    changes: tuple[Change, ...] | None = None
    """None: not asked for."""
