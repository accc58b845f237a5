"""What `capacity` and `simulate` share: their options, their reading, their lines.

Owns the way from a command line to a scenario and a scheduler, and how faults on that way are told.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from kubesched.app.build import Built
from kubesched.app.manifests import STDIN, ManifestError
from kubesched.cli import progress
from kubesched.cli.grid import Grid, fitted, wrapped
from kubesched.cli.options import plugin_option, registry_of
from kubesched.cli.render import PLAIN_WIDTH
from kubesched.framework.registry import Registry
from kubesched.objects.errors import one_line
from kubesched.sim.amounts import amount, percent
from kubesched.sim.configured import ConfiguredError, check_use, configured
from kubesched.sim.scenario import Scenario, read_scenario
from kubesched.sim.usage import Usage
from kubesched.sim.world import WorldError

NAMES_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """What a user said about the cluster and its scheduler."""

    files: tuple[str, ...]
    config_file: str | None
    plugins: tuple[str, ...]
    seed: int


def scenario_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a scenario to a command, which gets them as its first argument."""

    @wraps(command)
    def with_options(
        files: tuple[str, ...],
        config_file: str | None,
        plugins: tuple[str, ...],
        seed: int,
        **others: Any,
    ) -> None:
        command(ScenarioOptions(files, config_file, plugins, seed), **others)

    extended: Callable[..., None] = with_options
    for option in _OPTIONS:
        extended = option(extended)
    return extended


_OPTIONS: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="Where chance starts from; the same seed gives the same run.",
    ),
    plugin_option,
    click.option(
        "--config",
        "config_file",
        metavar="FILE",
        help="A KubeSchedulerConfiguration, or - for stdin.  "
        "[default: kube-scheduler's own defaults]",
    ),
    click.option(
        "-f",
        "--file",
        "files",
        multiple=True,
        required=True,
        metavar="FILE",
        help="Manifests, YAML or JSON: a file, a directory, or - for stdin. May be repeated.",
    ),
)


def top_option(default: str, what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that says how long lists are."""
    return click.option(
        "--top",
        type=click.IntRange(min=0),
        metavar="N",
        help=f"How many {what} to list; 0 for all.  [default: {default}, all in JSON]",
    )


def rows_of(top: int | None, default: int) -> int | None:
    """Return how many rows are wanted, None for all."""
    return (default if top is None else top) or None


def refuse_two_readers(*files: str | None) -> None:
    """End with an error if standard input is to be read twice."""
    if files.count(STDIN) > 1:
        raise click.UsageError("standard input can be read only once")


def read(files: Sequence[str]) -> Scenario:
    """Return what the files hold, or end with one line that says why not."""
    with told(), progress.reading(files):
        return read_scenario(files, stdin=sys.stdin.buffer)


def schedulers(options: ScenarioOptions, config_files: Sequence[str | None]) -> list[Built]:
    """Return the profiles of some configurations, between which the plugins are shared out."""
    registry: Registry | None = registry_of(options.plugins)
    built = [_scheduler(options, file, registry) for file in config_files]
    try:
        check_use(built, registry)
    except ConfiguredError as problem:
        where = " and ".join(shown(file) for file in config_files if file is not None)
        raise click.ClickException(f"{where}: {problem}") from None
    return built


def _scheduler(
    options: ScenarioOptions, config_file: str | None, registry: Registry | None
) -> Built:
    text = None if config_file is None else _contents(config_file)
    try:
        built = configured(text, registry=registry, seed=options.seed, uses_all=False)
    except ConfiguredError as problem:
        where = "" if config_file is None else f"{shown(config_file)}: "
        raise click.ClickException(f"{where}{problem}") from None
    if config_file is None and registry is not None:
        note(f"enabled at multiPoint of the default profile: {', '.join(registry)}")
    if built.config.extenders:
        note("the extenders of the configuration are not asked")
    return built


def _contents(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise click.ClickException(f"{shown(file)}: {reason}") from None


@contextmanager
def told(*, has_own_plugins: bool = False) -> Iterator[None]:
    """Have what goes wrong in a run end it with one line."""
    try:
        yield
    except (ManifestError, WorldError) as problem:
        raise click.ClickException(str(problem)) from None
    except click.ClickException:
        raise
    except Exception as problem:
        if not has_own_plugins:
            raise
        # A plugin may hand back something the framework cannot work with.
        text = f"a plugin failed: {type(problem).__name__}: {problem}"
        raise click.ClickException(text) from None


def shown(file: str) -> str:
    """Return how a file is called in a message."""
    return "standard input" if file == STDIN else file


def note(text: str) -> None:
    """Say on standard error what a user should know."""
    click.echo(f"note: {one_line(text)}", err=True)


# -- lines ----------------------------------------------------------------------------------------


def say(text: str = "") -> None:
    """Print a line, with what standard output cannot encode escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("→", "->").encode(encoding, "backslashreplace").decode(encoding)
    click.echo(text)


def say_prose(text: str, *, indent: int = 0, hang: int = 2) -> None:
    """Print a text over as many lines as it takes, broken between words."""
    for line in wrapped(text, _width(), indent=indent, hang=hang):
        say(line)


def say_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], text_columns: Sequence[int]
) -> None:
    """Print a titled table as aligned columns that fit the terminal, after an empty line."""
    if not rows:
        return
    cells = tuple(tuple(one_line(cell) for cell in row) for row in rows)
    say()
    say(title)
    for line in fitted(Grid(title, tuple(header), cells, tuple(text_columns)), _width()):
        say(line)


def _width() -> int:
    """Return how wide tables may be: the terminal, or 80 columns where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PLAIN_WIDTH


def say_usage(before: Usage, after: Usage) -> None:
    """Print how full the cluster was and is, per resource and per zone."""
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
    say_table("Requested:", ("resource", "before", "after", "after, of all"), rows, (0,))
    zones = after.zone_names
    if len(zones) < 2:
        return
    lines = []
    for zone in zones:
        where = after.in_zone(zone)
        cells = [zone, str(int(where.sum()))]
        for name in after.resources:
            old, new = before.total(name, where), after.total(name, where)
            same = f"{percent(old.percent)} → {percent(new.percent)}"
            cells.append(same if new.allocatable else "none")
        lines.append(cells)
    say_table("Requested by zone:", ("zone", "nodes", *after.resources), lines, (0,))


def listed(names: Sequence[str], most: int = NAMES_SHOWN_MAX) -> str:
    """Return names, the first few of many."""
    more = len(names) - most
    text = ", ".join(names[:most])
    return f"{text} and {more} more" if more > 0 else text


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
