"""Field by field comparison of two decisions.

Owns the rules of the decision format's "Comparing". Never repairs a decision.
Upstream: none; both decisions have the same shape, one from kube-scheduler's code, one from ours.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]

FIELDS = (
    "profile",
    "feasible",
    "rejected",
    "preFilterRejected",
    "scores",
    "best",
    "message",
    "messageAfterPostFilter",
    "preemption",
    "error",
)
NO_DECISION = "decision"  # the field of a difference if one side has no decision


@dataclass(frozen=True)
class Difference:
    """A field that differs from the oracle's."""

    field: str
    where: str
    expected: Any
    actual: Any


def differences(expected: Obj, actual: Obj) -> list[Difference]:
    """Return all differences between the oracle's decision and ours, in the order of FIELDS."""
    found: list[Difference] = []
    for field in FIELDS:
        if field not in actual:
            found.append(Difference(field, "", expected.get(field), "(absent)"))
            continue
        found.extend(_compare(field, expected.get(field), actual[field]))
    found.extend(
        Difference(NO_DECISION, name, "(absent)", actual[name])
        for name in sorted(set(actual) - set(FIELDS))
    )
    return found


def _compare(field: str, expected: Any, actual: Any) -> list[Difference]:
    if field in ("feasible", "best"):
        same = Counter(expected or []) == Counter(actual or [])
        return [] if same else [Difference(field, "", expected, actual)]
    if field == "rejected":
        return _compare_rejected(expected or {}, actual or {})
    if field == "preFilterRejected":
        return _compare_rejection(field, "", expected, actual)
    if field == "scores":
        return _compare_scores(expected or {}, actual or {})
    if field == "preemption":
        same = preemption_agrees(expected, actual)
        return [] if same else [Difference(field, "", expected, actual)]
    same = type(expected) is type(actual) and expected == actual
    return [] if same else [Difference(field, "", expected, actual)]


def _compare_rejected(expected: Obj, actual: Obj) -> list[Difference]:
    found: list[Difference] = []
    for node in sorted(set(expected) | set(actual)):
        found.extend(_compare_rejection("rejected", node, expected.get(node), actual.get(node)))
    return found


def _compare_rejection(field: str, node: str, expected: Any, actual: Any) -> list[Difference]:
    if expected is None or actual is None:
        same = expected is None and actual is None
        return [] if same else [Difference(field, node, expected, actual)]
    same = (
        expected["plugin"] == actual.get("plugin")
        and expected["code"] == actual.get("code")
        and Counter(expected["reasons"]) == Counter(actual.get("reasons") or [])
    )
    return [] if same else [Difference(field, node, expected, actual)]


def _compare_scores(expected: Obj, actual: Obj) -> list[Difference]:
    found: list[Difference] = []
    for node in sorted(set(expected) | set(actual)):
        ours, theirs = actual.get(node, {}), expected.get(node, {})
        for plugin in sorted(set(ours) | set(theirs)):
            # A plugin without a score may be missing; it counts as 0.
            if ours.get(plugin, 0) != theirs.get(plugin, 0):
                place = f"{node} {plugin}"
                found.append(Difference("scores", place, theirs.get(plugin), ours.get(plugin)))
    return found


def preemption_agrees(expected: Any, actual: Any) -> bool:
    """Return whether every outcome is among the possible ones."""
    if expected is None or actual is None:
        return expected is None and actual is None
    possible = [_outcome(one) for one in _outcomes(expected)]
    answered = [_outcome(one) for one in _outcomes(actual)]
    return bool(answered) and all(one in possible for one in answered)


def _outcomes(preemption: Obj) -> list[Obj]:
    acceptable: list[Obj] | None = preemption.get("acceptable")
    return [preemption] if acceptable is None else acceptable


def _outcome(one: Obj) -> tuple[Any, tuple[str, ...]]:
    return one.get("nominatedNode"), tuple(sorted(one.get("victims") or []))
