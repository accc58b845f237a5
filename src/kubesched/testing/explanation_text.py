"""Explanations as plain text, for the messages of failed assertions.

Owns words and order: the outcome, the event, the ranking, who refused what, what would help. Never
decides anything, and knows no terminal: `kubesched explain` prints its own, wider form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubesched.engine.comparison import NodeReport
from kubesched.engine.explained import Change, Explanation, Ranked

_OTHERS_MAX = 5


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation over several lines."""
    return "\n".join(_lines(explanation))


def report_text(report: NodeReport) -> str:
    """Return what every plugin says of one node, over several lines."""
    told = "fits" if report.fits else "is refused" if report.refused else "was not looked at"
    lines = [f"What plugins say of {report.node}, which {told}:"]
    width = max((len(one.plugin) for one in report.verdicts), default=0)
    for one in report.verdicts:
        reasons = f": {', '.join(one.reasons)}" if one.reasons else ""
        lines.append(f"  {one.plugin:<{width}}  {one.code}{reasons}")
    if report.scores:
        points = ", ".join(f"{one.plugin} {one.node}" for one in report.scores)
        lines.append(f"  scores: total {report.total}: {points}")
    return "\n".join(lines)


def _lines(explanation: Explanation) -> Iterator[str]:
    yield _outcome(explanation)
    yield f"Event: {explanation.event.reason}: {explanation.event.message}"
    whole = explanation.refused_whole
    if whole is not None:
        yield f"Refused as a whole by {whole.plugin}: {', '.join(whole.reasons)}"
    plan = explanation.preemption
    if plan is not None:
        victims = ", ".join(victim.pod for victim in plan.victims)
        yield f"Preemption: nominated to {plan.node}, evicting {victims}"
    if explanation.ranking:
        yield "Fitting nodes with weighted scores, best first:"
        yield from _ranking(explanation.ranking)
        if explanation.ranking_left_out:
            yield f"  and {explanation.ranking_left_out} more"
    if explanation.refusals:
        yield "Refused nodes:"
        for one in explanation.refusals:
            nodes = _some(one.nodes, one.count)
            yield f"  {one.plugin or '(framework)'}: {', '.join(one.reasons)}: {nodes}"
    if explanation.changes:
        yield "What would help:"
        yield from (f"  {_change(one)}" for one in explanation.changes)


def _outcome(explanation: Explanation) -> str:
    pod, count = explanation.pod, explanation.node_count
    if explanation.outcome == "placed":
        others = f", {explanation.fit_count} of {count} nodes fit"
        return f"{pod} goes to {explanation.node}{others}."
    if explanation.outcome == "error":
        return f"{pod} is not placed: the attempt ends with an error."
    if count == 0:
        return f"{pod} has nowhere to go: there are no nodes."
    return (
        f"{pod} does not fit on the only node."
        if count == 1
        else f"{pod} fits on none of {count} nodes."
    )


def _ranking(rows: Sequence[Ranked]) -> Iterator[str]:
    """Return a table; plugins that tell no row from another are named below it."""
    plugins = list(dict.fromkeys(name for row in rows for name in row.scores))
    values = {name: [row.scores.get(name, 0) for row in rows] for name in plugins}
    telling = [name for name in plugins if len(set(values[name])) > 1]
    table = [["node", "total", *telling]]
    for row in rows:
        points = (str(row.scores.get(name, 0)) for name in telling)
        table.append([row.node, str(row.total), *points])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        yield "  " + "  ".join((cells[0].ljust(widths[0]), *padded))
    same = [f"{name} {values[name][0]}" for name in plugins if name not in telling]
    if same:
        yield f"  the same for all: {', '.join(same)}"


def _change(change: Change) -> str:
    opens = _some(change.nodes, change.opens)
    return f"{change.text} (opens {opens})" if opens else change.text


def _some(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:_OTHERS_MAX])
    more = count - len(names[:_OTHERS_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
