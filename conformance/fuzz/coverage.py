"""Coverage of the generated cases, counted from the oracle's decisions.

Owns the counts by family. Never compares decisions.
Upstream: none.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

Obj = dict[str, Any]

NAMES = re.compile(r'"[^"]*"')


def outcome_keys(decision: Obj) -> set[str]:
    """Return the outcomes of one decision: reasons, rejections, errors, preemption, scores."""
    keys = {f"feasible {min(len(decision['feasible']), 2)}{'+' * (len(decision['feasible']) > 2)}"}
    for rejection in decision["rejected"].values():
        short = "UU" if rejection["code"] == "UnschedulableAndUnresolvable" else "U"
        keys |= {
            f"reject {rejection['plugin'] or '-'} {short} {_generic(reason)}"
            for reason in rejection["reasons"]
        }
    rejected = decision["preFilterRejected"]
    if rejected:
        reasons = "; ".join(_generic(reason) for reason in rejected["reasons"])
        keys.add(f"prefilter {rejected['plugin'] or '-'} {reasons}")
    if decision["error"]:
        keys.add(f"error {_generic(decision['error'])}")
    keys |= _post_filter_keys(decision)
    for scores in decision["scores"].values():
        keys |= {f"score {plugin}" for plugin, value in scores.items() if value}
    return keys


def _post_filter_keys(decision: Obj) -> set[str]:
    keys: set[str] = set()
    preemption = decision["preemption"]
    if preemption:
        keys.add("preemption open" if "acceptable" in preemption else "preemption one")
    before, after = decision["message"] or "", decision["messageAfterPostFilter"] or ""
    if after != before and after.startswith(before):
        added = re.sub(r"\d+(/\d+)?", "N", after[len(before) :]).strip()
        if "nodes are available" in added:
            tail = added.split("nodes are available: ", maxsplit=1)[1]
            keys |= {f"after {part.strip(' .').removeprefix('N ')}" for part in tail.split(", ")}
        else:
            keys.add(f"after {added}")
    return keys


def _generic(text: str) -> str:
    return NAMES.sub('"…"', text)


def coverage(pairs: Iterable[tuple[str, Obj]]) -> dict[str, Counter[str]]:
    """Return the number of cases with each outcome by family."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for family, decision in pairs:
        counts[family].update(outcome_keys(decision))
    return counts
