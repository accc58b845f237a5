"""`kubesched capacity`: count how many copies of a pod fit, and show why the next does not.

Owns the options and the text output. `simulate.capacity` places the copies.
"""

from __future__ import annotations

import click

from kubesched.cli.inputs import note, one_line_errors, read_files, reject_two_readers
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
from kubesched.kit.text import counted, joined
from kubesched.simulate.capacity import Capacity, Fit
from kubesched.simulate.report import capacity_json
from kubesched.simulate.world import World, WorldError

_ROWS = 20

_EPILOG = """\b
Examples:
  kubesched capacity -f cluster.yaml -f pod.yaml
  kubesched capacity -f cluster/ -f web.yaml -f worker.yaml --count 50
  kubesched capacity -f cluster.yaml shop/web-7
  kubesched capacity -f cluster.yaml deployment/web
  kubectl get nodes,pods -A -o json | kubesched capacity -f - -f pod.yaml -o json
"""


@click.command(epilog=_EPILOG)
@scenario_options
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop at N copies of each template.  [default: as many as fit]",
)
@top_option(f"{_ROWS} in text", "nodes")
@format_option("--format", ("text", "json"), help="Print text or JSON.")
@click.argument("templates", nargs=-1, metavar="[TEMPLATE]...")
def capacity(
    options: ScenarioOptions,
    count: int | None,
    top: int | None,
    format: str,  # noqa: A002  # The option's name.
    templates: tuple[str, ...],
) -> None:
    """Count how many copies of pods fit, on which nodes, and what keeps the next one from fitting.

    Files that hold nodes or bound pods describe the cluster. In the other files, every Pod without
    a node and every Deployment, ReplicaSet, StatefulSet, Job or CronJob is a template. Copies of
    the templates are placed one at a time, in round-robin order; no pod is preempted for a copy.
    TEMPLATE selects a template of any file by name, namespace/name or kind/name.

    A DaemonSet gets one copy on each of its nodes that lacks one. Resources are not reserved for
    anything else: neither for pending pods of the cluster nor for missing daemon pods.
    """
    reject_two_readers(*options.files, options.config_file)
    (built,) = load_schedulers(options, [options.config_file])
    scenario = read_files(options.files)
    for line in scenario.notes:
        note(line)
    with one_line_errors(WorldError, has_own_plugins=bool(built.out_of_tree)):
        chosen = scenario.capacity_templates(templates)
        run = Capacity(World(built, scenario.without(chosen)), chosen, count)
        total = None if count is None else count * len(chosen)
        for _ in with_progress(run.steps(), "copies tried", total):
            pass
    if format == "json":
        print_json(capacity_json(run, top or None))
        return
    printer = Printer()
    for number, fit in enumerate(run.fits):
        if number:
            printer.line()
        _show(fit, len(run.after.names), rows_of(top, _ROWS), printer)
    if len(run.fits) > 1:
        printer.line()
        printer.line(f"Total: {_copies(run.count)}.")
    show_usage(run.before, run.after, printer)


def _show(fit: Fit, node_count: int, top: int | None, printer: Printer) -> None:
    desired = fit.desired
    copies = _copies(fit.count) if desired is None else f"{fit.count} of {desired} copies fit"
    where = f" on {len(fit.by_node)} of {counted(node_count, 'node')}" if fit.count else ""
    printer.prose(f"{fit.template.title}: {copies}{where}.")
    _show_targets(fit, node_count, printer)
    stop = fit.stop
    if stop is not None:
        which = "The next copy does" if fit.template.targets is None else "The first copy that does"
        printer.line(f"{which} not fit ({stop.kind}): {stop.message}")
        if stop.evict_from:
            victims = joined(stop.evictable[:NAMES_MAX], len(stop.evictable))
            room = f"would make room for one more on {stop.evict_from}"
            printer.prose(f"Preempting {victims} {room}.")
        rows = [(str(count), reason) for reason, count in stop.reasons.items()]
        printer.table("Reasons:", ("nodes", "reason"), rows, (1,))
    _show_nodes(fit, top, printer)


def _show_targets(fit: Fit, node_count: int, printer: Printer) -> None:
    targets = fit.template.targets
    if targets is None:
        return
    parts = [f"{len(targets.lacking)} of {counted(node_count, 'node')} lack a pod"]
    if targets.served:
        parts.append(f"{targets.served} have one")
    if targets.excluded:
        parts.append(f"{targets.excluded} excluded by node selector, affinity or taints")
    printer.prose(f"One copy per node: {', '.join(parts)}.")


def _show_nodes(fit: Fit, top: int | None, printer: Printer) -> None:
    rejected = {} if fit.stop is None else fit.stop.by_node
    names = sorted({*fit.by_node, *rejected}, key=lambda name: (-fit.by_node[name], name))
    rows = []
    for name in names[:top]:
        status = rejected.get(name)
        why = "" if status is None else f"{', '.join(status.reasons)} ({status.plugin})"
        rows.append((name, str(fit.by_node[name]), why))
    shown = 3 if any(why for *_, why in rows) else 2
    header = ("node", "copies", "limited by")[:shown]
    printer.table("By node:", header, [row[:shown] for row in rows], (0, 2))
    if len(names) > len(rows):
        printer.line(f"  and {counted(len(names) - len(rows), 'more node')} (--top, or -o json)")


def _copies(count: int) -> str:
    return "1 copy fits" if count == 1 else f"{count} copies fit"
