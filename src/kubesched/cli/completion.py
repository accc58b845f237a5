"""`kubesched completion`: shell completion scripts.

Owns the printed scripts, completion of file names, and completion of kube-scheduler's flags. Other
options are completed by click.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

if TYPE_CHECKING:
    from kubesched.run.options.flags import Flag, FlagSet

VARIABLE: Final = "_KUBESCHED_COMPLETE"
"""The variable that the script sets to request completions."""
_EPILOG: Final = """\b
Examples:
  source <(kubesched completion bash)
  kubesched completion bash > ~/.local/share/bash-completion/completions/kubesched
  kubesched completion zsh > "${fpath[1]}/_kubesched"
  kubesched completion fish > ~/.config/fish/completions/kubesched.fish

Requires bash 4.4 or newer. Open a new shell to use a script that was written to a file.
"""
_FORMS: Final = {
    "logging-format": ("text", "json"),
    "output": ("text", "json"),
    "tls-min-version": ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
}


class _FilesToo(ShellComplete):
    """Completes file names where there are no other completions: most values are files."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        # Bash splits --config=FILE at the =, too.
        return [word for word in args if word != "="], incomplete.removeprefix("=")

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        name, equals, value = incomplete.partition("=")
        if equals and name.startswith("-"):
            # Other shells do not split it and expect the whole word.
            items = self.get_completions([*args, name], value)
            return [CompletionItem(f"{name}={item.value}", item.type) for item in items]
        items = super().get_completions(args, incomplete)
        if items or incomplete.startswith("-"):
            return items
        return [CompletionItem(incomplete, type="file")]


class _Bash(_FilesToo, BashComplete): ...


class _Zsh(_FilesToo, ZshComplete): ...


class _Fish(_FilesToo, FishComplete): ...


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "fish": _Fish, "zsh": _Zsh}


def register() -> None:
    """Register these shells with click."""
    for shell in _SHELLS.values():
        add_completion_class(shell)


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print a script that completes commands, flags and files in a shell."""
    from kubesched.cli.main import cli  # noqa: PLC0415  # It imports us.

    # Not BashComplete.source(), which runs bash to check its version.
    script = ShellComplete.source(_SHELLS[shell](cli, {}, "kubesched", VARIABLE))
    click.echo(script, nl=False)


def flag_words(flags: FlagSet, args: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    """Return the completions of a command line with kube-scheduler's flags."""
    if incomplete.startswith("-"):
        return [
            CompletionItem(f"--{flag.name}", help=flag.usage.partition("\n")[0])
            for flag in flags
            if f"--{flag.name}".startswith(incomplete)
        ]
    *_, last = ("", *args)
    name = last.lstrip("-").replace("_", "-")
    values = _values(flags.flag(name)) if last.startswith("-") and name in flags else ()
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _values(flag: Flag) -> tuple[str, ...]:
    if flag.type.name == "bool":
        return ("true", "false")
    if flag.name == "feature-gates":
        from kubesched.config.gate_support import HONORED  # noqa: PLC0415  # Seldom.

        return tuple(f"{name}=" for name in HONORED)
    return _FORMS.get(flag.name, ())
