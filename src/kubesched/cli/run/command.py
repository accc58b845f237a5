"""`kubesched run`: schedule the pods of a cluster, with kube-scheduler's command line.

Owns the output of help, version and command-line errors. `run.options` parses flags and
`cli.run.process` runs the scheduler; both are imported only when needed.
Upstream: cmd/kube-scheduler/app/server.go NewSchedulerCommand, component-base cli/run.go
"""

from __future__ import annotations

import platform
import shutil
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kubesched.config.advice import advice_for

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kubesched.kit.log import Log
    from kubesched.run.options.flags import FlagSet
    from kubesched.run.options.values import Options, OptionsError

_EXAMPLES: Final = """\
Examples:
  kubesched run --kubeconfig ~/.kube/config --leader-elect=false -v=2
  kubesched run --config scheduler.yaml --plugin my_plugins.py:Packing
  kubesched run --kubeconfig ~/.kube/config --shadow
"""
_INTRODUCTION: Final = """\
Schedules the pods of a cluster, instead of kube-scheduler or beside it. The flags are those of
kube-scheduler v1.36, so its command line works unchanged; the group `kubesched` holds additional
flags. `kubesched doctor` checks the cluster first, `--shadow` tries kubesched without risk.
"""
_WIDTH_MAX: Final = 120


class RawCommand(click.Command):
    """A command with unparsed arguments: kube-scheduler's syntax differs from click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from kubesched.cli.completion import flag_words  # noqa: PLC0415

        return flag_words(self.flags(), ctx.params["arguments"], incomplete)

    def flags(self) -> FlagSet:
        """Return the flags of the command, unset."""
        from kubesched.run.options.scheduler_flags import scheduler_flags  # noqa: PLC0415

        return scheduler_flags()


@click.command("run", cls=RawCommand)
def run_command(arguments: tuple[str, ...]) -> int:
    """Schedule the pods of a cluster, with kube-scheduler's command line."""
    from kubesched.run.options.parse import OptionsError, parse_options  # noqa: PLC0415

    try:
        options = parse_options(arguments)
    except OptionsError as problem:
        report_error(problem)
        return 1
    if options.show_help:
        click.echo(_help(), nl=False)
        return 0
    if options.show_version:
        click.echo(version_text(options))
        return 0
    from kubesched.cli.run.process import run  # noqa: PLC0415

    return run(options, arguments)


def report_error(problem: OptionsError, command: str = "run", flags: FlagSet | None = None) -> None:
    """Print a command-line error as upstream does at that stage."""
    if problem.stage == "logging":
        click.echo(str(problem), err=True)
    elif problem.stage == "usage":
        click.echo(_usage(problem.flag, command, flags), err=True)
        click.echo(f"Error: {problem}", err=True)
    else:
        from kubesched.kit.clock import SystemClock  # noqa: PLC0415
        from kubesched.kit.log import make_log  # noqa: PLC0415

        log = make_log(
            sys.stderr,
            format="json" if problem.log_format == "json" else "text",
            clock=SystemClock(),
        )
        log.error("command failed", err=str(problem))
        advise(log, str(problem), problem.config_file, problem.log_format)
        log.flush()


def advise(log: Log, error: str, config_file: str, log_format: str) -> None:
    """Print hints on a rejected configuration, as plain text on a terminal."""
    from kubesched.config.errors import ConfigError  # noqa: PLC0415
    from kubesched.plugins.in_tree import IN_TREE_NAMES  # noqa: PLC0415

    try:
        text = Path(config_file).read_text(encoding="utf-8") if config_file else ""
    except (OSError, ValueError):
        text = ""  # The error reports this already.
    for hint in advice_for(text, ConfigError("validate", error), IN_TREE_NAMES):
        if log_format == "text" and sys.stderr.isatty():
            click.echo(f"hint: {hint}", err=True)
        else:
            log.info("Hint", hint=hint)


def _usage(flag: str, command: str, flags: FlagSet | None) -> str:
    """Return a short usage text, with the flag that was probably meant."""
    from kubesched.run.options.flags import nearest_flag, one_flag  # noqa: PLC0415
    from kubesched.run.options.scheduler_flags import scheduler_flags  # noqa: PLC0415

    flags = flags or scheduler_flags()
    name = flag.replace("_", "-")
    meant = name if name in flags else nearest_flag(flags, flag) if flag else None
    lines = [f"Usage: kubesched {command} [flags]", ""]
    if meant is not None:
        lines += [one_flag(flags.flag(meant), help_width()).rstrip(), ""]
        if meant != name:
            lines += [f"Did you mean --{meant}?"]
    lines += [f"`kubesched {command} --help` lists all flags."]
    return "\n".join(lines)


def _help() -> str:
    from kubesched.run.options.flags import flag_help  # noqa: PLC0415
    from kubesched.run.options.scheduler_flags import scheduler_flags  # noqa: PLC0415

    parts = (
        "Usage: kubesched run [flags]\n",
        textwrap.fill(_INTRODUCTION, help_width()) + "\n",
        _EXAMPLES,
        flag_help(scheduler_flags(), help_width()),
    )
    return "\n".join(parts)


def help_width() -> int:
    """Return the width of help texts."""
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDTH_MAX)


def version_text(options: Options) -> str:
    """Return the output of `--version`."""
    # Parity: verflag.go PrintAndExitIfRequested, v1.36
    ours = version("kubesched")
    if options.show_version == "text":
        return f"Kubernetes {options.reported_version} (kubesched {ours})"
    major, minor = options.reported_version.removeprefix("v").split(".")[:2]
    emulated = options.feature_gates.versions
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    fields = {
        "Major": major,
        "Minor": minor,
        "EmulationMajor": str(emulated.emulation.major),
        "EmulationMinor": str(emulated.emulation.minor),
        "MinCompatibilityMajor": str(emulated.min_compatibility.major),
        "MinCompatibilityMinor": str(emulated.min_compatibility.minor),
        "GitVersion": options.reported_version,
        "KubeschedVersion": ours,
        "Compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "Platform": f"{sys.platform}/{machine}",
    }
    listed = ", ".join(f'{name}:"{text}"' for name, text in fields.items())
    return f"version.Info{{{listed}}}"
