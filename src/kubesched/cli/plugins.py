"""`kubesched plugins`: what a configuration can name.

Owns the look of the list, which fits the terminal, or 80 columns where there is none. What stands
in it is app.plugin_list's.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click
import msgspec

from kubesched.cli.grid import Grid, paragraphs, wrapped
from kubesched.cli.options import plugin_option, registry_of

if TYPE_CHECKING:
    from kubesched.app.plugin_list import ListedPlugin

_LEAST_ROOM = 28
_GAP = "  "
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
    from kubesched.cli.render import Sheet  # noqa: PLC0415

    known = listed_plugins(registry_of(plugins))
    shown = [plugin for plugin in known if not names or plugin.name in names]
    _refuse_unknown(names, [plugin.name for plugin in known])
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
        return
    width = Sheet().width
    click.echo("\n".join(_table(shown, width)))
    arguments = _arguments(shown, width)
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


def _table(shown: Sequence[ListedPlugin], width: int) -> list[str]:
    rows = [
        (
            plugin.name,
            plugin.origin,
            plugin.nodes or "-",
            "cannot be used" if plugin.problem else ", ".join(plugin.extension_points),
        )
        for plugin in shown
    ]
    return _aligned(("plugin", "from", "nodes", "extension points"), rows, width)


def _arguments(shown: Sequence[ListedPlugin], width: int) -> list[str]:
    rows = []
    for plugin in shown:
        if plugin.args is not None and not plugin.args.fields:
            rows.append((plugin.name, "", plugin.args.kind, ""))
        for field in plugin.args.fields if plugin.args else ():
            default = "required" if field.required else _json_words(field.default)
            rows.append((plugin.name, field.name, field.type, default))
    return _aligned(("plugin", "field", "type", "default"), rows, width) if rows else []


def _json_words(value: object) -> str:
    """Return a value as JSON that can be broken between its parts."""
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _aligned(header: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """Return a table whose last column is broken, or paragraphs where that leaves it no room."""
    columns = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    before = len(_GAP) * len(columns) + sum(columns[:-1])
    if before + min(columns[-1], _LEAST_ROOM) > width:
        return paragraphs(Grid("", header, tuple(rows), tuple(range(len(header)))), width)
    lines = []
    for row in (header, *rows):
        cells = zip(row[:-1], columns[:-1], strict=True)
        first = _GAP + "".join(f"{cell:<{wide}}{_GAP}" for cell, wide in cells)
        first_part, *others = wrapped(row[-1], width - before, hang=0)
        lines += [(first + first_part).rstrip(), *(" " * before + other for other in others)]
    return lines
