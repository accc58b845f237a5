"""The `kubesched` command: its group, and how errors reach the user.

Owns exit codes: 0 done, 1 the input was faulty, 2 the command line was. Never prints a traceback.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import click

from kubesched.cli.apiserver import apiserver
from kubesched.cli.capacity import capacity
from kubesched.cli.config import config
from kubesched.cli.decide import decide
from kubesched.cli.doctor import doctor
from kubesched.cli.explain import explain
from kubesched.cli.run import run_command
from kubesched.cli.simulate import simulate
from kubesched.kit.memory import collect_rarely

_EPILOG = """\b
Examples:
  kubectl get nodes,pods -A -o json | kubesched explain -f - shop/web-7
  kubesched capacity -f cluster.yaml -f pod.yaml
  kubesched simulate -f cluster.yaml -f workload.yaml
  kubesched config view
  kubesched decide --cases cases.jsonl
  kubesched doctor --kubeconfig ~/.kube/config
  kubesched run --kubeconfig ~/.kube/config --leader-elect=false
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(package_name="kubesched", prog_name="kubesched")
def cli() -> None:
    """The Kubernetes scheduler, in Python."""


cli.add_command(apiserver)
cli.add_command(capacity)
cli.add_command(config)
cli.add_command(decide)
cli.add_command(doctor)
cli.add_command(explain)
cli.add_command(run_command)
cli.add_command(simulate)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    collect_rarely()
    status = run(arguments)
    # What is left goes with the process: to look through it once more would only take time.
    gc.freeze()
    sys.exit(status)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    stdout = sys.stdout
    try:
        result = cli.main(arguments, prog_name="kubesched", standalone_mode=False)
    except click.exceptions.Abort:
        return _fail("interrupted", 130)
    except click.ClickException as problem:
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
        return _fail(f"{problem.filename or 'input'}: {problem.strerror or problem}", 1)
    return result if isinstance(result, int) else 0


def _fail(text: str, status: int) -> int:
    click.echo(f"kubesched: {' '.join(text.split())}", err=True)
    return status


if __name__ == "__main__":
    main()
