"""Runs the commands of an example's README.

Owns what each kind of line does: the playground and programs that do not end are started, kubectl
and kubesched are run. Expected values are never computed here.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kubesched.cluster.playground.in_process import kubectl_path
from tests.playground.commands import KUBESCHED, Command, blocks_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
_END_S = 30.0


def commands_of(example: str) -> list[str]:
    """Return the commands of a README, with continued lines joined."""
    text = (EXAMPLES / example / "README.md").read_text()
    return "".join(blocks_of(text)).replace("\\\n", " ").splitlines()


def module_of(example: str, name: str) -> dict[str, Any]:
    """Execute an example's module, and return its names."""
    path = EXAMPLES / example / f"{name}.py"
    names: dict[str, Any] = {"__name__": f"examples_{name}", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


@dataclass
class Walk:
    """The commands of a README in order; `with` stops what they started."""

    example: str
    directory: Path
    flags: tuple[str, ...] = ()
    """More arguments for the playground."""
    left: list[str] = field(init=False)
    playground: Command | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _programs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = commands_of(self.example)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_programs()
        self._stack.close()

    @property
    def cluster(self) -> Command:
        assert self.playground is not None, "the playground comes first"
        return self.playground

    def next(self, beginning: str) -> str:
        """Run the next command, which must have this beginning; return its output."""
        line = self.left.pop(0)
        assert line.startswith(beginning), line
        name, *arguments = shlex.split(line, comments=True)
        if line.startswith("kubesched playground"):
            flags = (*_absolute(arguments[1:]), *self.flags)
            command = Command(self.directory, flags)
            self.playground = self._stack.enter_context(command).until_ready()
            return ""
        if name == "export":
            assert re.fullmatch(r"export KUBECONFIG=~/\S+/6443/kubeconfig", line), line
            return ""
        if name == "python":
            self.start(arguments)
            return ""
        return self._run(name, arguments)

    @property
    def program_output(self) -> str:
        """Return the output of the Python programs."""
        return (self.directory / "programs.out").read_text()

    def start(self, arguments: list[str]) -> None:
        """Start a Python program that runs until it is stopped."""
        with (self.directory / "programs.out").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_as_in_a_terminal,  # noqa: PLW1509  # One thread, one call.
            )
        self._programs.append(process)

    def stop_programs(self) -> None:
        """Press Ctrl-C in each program's terminal."""
        while self._programs:
            process = self._programs.pop()
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(_END_S) == 0, (self.directory / "programs.out").read_text()
            finally:
                process.kill()
                process.wait()

    def until(self, predicate: Callable[[], object], condition: str) -> None:
        """Wait for a condition."""
        self.cluster.until(predicate, condition)

    def _run(self, name: str, arguments: list[str]) -> str:
        programs: dict[str, Callable[[], str]] = {
            "kubectl": kubectl_path,
            "kubesched": lambda: str(KUBESCHED),
            "sleep": lambda: "sleep",
        }
        program = programs[name]()
        completed = subprocess.run(
            [program, *arguments],
            cwd=ROOT,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert completed.returncode == 0, (
            f"{name} {arguments}: {completed.stdout}{completed.stderr}"
        )
        return completed.stdout

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "HOME": str(self.directory)}
        if self.playground is not None:
            environment["KUBECONFIG"] = str(self.playground.kubeconfig)
        return environment


def _absolute(arguments: list[str]) -> list[str]:
    """Return arguments with absolute paths of examples: the playground runs elsewhere."""
    return [re.sub(r"(?<![\w/])examples/", f"{EXAMPLES}/", argument) for argument in arguments]


def _as_in_a_terminal() -> None:
    # Tests that run in the background have Ctrl-C ignored, and so have their children.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
