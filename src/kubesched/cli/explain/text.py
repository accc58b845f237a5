"""Text output of `kubesched explain`: one sentence, then tables.

Owns wording, order and width. Lines fit the terminal, or 80 columns without one, except the first
sentence and the event, which stay whole so that they can be searched for. Color never carries
meaning of its own. Never computes anything about the decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubesched.api.amounts import amount
from kubesched.api.errors import one_line
from kubesched.cli.printer import PLAIN_WIDTH, Printer
from kubesched.explanation.comparison import Comparison, NodeReport, Room, Verdict
from kubesched.explanation.report import Change, Explanation, Preemption, Ranked, Rejection
from kubesched.kit.text import Grid, aligned, counted, joined

_TIED_SHOWN_MAX = 3
_OTHERS = "others"
_UNRESOLVABLE = "UnschedulableAndUnresolvable"
_PLUGIN_KINDS = ("plugin", "plugins")
"""Kinds of changes that disable plugins."""


# -- one decision -----------------------------------------------------------------------------


def show_explanation(explanation: Explanation, printer: Printer) -> None:
    """Print an explanation to standard output."""
    printer.sentence(outcome(explanation))
    printer.line(f"Profile: {one_line(explanation.profile)}")
    event = explanation.event
    printer.line(f"{_event_title(explanation)}: {event.reason}: {_escaped(event.message)}")
    whole = explanation.rejected_whole
    if whole is not None:
        plugin = f"{whole.plugin or 'the framework'} (PreFilter, {whole.code})"
        printer.line(f"Rejected on all nodes by {plugin}: {_reasons(whole)}")
    for line in _details(explanation):
        printer.prose(line)
    if explanation.preemption is not None:
        _show_preemption(explanation.preemption, printer)
    if explanation.ranking:
        count = f"{explanation.fit_count} of {explanation.node_count}"
        printer.heading(f"Fitting nodes ({count}) with weighted scores, best first:")
        _show_ranking(explanation, printer)
    if explanation.rejections:
        _show_rejections(explanation, printer)
    _show_changes(explanation, printer)


def _event_title(explanation: Explanation) -> str:
    return "Event if not held back" if explanation.held else "Event"


def outcome(explanation: Explanation) -> str:
    """Return the outcome in one sentence."""
    return _unless_held(explanation, _decided(explanation))


def _unless_held(report: Explanation | NodeReport, sentence: str) -> str:
    """Return a sentence about a pod, conditional if the pod is held back."""
    if not report.held:
        return sentence
    holds = " and ".join(f"{one_line(h.plugin)}: {one_line(h.message)}" for h in report.held)
    return f"{one_line(report.pod)} is held back by {holds}; otherwise, {sentence}"


def _decided(explanation: Explanation) -> str:
    pod = one_line(explanation.pod)
    if explanation.outcome == "placed":
        return f"{pod} goes to {one_line(explanation.node)}: {_why(explanation)}."
    if explanation.node_count == 0:
        return f"{pod} cannot be placed: the cluster has no nodes."
    if explanation.outcome == "error":
        return f"{pod} was not placed: the attempt ended with an error."
    count = explanation.node_count
    rejected = f"fits on none of {count} nodes" if count > 1 else "does not fit on the only node"
    plan = explanation.preemption
    if plan is None:
        return f"{pod} {rejected}."
    evicted = counted(plan.victim_count, "pod")
    return f"{pod} {rejected}; evicting {evicted} from {one_line(plan.node)} would make room."


def _why(explanation: Explanation) -> str:
    fits, count = explanation.fit_count, explanation.node_count
    if explanation.why == "nominated":
        return "it was nominated there and still fits, so no other node was evaluated"
    if explanation.why == "only":
        if count == 1:
            return "the only node of the cluster, and it fits"
        return f"the only one of {count} nodes that fits, so nothing was scored"
    if explanation.why == "first":
        return "the first fitting node found, where the search stopped"
    if explanation.why == "unscored":
        return f"one of {fits} fitting nodes; no plugin scores them, so any may be chosen"
    best = f"the highest total of {fits} fitting nodes, {explanation.total}"
    if explanation.why == "shared":
        others = _listed(explanation.tied[:_TIED_SHOWN_MAX], explanation.tied_count - 1)
        return f"{best}, shared with {others}; any of them may be chosen"
    runner_up = explanation.runner_up
    assert runner_up is not None
    return f"{best}; next is {one_line(runner_up.node)} with {runner_up.total}"


def _details(explanation: Explanation) -> Iterator[str]:
    runner_up = explanation.runner_up
    if runner_up is not None and runner_up.behind:
        yield (
            f"Ahead of {one_line(runner_up.node)} by {counted(runner_up.behind, 'point')}: "
            f"{_signed(runner_up.difference)}"
        )
    if explanation.unvisited_count and explanation.why != "nominated":
        count = counted(explanation.unvisited_count, "node")
        yield f"Not evaluated: {count}, because enough fitting nodes were found first"
    if explanation.outcome == "error" and explanation.fit_count:
        yield f"Fitting nodes, not scored: {explanation.fit_count}"


def _signed(points: dict[str, int]) -> str:
    return ", ".join(f"{plugin} {value:+}" for plugin, value in points.items())


def _show_preemption(plan: Preemption, printer: Printer) -> None:
    printer.line(f"Preemption: nominated to {one_line(plan.node)}", style="yellow")
    for victim in plan.victims:
        printer.prose(f"victim {one_line(victim.pod)}, priority {victim.priority}", indent=2)
    if len(plan.victims) < plan.victim_count:
        printer.prose(f"and {plan.victim_count - len(plan.victims)} more victims", indent=2)
    for budget in plan.budgets:
        allowed = counted(budget.disruptions_allowed, "disruption")
        covered = _listed(budget.victims, budget.victim_count)
        printer.prose(
            f"budget {one_line(budget.name)} allows {allowed}: covers {covered}", indent=2
        )
    if plan.budgets_left_out:
        printer.prose(f"and {counted(plan.budgets_left_out, 'more budget')}", indent=2)
    if plan.budget_violations:
        victims = counted(plan.budget_violations, "victim")
        verb = "violates" if plan.budget_violations == 1 else "violate"
        printer.prose(f"{victims} {verb} a PodDisruptionBudget", indent=2)


# -- ranking ----------------------------------------------------------------------------------


def _show_ranking(explanation: Explanation, printer: Printer) -> None:
    """Print the best nodes with each plugin's weighted score.

    Columns with the same value on every row, and columns that do not fit, are summarized below the
    table.
    """
    rows = explanation.ranking
    plugins = list(dict.fromkeys(name for row in rows for name in row.scores))
    shown = plugins if printer.is_wide else [p for p in plugins if _spread(rows, p)]
    grid = _ranking_grid(rows, shown, [])
    hidden: list[str] = []
    while len(shown) > 2 and max(map(len, aligned(grid))) > printer.width:
        hidden.append(min(shown, key=lambda plugin: _spread(rows, plugin)))
        shown = [plugin for plugin in shown if plugin != hidden[-1]]
        grid = _ranking_grid(rows, shown, hidden)
    printer.grid(grid, strong_rows=1)
    for note in _ranking_notes(explanation, printer, shown, hidden):
        printer.prose(note)


def _ranking_grid(rows: Sequence[Ranked], shown: list[str], hidden: list[str]) -> Grid:
    header = ("node", "total", *shown, *([_OTHERS] if hidden else []))
    lines = []
    for row in rows:
        cells = [row.scores.get(plugin, 0) for plugin in shown]
        if hidden:
            cells.append(sum(row.scores.get(plugin, 0) for plugin in hidden))
        lines.append((one_line(row.node), str(row.total), *map(str, cells)))
    return Grid(header, tuple(lines), (0,))


def _ranking_notes(
    explanation: Explanation, printer: Printer, shown: list[str], hidden: list[str]
) -> Iterator[str]:
    rows = explanation.ranking
    if explanation.ranking_left_out:
        how = " (--top 0 shows all)" if printer.has_all else ""
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


# -- rejections and changes -------------------------------------------------------------------


def _show_rejections(explanation: Explanation, printer: Printer) -> None:
    count = f"{explanation.rejected_count} of {explanation.node_count}"
    printer.heading(f"Rejected nodes ({count}):")
    digits = len(str(explanation.rejections[0].count))
    for rejection in explanation.rejections:
        text = _rejection(rejection, notes_preemption=explanation.outcome == "unschedulable")
        printer.prose(f"{rejection.count:>{digits}}  {text}", indent=2, hang=digits + 2)
        room = printer.width - digits - 6
        printer.prose(_listed(rejection.nodes, rejection.count, room), indent=digits + 6, hang=0)
    if explanation.rejections_left_out:
        printer.prose(f"and {explanation.rejections_left_out} more for other reasons", indent=2)


def _show_changes(explanation: Explanation, printer: Printer, under: str = "") -> None:
    if explanation.changes:
        more = explanation.fit_count > 0
        subject = "more nodes" if more else "the pod"
        printer.heading(f"Changes that would make {subject} fit{under}:")
        for text in change_lines(explanation.changes, more=more):
            printer.prose(text, indent=2)


def _rejection(rejection: Rejection, *, notes_preemption: bool) -> str:
    is_final = notes_preemption and rejection.code == _UNRESOLVABLE
    note = " [preemption does not help]" if is_final else ""
    return f"{rejection.plugin or '(framework)'}: {_reasons(rejection)}{note}"


def _reasons(rejection: Rejection) -> str:
    count = len(rejection.reasons) + rejection.reasons_left_out
    return _escaped(joined(rejection.reasons, count))


def change_lines(changes: Iterable[Change], *, more: bool) -> Iterator[str]:
    """Return the changes as text, without those that disable a plugin to no further effect.

    Args:
        changes: tested changes that make nodes fit.
        more: whether other nodes fit already.
    """
    changes = list(changes)
    for change in changes:
        if change.kind in ("resources", "too-large"):
            yield _escaped(change.text)
            continue
        if change.kind in _PLUGIN_KINDS and _is_redundant(change, changes):
            continue
        if change.opens == 1:
            yield f"fits on {one_line(change.nodes[0])} {_escaped(change.text)}"
        else:
            nodes = f"{change.opens} {'more ' if more else ''}nodes"
            all_named = len(change.nodes) == change.opens
            names = f": {_listed(change.nodes, change.opens)}" if all_named else ""
            yield f"fits on {nodes} {_escaped(change.text)}{names}"


def _is_redundant(disabling: Change, changes: Iterable[Change]) -> bool:
    return any(
        change.plugin == disabling.plugin
        and change.kind not in _PLUGIN_KINDS
        and (change.opens == disabling.opens or change.kind == "resources")
        for change in changes
    )


# -- one node ---------------------------------------------------------------------------------


def show_node(report: NodeReport, printer: Printer) -> None:
    """Print every plugin's verdict on one node."""
    printer.sentence(_unless_held(report, _node_outcome(report)))
    printer.heading("Filters:")
    width = max((len(v.plugin) for v in report.verdicts), default=0)
    for verdict in report.verdicts:
        text = _verdict_text(verdict)
        printer.prose(f"{verdict.plugin:<{width}}  {text}", indent=2, hang=width + 2)
    if report.scores:
        printer.heading("Weighted scores:")
        printer.grid(_points_grid(report))
    printer.heading("Resources:")
    printer.grid(_room_grid(report))
    if report.changes:
        printer.heading("Changes that would make the pod fit:")
        for text in change_lines(report.changes, more=False):
            printer.prose(text, indent=2)


def _node_outcome(report: NodeReport) -> str:
    pod, node = one_line(report.pod), one_line(report.node)
    if report.rejected is not None:
        plugin = report.rejected.plugin or "the framework"
        return f"{pod} does not fit on {node}: {plugin} rejects it."
    if report.node == report.chosen:
        return f"{pod} goes to {node}."
    if not report.fits and not report.chosen:
        return f"{pod} was not placed: the attempt ended with an error."
    if not report.fits:
        return f"{node} was not evaluated: {pod} goes to {one_line(report.chosen)}."
    if report.total is None or not report.chosen:
        return f"{pod} fits on {node}, which was not scored."
    rank = f"rank {report.place} of {report.fit_count}"
    chosen = f"the chosen node {one_line(report.chosen)} has"
    behind = f"{report.behind} more" if report.behind else "as many"
    return f"{pod} fits on {node}: {rank} with {report.total} points; {chosen} {behind}."


def _verdict_text(verdict: Verdict) -> str:
    if verdict.code == "Success":
        return "fits"
    if verdict.code == "Skip":
        return "skipped"
    verb = "rejects the pod on all nodes" if verdict.whole else "rejects"
    return f"{verb}: {_escaped(', '.join(verdict.reasons))}"


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
    return Grid(tuple(map(one_line, header)), lines, (0,))


def _points(value: int) -> str:
    return f"{value:+}" if value else "0"


def _room_grid(report: NodeReport) -> Grid:
    has_nominated = any(room.nominated for room in report.room)
    rows = tuple(tuple(_room_cells(room, has_nominated=has_nominated)) for room in report.room)
    nominated = ("nominated",) if has_nominated else ()
    header = ("resource", "requested", "free", *nominated, "allocatable", "missing")
    return Grid(header, rows, (0,))


def _room_cells(room: Room, *, has_nominated: bool) -> Iterator[str]:
    yield one_line(room.resource)
    yield amount(room.resource, room.requested, up=True)
    yield amount(room.resource, room.free)
    if has_nominated:
        yield amount(room.resource, room.nominated, up=True)
    yield amount(room.resource, room.allocatable)
    missing = room.requested - (room.free - room.nominated)
    yield amount(room.resource, missing, up=True) if room.requested and missing > 0 else ""


# -- two configurations -----------------------------------------------------------------------


def show_comparison(comparison: Comparison, names: tuple[str, str], printer: Printer) -> None:
    """Print the decisions for one pod under two configurations."""
    first, second = comparison.first, comparison.second
    verdict = "the same decision" if comparison.same else "different decisions"
    printer.sentence(f"{one_line(first.pod)}: the two configurations make {verdict}.")
    for name, explanation in zip(names, (first, second), strict=True):
        printer.prose(f"{one_line(name)}: {outcome(explanation)}", hang=4)
        if explanation.event.type != "Normal":
            title = _event_title(explanation)
            printer.line(f"    {title}: {_escaped(explanation.event.message)}")
    if comparison.scores and comparison.between is not None:
        ahead, behind = map(one_line, comparison.between)
        printer.heading(f"Lead of {ahead} over {behind} by plugin, where it differs:")
        printer.grid(_moves_grid(comparison, names))
    if comparison.verdicts:
        printer.heading("Verdicts that differ:")
        for change in comparison.verdicts:
            under = one_line(names[change.rejected_under - 1])
            reasons = _escaped(", ".join(change.reasons))
            rejected = f"{counted(change.count, 'node')} rejected only under {under}"
            nodes = _listed(change.nodes, change.count)
            plugin = change.plugin or "(framework)"
            printer.prose(f"{rejected}: {plugin}: {reasons}: {nodes}", indent=2)
        if comparison.verdicts_left_out:
            printer.prose(f"and {comparison.verdicts_left_out} more nodes", indent=2)
    elif comparison.same and not comparison.scores:
        printer.prose("All verdicts and the score differences of the best nodes are the same.")
    for name, explanation in zip(names, (first, second), strict=True):
        _show_changes(explanation, printer, f" under {one_line(name)}")


def _moves_grid(comparison: Comparison, names: tuple[str, str]) -> Grid:
    rows = [
        (move.plugin, _points(move.first), _points(move.second), _points(-move.moved))
        for move in comparison.scores
    ]
    header = ("plugin", *(_file_name(name) for name in names), "change")
    return Grid(header, tuple(rows), (0,))


def _file_name(name: str) -> str:
    """Return the column header of a configuration."""
    return "default" if " " in name else one_line(name.rpartition("/")[2])


# -- wording ----------------------------------------------------------------------------------


def _listed(names: Sequence[str], count: int, room: int = PLAIN_WIDTH) -> str:
    """Return as many names as fit, at least one, and the number of the others."""
    shown: list[str] = []
    for name in map(one_line, names):
        if shown and len(joined([*shown, name], count)) > room:
            break
        shown.append(name)
    return joined(shown, count)


def _escaped(text: str) -> str:
    """Return a text of several lines with control characters escaped."""
    return "\n".join(one_line(line) for line in text.split("\n"))
