"""The `kubesched` command: subcommands, error output and exit codes.

Exit codes: 0 success, 1 invalid input, 2 invalid command line. Never prints a traceback.
Upstream: cmd/kube-scheduler/app/server.go NewSchedulerCommand
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
    from kubesched.framework.runtime.registry import Registry
    from kubesched.profile.plugin_loading import ExtraPlugins

_COMMANDS: Final = {
    "apiserver": ("apiserver.command:apiserver", "Serve the Kubernetes API from this process."),
    "capacity": ("capacity:capacity", "Count how many copies of a pod fit."),
    "completion": ("completion:completion", "Print a shell completion script."),
    "config": ("config:config", "Show, check and convert scheduler configuration files."),
    "decide": ("decide:decide", "Compute decisions for recorded cases."),
    "doctor": ("doctor:doctor", "Check a cluster for `kubesched run`."),
    "explain": ("explain.command:explain", "Explain where a pod goes, and why."),
    "extender": ("extender.command:extender", "Serve plugins to a stock kube-scheduler."),
    "new-plugin": ("new_plugin:new_plugin", "Create a project for a plugin."),
    "playground": ("playground.command:playground", "Run a small simulated cluster."),
    "plugins": ("plugins:plugins", "List the available plugins."),
    "run": ("run.command:run_command", "Schedule the pods of a cluster."),
    "simulate": ("simulate:simulate", "Schedule all pending pods in memory."),
}
"""Each command's module in this package and its name there, and its line in the help."""

_NO_ARGS_ERROR: Final[type[click.UsageError] | tuple[()]] = getattr(
    click.exceptions, "NoArgsIsHelpError", ()
)
"""Click's error for a missing command, whose text is the help; Click 8.1 only prints it."""

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
    """The subcommands, each imported on use: they depend on large parts of the package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"kubesched.cli.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem[str]]:
        """Return the completions, without importing the commands."""
        names = [name for name in _COMMANDS if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*map(click.shell_completion.CompletionItem, names), *options]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(package_name="kubesched", prog_name="kubesched")
def cli() -> None:
    """The Kubernetes scheduler, in Python."""


def main(plugins: ExtraPlugins = (), arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command `kubesched` with out-of-tree plugins, and exit with its status.

    Args:
        plugins: Classes or factories, pairs of name and factory, texts `[NAME=]module:Class`; or a
            mapping by name. A configuration may enable them; without one they are enabled.
        arguments: The command line; that of the process if None.

    Raises:
        ValueError, TypeError: A plugin is invalid.
    """
    registry = None
    if plugins:
        from kubesched.profile.plugin_loading import registry_with  # noqa: PLC0415

        registry = registry_with(plugins, is_offer=True)
    collect_rarely()
    settle_streams()
    if "_KUBESCHED_COMPLETE" in os.environ:
        from kubesched.cli.completion import register  # noqa: PLC0415  # A shell requests completions.

        register()
    status = run(arguments, plugins=registry)
    # Skips a last garbage collection, which would only take time.
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
        if isinstance(problem, _NO_ARGS_ERROR):
            click.echo(problem.format_message(), err=True)
            return problem.exit_code
        hint = getattr(problem, "ctx", None)
        where = f" (see {hint.command_path} --help)" if hint is not None else ""
        return _fail(problem.format_message() + where, problem.exit_code)
    except SystemExit:
        # On a broken pipe, Click replaces the stream and exits with 1; a closed reader is no error.
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
