"""`kubesched config`: show, check and convert configuration files.

Owns the output of configuration errors and hints: the error is on its own on standard error, hints
follow on separate lines. Never changes a file.
"""

import sys
from typing import NoReturn

import click

from kubesched.cli.inputs import file_title, read_bytes
from kubesched.cli.options import plugin_option, registry_of
from kubesched.config.advice import advice_for
from kubesched.config.convert import convert_old
from kubesched.config.encode import to_yaml
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.config.validate import check_config
from kubesched.framework.runtime.registry import Registry
from kubesched.profile.build import build, config_enabling


def _examples(*commands: str) -> str:
    """Return commands as a paragraph that click does not wrap."""
    return "\n".join(("\b", "Examples:", *(f"  {command}" for command in commands)))


_FILE_HELP = "Read the configuration (YAML or JSON) from FILE, or - for stdin."
_hints_option = click.option(
    "--hints/--no-hints",
    "with_hints",
    default=None,
    help="Print hints after an error.  [default: only on a terminal]",
)


@click.group(
    epilog=_examples(
        "kubesched config view",
        "kubesched config validate -f scheduler.yaml",
        "kubesched config convert -f old.yaml > scheduler.yaml",
    )
)
def config() -> None:
    """Show, check and convert scheduler configuration files."""


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
    """Print the effective configuration, with defaults applied and plugin lists merged.

    Without a file, print the default configuration.
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
    """Check a configuration as the scheduler does at startup."""
    registry = registry_of(plugins)
    text = _read(file)
    try:
        _checked(load_config(text), registry)
    except ConfigError as error:
        _fail(ctx, text, error, with_hints)
    click.echo("valid")


@config.command(epilog=_examples("kubesched config convert -f old.yaml > scheduler.yaml"))
@click.option("-f", "--file", "file", required=True, metavar="FILE", help=_FILE_HELP)
@click.pass_context
def convert(ctx: click.Context, file: str) -> None:
    """Convert a v1beta1, v1beta2 or v1beta3 file to v1; list the changes on standard error."""
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
    """Return the configuration after all checks of a scheduler's startup."""
    check_config(loaded)
    return build(loaded, out_of_tree=registry).config


def _read(file: str) -> str:
    try:
        return read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        text = f"{file_title(file)}: not UTF-8 (byte {error.start})"
        raise click.ClickException(text) from None


def _fail(ctx: click.Context, text: str, error: ConfigError, with_hints: bool | None) -> NoReturn:
    click.echo(str(error), err=True)
    if sys.stderr.isatty() if with_hints is None else with_hints:
        from kubesched.plugins.in_tree import IN_TREE_NAMES  # noqa: PLC0415 - imports every plugin

        for hint in advice_for(text, error, IN_TREE_NAMES):
            click.echo(f"hint: {hint}", err=True)
    ctx.exit(1)
