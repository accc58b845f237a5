"""Options several commands share.

Owns `--plugin`, and which plugins a command has: those of the command line and those of the program
that called `kubesched.main`. How one is found is app.outside_plugins'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kubesched.framework.registry import Registry

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def with_options(command: CommandT, options: Sequence[Callable[[Any], Any]]) -> CommandT:
    """Add options to a command, in their order."""
    for option in reversed(options):
        command = option(command)
    return command


def plugin_option(command: CommandT) -> CommandT:
    """Add `--plugin` to a command."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="[NAME=]MODULE:CLASS",
        help="A plugin of your own: import path or file, a colon, its class; and before it, if you "
        "like, another name. May be repeated.",
    )(command)


def registry_of(plugins: Iterable[str]) -> Registry | None:
    """Return the plugins of the program and of the command line, None if there are none."""
    from kubesched.app.outside_plugins import registry_given  # noqa: PLC0415

    registry = program_plugins()
    try:
        given = registry_given([str(text) for text in plugins])
        registry = given if registry is None else registry.merge(given)
    except (TypeError, ValueError) as problem:
        raise click.BadParameter(str(problem), param_hint="--plugin") from None
    return registry if len(registry) else None


def program_plugins() -> Registry | None:
    """Return the plugins of the program whose command this is; None for `kubesched` itself."""
    from kubesched.framework.registry import Registry  # noqa: PLC0415

    context = click.get_current_context(silent=True)
    given = None if context is None else context.find_root().obj
    return given if isinstance(given, Registry) else None


def program_texts() -> list[str]:
    """Return the same as words for `--plugin`, for a command that starts another process."""
    from kubesched.app.outside_plugins import PluginLoadError, text_of  # noqa: PLC0415

    registry = program_plugins()
    try:
        return [] if registry is None else [text_of(name, registry[name]) for name in registry]
    except PluginLoadError as problem:
        raise click.ClickException(str(problem)) from None
