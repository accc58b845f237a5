"""Differences between two sides.

Owns the comparison, and the rules for ties, races and transient events. Never waits or runs a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from conformance.side_by_side.state import Events, State


class Difference(NamedTuple):
    """One difference; an absent value is empty."""

    subject: str
    field: str
    reference: str
    tested: str

    def is_tested_value_in(self, state: State) -> bool:
        """Return whether another run had the result of the tested side."""
        if self.field == "existence":
            return (self.subject in state) == bool(self.tested)
        return state.get(self.subject, {}).get(self.field, "") == self.tested

    def is_tested_event_in(self, events: Events) -> bool:
        """Return whether another run has, or lacks, this event as the tested side does."""
        text = self.tested or self.reference
        is_written = any(
            event[0] == self.subject and " | ".join(event[1:]) == text for event in events.written
        )
        return is_written == bool(self.tested)

    def __str__(self) -> str:
        return (
            f"{self.subject} {self.field}:\n"
            f"      reference {self.reference or '-'}\n"
            f"      tested    {self.tested or '-'}"
        )


@dataclass(frozen=True, slots=True)
class Rest:
    """One side after a step."""

    state: State
    codes: tuple[int, ...] = ()
    unsettled: str = ""
    """The reason why the cluster was not idle at the timeout."""


def rest_differences(reference: Rest, tested: Rest) -> list[Difference]:
    """Return the differences between two sides after a step."""
    found = []
    if reference.codes != tested.codes:
        codes = (str(list(reference.codes)), str(list(tested.codes)))
        found.append(Difference("answers to requests", "codes", *codes))
    if reference.unsettled or tested.unsettled:
        found.append(Difference("cluster", "unsettled", reference.unsettled, tested.unsettled))
    found.extend(state_differences(reference.state, tested.state))
    return found


def state_differences(reference: State, tested: State) -> list[Difference]:
    """Return the fields that differ, object by object."""
    found = []
    for subject in sorted({*reference, *tested}):
        ours, theirs = tested.get(subject), reference.get(subject)
        if ours is None or theirs is None:
            existence = ("there" if theirs is not None else "", "there" if ours is not None else "")
            found.append(Difference(subject, "existence", *existence))
            continue
        found.extend(
            Difference(subject, field, theirs.get(field, ""), ours.get(field, ""))
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
    """Return pods with the rejection messages that they had in an idle cluster."""
    found = set()
    for state in states:
        for subject, fields in state.items():
            condition = fields.get("PodScheduled", "")
            if "message=" in condition:
                message = condition.partition("message=")[2]
                found.add((f"P{subject[1:]}", message.rpartition(" observedGeneration=")[0]))
    return frozenset(found)


def is_transient(
    difference: Difference,
    settled: frozenset[tuple[str, str]],
    reference: Events,
    tested: Events,
) -> bool:
    """Return whether the presence of an event depends on timing.

    The number of attempts while objects change is random: a rejection that was never a pod's
    condition in an idle cluster may be missing. So may one that was, if it came before the pod's
    last change was seen: upstream then adds it to the previous event, whatever its text.
    """
    parts = (difference.tested or difference.reference).split(" | ")
    lacking = reference if difference.tested else tested
    return parts[1] == "FailedScheduling" and (
        (difference.subject, parts[4]) not in settled or difference.subject in lacking.repeated
    )


def is_race(differences: list[Difference], before: State) -> bool:
    """Return whether pending pods swapped nodes.

    The order of retries depends on the number of earlier attempts, and therefore on timing. A side
    that placed none of the pods lost no race.
    """
    moved = [one for one in differences if one.field == "nodeName"]
    waited = [
        one
        for one in moved
        if "status=False" in before.get(one.subject, {}).get("PodScheduled", "")
    ]
    gained = [one for one in waited if one.tested and not one.reference]
    lost = [one for one in waited if one.reference and not one.tested]
    swapped = [one for one in waited if one.reference and one.tested]
    return len(waited) == len(moved) and (bool(gained and lost) or len(swapped) > 1)


def is_tie(differences: list[Difference], best: Mapping[str, frozenset[str]]) -> bool:
    """Return whether a pod is on a different one of the reference's best nodes."""
    for difference in differences:
        if difference.field != "nodeName":
            continue
        nodes = best.get(difference.subject.removeprefix("pod "), frozenset())
        if len(nodes) > 1 and difference.tested in nodes and difference.reference in nodes:
            return True
    return False
