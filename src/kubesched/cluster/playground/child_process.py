"""Child processes of `kubesched playground` that run other kubesched commands.

Owns their start, output and termination. They watch their standard input, and exit when this
process does.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kubesched.kit.tasks import Tasks

_TAIL_LINES: Final = 12
_LINE_BYTES_MAX: Final = 2**20
_TERMINATE_S: Final = 10.0


class ChildProcessFailedError(Exception):
    """A child process exited or was not ready in time; the text has the end of its output."""


class ChildProcess:
    """One command; its output goes to a file and to a line handler."""

    def __init__(self, name: str, log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self.on_line: Callable[[str], None] = lambda _line: None
        self.ended: asyncio.Event = asyncio.Event()
        self._process: Process | None = None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._tasks = Tasks()
        self._is_stopping = False

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_failed(self) -> bool:
        """Return whether it exited unexpectedly."""
        return self.ended.is_set() and not self._is_stopping

    async def start(self, arguments: Sequence[str]) -> None:
        """Start the command."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "kubesched.cli.child",
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            limit=_LINE_BYTES_MAX,
            # Ctrl-C goes to the playground, which stops its children in order.
            start_new_session=True,
        )
        self._tasks.start(self._read(), name=f"output of {self.name}")

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        with self.log_path.open("ab") as file:
            # Read blocks and split them: a line may be longer than the stream's limit.
            incomplete = b""
            while block := await stream.read(2**16):
                file.write(block)
                file.flush()
                *lines, incomplete = (incomplete + block).split(b"\n")
                self._handle_lines(lines)
            self._handle_lines([incomplete] if incomplete else [])
        await self._process.wait()
        self.ended.set()

    def _handle_lines(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            text = line.decode(errors="replace")
            self._tail.append(text)
            self.on_line(text)

    async def wait_for_line(self, prefix: str, timeout_s: float) -> str:
        """Return the first line with a prefix; ChildProcessFailedError if it does not come."""
        matches: list[str] = []
        has_line = asyncio.Event()
        previous_handler = self.on_line

        def match_line(line: str) -> None:
            if line.startswith(prefix):
                matches.append(line)
                has_line.set()
            previous_handler(line)

        self.on_line = match_line
        for line in self._tail:
            match_line(line)
        waiters = [
            self._tasks.start(has_line.wait(), name=f"line of {self.name}"),
            self._tasks.start(self.ended.wait(), name=f"end of {self.name}"),
        ]
        try:
            await asyncio.wait(waiters, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.on_line = previous_handler
            for waiter in waiters:
                waiter.cancel()
        if not matches:
            raise ChildProcessFailedError(self.failure_text())
        return matches[0]

    def failure_text(self) -> str:
        """Return the failure, with the end of the output."""
        assert self._process is not None
        status = self._process.returncode
        problem = "was not ready in time" if status is None else f"exited with status {status}"
        return "\n".join([f"{self.name} {problem}; {self.log_path} ends with:", *self._tail])

    async def stop(self) -> None:
        """Terminate the process; kill it if that takes too long."""
        self._is_stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(self.ended.wait(), _TERMINATE_S)
            except TimeoutError:
                process.kill()
                await self.ended.wait()
        await self._tasks.stop()
        if process is not None and process.stdin is not None:
            process.stdin.close()
