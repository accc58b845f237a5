"""Programs that a test starts, and that end with it.

Owns their start, their logs and their end, also when the test process is killed. Never knows what a
program does.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_PR_SET_PDEATHSIG = 1
_TRIES_S = 0.05


class StartError(RuntimeError):
    """A program ended early, or was not ready in time; the message has the end of its log."""


class ProcessGroup:
    """Programs with a log each. They are killed when the group is left, last started first."""

    def __init__(self, log_directory: Path) -> None:
        self.log_directory = log_directory
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(
        self, name: str, arguments: Sequence[str | Path], *, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program; what it prints goes to NAME.log."""
        with self.log_path(name).open("ab") as log:
            process = subprocess.Popen(
                [str(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                # Ctrl-C is for the test; these are ended by it.
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )
        self._running.append((name, process))
        return process

    def log_path(self, name: str) -> Path:
        """Return where a program's output goes."""
        return self.log_directory / f"{name}.log"

    def wait_until(self, is_ready: Callable[[], bool], what: str, *, timeout_s: float) -> None:
        """Wait for a condition; StartError if a program of the group ends before."""
        for _ in range(int(timeout_s / _TRIES_S)):
            if is_ready():
                return
            self.check()
            time.sleep(_TRIES_S)
        tails = "\n".join(self.tail(name) for name, _ in self._running)
        raise StartError(f"{what} was not ready in {timeout_s:g} s\n{tails}")

    def check(self) -> None:
        """Raise StartError if a program has ended."""
        for name, process in self._running:
            if process.poll() is not None:
                raise StartError(
                    f"{name} ended with status {process.returncode}\n{self.tail(name)}"
                )

    def tail(self, name: str, line_count: int = 15) -> str:
        """Return the end of a log, headed by its path."""
        path = self.log_path(name)
        text = path.read_text(errors="replace").splitlines()[-line_count:]
        return "\n".join([f"--- the end of {path}:", *text])

    def pids(self) -> dict[str, int]:
        """Return process ids by name."""
        return {name: process.pid for name, process in self._running}

    def poll(self, name: str) -> int | None:
        """Return the exit status of a program that has ended by itself, None as long as it runs."""
        return self._running[self._position(name)][1].poll()

    def stop(self, name: str) -> None:
        """Kill one program and wait for it."""
        _, process = self._running.pop(self._position(name))
        _end(process)

    def terminate(self, name: str, timeout_s: float = 30.0) -> int:
        """Ask one program to end and return its exit status; TimeoutExpired if it does not."""
        position = self._position(name)
        process = self._running[position][1]
        process.terminate()
        status = process.wait(timeout_s)
        del self._running[position]
        return status

    def _position(self, name: str) -> int:
        for position, (other, _) in enumerate(self._running):
            if other == name:
                return position
        raise KeyError(name)

    def stop_all(self) -> None:
        """End every program and wait for them."""
        # Killed, not asked: kube-apiserver waits for its watchers, and nothing here is kept.
        for _, process in reversed(self._running):
            if process.poll() is None:
                process.kill()
        for _, process in self._running:
            process.wait()
        self._running.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_all()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _die_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
