"""`kubesched simulate`: schedule every waiting pod, and see what comes of it.

Owns the words and tables of the answer, and where it is written. The run is `sim.simulation`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click
import msgspec

from kubesched.app.manifests import STDIN
from kubesched.cli import progress
from kubesched.cli.scenarios import (
    ScenarioOptions,
    counted,
    listed,
    note,
    read,
    refuse_two_readers,
    rows_of,
    say,
    say_prose,
    say_table,
    say_usage,
    scenario_options,
    schedulers,
    shown,
    told,
    top_option,
)
from kubesched.cli.streams import named
from kubesched.objects.errors import one_line
from kubesched.sim.comparison import Comparison, compare
from kubesched.sim.page import ROWS, comparison_page, simulation_page
from kubesched.sim.report import comparison_json, simulation_json
from kubesched.sim.simulation import Simulation
from kubesched.sim.world import World

_ROWS = 30
_FORMS = ("text", "json", "html")

_EPILOG = """\b
Examples:
  kubesched simulate -f cluster.yaml -f workload.yaml
  kubesched simulate -f cluster/ --config packed.yaml --compare spread.yaml
  kubesched simulate -f cluster.yaml -f web.yaml -o html --output report.html
  kubectl get nodes,pods -A -o json | kubesched simulate -f - -f web.yaml -o json
"""


@click.command(short_help="Schedule all waiting pods in memory.", epilog=_EPILOG)
@scenario_options
@click.option(
    "--compare",
    "other_file",
    metavar="FILE",
    help="Another configuration: run both, and show what differs.",
)
@top_option(f"{_ROWS} in text, {ROWS} in HTML", "pods, nodes, reasons and preemptions")
@click.option(
    "-o",
    "--format",
    "form",
    type=click.Choice(_FORMS),
    default="text",
    show_default=True,
    help="What to print: something to read, JSON, or a page that needs nothing else.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True),
    default="-",
    show_default=True,
    metavar="FILE",
    help="Where to write; - for stdout.",
)
def simulate(
    options: ScenarioOptions,
    other_file: str | None,
    top: int | None,
    form: str,
    output: str,
) -> None:
    """Schedule all waiting pods of the files in queue order, and show what comes of it.

    The pods that Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs in the files still
    lack are made first; those of a DaemonSet one for each node that it is for. Pods may evict
    others; what had a controller is made anew and waits in turn.
    """
    config_file = options.config_file
    _check_output(output)
    refuse_two_readers(*options.files, config_file, other_file)
    # Both configurations are looked at before anything takes time.
    configs = [config_file] if other_file is None else [config_file, other_file]
    if other_file is not None and _is_same(config_file, other_file):
        note(f"{shown(other_file)} is compared with itself: nothing can differ")
    built = schedulers(options, configs)
    scenario = read(options.files)
    with told():
        scenario = scenario.with_missing_pods()
    for line in scenario.notes:
        note(line)
    with told(has_own_plugins=any(one.outside for one in built)):
        runs = [_run(World(one, scenario.objects)) for one in built]
    if len(runs) == 1:
        _write(output, form, top, runs[0])
        return
    assert other_file is not None
    compared = compare(_names(config_file, other_file), (runs[0], runs[1]))
    _write(output, form, top, compared)


def _check_output(output: str) -> None:
    """End with an error if nothing could be written there, before anything takes time."""
    if output in _FORMS:
        raise click.UsageError(f"--output is a file; did you mean -o {output}?")
    directory = Path(output).parent
    if output != "-" and not directory.is_dir():
        raise click.ClickException(f"{output}: No such directory: {directory}")


def _is_same(first: str | None, second: str) -> bool:
    """Return whether two configurations are one file."""
    if first is None or STDIN in (first, second):
        return False
    return Path(first).resolve() == Path(second).resolve()


def _names(first: str | None, second: str) -> tuple[str, str]:
    """Return how two configurations are called: by file, with folders only where they differ."""
    names = ("default" if first is None else shown(first), shown(second))
    short = (Path(names[0]).name, Path(names[1]).name)
    return names if short[0] == short[1] else short


def _run(world: World) -> Simulation:
    run = Simulation(world)
    for _ in progress.counted(run.steps(), "attempts", len(world.pending)):
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
        ways: dict[str, Callable[[], None]] = {
            "text": lambda: show(result, rows),
            "json": lambda: _print_json(simulation_json(result, top or None)),
            "html": lambda: click.echo(simulation_page(result, rows), nl=False),
        }
    else:
        ways = {
            "text": lambda: show_comparison(result, rows),
            "json": lambda: _print_json(comparison_json(result, top or None)),
            "html": lambda: click.echo(comparison_page(result, rows), nl=False),
        }
    ways[form]()


def _print_json(document: dict[str, Any]) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))


# -- one run --------------------------------------------------------------------------------------


def show(run: Simulation, top: int | None) -> None:
    """Print a run to be read."""
    say_prose(_outcome(run))
    _show_placements(run, top)
    _show_left(run, top)
    _show_preemptions(run, top)
    say_usage(run.before, run.after)


def _outcome(run: Simulation) -> str:
    recreated = sum(1 for one in run.evicted if one.recreated_as)
    parts = [f"{counted(len(run.placements), 'pod')} placed", f"{len(run.left)} left"]
    if run.evicted:
        parts.append(f"{len(run.evicted)} evicted to make room, {recreated} of them made anew")
    nodes = counted(len(run.after.names), "node")
    return f"{run.pending} waiting, {nodes}: {', '.join(parts)}."


def _show_placements(run: Simulation, top: int | None) -> None:
    placements = run.placements
    if top is None or len(placements) <= top:
        rows = [
            (one.pod, one.node, "after evictions" if one.after_preemption else "")
            for one in placements
        ]
        say_table(f"Placed ({len(placements)}):", ("pod", "node", ""), rows, (0, 1, 2))
        return
    by_node = Counter(one.node for one in placements)
    ordered = sorted(by_node.items(), key=lambda item: (-item[1], item[0]))
    lines = [(node, str(count)) for node, count in ordered[:top]]
    title = f"Placed ({len(placements)}) on {counted(len(by_node), 'node')}:"
    say_table(title, ("node", "pods"), lines, (0,))
    _say_more(len(ordered), top, "more node")


def _show_left(run: Simulation, top: int | None) -> None:
    if not run.left:
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for one in run.left:
        key = (one.outcome.verdict.value, one.outcome.message)
        groups.setdefault(key, []).append(one.pod)
    say()
    say(f"Left ({len(run.left)}):")
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    for (verdict, message), pods in ordered[:top]:
        say_prose(listed([one_line(pod) for pod in pods]), indent=2, hang=0)
        say(f"    {verdict}: {one_line(message)}")
    _say_more(len(ordered), top, "more reason")


def _show_preemptions(run: Simulation, top: int | None) -> None:
    if not run.preemptions:
        return
    say()
    say(f"Preemptions ({len(run.preemptions)}):")
    for one in run.preemptions[:top]:
        against = f", {one.pdb_violation_count} against a budget" * bool(one.pdb_violation_count)
        taken = f"{one_line(one.pod)} (priority {one.priority}) takes {one.node}{against}"
        say_prose(taken, indent=2, hang=4)
        for victim in one.victims:
            fate = f"made anew as {victim.recreated_as}" if victim.recreated_as else "gone"
            gone = f"evicted: {one_line(victim.pod)} (priority {victim.priority}), {fate}"
            say_prose(gone, indent=4)
    _say_more(len(run.preemptions), top, "more preemption")


def _say_more(count: int, top: int | None, noun: str) -> None:
    """Say how many rows there would be besides."""
    if top is not None and count > top:
        say(f"  and {counted(count - top, noun)} (--top, or -o json)")


# -- two runs -------------------------------------------------------------------------------------


def show_comparison(compared: Comparison, top: int | None) -> None:
    """Print two runs side by side."""
    first, second = compared.names
    if not compared.moved:
        say("Both configurations put every pod on the same node.")
    else:
        say(f"{counted(len(compared.moved), 'pod')} ended elsewhere.")
    rows = [
        (
            one.name,
            f"{one.values[0]:g}{one.unit}",
            f"{one.values[1]:g}{one.unit}",
            f"{one.difference:+g}" if one.difference else "",
        )
        for one in compared.measures
    ]
    header = ("", first, second, "difference")
    # A column in which nothing stands is not shown.
    shown = len(header) if any(row[-1] for row in rows) else len(header) - 1
    say_table("Side by side:", header[:shown], [row[:shown] for row in rows], (0,))
    moved = [(one.pod, one.nodes[0] or "-", one.nodes[1] or "-") for one in compared.moved]
    say_table("Pods that ended elsewhere:", ("pod", first, second), moved[:top], (0, 1, 2))
    _say_more(len(moved), top, "more pod")
    for name, run in zip(compared.names, compared.runs, strict=True):
        if compared.is_same and run is compared.runs[1]:
            break
        say()
        say("Both:" if compared.is_same else f"{name}:")
        say_prose(_outcome(run))
        _show_left(run, top)
        _show_preemptions(run, top)
        say_usage(run.before, run.after)
