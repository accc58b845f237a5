"""How an explanation looks: one sentence, then tables.

Owns words, order and width: everything fits the terminal, or 80 columns where there is none, but
for the first sentence and the event, which stay whole so that they can be searched for. Colour
never carries a meaning of its own. Never works anything out about the decision itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import click
from rich.console import Console
from rich.text import Text

from kubesched.cli.grid import Grid, aligned, folded_lines, paragraphs, wrapped
from kubesched.engine.comparison import Comparison, NodeReport, Room, Verdict
from kubesched.engine.explanation import Change, Explanation, Preemption, Ranked, Refusal
from kubesched.model.amounts import amount
from kubesched.objects.errors import one_line

__all__ = ["Grid", "Sheet", "aligned", "show_comparison", "show_explanation", "show_node"]

PLAIN_WIDTH = 80
_TIED_SHOWN_MAX = 3
_OTHERS = "others"
_UNRESOLVABLE = "UnschedulableAndUnresolvable"
_WIDE_WIDTH = 100_000
_WHOLES = ("plugin", "plugins")
"""Changes that leave plugins out as wholes."""


class _Console(Console):
    """A console that leaves it to the command what a reader who had enough means."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - it is called where the error is handled


class Sheet:
    """Where lines are written: a terminal with its width and colours, or plain text."""

    def __init__(self, *, is_wide: bool = False, has_all: bool = True) -> None:
        """Look where the lines go.

        Args:
            is_wide: whether lines may be of any length.
            has_all: whether an option of the command shows what is cut.
        """
        self.has_all = has_all
        self._console = _Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.is_wide = is_wide
        self.width = self._console.width if self._console.is_terminal else PLAIN_WIDTH
        if is_wide:
            self.width = _WIDE_WIDTH

    def line(self, text: str = "", *, style: str = "") -> None:
        """Write one line, whole."""
        text = _encodable(text)
        if self._console.is_terminal:
            self._console.print(Text(text, style=style))
        else:
            click.echo(text)

    def prose(self, text: str, *, indent: int = 0, hang: int = 2) -> None:
        """Write a text over as many lines as it takes."""
        for line in wrapped(text, self.width, indent=indent, hang=hang):
            self.line(line)

    def sentence(self, text: str) -> None:
        """Write what comes first: broken between words on a terminal, whole everywhere else."""
        width = self.width if self._console.is_terminal else _WIDE_WIDTH
        for line in wrapped(text, width, hang=0):
            self.line(line, style="bold")

    def heading(self, text: str) -> None:
        """Write what the following lines are."""
        self.line()
        for line in wrapped(text, self.width):
            self.line(line, style="bold")

    def grid(self, grid: Grid, *, strong_rows: int = 0) -> None:
        """Write a table, as paragraphs where it is too wide.

        Args:
            grid: the table.
            strong_rows: how many of the first rows stand out.
        """
        lines = folded_lines(grid)
        if max(map(len, lines)) > self.width:
            lines = paragraphs(grid, self.width)
            heads = 0
            strong_rows = 0
        else:
            heads = len(lines) - len(grid.rows)
        for number, line in enumerate(lines):
            is_strong = heads <= number < heads + strong_rows
            self.line(line, style="dim" if number < heads else "green" if is_strong else "")
        for note in grid.footnotes:
            self.prose(note)


# -- one decision -----------------------------------------------------------------------------


def show_explanation(explanation: Explanation, sheet: Sheet) -> None:
    """Print an explanation to standard output."""
    sheet.sentence(outcome(explanation))
    sheet.line(f"Profile: {one_line(explanation.profile)}")
    event = explanation.event
    sheet.line(f"{_event_title(explanation)}: {event.reason}: {_whole(event.message)}")
    whole = explanation.refused_whole
    if whole is not None:
        who = f"{whole.plugin or 'the framework'} (PreFilter, {whole.code})"
        sheet.line(f"Refused as a whole by {who}: {_reasons(whole)}")
    for line in _details(explanation):
        sheet.prose(line)
    if explanation.preemption is not None:
        _show_preemption(explanation.preemption, sheet)
    if explanation.ranking:
        count = f"{explanation.fit_count} of {explanation.node_count}"
        sheet.heading(f"Fitting nodes ({count}) with weighted scores, best first:")
        sheet.grid(ranking_grid(explanation, sheet), strong_rows=1)
    if explanation.refusals:
        _show_refusals(explanation, sheet)
    _show_changes(explanation, sheet)


def _event_title(explanation: Explanation) -> str:
    return "Event if it were not held" if explanation.held else "Event"


def outcome(explanation: Explanation) -> str:
    """Return what became of the pod, or would if it were not held, in one sentence."""
    return _unless_held(explanation, _decided(explanation))


def _unless_held(told: Explanation | NodeReport, sentence: str) -> str:
    """Return a sentence about a pod, which comes true only once nobody keeps it."""
    if not told.held:
        return sentence
    keepers = " and ".join(f"{one_line(h.plugin)}: {one_line(h.message)}" for h in told.held)
    return f"{one_line(told.pod)} is held back by {keepers}; without that, {sentence}"


def _decided(explanation: Explanation) -> str:
    pod = one_line(explanation.pod)
    if explanation.outcome == "placed":
        return f"{pod} goes to {one_line(explanation.node)}: {_why(explanation)}."
    if explanation.node_count == 0:
        return f"{pod} has nowhere to go: there are no nodes."
    if explanation.outcome == "error":
        return f"{pod} was not placed: the attempt ended with an error."
    count = explanation.node_count
    refused = f"fits on none of {count} nodes" if count > 1 else "does not fit on the only node"
    plan = explanation.preemption
    if plan is None:
        return f"{pod} {refused}."
    evicted = _counted(plan.victim_count, "pod")
    return f"{pod} {refused}; evicting {evicted} from {one_line(plan.node)} would make room."


def _why(explanation: Explanation) -> str:
    fits, count = explanation.fit_count, explanation.node_count
    if explanation.why == "nominated":
        return "it was nominated there and still fits, so no other node was looked at"
    if explanation.why == "only":
        if count == 1:
            return "the only node there is, and it fits"
        return f"the only one of {count} nodes that fits, so nothing was scored"
    if explanation.why == "first":
        return "the first node found to fit, and no more were looked for"
    if explanation.why == "unscored":
        return f"one of {fits} fitting nodes; no plugin scores, any may be taken"
    best = f"the highest total of {fits} fitting nodes, {explanation.total}"
    if explanation.why == "shared":
        others = _listed(explanation.tied[:_TIED_SHOWN_MAX], explanation.tied_count - 1)
        return f"{best}, shared with {others}; any of them may be taken"
    runner_up = explanation.runner_up
    assert runner_up is not None
    return f"{best}; next is {one_line(runner_up.node)} with {runner_up.total}"


def _details(explanation: Explanation) -> Iterator[str]:
    runner_up = explanation.runner_up
    if runner_up is not None and runner_up.behind:
        yield (
            f"Ahead of {one_line(runner_up.node)} by {_counted(runner_up.behind, 'point')}: "
            f"{_signed(runner_up.difference)}"
        )
    if explanation.unvisited_count and explanation.why != "nominated":
        count = _counted(explanation.unvisited_count, "node")
        yield f"Not looked at: {count}, since enough that fit were found before"
    if explanation.outcome == "error" and explanation.fit_count:
        yield f"Fitting nodes, not scored: {explanation.fit_count}"


def _signed(points: dict[str, int]) -> str:
    return ", ".join(f"{plugin} {value:+}" for plugin, value in points.items())


def _show_preemption(plan: Preemption, sheet: Sheet) -> None:
    sheet.line(f"Preemption: nominated to {one_line(plan.node)}", style="yellow")
    for victim in plan.victims:
        sheet.prose(f"victim {one_line(victim.pod)}, priority {victim.priority}", indent=2)
    if len(plan.victims) < plan.victim_count:
        sheet.prose(f"and {plan.victim_count - len(plan.victims)} more victims", indent=2)
    for budget in plan.budgets:
        allowed = _counted(budget.disruptions_allowed, "disruption")
        covered = _listed(budget.victims, budget.victim_count)
        sheet.prose(f"budget {one_line(budget.name)} allows {allowed}: covers {covered}", indent=2)
    if plan.budgets_left_out:
        sheet.prose(f"and {_counted(plan.budgets_left_out, 'more budget')}", indent=2)
    if plan.budget_violations:
        count = plan.budget_violations
        sheet.prose(f"{count} of the victims against a PodDisruptionBudget", indent=2)


# -- ranking ----------------------------------------------------------------------------------


def ranking_grid(explanation: Explanation, sheet: Sheet) -> Grid:
    """Return the best nodes with each plugin's weighted score; what tells them apart comes first.

    Columns that are the same on every row shown, and those for which there is no room, are told
    below the table instead.
    """
    rows = explanation.ranking
    plugins = list(dict.fromkeys(name for row in rows for name in row.scores))
    telling = plugins if sheet.is_wide else [p for p in plugins if _spread(rows, p)]
    grid = _ranking_grid(rows, telling, [])
    hidden: list[str] = []
    while len(telling) > 2 and max(map(len, folded_lines(grid))) > sheet.width:
        hidden.append(min(telling, key=lambda plugin: _spread(rows, plugin)))
        telling = [plugin for plugin in telling if plugin != hidden[-1]]
        grid = _ranking_grid(rows, telling, hidden)
    return Grid(
        "", grid.header, grid.rows, (0,), tuple(_ranking_notes(explanation, sheet, telling, hidden))
    )


def _ranking_grid(rows: Sequence[Ranked], shown: list[str], hidden: list[str]) -> Grid:
    header = ("node", "total", *shown, *([_OTHERS] if hidden else []))
    lines = []
    for row in rows:
        cells = [row.scores.get(plugin, 0) for plugin in shown]
        if hidden:
            cells.append(sum(row.scores.get(plugin, 0) for plugin in hidden))
        lines.append((one_line(row.node), str(row.total), *map(str, cells)))
    return Grid("", header, tuple(lines), (0,))


def _ranking_notes(
    explanation: Explanation, sheet: Sheet, shown: list[str], hidden: list[str]
) -> Iterator[str]:
    rows = explanation.ranking
    if explanation.ranking_left_out:
        how = " (--top 0 shows all)" if sheet.has_all else ""
        yield f"and {explanation.ranking_left_out} more{how}"
    if hidden:
        yield f"{_OTHERS}: {', '.join(reversed(hidden))} (--wide shows each)"
    plugins = dict.fromkeys(name for row in rows for name in row.scores)
    same = [p for p in plugins if p not in shown and p not in hidden]
    for value in sorted({rows[0].scores.get(p, 0) for p in same}, reverse=True):
        names = ", ".join(p for p in same if rows[0].scores.get(p, 0) == value)
        everywhere = "node" if not explanation.ranking_left_out else "node shown"
        yield f"{value} on every {everywhere}: {names}"


def _spread(rows: Sequence[Ranked], plugin: str) -> int:
    values = [row.scores.get(plugin, 0) for row in rows]
    return max(values) - min(values)


# -- refusals and changes ---------------------------------------------------------------------


def _show_refusals(explanation: Explanation, sheet: Sheet) -> None:
    count = f"{explanation.refused_count} of {explanation.node_count}"
    sheet.heading(f"Refused nodes ({count}):")
    digits = len(str(explanation.refusals[0].count))
    for refusal in explanation.refusals:
        told = _refusal(refusal, tell_eviction=explanation.outcome == "unschedulable")
        sheet.prose(f"{refusal.count:>{digits}}  {told}", indent=2, hang=digits + 2)
        room = sheet.width - digits - 6
        sheet.prose(_listed(refusal.nodes, refusal.count, room), indent=digits + 6, hang=0)
    if explanation.refusals_left_out:
        sheet.prose(f"and {explanation.refusals_left_out} more for other reasons", indent=2)


def _show_changes(explanation: Explanation, sheet: Sheet, under: str = "") -> None:
    if explanation.changes:
        more = explanation.fit_count > 0
        what = "What would open more nodes" if more else "What would have to change"
        sheet.heading(f"{what}{under}:")
        for text in change_lines(explanation.changes, more=more):
            sheet.prose(text, indent=2)


def _refusal(refusal: Refusal, *, tell_eviction: bool) -> str:
    helpless = tell_eviction and refusal.code == _UNRESOLVABLE
    note = " [evicting pods does not help]" if helpless else ""
    return f"{refusal.plugin or '(framework)'}: {_reasons(refusal)}{note}"


def _reasons(refusal: Refusal) -> str:
    count = len(refusal.reasons) + refusal.reasons_left_out
    return _whole(_joined(refusal.reasons, count))


def change_lines(changes: Iterable[Change], *, more: bool) -> Iterator[str]:
    """Return the changes in words, a plugin as a whole only where that tells something new.

    Args:
        changes: what was tried and opens nodes.
        more: whether other nodes fit already.
    """
    changes = list(changes)
    for change in changes:
        if change.kind in ("resources", "too-large"):
            yield _whole(change.text)
            continue
        if change.kind in _WHOLES and _is_told(change, changes):
            continue
        if change.opens == 1:
            yield f"fits on {one_line(change.nodes[0])} {_whole(change.text)}"
        else:
            nodes = f"{change.opens} {'more ' if more else ''}nodes"
            all_named = len(change.nodes) == change.opens
            names = f": {_listed(change.nodes, change.opens)}" if all_named else ""
            yield f"fits on {nodes} {_whole(change.text)}{names}"


def _is_told(whole: Change, changes: Iterable[Change]) -> bool:
    return any(
        part.plugin == whole.plugin
        and part.kind not in _WHOLES
        and (part.opens == whole.opens or part.kind == "resources")
        for part in changes
    )


# -- one node ---------------------------------------------------------------------------------


def show_node(report: NodeReport, sheet: Sheet) -> None:
    """Print what every plugin says of one node."""
    sheet.sentence(_unless_held(report, _node_outcome(report)))
    sheet.heading("Filters:")
    width = max((len(v.plugin) for v in report.verdicts), default=0)
    for verdict in report.verdicts:
        sheet.prose(f"{verdict.plugin:<{width}}  {_said(verdict)}", indent=2, hang=width + 2)
    if report.scores:
        sheet.heading("Weighted scores:")
        sheet.grid(_points_grid(report))
    sheet.heading("Room:")
    sheet.grid(_room_grid(report))
    if report.changes:
        sheet.heading("What would open it:")
        for text in change_lines(report.changes, more=False):
            sheet.prose(text, indent=2)


def _node_outcome(report: NodeReport) -> str:
    pod, node = one_line(report.pod), one_line(report.node)
    if report.refused is not None:
        who = report.refused.plugin or "the framework"
        return f"{pod} does not fit on {node}: {who} refuses it."
    if report.node == report.chosen:
        return f"{pod} goes to {node}."
    if not report.fits and not report.chosen:
        return f"{pod} was not placed: the attempt ended with an error."
    if not report.fits:
        return f"{node} was not looked at: {pod} goes to {one_line(report.chosen)}."
    if report.total is None or not report.chosen:
        return f"{pod} fits on {node}, which was not scored."
    place = f"place {report.place} of {report.fit_count}"
    taken = f"{one_line(report.chosen)}, which is taken, has"
    behind = f"{report.behind} more" if report.behind else "as many"
    return f"{pod} fits on {node}: {place} with {report.total} points; {taken} {behind}."


def _said(verdict: Verdict) -> str:
    if verdict.code == "Success":
        return "fits"
    if verdict.code == "Skip":
        return "not concerned"
    what = "refuses the pod as a whole" if verdict.whole else "refuses"
    return f"{what}: {_whole(', '.join(verdict.reasons))}"


def _points_grid(report: NodeReport) -> Grid:
    is_chosen = report.node == report.chosen
    header = ["plugin", "weight", report.node]
    rows = [[p.plugin, str(p.weight), str(p.node)] for p in report.scores]
    total = ["total", "", str(report.total)]
    if not is_chosen:
        header += [report.chosen, "difference"]
        for row, points in zip(rows, report.scores, strict=True):
            row += [str(points.chosen), _points(points.node - points.chosen)]
        total += [str((report.total or 0) + (report.behind or 0)), _points(-(report.behind or 0))]
    lines = tuple(tuple(row) for row in (*rows, total))
    return Grid("", tuple(map(one_line, header)), lines, (0,))


def _points(value: int) -> str:
    return f"{value:+}" if value else "0"


def _room_grid(report: NodeReport) -> Grid:
    has_promised = any(room.promised for room in report.room)
    rows = tuple(tuple(_room_cells(room, has_promised=has_promised)) for room in report.room)
    promised = ("promised",) if has_promised else ()
    return Grid("", ("resource", "asked", "free", *promised, "allocatable", "lacks"), rows, (0,))


def _room_cells(room: Room, *, has_promised: bool) -> Iterator[str]:
    yield one_line(room.resource)
    yield amount(room.resource, room.asked, up=True)
    yield amount(room.resource, room.free)
    if has_promised:
        yield amount(room.resource, room.promised, up=True)
    yield amount(room.resource, room.allocatable)
    lacks = room.asked - (room.free - room.promised)
    yield amount(room.resource, lacks, up=True) if room.asked and lacks > 0 else ""


# -- two configurations -----------------------------------------------------------------------


def show_comparison(comparison: Comparison, names: tuple[str, str], sheet: Sheet) -> None:
    """Print what two configurations make of one pod."""
    first, second = comparison.first, comparison.second
    verdict = "decide alike" if comparison.same else "decide differently"
    sheet.sentence(f"{one_line(first.pod)}: both configurations {verdict}.")
    for name, explanation in zip(names, (first, second), strict=True):
        sheet.prose(f"{one_line(name)}: {outcome(explanation)}", hang=4)
        if explanation.event.type != "Normal":
            title = _event_title(explanation)
            sheet.line(f"    {title}: {_whole(explanation.event.message)}")
    if comparison.scores and comparison.between is not None:
        ahead, behind = map(one_line, comparison.between)
        sheet.heading(f"What plugins give {ahead} more than {behind}, where it differs:")
        sheet.grid(_moves_grid(comparison, names))
    if comparison.verdicts:
        sheet.heading("Verdicts that differ:")
        for change in comparison.verdicts:
            under = one_line(names[change.refused_under - 1])
            reasons = _whole(", ".join(change.reasons))
            told = f"{_counted(change.count, 'node')} refused only under {under}"
            nodes = _listed(change.nodes, change.count)
            who = change.plugin or "(framework)"
            sheet.prose(f"{told}: {who}: {reasons}: {nodes}", indent=2)
        if comparison.verdicts_left_out:
            sheet.prose(f"and {comparison.verdicts_left_out} more nodes", indent=2)
    elif comparison.same and not comparison.scores:
        sheet.prose("No verdict differs, nor the points between the best nodes.")
    for name, explanation in zip(names, (first, second), strict=True):
        _show_changes(explanation, sheet, f" under {one_line(name)}")


def _moves_grid(comparison: Comparison, names: tuple[str, str]) -> Grid:
    rows = [
        (move.plugin, _points(move.first), _points(move.second), _points(-move.moved))
        for move in comparison.scores
    ]
    header = ("plugin", *(_file_name(name) for name in names), "change")
    return Grid("", header, tuple(rows), (0,))


def _file_name(name: str) -> str:
    """Return what tells one configuration from another at the head of a column."""
    return "default" if " " in name else one_line(name.rpartition("/")[2])


# -- words ------------------------------------------------------------------------------------


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _listed(names: Sequence[str], count: int, room: int = PLAIN_WIDTH) -> str:
    """Return some names and how many more there are, as many as there is room for, but one."""
    shown: list[str] = []
    for name in map(one_line, names):
        if shown and len(_joined([*shown, name], count)) > room:
            break
        shown.append(name)
    return _joined(shown, count)


def _joined(names: Sequence[str], count: int) -> str:
    more = count - len(names)
    text = ", ".join(names)
    return f"{text} and {more} more" if more > 0 else text


def _whole(text: str) -> str:
    """Return a text whole, with only what a terminal could trip over escaped."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def _encodable(text: str) -> str:
    """Return the text with what standard output cannot encode escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
