"""`kubesched run`: the scheduler of a cluster, with kube-scheduler's command line.

Owns how a command line that is refused, help and the version reach the user. What flags mean is
app.options's, what runs is cli.run_live's; both are imported only when the command is given.
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

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kubesched.app.flags import FlagSet
    from kubesched.app.option_values import Options, OptionsError
    from kubesched.kit.log import Log

_EXAMPLES: Final = """\
Examples:
  kubesched run --kubeconfig ~/.kube/config --leader-elect=false -v=2
  kubesched run --config scheduler.yaml --plugin my_plugins.py:Packing
  kubesched run --kubeconfig ~/.kube/config --shadow
"""
_INTRODUCTION: Final = """\
Assigns pods of a cluster to nodes, in place of kube-scheduler or beside it. Flags are those of
kube-scheduler v1.36, so that its command line works unchanged; those of the group `kubesched` are
our own. `kubesched doctor` tells what a cluster lacks for it, `--shadow` tries it without risk.
"""
_WIDTH_MAX: Final = 120


class RawCommand(click.Command):
    """A command that takes its arguments as they are: they follow other rules than click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["arguments"] = tuple(args)
        return []

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the flags, or the values of one."""
        from kubesched.cli.completion import flag_words  # noqa: PLC0415

        return flag_words(self.flags(), ctx.params["arguments"], incomplete)

    def flags(self) -> FlagSet:
        """Return the flags it takes, unset."""
        from kubesched.app.option_groups import scheduler_flags  # noqa: PLC0415

        return scheduler_flags()


@click.command("run", cls=RawCommand, short_help="Schedule the pods of a cluster.")
def run_command(arguments: tuple[str, ...]) -> int:
    """Schedule the pods of a cluster, with kube-scheduler's command line."""
    from kubesched.app.options import OptionsError, parse_options  # noqa: PLC0415

    try:
        options = parse_options(arguments)
    except OptionsError as problem:
        tell(problem)
        return 1
    if options.show_help:
        click.echo(_help(), nl=False)
        return 0
    if options.show_version:
        click.echo(version_text(options))
        return 0
    from kubesched.cli.run_live import run  # noqa: PLC0415

    return run(options, arguments)


def tell(problem: OptionsError, command: str = "run", flags: FlagSet | None = None) -> None:
    """Say what is wrong with a command line, as upstream does at that stage."""
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
    """Add what may help with a configuration that was refused: on a terminal in plain words."""
    from kubesched.config.errors import ConfigError  # noqa: PLC0415
    from kubesched.config.hints import hints  # noqa: PLC0415

    try:
        text = Path(config_file).read_text(encoding="utf-8") if config_file else ""
    except (OSError, ValueError):
        text = ""  # The error says so already.
    for hint in hints(text, ConfigError("validate", error)):
        if log_format == "text" and sys.stderr.isatty():
            click.echo(f"hint: {hint}", err=True)
        else:
            log.info("Hint", hint=hint)


def _usage(flag: str, command: str, flags: FlagSet | None) -> str:
    """Return a reminder, with what was probably meant by a wrong flag."""
    from kubesched.app.flag_help import nearest_flag, one_flag  # noqa: PLC0415
    from kubesched.app.option_groups import scheduler_flags  # noqa: PLC0415

    flags = flags or scheduler_flags()
    known = flag.replace("_", "-")
    meant = known if known in flags else nearest_flag(flags, flag) if flag else None
    lines = [f"Usage: kubesched {command} [flags]", ""]
    if meant is not None:
        lines += [one_flag(flags[meant], _width()).rstrip(), ""]
        if meant != known:
            lines += [f"Did you mean --{meant}?"]
    lines += [f"`kubesched {command} --help` lists all flags."]
    return "\n".join(lines)


def _help() -> str:
    from kubesched.app.flag_help import flag_help  # noqa: PLC0415
    from kubesched.app.option_groups import scheduler_flags  # noqa: PLC0415

    parts = (
        "Usage: kubesched run [flags]\n",
        textwrap.fill(_INTRODUCTION, _width()) + "\n",
        _EXAMPLES,
        flag_help(scheduler_flags(), _width()),
    )
    return "\n".join(parts)


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDTH_MAX)


def version_text(options: Options) -> str:
    """Return the answer to `--version`."""
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
