"""What becomes of one case: same, different, or not comparable.

Owns asking both sides and classing the answer. Never prints.
Upstream: none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conformance.fuzz.compare import NO_DECISION, Difference, differences
from conformance.fuzz.sides import Oracle, our_decision

Obj = dict[str, Any]

# How often the oracle permutes the order of arrival when our outcome was not among those it saw.
ORDERS_AGAIN = 64


@dataclass(frozen=True)
class Verdict:
    """One case, stored, with both answers and their differences."""

    case: Obj
    expected: Obj | None
    actual: Obj | None
    differences: tuple[Difference, ...] = ()
    panic: str | None = None

    @property
    def differs(self) -> bool:
        """Whether this is a finding."""
        return bool(self.differences)

    @property
    def signature(self) -> tuple[str, ...]:
        """What kind of finding it is: field, and the plugin or reason involved."""
        return signature(self.differences)


def judge(oracle: Oracle, stored: Sequence[Obj]) -> list[Verdict]:
    """Ask both sides about stored cases."""
    answers = oracle.decide(stored)
    verdicts = [_verdict(case, answer) for case, answer in zip(stored, answers, strict=True)]
    doubtful = [v for v in verdicts if _may_be_open(v)]
    again = oracle.decide([v.case for v in doubtful], ORDERS_AGAIN)
    settled = {v.case["id"]: _verdict(v.case, a) for v, a in zip(doubtful, again, strict=True)}
    return [settled.get(v.case["id"], v) for v in verdicts]


def recorded(cases: Sequence[Obj]) -> list[Verdict]:
    """Compare our answers with the decisions written in the cases."""
    return [_verdict(case, {"decision": case["decision"]}) for case in cases]


def signature(found: Sequence[Difference]) -> tuple[str, ...]:
    """Return field and plugin of the first difference; two cases alike share it."""
    if not found:
        return ()
    first = found[0]
    if first.field == "scores":
        return ("scores", first.where.split(" ")[-1])
    if first.field == NO_DECISION:
        return (NO_DECISION, str(first.actual).split(":", maxsplit=1)[0])
    if first.field in ("rejected", "preFilterRejected"):
        sides = [one.get("plugin", "") if one else "-" for one in (first.expected, first.actual)]
        return (first.field, *sides)
    return (first.field,)


def _verdict(case: Obj, answer: Obj) -> Verdict:
    expected: Obj | None = answer.get("decision")
    if expected is None:
        return Verdict(case, None, None, panic=str(answer.get("panic", answer)))
    ours = our_decision(case)
    actual: Obj | None = ours.get("decision")
    if actual is None:
        crash = Difference(NO_DECISION, "", "a decision", ours["crash"])
        return Verdict(case, expected, None, (crash,))
    return Verdict(case, expected, actual, tuple(differences(expected, actual)))


def _may_be_open(verdict: Verdict) -> bool:
    # Upstream's order shows in preemption, and in which of several errors comes first.
    fields = {one.field for one in verdict.differences}
    return bool(fields) and fields <= {"preemption", "error", "message", "messageAfterPostFilter"}
