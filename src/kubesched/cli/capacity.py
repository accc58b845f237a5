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
    say,
    say_table,
    say_usage,
    scenario_options,
    schedulers,
    told,
)
from kubesched.sim.capacity import Capacity, Fit
from kubesched.sim.report import capacity_json
from kubesched.sim.world import World

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
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="How many nodes to list; 0 for all.",
)
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
    top: int,
    form: str,
    templates: tuple[str, ...],
) -> None:
    """Count how many copies of pods fit, where, and what stops the next one.

    Files with nodes or bound pods in them are the cluster. In the others, every Pod without a node
    and every Deployment, ReplicaSet, StatefulSet, Job or CronJob is a template of which copies are
    placed one by one, in turn if there are several. A TEMPLATE may also be named (name,
    namespace/name or kind/name), wherever it stands. Nobody is evicted for a copy.
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
        click.echo(msgspec.json.format(msgspec.json.encode(capacity_json(run)), indent=2))
        return
    for number, fit in enumerate(run.fits):
        if number:
            say()
        _show(fit, len(run.after.names), top)
    if len(run.fits) > 1:
        say()
        say(f"In all: {_copies(run.count)}.")
    say_usage(run.before, run.after)


def _show(fit: Fit, node_count: int, top: int) -> None:
    copies = _copies(fit.count) if fit.wanted is None else f"{fit.count} of {fit.wanted} copies fit"
    where = f" on {len(fit.by_node)} of {counted(node_count, 'node')}" if fit.count else ""
    say(f"{fit.template.title}: {copies}{where}.")
    stop = fit.stop
    if stop is not None:
        say(f"The next one does not fit ({stop.verdict}): {stop.message}")
        if stop.evict_from:
            say(f"One more would fit on {stop.evict_from} without {listed(stop.evictable)}.")
        rows = [(str(count), reason) for reason, count in stop.reasons.items()]
        say_table("What stops it:", ("nodes", "reason"), rows, (1,))
    _show_nodes(fit, top)


def _show_nodes(fit: Fit, top: int) -> None:
    refused = {} if fit.stop is None else fit.stop.by_node
    names = sorted({*fit.by_node, *refused}, key=lambda name: (-fit.by_node[name], name))
    rows = []
    top = top or len(names)
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
    if len(names) > top:
        say(f"  and {counted(len(names) - top, 'more node')} (--top, or -o json)")


def _copies(count: int) -> str:
    return "1 copy fits" if count == 1 else f"{count} copies fit"
