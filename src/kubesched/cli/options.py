"""Options that commands share, and the plugins that a command uses.

Owns which out-of-tree plugins a command uses: those of the command line and those of the program
that called `kubesched.main`. `profile.plugin_loading` loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

if TYPE_CHECKING:
    from kubesched.framework.runtime.registry import Registry


Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

plugin_option: Final[Decorator] = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="[NAME=]MODULE:CLASS",
    help="Load an out-of-tree plugin: [NAME=]MODULE:CLASS or [NAME=]FILE.py:CLASS. Repeatable.",
)


def file_option(name: str, *, help: str, exists: bool = False) -> Decorator:  # noqa: A002  # Click's name.
    """Return an option for the path of a file."""
    path = click.Path(exists=exists, dir_okay=False, path_type=Path)
    return click.option(name, type=path, metavar="FILE", help=help)


def format_option(name: str, formats: Sequence[str], *, help: str) -> Decorator:  # noqa: A002  # Click's name.
    """Return the option `-o` for one of several formats; the first is the default."""
    choice = click.Choice(formats)
    return click.option("-o", name, type=choice, default=formats[0], show_default=True, help=help)


def registry_of(plugins: Iterable[str]) -> Registry | None:
    """Return the plugins of the calling program and of the command line; None if there are none."""
    from kubesched.profile.plugin_loading import registry_with  # noqa: PLC0415

    registry = program_plugins()
    try:
        loaded = registry_with([str(text) for text in plugins])
        registry = loaded if registry is None else registry.merge(loaded)
    except (TypeError, ValueError) as problem:
        raise click.BadParameter(str(problem), param_hint="--plugin") from None
    return registry if len(registry) else None


def program_plugins() -> Registry | None:
    """Return the plugins of the program that called `kubesched.main`; None for `kubesched`."""
    from kubesched.framework.runtime.registry import Registry  # noqa: PLC0415

    context = click.get_current_context(silent=True)
    plugins = None if context is None else context.find_root().obj
    return plugins if isinstance(plugins, Registry) else None


def program_texts() -> list[str]:
    """Return these plugins as arguments of `--plugin`, for a child process."""
    from kubesched.profile.plugin_loading import PluginLoadError, text_of  # noqa: PLC0415

    registry = program_plugins()
    try:
        return [] if registry is None else [text_of(name, registry[name]) for name in registry]
    except PluginLoadError as problem:
        raise click.ClickException(str(problem)) from None
