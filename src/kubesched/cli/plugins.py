"""`kubesched plugins`: what a configuration can name.

Owns the look of the list. What stands in it is app.plugin_list's.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click
import msgspec

from kubesched.cli.options import plugin_option, registry_of

if TYPE_CHECKING:
    from kubesched.app.plugin_list import ListedPlugin

_EPILOG = """\b
Examples:
  kubesched plugins
  kubesched plugins NodeResourcesFit
  kubesched plugins --plugin my_plugins.py:Packing Packing
  kubesched plugins -o json
"""


@click.command(short_help="List the plugins a configuration can name.", epilog=_EPILOG)
@plugin_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print.",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def plugins(plugins: tuple[str, ...], output: str, names: tuple[str, ...]) -> None:
    """List the plugins a configuration can name, or some of them.

    Told are the name, where it is from (--plugin, an installed package, in-tree), the extension
    points, whether it looks at one node at a time or at all at once, and its arguments.
    """
    from kubesched.app.plugin_list import listed_plugins  # noqa: PLC0415

    known = listed_plugins(registry_of(plugins))
    shown = [plugin for plugin in known if not names or plugin.name in names]
    _refuse_unknown(names, [plugin.name for plugin in known])
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
        return
    click.echo("\n".join(_table(shown)))
    arguments = _arguments(shown)
    if arguments:
        click.echo("\nArguments, under pluginConfig:")
        click.echo("\n".join(arguments))
    for plugin in shown:
        if plugin.problem:
            click.echo(f"note: {plugin.name} ({plugin.origin}): {plugin.problem}", err=True)


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            meant = f", did you mean {close[0]}?" if close else ""
            raise click.ClickException(f"there is no plugin {name}{meant}")


def _table(shown: Sequence[ListedPlugin]) -> list[str]:
    rows = [
        (
            plugin.name,
            plugin.origin,
            plugin.nodes or "-",
            "cannot be used" if plugin.problem else ", ".join(plugin.extension_points),
        )
        for plugin in shown
    ]
    return _aligned([("plugin", "from", "nodes", "extension points"), *rows])


def _arguments(shown: Sequence[ListedPlugin]) -> list[str]:
    rows = []
    for plugin in shown:
        if plugin.args is not None and not plugin.args.fields:
            rows.append((plugin.name, "", plugin.args.kind, ""))
        for field in plugin.args.fields if plugin.args else ():
            default = "required" if field.required else msgspec.json.encode(field.default).decode()
            rows.append((plugin.name, field.name, field.type, default))
    return _aligned([("plugin", "field", "type", "default"), *rows]) if rows else []


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
