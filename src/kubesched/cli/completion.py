"""`kubesched completion`: what a shell needs to complete our commands.

Owns the scripts that are printed, and that files are offered where nothing else is known. Which
words a command takes is its own to say; kube-scheduler's flags are said here.
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
    from kubesched.app.flags import Flag, FlagSet

VARIABLE: Final = "_KUBESCHED_COMPLETE"
"""What the printed script sets to ask for words."""
_EPILOG: Final = """\b
Examples:
  source <(kubesched completion bash)
  kubesched completion bash > ~/.local/share/bash-completion/completions/kubesched
  kubesched completion zsh > "${fpath[1]}/_kubesched"
  kubesched completion fish > ~/.config/fish/completions/kubesched.fish

Bash has to be 4.4 or newer. A new shell knows what was written to a file.
"""
_FORMS: Final = {
    "logging-format": ("text", "json"),
    "output": ("text", "json"),
    "tls-min-version": ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"),
}


class _FilesToo(ShellComplete):
    """Offers files where there are no words to offer: most values are files here."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        # Bash makes a word of the = in --config=FILE, too.
        return [one for one in args if one != "="], incomplete.removeprefix("=")

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        name, equals, value = incomplete.partition("=")
        if equals and name.startswith("-"):
            # Other shells leave it whole, and want the whole word back.
            found = self.get_completions([*args, name], value)
            return [CompletionItem(f"{name}={one.value}", one.type) for one in found]
        found = super().get_completions(args, incomplete)
        if found or incomplete.startswith("-"):
            return found
        return [CompletionItem(incomplete, type="file")]


class _Bash(_FilesToo, BashComplete):
    """Bash."""


class _Zsh(_FilesToo, ZshComplete):
    """Zsh."""


class _Fish(_FilesToo, FishComplete):
    """Fish."""


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "fish": _Fish, "zsh": _Zsh}


def register() -> None:
    """Have click answer shells with these classes."""
    for shell in _SHELLS.values():
        add_completion_class(shell)


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print the script that has a shell complete commands, flags and files."""
    from kubesched.cli.main import cli  # noqa: PLC0415  # It imports us.

    made = _SHELLS[shell](cli, {}, "kubesched", VARIABLE)
    # Not the class's own: Bash's runs a bash to look at its version.
    click.echo(ShellComplete.source(made), nl=False)


def flag_words(flags: FlagSet, given: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    """Return the words that may follow on a command line with kube-scheduler's flags."""
    if incomplete.startswith("-"):
        return [
            CompletionItem(f"--{flag.name}", help=flag.usage.partition("\n")[0])
            for flag in flags
            if f"--{flag.name}".startswith(incomplete)
        ]
    *_, last = ("", *given)
    name = last.lstrip("-").replace("_", "-")
    values = _values(flags[name]) if last.startswith("-") and name in flags else ()
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _values(flag: Flag) -> tuple[str, ...]:
    if flag.value.type_name == "bool":
        return ("true", "false")
    if flag.name == "feature-gates":
        from kubesched.config.gate_support import HONOURED  # noqa: PLC0415  # Seldom.

        return tuple(f"{name}=" for name in HONOURED)
    return _FORMS.get(flag.name, ())
