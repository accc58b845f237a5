"""`kubesched config`: look at, check and convert configuration files.

Owns how configuration errors and hints reach the user: the error text stands alone on standard
error, hints follow on lines of their own. Never changes a file.
"""

import sys
from pathlib import Path
from typing import NoReturn

import click

from kubesched.app.build import check_build, config_enabling
from kubesched.cli.options import plugin_option, registry_of
from kubesched.config.convert import convert_old
from kubesched.config.encode import to_yaml
from kubesched.config.errors import ConfigError
from kubesched.config.hints import hints
from kubesched.config.load import load_config
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.config.validate import check_config
from kubesched.framework.registry import Registry


def _examples(*commands: str) -> str:
    """Return commands as the paragraph of a help text that is not wrapped."""
    return "\n".join(("\b", "Examples:", *(f"  {command}" for command in commands)))


_FILE_HELP = "The configuration file, YAML or JSON; - reads standard input."
_hints_option = click.option(
    "--hints/--no-hints",
    "with_hints",
    default=None,
    help="Add advice after an error.  [default: only on a terminal]",
)


@click.group(
    epilog=_examples(
        "kubesched config view",
        "kubesched config validate -f scheduler.yaml",
        "kubesched config convert -f old.yaml > scheduler.yaml",
    )
)
def config() -> None:
    """Look at, check and convert scheduler configuration files."""


@config.command(
    epilog=_examples("kubesched config view", "kubesched config view -f scheduler.yaml")
)
@click.option("-f", "--file", "file", metavar="FILE", help=_FILE_HELP)
@plugin_option
@_hints_option
@click.pass_context
def view(
    ctx: click.Context, file: str | None, plugins: tuple[str, ...], with_hints: bool | None
) -> None:
    """Print the effective configuration: defaults filled in, plugin lists merged.

    Without a file, print that of a scheduler which was given none.
    """
    registry = registry_of(plugins)
    text = None if file is None else _read(file)
    try:
        loaded = config_enabling(registry) if text is None else load_config(text)
        click.echo(to_yaml(_checked(loaded, registry)), nl=False)
    except ConfigError as error:
        _fail(ctx, text or "", error, with_hints)


@config.command(
    epilog=_examples(
        "kubesched config validate -f scheduler.yaml",
        "kubesched config validate -f - < scheduler.yaml",
        "kubesched config validate -f scheduler.yaml --plugin my_plugins.py:Packing",
    )
)
@click.option("-f", "--file", "file", required=True, metavar="FILE", help=_FILE_HELP)
@plugin_option
@_hints_option
@click.pass_context
def validate(
    ctx: click.Context, file: str, plugins: tuple[str, ...], with_hints: bool | None
) -> None:
    """Check a configuration as the scheduler does when it starts."""
    registry = registry_of(plugins)
    text = _read(file)
    try:
        _checked(load_config(text), registry)
    except ConfigError as error:
        _fail(ctx, text, error, with_hints)
    click.echo("valid")


@config.command(epilog=_examples("kubesched config convert -f old.yaml > scheduler.yaml"))
@click.option("-f", "--file", "file", required=True, metavar="OLD", help=_FILE_HELP)
@click.pass_context
def convert(ctx: click.Context, file: str) -> None:
    """Rewrite a v1beta2 or v1beta3 file for v1; every change is told on standard error."""
    text = _read(file)
    try:
        converted, changes = convert_old(text)
    except ConfigError as error:
        _fail(ctx, text, error, False)
    for change in changes:
        click.echo(f"changed: {change}", err=True)
    click.echo(converted, nl=False)


def _checked(
    loaded: KubeSchedulerConfiguration, registry: Registry | None
) -> KubeSchedulerConfiguration:
    """Return the configuration as the whole start of a scheduler leaves it."""
    check_config(loaded)
    return check_build(loaded, registry)


def _read(file: str) -> str:
    """Return the text of a file, or end with one line that says why not."""
    name = "standard input" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{name}: not UTF-8 (byte {error.start})") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.ClickException(f"{name}: {reason}") from None


def _fail(ctx: click.Context, text: str, error: ConfigError, with_hints: bool | None) -> NoReturn:
    click.echo(str(error), err=True)
    if sys.stderr.isatty() if with_hints is None else with_hints:
        for hint in hints(text, error):
            click.echo(f"hint: {hint}", err=True)
    ctx.exit(1)
