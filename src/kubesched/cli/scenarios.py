"""Options and text output that `capacity` and `simulate` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import click

from kubesched.cli.inputs import CONFIG_HELP, FILE_HELP, file_title, load_scheduler
from kubesched.cli.options import Decorator, plugin_option, registry_of
from kubesched.cli.printer import Printer
from kubesched.profile.build import Built, ConfiguredError, check_use
from kubesched.simulate.utilization import Usage, amount, percent

NAMES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """The options for the cluster and its scheduler."""

    files: tuple[str, ...]
    config_file: str | None
    plugins: tuple[str, ...]
    seed: int


def scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a scenario to a command, which receives them as its first argument."""

    @wraps(command)
    def with_scenario(
        files: tuple[str, ...],
        config_file: str | None,
        plugins: tuple[str, ...],
        seed: int,
        **others: Any,
    ) -> None:
        command(ScenarioOptions(files, config_file, plugins, seed), **others)

    extended: Callable[..., None] = with_scenario
    for option in reversed(_OPTIONS):
        extended = option(extended)
    return extended


_OPTIONS: Final = (
    click.option(
        "-f", "--file", "files", multiple=True, required=True, metavar="FILE", help=FILE_HELP
    ),
    click.option("--config", "config_file", metavar="FILE", help=CONFIG_HELP),
    plugin_option,
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Seed the random choice among equal nodes; equal seeds give equal runs.",
    ),
)


def top_option(default: str, nouns: str) -> Decorator:
    """Return the option that limits the length of lists."""
    return click.option(
        "--top",
        type=click.IntRange(min=0),
        metavar="N",
        help=f"List at most N {nouns}; 0 lists all.  [default: {default}, all in JSON]",
    )


def rows_of(top: int | None, default: int) -> int | None:
    """Return the number of rows to show, None for all."""
    return (default if top is None else top) or None


def load_schedulers(options: ScenarioOptions, config_files: Sequence[str | None]) -> list[Built]:
    """Build the profiles of some configurations; at least one must enable each plugin."""
    registry = registry_of(options.plugins)
    built = [load_scheduler(file, registry, seed=options.seed) for file in config_files]
    try:
        check_use(built, registry)
    except ConfiguredError as problem:
        where = " and ".join(file_title(file) for file in config_files if file is not None)
        raise click.ClickException(f"{where}: {problem}") from None
    return built


def show_usage(before: Usage, after: Usage, printer: Printer) -> None:
    """Print the requested share of resources before and after, in total and by zone."""
    rows = []
    for name in after.resources:
        old, new = before.total(name), after.total(name)
        rows.append(
            (
                name,
                percent(old.percent),
                percent(new.percent),
                f"{amount(name, new.requested)} of {amount(name, new.allocatable)}",
            )
        )
    printer.table("Requested:", ("resource", "before", "after", "after, total"), rows, (0,))
    zones = after.zone_names
    if len(zones) < 2:
        return
    lines = []
    for zone in zones:
        where = after.in_zone(zone)
        cells = [zone, str(int(where.sum()))]
        for name in after.resources:
            old, new = before.total(name, where), after.total(name, where)
            change = f"{percent(old.percent)} → {percent(new.percent)}"
            cells.append(change if new.allocatable else "none")
        lines.append(cells)
    printer.table("Requested by zone:", ("zone", "nodes", *after.resources), lines, (0,))
