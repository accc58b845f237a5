"""`kubesched simulate`: schedule all pending pods of some files in memory.

Owns the options, the text output and the output file. `simulate.simulation` runs.
"""

from __future__ import annotations

from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path

import click

from kubesched.api.errors import one_line
from kubesched.cli.inputs import file_title, note, one_line_errors, read_files, reject_two_readers
from kubesched.cli.options import format_option
from kubesched.cli.printer import Printer, print_json, with_progress
from kubesched.cli.scenarios import (
    NAMES_MAX,
    ScenarioOptions,
    load_schedulers,
    rows_of,
    scenario_options,
    show_usage,
    top_option,
)
from kubesched.cli.streams import named
from kubesched.kit.text import counted, joined
from kubesched.manifests.documents import STDIN
from kubesched.simulate.html import ROWS, comparison_page, simulation_page
from kubesched.simulate.report import Comparison, compare, comparison_json, simulation_json
from kubesched.simulate.simulation import Simulation
from kubesched.simulate.world import World, WorldError
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo

_ROWS = 30
_FORMATS = ("text", "json", "html")

_EPILOG = """\b
Examples:
  kubesched simulate -f cluster.yaml -f workload.yaml
  kubesched simulate -f cluster/ --config packed.yaml --compare spread.yaml
  kubesched simulate -f cluster.yaml -f web.yaml -o html --output report.html
  kubectl get nodes,pods -A -o json | kubesched simulate -f - -f web.yaml -o json
"""


@click.command(epilog=_EPILOG)
@scenario_options
@click.option(
    "--compare",
    "other_file",
    metavar="FILE",
    help="Also run with another configuration, and compare.",
)
@top_option(f"{_ROWS} in text, {ROWS} in HTML", "pods, nodes, reasons and preemptions")
@format_option("--format", _FORMATS, help="Print text, JSON, or a self-contained HTML page.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True),
    default="-",
    show_default=True,
    metavar="FILE",
    help="Write to FILE; - for stdout.",
)
def simulate(
    options: ScenarioOptions,
    other_file: str | None,
    top: int | None,
    format: str,  # noqa: A002  # The option's name.
    output: str,
) -> None:
    """Schedule all pending pods of the files in queue order, and show the outcome.

    Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs first create the pods they lack; a
    DaemonSet creates one per node. Pods may preempt others; preempted pods that have a
    controller are recreated and join the queue.
    """
    config_file = options.config_file
    _check_output(output)
    reject_two_readers(*options.files, config_file, other_file)
    # Both configurations are checked before anything takes time.
    configs = [config_file] if other_file is None else [config_file, other_file]
    if other_file is not None and _is_same(config_file, other_file):
        note(f"{file_title(other_file)} is compared with itself; the runs are the same")
    built = load_schedulers(options, configs)
    scenario = read_files(options.files)
    with one_line_errors():
        scenario = scenario.with_missing_pods()
    for line in scenario.notes:
        note(line)
    has_own_plugins = any(scheduler.out_of_tree for scheduler in built)
    with one_line_errors(WorldError, has_own_plugins=has_own_plugins):
        runs = [_run(World(scheduler, scenario.objects)) for scheduler in built]
    if len(runs) == 1:
        _write(output, format, top, runs[0])
        return
    assert other_file is not None
    compared = compare(_names(config_file, other_file), (runs[0], runs[1]))
    _write(output, format, top, compared)


def _check_output(output: str) -> None:
    """Raise an error early if the output file cannot be written."""
    if output in _FORMATS:
        raise click.UsageError(f"--output is a file; did you mean -o {output}?")
    directory = Path(output).parent
    if output != "-" and not directory.is_dir():
        raise click.ClickException(f"{output}: No such directory: {directory}")


def _is_same(first: str | None, second: str) -> bool:
    if first is None or STDIN in (first, second):
        return False
    return Path(first).resolve() == Path(second).resolve()


def _names(first: str | None, second: str) -> tuple[str, str]:
    """Return names of two configurations: file names, with folders only if they are equal."""
    names = ("default" if first is None else file_title(first), file_title(second))
    short = (Path(names[0]).name, Path(names[1]).name)
    return names if short[0] == short[1] else short


def _run(world: World) -> Simulation:
    run = Simulation(world)
    for _ in with_progress(run.steps(), "attempts", len(world.pending)):
        pass
    return run


def _write(output: str, form: str, top: int | None, result: Simulation | Comparison) -> None:
    if output == "-":
        _print(form, top, result)
        return
    with (
        named(output),
        Path(output).open("w", encoding="utf-8") as file,
        redirect_stdout(file),
    ):
        _print(form, top, result)


def _print(form: str, top: int | None, result: Simulation | Comparison) -> None:
    rows = rows_of(top, ROWS if form == "html" else _ROWS)
    if isinstance(result, Simulation):
        if form == "text":
            _show(result, rows, Printer())
        elif form == "html":
            click.echo(simulation_page(result, rows), nl=False)
        else:
            print_json(simulation_json(result, top or None))
    elif form == "text":
        _show_comparison(result, rows, Printer())
    elif form == "html":
        click.echo(comparison_page(result, rows), nl=False)
    else:
        print_json(comparison_json(result, top or None))


# -- one run --------------------------------------------------------------------------------------


def _show(run: Simulation, top: int | None, printer: Printer) -> None:
    printer.prose(_outcome(run))
    _show_placements(run, top, printer)
    _show_left(run, top, printer)
    _show_preemptions(run, top, printer)
    show_usage(run.before, run.after, printer)


def _outcome(run: Simulation) -> str:
    parts = [f"{counted(len(run.placements), 'pod')} placed", f"{len(run.left)} unschedulable"]
    if run.evicted:
        parts += [f"{len(run.evicted)} preempted", f"{run.recreated_count} recreated"]
    nodes = counted(len(run.after.names), "node")
    return f"{run.pending} pending, {nodes}: {', '.join(parts)}."


def _show_placements(run: Simulation, top: int | None, printer: Printer) -> None:
    placements = run.placements
    if top is None or len(placements) <= top:
        rows = [
            (placed.pod.key, placed.node, "after preemption" if placed.after_preemption else "")
            for placed in placements
        ]
        printer.table(f"Placed ({len(placements)}):", ("pod", "node", ""), rows, (0, 1, 2))
        return
    by_node = Counter(placed.node for placed in placements)
    ordered = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    lines = [(node, str(count)) for node, count in ordered[:top]]
    title = f"Placed ({len(placements)}) on {counted(len(by_node), 'node')}:"
    printer.table(title, ("node", "pods"), lines, (0,))
    _show_more(len(ordered), top, "more node", printer)


def _show_left(run: Simulation, top: int | None, printer: Printer) -> None:
    if not run.left:
        return
    printer.heading(f"Unschedulable ({len(run.left)}):")
    groups = run.left_by_message()
    for outcome, pods in groups[:top]:
        printer.prose(
            joined([one_line(pod) for pod in pods[:NAMES_MAX]], len(pods)), indent=2, hang=0
        )
        printer.line(f"    {outcome.kind}: {one_line(outcome.message)}")
    _show_more(len(groups), top, "more reason", printer)


def _show_preemptions(run: Simulation, top: int | None, printer: Printer) -> None:
    if not run.preemptions:
        return
    printer.heading(f"Preemptions ({len(run.preemptions)}):")
    for made in run.preemptions[:top]:
        count = made.pdb_violation_count
        violations = f", {counted(count, 'budget violation')}" if count else ""
        nominated = f"{_with_priority(made.pod)} on {made.node}{violations}"
        printer.prose(nominated, indent=2, hang=4)
        for victim in made.victims:
            fate = f"recreated as {victim.recreated_as}" if victim.recreated_as else "deleted"
            printer.prose(f"preempts {_with_priority(victim.pod)}, {fate}", indent=4)
    _show_more(len(run.preemptions), top, "more preemption", printer)


def _with_priority(pod: PodInfo | BoundPod) -> str:
    return f"{one_line(pod.key)} (priority {pod.priority})"


def _show_more(count: int, top: int | None, noun: str, printer: Printer) -> None:
    if top is not None and count > top:
        printer.line(f"  and {counted(count - top, noun)} (--top, or -o json)")


# -- two runs -------------------------------------------------------------------------------------


def _show_comparison(compared: Comparison, top: int | None, printer: Printer) -> None:
    first, second = compared.names
    if not compared.moved:
        printer.line("Both configurations place every pod on the same node.")
    else:
        printer.line(f"{counted(len(compared.moved), 'pod')} placed differently.")
    rows = [measure.cells for measure in compared.measures]
    header = ("", first, second, "difference")
    # An empty column is not shown.
    shown = len(header) if any(row[-1] for row in rows) else len(header) - 1
    printer.table("Side by side:", header[:shown], [row[:shown] for row in rows], (0,))
    moved = [(pod, *(node or "-" for node in nodes)) for pod, nodes in compared.moved]
    printer.table("Pods placed differently:", ("pod", first, second), moved[:top], (0, 1, 2))
    _show_more(len(moved), top, "more pod", printer)
    for name, run in zip(compared.names, compared.runs, strict=True):
        if compared.is_same and run is compared.runs[1]:
            break
        printer.heading("Both:" if compared.is_same else f"{name}:")
        printer.prose(_outcome(run))
        _show_left(run, top, printer)
        _show_preemptions(run, top, printer)
        show_usage(run.before, run.after, printer)
