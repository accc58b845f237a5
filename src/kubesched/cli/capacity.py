"""`kubesched capacity`: how many copies of a pod fit, where, and what stops the next one.

Owns the words and tables of the answer. Placing copies is `sim.capacity`'s.
"""

from __future__ import annotations

import click
import msgspec

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
    told,
    top_option,
)
from kubesched.sim.capacity import Capacity, Fit
from kubesched.sim.report import capacity_json
from kubesched.sim.world import World

_ROWS = 20

_EPILOG = """\b
Examples:
  kubesched capacity -f cluster.yaml -f pod.yaml
  kubesched capacity -f cluster/ -f web.yaml -f worker.yaml --count 50
  kubesched capacity -f cluster.yaml shop/web-7
  kubesched capacity -f cluster.yaml deployment/web
  kubectl get nodes,pods -A -o json | kubesched capacity -f - -f pod.yaml -o json
"""


@click.command(short_help="Count how many copies of a pod fit.", epilog=_EPILOG)
@scenario_options
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop at N copies of each template.  [default: as many as fit]",
)
@top_option(f"{_ROWS} in text", "nodes")
@click.option(
    "-o",
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print: something to read, or JSON.",
)
@click.argument("templates", nargs=-1, metavar="[TEMPLATE]...")
def capacity(
    options: ScenarioOptions,
    count: int | None,
    top: int | None,
    form: str,
    templates: tuple[str, ...],
) -> None:
    """Count how many copies of pods fit, where, and what stops the next one.

    Files with nodes or bound pods in them are the cluster. In the others, every Pod without a node
    and every Deployment, ReplicaSet, StatefulSet, Job or CronJob is a template of which copies are
    placed one by one, in turn if there are several. A TEMPLATE may also be named (name,
    namespace/name or kind/name), wherever it stands. Nobody is evicted for a copy.

    A DaemonSet wants one copy on each node that it is for and that lacks it, and no more. Room is
    set aside for nothing but the copies: not for waiting pods of the cluster, nor for daemon pods
    that its nodes lack.
    """
    refuse_two_readers(*options.files, options.config_file)
    (built,) = schedulers(options, [options.config_file])
    scenario = read(options.files)
    for line in scenario.notes:
        note(line)
    with told(has_own_plugins=bool(built.outside)):
        chosen = scenario.capacity_templates(templates)
        run = Capacity(World(built, scenario.without(chosen)), chosen, count)
        wanted = None if count is None else count * len(chosen)
        for _ in progress.counted(run.steps(), "copies tried", wanted):
            pass
    if form == "json":
        document = capacity_json(run, top or None)
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
        return
    rows = rows_of(top, _ROWS)
    for number, fit in enumerate(run.fits):
        if number:
            say()
        _show(fit, len(run.after.names), rows)
    if len(run.fits) > 1:
        say()
        say(f"In all: {_copies(run.count)}.")
    say_usage(run.before, run.after)


def _show(fit: Fit, node_count: int, top: int | None) -> None:
    copies = _copies(fit.count) if fit.wanted is None else f"{fit.count} of {fit.wanted} copies fit"
    where = f" on {len(fit.by_node)} of {counted(node_count, 'node')}" if fit.count else ""
    say_prose(f"{fit.template.title}: {copies}{where}.")
    _show_targets(fit, node_count)
    stop = fit.stop
    if stop is not None:
        which = "The next one does" if fit.template.targets is None else "The first that does"
        say(f"{which} not fit ({stop.verdict}): {stop.message}")
        if stop.evict_from:
            without = listed(stop.evictable)
            say_prose(f"One more would fit on {stop.evict_from} without {without}.")
        rows = [(str(count), reason) for reason, count in stop.reasons.items()]
        say_table("What stops it:", ("nodes", "reason"), rows, (1,))
    _show_nodes(fit, top)


def _show_targets(fit: Fit, node_count: int) -> None:
    """Say on which nodes a DaemonSet wants its copies."""
    targets = fit.template.targets
    if targets is None:
        return
    parts = [f"{len(targets.lacking)} of {counted(node_count, 'node')} without one"]
    if targets.served:
        parts.append(f"{targets.served} with one")
    if targets.passed_over:
        parts.append(f"{targets.passed_over} not for it (node selector, affinity or taints)")
    say_prose(f"It wants one copy on each node: {', '.join(parts)}.")


def _show_nodes(fit: Fit, top: int | None) -> None:
    refused = {} if fit.stop is None else fit.stop.by_node
    names = sorted({*fit.by_node, *refused}, key=lambda name: (-fit.by_node[name], name))
    rows = []
    for name in names[:top]:
        status = refused.get(name)
        why = "" if status is None else f"{', '.join(status.reasons)} ({status.plugin})"
        rows.append((name, str(fit.by_node[name]), why))
    if not rows:
        return
    has_why = any(why for *_, why in rows)
    header = ("node", "copies", "why no more")
    if not has_why:
        say_table("By node:", header[:2], [row[:2] for row in rows], (0,))
    else:
        say_table("By node:", header, rows, (0, 2))
    if len(names) > len(rows):
        say(f"  and {counted(len(names) - len(rows), 'more node')} (--top, or -o json)")


def _copies(count: int) -> str:
    return "1 copy fits" if count == 1 else f"{count} copies fit"
