"""Runs the commands of a README, and compares their output.

A block without a language holds commands; a block `text` after it holds lines that the last of them
prints, in this order, where `...` stands for anything. Read-only commands are repeated until
they print it, as a reader would. Owns the execution of a command line; never its expected output.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kubesched.cluster.playground.in_process import kubectl_path
from kubesched.kit.clock import SystemClock
from tests.examples.folders import ROOT
from tests.playground.commands import KUBESCHED, Command

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LOOKING = re.compile(r"kubectl (-n \S+ )?(get|describe|logs) ")
_LINE_S = 60


@dataclass(slots=True)
class Step:
    """A command and its expected output."""

    line: str
    expected: list[str] = field(default_factory=list)

    @property
    def needs_cluster(self) -> bool:
        return self.line.startswith(("kubectl ", "export ", "kubesched playground "))


def sections(readme: Path) -> dict[str, list[Step]]:
    """Return the steps of a page by heading, without headings that have none."""
    found = {}
    for part in re.split(r"^#+ ", readme.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if steps := list(_steps(text)):
            found[title] = steps
    return found


def _steps(text: str) -> Iterator[Step]:
    last: Step | None = None
    for language, block in _BLOCK.findall(text):
        if language == "text":
            assert last is not None, f"no command prints this:\n{block}"
            assert not last.expected, f"two texts for {last.line}"
            last.expected += block.splitlines()
        elif not language:
            for line in block.replace("\\\n", " ").splitlines():
                last = Step(line)
                yield last


@dataclass
class Reader:
    """A reader with two terminals; `with` ends the playground."""

    directory: Path
    flags: Sequence[str] = ()
    """More arguments for the playground."""
    playground: Command | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _clock: SystemClock = field(default_factory=SystemClock)

    def __enter__(self) -> Self:
        programs = self.directory / "bin"
        programs.mkdir()
        (programs / "kubesched").symlink_to(KUBESCHED)
        # The playground runs in its own directory.
        (self.directory / "examples").symlink_to(ROOT / "examples")
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def start_playground(self, *arguments: str) -> None:
        """Start a playground in place of the one that runs."""
        self._stack.close()
        kubectl = self.directory / "bin" / "kubectl"
        if not kubectl.exists():
            kubectl.symlink_to(kubectl_path())
        command = Command(self.directory, (*arguments, *self.flags))
        self.playground = self._stack.enter_context(command).until_ready()

    def follow(self, steps: Sequence[Step]) -> None:
        """Run the steps in order."""
        for step in steps:
            if step.line.startswith("kubesched playground "):
                self.start_playground(*step.line.split()[2:])
            elif step.line.startswith("export "):
                assert re.fullmatch(r"export KUBECONFIG=~/\S+/6443/kubeconfig", step.line)
            else:
                self._run(step)

    def _run(self, step: Step) -> None:
        completed = self._completed(step.line)
        if _LOOKING.match(step.line):
            end_s = self._clock.monotonic_s() + _LINE_S
            while not _output_matches(completed, step) and self._clock.monotonic_s() < end_s:
                completed = self._completed(step.line)
        assert _output_matches(completed, step), (
            f"{step.line}:\n{completed.stdout}{completed.stderr}"
        )

    def _completed(self, line: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.directory),
        }
        if self.playground is not None:
            environment["KUBECONFIG"] = str(self.playground.kubeconfig)
        return subprocess.run(
            ["bash", "-c", line],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LINE_S,
            check=False,
        )


def _output_matches(completed: subprocess.CompletedProcess[str], step: Step) -> bool:
    is_rejected = "/refused/" in step.line
    return (completed.returncode != 0) == is_rejected and prints(
        completed.stdout + completed.stderr, step.expected
    )


def prints(printed: str, expected: Sequence[str]) -> bool:
    """Return whether all lines are printed, in their order."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    return all(
        any(pattern.fullmatch(line) for line in lines)
        for pattern in map(_pattern, expected)
        if pattern.pattern
    )


def _pattern(expected: str) -> re.Pattern[str]:
    text = " ".join(expected.split())
    # A line of dots matches any number of lines.
    return re.compile("" if text == "..." else ".*".join(map(re.escape, text.split("..."))))
