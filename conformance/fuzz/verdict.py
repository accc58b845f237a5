"""The verdict on one case: same, different, or not comparable.

Owns the decisions of both sides and their classification. Never prints.
Upstream: none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conformance.fuzz.compare import NO_DECISION, Difference, differences
from conformance.fuzz.sides import Oracle, our_decision

Obj = dict[str, Any]

# A differing case is repeated this often, with this many orders of arrival. If more cases of a
# batch differ, the difference is real.
REPEATS = 6
REPEAT_ORDERS = 64
DOUBTFUL_MAX = 24


@dataclass(frozen=True)
class Verdict:
    """A stored case, with both decisions and their differences."""

    case: Obj
    expected: Obj | None
    actual: Obj | None
    differences: tuple[Difference, ...] = ()
    panic: str | None = None
    again: bool = False  # equal only to a repeated decision of the oracle

    @property
    def differs(self) -> bool:
        """Whether this is a finding."""
        return bool(self.differences)

    @property
    def signature(self) -> tuple[str, ...]:
        """The kind of finding: the field, and the plugin or reason."""
        return signature(self.differences)


def judge(oracle: Oracle, stored: Sequence[Obj]) -> list[Verdict]:
    """Decide stored cases on both sides; repeat differing ones on the oracle."""
    answers = oracle.decide(stored)
    verdicts = [_verdict(case, answer) for case, answer in zip(stored, answers, strict=True)]
    return _settle(oracle, verdicts)


def _settle(oracle: Oracle, verdicts: list[Verdict]) -> list[Verdict]:
    # Upstream's maps have no order: repeated decisions show all possible ones.
    doubtful = [index for index, v in enumerate(verdicts) if v.differs and v.actual is not None]
    doubtful = doubtful[:DOUBTFUL_MAX]
    repeated = [verdicts[index].case for index in doubtful for _ in range(REPEATS)]
    answers = oracle.decide(repeated, REPEAT_ORDERS)
    settled = list(verdicts)
    for place, index in enumerate(doubtful):
        replies = answers[place * REPEATS : (place + 1) * REPEATS]
        settled[index] = _best(verdicts[index], replies)
    return settled


def _best(verdict: Verdict, replies: Sequence[Obj]) -> Verdict:
    assert verdict.actual is not None
    for reply in replies:
        expected: Obj | None = reply.get("decision")
        if expected is not None and not differences(expected, verdict.actual):
            return Verdict(verdict.case, expected, verdict.actual, again=True)
    return verdict


def recorded(cases: Sequence[Obj]) -> list[Verdict]:
    """Compare our decisions with those recorded in the cases."""
    return [_verdict(case, {"decision": case["decision"]}) for case in cases]


def signature(found: Sequence[Difference]) -> tuple[str, ...]:
    """Return field and plugin of the first difference, equal for similar cases."""
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
