"""The `kubesched` command: its group, and how errors reach the user.

Owns exit codes: 0 done, 1 the input was faulty, 2 the command line was. Never prints a traceback.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn

import click
import click.shell_completion

from kubesched.cli.streams import STDOUT_NAME, drop_output, settle_streams
from kubesched.kit.memory import collect_rarely

if TYPE_CHECKING:
    from kubesched.framework.registry import Registry

_COMMANDS: Final = {
    "apiserver": "apiserver",
    "capacity": "capacity",
    "completion": "completion",
    "config": "config",
    "decide": "decide",
    "doctor": "doctor",
    "explain": "explain",
    "extender": "extender",
    "new-plugin": "new_plugin",
    "playground": "playground",
    "plugins": "plugins",
    "run": "run_command",
    "simulate": "simulate",
}
"""What each command is called in its module, which has the command's name, dashes as in Python."""

_ASKED_NOTHING: Final[type[click.UsageError] | tuple[()]] = getattr(
    click.exceptions, "NoArgsIsHelpError", ()
)
"""What Click raises where a command is missing, whose text is the help; 8.1 only prints that."""

_EPILOG = """\b
Examples:
  kubectl get nodes,pods -A -o json | kubesched explain -f - shop/web-7
  kubesched capacity -f cluster.yaml -f pod.yaml
  kubesched completion bash
  kubesched simulate -f cluster.yaml -f workload.yaml
  kubesched config view
  kubesched decide --cases cases.jsonl
  kubesched doctor --kubeconfig ~/.kube/config
  kubesched extender --plugin my_plugins.py:Packing --print-config
  kubesched new-plugin SpareGpu
  kubesched playground
  kubesched plugins --plugin my_plugins.py:Packing
  kubesched run --kubeconfig ~/.kube/config --leader-elect=false
"""


class Commands(click.Group):
    """The commands; one is imported when it is given, since each brings half of the package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"kubesched.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = getattr(module, _COMMANDS[cmd_name])
        return command

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem[str]]:
        """Return the words that may follow; a name is known without importing its command."""
        names = [name for name in _COMMANDS if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*map(click.shell_completion.CompletionItem, names), *options]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(package_name="kubesched", prog_name="kubesched")
def cli() -> None:
    """The Kubernetes scheduler, in Python."""


def main(arguments: Sequence[str] | None = None, *, plugins: Registry | None = None) -> NoReturn:
    """Run the command line and exit; `plugins` are those of a program of the user's own."""
    collect_rarely()
    settle_streams()
    if "_KUBESCHED_COMPLETE" in os.environ:
        from kubesched.cli.completion import register  # noqa: PLC0415  # A shell asks for words.

        register()
    status = run(arguments, plugins=plugins)
    # What is left goes with the process: to look through it once more would only take time.
    gc.freeze()
    sys.exit(status)


def run(arguments: Sequence[str] | None = None, *, plugins: Registry | None = None) -> int:
    """Run the command line; return the exit status."""
    stdout = sys.stdout
    try:
        result = cli.main(arguments, prog_name="kubesched", standalone_mode=False, obj=plugins)
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.ClickException as problem:
        if isinstance(problem, _ASKED_NOTHING):
            click.echo(problem.format_message(), err=True)
            return problem.exit_code
        hint = getattr(problem, "ctx", None)
        where = f" (see {hint.command_path} --help)" if hint is not None else ""
        return _fail(problem.format_message() + where, problem.exit_code)
    except SystemExit:
        # Click's answer to a pipe that nobody reads any more is to replace the stream and to exit
        # with 1. But whoever read our output only had enough.
        if sys.stdout is not stdout:
            return 0
        raise
    except OSError as problem:
        if problem.filename == STDOUT_NAME:
            drop_output()
        return _fail(f"{problem.filename or 'input'}: {problem.strerror or problem}", 1)
    return result if isinstance(result, int) else 0


def _fail(text: str, status: int) -> int:
    click.echo(f"kubesched: {' '.join(text.split())}", err=True)
    return status


if __name__ == "__main__":
    main()
