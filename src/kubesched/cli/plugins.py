"""`kubesched plugins`: list the plugins that a configuration can enable.

Owns the text of the list, which fits the terminal, or 80 columns without one. The contents are
`profile.plugin_catalog`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click
import msgspec

from kubesched.cli.options import format_option, plugin_option, registry_of
from kubesched.cli.printer import Printer, print_json
from kubesched.kit.text import Grid

if TYPE_CHECKING:
    from kubesched.profile.plugin_catalog import ListedPlugin

_EPILOG = """\b
Examples:
  kubesched plugins
  kubesched plugins NodeResourcesFit
  kubesched plugins --plugin my_plugins.py:Packing Packing
  kubesched plugins -o json
"""


@click.command(epilog=_EPILOG)
@plugin_option
@format_option("--output", ("text", "json"), help="Output format.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def plugins(plugins: tuple[str, ...], output: str, names: tuple[str, ...]) -> None:
    """List the plugins that a configuration can enable, or only those with a NAME.

    Shows each plugin's name, origin (--plugin, an installed package, or in-tree), extension points,
    whether it evaluates one node at a time or all at once, and its arguments.
    """
    from kubesched.profile.plugin_catalog import listed_plugins  # noqa: PLC0415

    available = listed_plugins(registry_of(plugins))
    _reject_unknown(names, [plugin.name for plugin in available])
    shown = [plugin for plugin in available if not names or plugin.name in names]
    if output == "json":
        print_json(shown)
        return
    printer = Printer()
    printer.grid(_extension_points(shown))
    configurable = [plugin for plugin in shown if plugin.args is not None]
    if configurable:
        printer.heading("Arguments, under pluginConfig:")
    for plugin in configurable:
        _show_arguments(plugin, printer)
    for plugin in shown:
        if plugin.problem:
            click.echo(f"note: {plugin.name} ({plugin.origin}): {plugin.problem}", err=True)


def _reject_unknown(names: Sequence[str], available: Sequence[str]) -> None:
    for name in names:
        if name not in available:
            close = get_close_matches(name, available, n=1)
            meant = f", did you mean {close[0]}?" if close else ""
            raise click.ClickException(f"plugin {name} not found{meant}")


def _extension_points(plugins: Sequence[ListedPlugin]) -> Grid:
    rows = [
        (
            plugin.name,
            plugin.origin,
            plugin.nodes or "-",
            "cannot be used" if plugin.problem else ", ".join(plugin.extension_points),
        )
        for plugin in plugins
    ]
    return Grid(("plugin", "from", "nodes", "extension points"), tuple(rows), (0, 1, 2, 3))


def _show_arguments(plugin: ListedPlugin, printer: Printer) -> None:
    assert plugin.args is not None
    if not plugin.args.fields:
        printer.prose(f"{plugin.name}: {plugin.args.kind}", indent=2)
    for field in plugin.args.fields:
        default = "required" if field.required else f"default {_json_words(field.default)}"
        printer.prose(f"{plugin.name}: {field.name} ({field.type}, {default})", indent=2)


def _json_words(value: object) -> str:
    """Return a value as JSON that can be wrapped."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
