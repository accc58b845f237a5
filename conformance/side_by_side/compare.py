"""Where two sides differ.

Owns finding the differences and telling which of them are ties. Never waits, never runs anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from conformance.side_by_side.state import Events, State


class Difference(NamedTuple):
    """One difference; an absent value is empty."""

    what: str
    field: str
    reference: str
    tested: str

    def is_tested_value_in(self, state: State) -> bool:
        """Return whether another run had the result of the tested side."""
        if self.field == "existence":
            return (self.what in state) == bool(self.tested)
        return state.get(self.what, {}).get(self.field, "") == self.tested

    def is_tested_event_in(self, events: Events) -> bool:
        """Return whether another run has, or lacks, this event as the tested side does."""
        shown = self.tested or self.reference
        is_there = any(
            event[0] == self.what and " | ".join(event[1:]) == shown for event in events.written
        )
        return is_there == bool(self.tested)

    def __str__(self) -> str:
        return (
            f"{self.what} {self.field}:\n"
            f"      reference {self.reference or '-'}\n"
            f"      tested    {self.tested or '-'}"
        )


@dataclass(frozen=True, slots=True)
class Rest:
    """One side after a step."""

    state: State
    codes: tuple[int, ...] = ()
    unrest: str = ""
    """What was still changing at the timeout."""


def rest_differences(reference: Rest, tested: Rest) -> list[Difference]:
    """Return where two sides differ after a step."""
    found = []
    if reference.codes != tested.codes:
        codes = (str(list(reference.codes)), str(list(tested.codes)))
        found.append(Difference("answers to requests", "codes", *codes))
    if reference.unrest or tested.unrest:
        found.append(Difference("cluster", "unrest", reference.unrest, tested.unrest))
    found.extend(state_differences(reference.state, tested.state))
    return found


def state_differences(reference: State, tested: State) -> list[Difference]:
    """Return the fields that differ, object by object."""
    found = []
    for what in sorted({*reference, *tested}):
        ours, theirs = tested.get(what), reference.get(what)
        if ours is None or theirs is None:
            is_there = ("there" if theirs is not None else "", "there" if ours is not None else "")
            found.append(Difference(what, "existence", *is_there))
            continue
        found.extend(
            Difference(what, field, theirs.get(field, ""), ours.get(field, ""))
            for field in sorted({*ours, *theirs})
            if ours.get(field, "") != theirs.get(field, "")
        )
    return found


def event_differences(reference: Events, tested: Events) -> list[Difference]:
    """Return the events that only one side has."""
    found = [
        Difference(event[0], "event", " | ".join(event[1:]), "")
        for event in sorted(reference.written - tested.written)
    ]
    found.extend(
        Difference(event[0], "event", "", " | ".join(event[1:]))
        for event in sorted(tested.written - reference.written)
    )
    return found


def settled_notes(states: Iterable[State]) -> frozenset[tuple[str, str]]:
    """Return pods with the rejections that they had when the cluster was idle."""
    found = set()
    for state in states:
        for what, fields in state.items():
            condition = fields.get("PodScheduled", "")
            if "message=" in condition:
                message = condition.partition("message=")[2]
                found.add((f"P{what[1:]}", message.rpartition(" observedGeneration=")[0]))
    return frozenset(found)


def is_transient(
    difference: Difference,
    settled: frozenset[tuple[str, str]],
    reference: Events,
    tested: Events,
) -> bool:
    """Return whether the presence of an event depends on timing.

    How often a pod is tried while things move is chance: a refusal that never was a pod's condition
    at rest may be missing. So may one that was, where it came before the pod's last change was
    seen: upstream then counts it as the one before, whatever its text.
    """
    parts = (difference.tested or difference.reference).split(" | ")
    lacking = reference if difference.tested else tested
    return parts[1] == "FailedScheduling" and (
        (difference.what, parts[4]) not in settled or difference.what in lacking.repeated
    )


def is_race(differences: list[Difference], before: State) -> bool:
    """Return whether pending pods swapped nodes.

    In which order pods are tried again depends on how often they were before, which is a matter of
    time. A side that placed none of them lost no race.
    """
    moved = [one for one in differences if one.field == "nodeName"]
    waited = [
        one for one in moved if "status=False" in before.get(one.what, {}).get("PodScheduled", "")
    ]
    gained = [one for one in waited if one.tested and not one.reference]
    lost = [one for one in waited if one.reference and not one.tested]
    swapped = [one for one in waited if one.reference and one.tested]
    return len(waited) == len(moved) and (bool(gained and lost) or len(swapped) > 1)


def is_tie(differences: list[Difference], best: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a pod is on another of several best nodes of the reference."""
    for difference in differences:
        if difference.field != "nodeName":
            continue
        nodes = best.get(difference.what.removeprefix("pod "), frozenset())
        if len(nodes) > 1 and difference.tested in nodes and difference.reference in nodes:
            return True
    return False
