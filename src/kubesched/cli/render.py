"""How an explanation looks: one sentence, then tables.

Owns words, order and width. On a terminal wide enough the tables are drawn; on a narrow one each
node is a paragraph; elsewhere columns are plain text, aligned, and no line is cut. Colour never
carries a meaning of its own. Never works anything out about the decision itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import click
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kubesched.engine.decide import Decision
from kubesched.framework.interface import PostFilterResult
from kubesched.framework.status import Status
from kubesched.objects.errors import one_line

_NODES_SHOWN_MAX = 20
_NAMES_SHOWN_MAX = 10
_HEADER_WIDTH_MAX = 11
_CAMEL_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+|[A-Z]")


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, and what is needed to put it into words."""

    pod: str
    decision: Decision
    node_count: int
    nominated_node: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A titled table; every column but those named as text is of numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: tuple[int, ...]
    footnotes: tuple[str, ...] = ()


def show(explanation: Explanation) -> None:
    """Print an explanation to standard output."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    _write(console, outcome(explanation), style="bold")
    for line in details(explanation):
        _write(console, line)
    for grid in (scores_grid(explanation.decision), refusals_grid(explanation.decision)):
        if grid is None:
            continue
        _write(console, "")
        _write(console, grid.title)
        _write_grid(console, grid)
        for line in grid.footnotes:
            _write(console, line)


def _write(console: Console, line: str, *, style: str = "") -> None:
    if console.is_terminal:
        console.print(Text(_encodable(line), style=style))
    else:
        click.echo(_encodable(line))


def _write_grid(console: Console, grid: Grid) -> None:
    if not console.is_terminal:
        lines = aligned(grid)
    elif _natural_width(console, table := _table(grid)) <= console.width:
        console.print(table, soft_wrap=False)
        return
    else:
        lines = [line for row in grid.rows for line in _paragraph(grid, row)]
    for line in lines:
        _write(console, line)


# -- words ----------------------------------------------------------------------------------------


def outcome(explanation: Explanation) -> str:
    """Return what became of the pod, in one sentence."""
    decision, pod = explanation.decision, one_line(explanation.pod)
    if decision.suggested_host:
        return f"{pod} goes to {one_line(decision.suggested_host)}: {_why(explanation)}."
    if explanation.node_count == 0:
        return f"{pod} has nowhere to go: there are no nodes."
    if decision.error is not None:
        return f"{pod} was not placed: the attempt ended with an error."
    count = explanation.node_count
    refused = f"fits on none of {count} nodes" if count > 1 else "does not fit on the only node"
    plan = decision.preemption
    if plan is None:
        return f"{pod} {refused}."
    victims = () if plan.victims is None else plan.victims.pods
    evicted = f"{len(victims)} pod{'' if len(victims) == 1 else 's'}"
    return (
        f"{pod} {refused}; "
        f"evicting {evicted} from {one_line(plan.nominated_node_name)} would make room."
    )


def _why(explanation: Explanation) -> str:
    decision, count = explanation.decision, explanation.node_count
    host = decision.suggested_host
    if len(decision.feasible) == 1:
        if count > 1 and not decision.rejected and host == explanation.nominated_node:
            return "it was nominated there and still fits, so no other node was looked at"
        if count == 1:
            return "the only node there is, and it fits"
        return f"the only one of {count} nodes that fits, so nothing was scored"
    total = decision.scores[host]["total"]
    if len(decision.scores[host]) == 1:
        return f"one of {len(decision.feasible)} fitting nodes; no plugin scores, any may be taken"
    among = f"of {len(decision.feasible)} fitting nodes"
    if len(decision.best) > 1:
        others = _listed(name for name in decision.best if name != host)
        return f"the highest total {among}, {total}, shared with {others}; any of them may be taken"
    below = {name: scores["total"] for name, scores in decision.scores.items() if name != host}
    second = min(below, key=lambda name: (-below[name], name))
    return f"the highest total {among}, {total}; next is {one_line(second)} with {below[second]}"


def details(explanation: Explanation) -> list[str]:
    """Return the lines between the sentence and the tables."""
    decision = explanation.decision
    lines = [f"Profile: {one_line(decision.profile)}"]
    message = decision.message_after_post_filter
    if message is not None:
        lines.append(f"Event: FailedScheduling: {_shown(message)}")
    refusal = decision.pre_filter_rejected
    if refusal is not None:
        lines.append(
            f"Refused as a whole by {refusal.plugin or 'the framework'} (PreFilter, "
            f"{refusal.code.wire_name}): {_shown(refusal.message)}"
        )
    if decision.preemption is not None:
        lines += _preemption(decision.preemption)
    if decision.error is not None and decision.feasible:
        lines.append(f"Fitting nodes, not scored: {_listed(decision.feasible)}")
    return lines


def _preemption(plan: PostFilterResult) -> list[str]:
    lines = [f"Preemption: nominated to {one_line(plan.nominated_node_name)}"]
    if plan.victims is None:
        return lines
    victims = sorted(plan.victims.pods, key=lambda pod: pod.key)
    lines += [f"  victim {one_line(pod.key)}, priority {pod.priority}" for pod in victims]
    if plan.victims.pdb_violation_count:
        count = plan.victims.pdb_violation_count
        lines.append(f"  {count} of them against a PodDisruptionBudget")
    return lines


def scores_grid(decision: Decision) -> Grid | None:
    """Return the fitting nodes with each plugin's weighted score, best first."""
    scores = decision.scores
    if not scores:
        return None
    names = sorted(
        decision.feasible,
        key=lambda name: (-_of(scores, name, "total"), name != decision.suggested_host, name),
    )
    plugins = sorted({plugin for by_plugin in scores.values() for plugin in by_plugin} - {"total"})
    telling = [p for p in plugins if any(_of(scores, name, p) for name in names)]
    silent = [p for p in plugins if p not in telling]
    shown = names[:_NODES_SHOWN_MAX]
    rows = tuple(
        (one_line(name), *(str(_of(scores, name, column)) for column in ("total", *telling)))
        for name in shown
    )
    footnotes = []
    if len(names) > len(shown):
        footnotes.append(f"and {len(names) - len(shown)} more (-o json has all of them)")
    if silent:
        footnotes.append(f"0 on every node: {', '.join(silent)}")
    return Grid(
        title=f"Fitting nodes ({len(names)}) with weighted scores, best first:",
        header=("node", "total", *telling),
        rows=rows,
        text_columns=(0,),
        footnotes=tuple(footnotes),
    )


def refusals_grid(decision: Decision) -> Grid | None:
    """Return the refused nodes, together where plugin and reasons are the same."""
    if not decision.rejected:
        return None
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, status in decision.rejected.items():
        groups.setdefault(_refusal(status), []).append(name)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return Grid(
        title=f"Refused nodes ({len(decision.rejected)}):",
        header=("plugin", "reason", "code", "count", "nodes"),
        rows=tuple(
            (plugin, reason, code, str(len(names)), _listed(names))
            for (plugin, reason, code), names in ordered
        ),
        text_columns=(0, 1, 2, 4),
    )


def _refusal(status: Status) -> tuple[str, str, str]:
    reason = _shown(", ".join(sorted(status.reasons)))
    return status.plugin or "(framework)", reason, status.code.wire_name


def _of(scores: Mapping[str, Mapping[str, int]], node: str, column: str) -> int:
    return scores.get(node, {}).get(column, 0)


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMES_SHOWN_MAX
    text = ", ".join(map(one_line, ordered[:_NAMES_SHOWN_MAX]))
    return f"{text} and {more} more" if more > 0 else text


def _shown(text: str) -> str:
    """Return a text whole, with only what a terminal could trip over escaped."""
    return "\n".join(one_line(line) for line in text.split("\n"))


# -- width ----------------------------------------------------------------------------------------


def aligned(grid: Grid) -> list[str]:
    """Return the table as lines of plain text."""
    lines = [grid.header, *grid.rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(grid.header))]
    return ["  " + "  ".join(_padded(grid, line, widths)).rstrip() for line in lines]


def _padded(grid: Grid, line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if place in grid.text_columns else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _table(grid: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, title in enumerate(grid.header):
        table.add_column(
            Text(_folded(title), style="bold"),
            justify="left" if place in grid.text_columns else "right",
            no_wrap=True,
        )
    for row in grid.rows:
        table.add_row(*(Text(_encodable(cell)) for cell in row))
    return table


def _natural_width(console: Console, table: Table) -> int:
    """Return how wide the table is when nothing in it is squeezed."""
    wide = console.options.update(max_width=1_000_000)
    return Measurement.get(console, wide, table).maximum


def _paragraph(grid: Grid, row: Sequence[str]) -> list[str]:
    """Return one row as a few short lines, for a narrow terminal."""
    first, second = f"  {row[0]}", f"{grid.header[1]} {row[1]}"
    if 1 in grid.text_columns:
        second = row[1]
    rest = [f"{title} {cell}" for title, cell in zip(grid.header[2:], row[2:], strict=True)]
    return [f"{first}: {second}", *([f"    {', '.join(rest)}"] if rest else [])]


def _folded(title: str) -> str:
    """Return a plugin's name over several lines, broken between its words."""
    lines = [""]
    for word in _CAMEL_WORD.findall(title):
        if lines[-1] and len(lines[-1]) + len(word) > _HEADER_WIDTH_MAX:
            lines.append("")
        lines[-1] += word
    return "\n".join(lines)


def _encodable(text: str) -> str:
    """Return the text with what standard output cannot encode escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
