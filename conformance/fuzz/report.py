"""The output of a run: progress, tables, findings.

Owns the texts. Never decides whether a run failed.
Upstream: none.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from conformance.fuzz.compare import FIELDS, NO_DECISION
from conformance.fuzz.verdict import Verdict

Obj = dict[str, Any]
VALUE_CHARS_MAX = 600


class Progress:
    """A progress line on a terminal; nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_terminal = sys.stderr.isatty()

    def show(self, done: int, found: int) -> None:
        """Overwrite the line."""
        if self._is_terminal:
            print(f"\r{done}/{self._total} cases, {found} differ ", end="", file=sys.stderr)

    def end(self) -> None:
        """End the line."""
        if self._is_terminal:
            print(file=sys.stderr)


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return a table: number of cases that differ, by family and field.

    `again` counts those of `same` that equal only a repeated decision of the oracle.
    """
    families = sorted({v.case["family"] for v in verdicts})
    fields = [*FIELDS, NO_DECISION]
    used = [f for f in fields if any(d.field == f for v in verdicts for d in v.differences)]
    header = ["family", "cases", "same", "again", "panic", *used]
    rows = [header, *(_row(family, verdicts, used) for family in families)]
    rows.append(_row(None, verdicts, used))
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(family: str | None, verdicts: Sequence[Verdict], fields: list[str]) -> list[str]:
    mine = [v for v in verdicts if family is None or v.case["family"] == family]
    same = sum(not v.differs and v.panic is None for v in mine)
    again = sum(v.again for v in mine)
    panics = sum(v.panic is not None for v in mine)
    counts = [sum(any(d.field == field for d in v.differences) for v in mine) for field in fields]
    return [family or "all", *(str(number) for number in (len(mine), same, again, panics, *counts))]


def finding(verdict: Verdict, *, repeat: str) -> str:
    """Return one finding: the difference, the smallest case, and the command that repeats it."""
    lines = [f"--- {verdict.case['id']}: {' '.join(verdict.signature)}"]
    for one in verdict.differences[:6]:
        place = f"{one.field} {one.where}".strip()
        lines.append(f"  {place}")
        lines.append(f"    kube-scheduler: {_short(one.expected)}")
        lines.append(f"    kubesched:      {_short(one.actual)}")
    if len(verdict.differences) > 6:
        lines.append(f"  and {len(verdict.differences) - 6} more")
    lines.append(f"  repeat: {repeat}")
    return "\n".join(lines)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + " …"


def outline(case: Obj) -> str:
    """Return a shrunk case as readable JSON, one object per line."""
    lines = [f"  config: {json.dumps(case['config'])}"] if case["config"] else []
    lines += [f"  {json.dumps(one)}" for one in case["objects"]]
    return "\n".join([*lines, f"  incoming: {json.dumps(case['pod'])}"])


def coverage_table(counts: dict[str, Counter[str]]) -> str:
    """Return every outcome with its number of cases by family, most frequent first."""
    total: Counter[str] = Counter()
    for one in counts.values():
        total.update(one)
    lines = []
    for key, number in sorted(total.items(), key=lambda item: (item[0].split(" ")[0], -item[1])):
        shares = ", ".join(
            f"{family} {counts[family][key]}" for family in sorted(counts) if counts[family][key]
        )
        lines.append(f"{number:6d}  {key}   [{shares}]")
    return "\n".join(lines)
