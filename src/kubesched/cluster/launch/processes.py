"""Child processes of a test or the playground: start, logs, resource usage and termination.

They are killed with the parent process, even if it is killed itself. Usage is read from /proc
(Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.05
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class StartError(RuntimeError):
    """A process exited early or was not ready in time; the message has the end of its log."""


class ProcessGroup:
    """Processes with one log each; killed on exit, last started first."""

    def __init__(self, log_directory: Path) -> None:
        self.log_directory = log_directory
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(
        self, name: str, arguments: Sequence[str | Path], *, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process; its output goes to NAME.log."""
        with self.log_path(name).open("ab") as log:
            process = subprocess.Popen(
                [str(argument) for argument in arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                # Ctrl-C goes to the test, which terminates these.
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509
            )
        self._running.append((name, process))
        return process

    def log_path(self, name: str) -> Path:
        """Return the log file of a process."""
        return self.log_directory / f"{name}.log"

    def wait_until(self, is_ready: Callable[[], bool], condition: str, *, timeout_s: float) -> None:
        """Wait for a condition; StartError if a process exits before."""
        for _ in range(int(timeout_s / _POLL_S)):
            if is_ready():
                return
            self.check()
            time.sleep(_POLL_S)
        tails = "\n".join(self.tail(name) for name, _ in self._running)
        raise StartError(f"{condition} was not ready in {timeout_s:g} s\n{tails}")

    def check(self) -> None:
        """Raise StartError if a process has exited."""
        for name, process in self._running:
            if process.poll() is not None:
                raise StartError(
                    f"{name} ended with status {process.returncode}\n{self.tail(name)}"
                )

    def tail(self, name: str, line_count: int = 15) -> str:
        """Return the end of a log with its path."""
        path = self.log_path(name)
        text = path.read_text(errors="replace").splitlines()[-line_count:]
        return "\n".join([f"--- end of {path}:", *text])

    def pids(self) -> dict[str, int]:
        """Return process ids by name."""
        return {name: process.pid for name, process in self._running}

    def poll(self, name: str) -> int | None:
        """Return the exit status of a process; None while it runs."""
        return self._running[self._position(name)][1].poll()

    def stop(self, name: str) -> None:
        """Kill a process and wait for it."""
        _, process = self._running.pop(self._position(name))
        _end(process)

    def terminate(self, name: str, timeout_s: float = 30.0) -> int:
        """Terminate a process and return its exit status; TimeoutExpired if it hangs."""
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
        """Kill all processes and wait for them."""
        # SIGKILL: kube-apiserver would wait for its watchers, and no state is kept.
        for _, process in reversed(self._running):
            if process.poll() is None:
                process.kill()
        for _, process in self._running:
            process.wait()
        self._running.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop_all()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def _die_with_parent() -> None:
    """Request a SIGKILL when the parent process exits (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of a process; memory in MB of 10^6 bytes."""

    cpu_s: float
    """User and system time of all threads since the start."""
    resident_mb: float
    peak_mb: float


def usage_of(pid: int) -> Usage:
    """Return the resource usage of a process."""
    directory = Path("/proc") / str(pid)
    # The name in parentheses may contain spaces; the third field follows it.
    fields = (directory / "stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    memory = {}
    for line in (directory / "status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in {"VmRSS", "VmHWM"}:
            memory[key] = int(value.split()[0]) * 1024 / 1e6
    return Usage((user + system) / _TICKS_PER_S, memory["VmRSS"], memory["VmHWM"])
