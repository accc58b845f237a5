"""Commands of kubesched that run beside the playground's own process.

Owns their start, their output and their end. They watch their standard input, and are gone when
this process is, however it went. What they do is theirs.
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
_IN_ORDER_S: Final = 10.0


class ChildError(Exception):
    """A child that ended, or said nothing; the text has its last words."""


class Child:
    """One command. What it prints goes to a file, and to whoever listens."""

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
        """Return its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_failed(self) -> bool:
        """Return whether it ended without being told to."""
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
            # Ctrl-C is for the playground, which ends its children in order.
            start_new_session=True,
        )
        self._tasks.start(self._read(), name=f"output of {self.name}")

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        with self.log_path.open("ab") as file:
            # Readers may hold on to a line for as long as they want: whole blocks, then lines.
            rest = b""
            while block := await stream.read(2**16):
                file.write(block)
                file.flush()
                *lines, rest = (rest + block).split(b"\n")
                self._said(lines)
            self._said([rest] if rest else [])
        await self._process.wait()
        self.ended.set()

    def _said(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            text = line.decode(errors="replace")
            self._tail.append(text)
            self.on_line(text)

    async def wait_for_line(self, beginning: str, timeout_s: float) -> str:
        """Return the first line that begins so; ChildError if it does not come."""
        found: list[str] = []
        said = asyncio.Event()
        before = self.on_line

        def look(line: str) -> None:
            if line.startswith(beginning):
                found.append(line)
                said.set()
            before(line)

        self.on_line = look
        for line in self._tail:
            look(line)
        waits = [
            self._tasks.start(said.wait(), name=f"words of {self.name}"),
            self._tasks.start(self.ended.wait(), name=f"end of {self.name}"),
        ]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.on_line = before
            for one in waits:
                one.cancel()
        if not found:
            raise ChildError(self.last_words())
        return found[0]

    def last_words(self) -> str:
        """Return what went wrong, with the end of its output."""
        assert self._process is not None
        status = self._process.returncode
        what = "is not ready in time" if status is None else f"ended with status {status}"
        return "\n".join([f"{self.name} {what}; {self.log_path} ends with:", *self._tail])

    async def stop(self) -> None:
        """End it in order, or at once if that takes too long."""
        self._is_stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(self.ended.wait(), _IN_ORDER_S)
            except TimeoutError:
                process.kill()
                await self.ended.wait()
        await self._tasks.stop()
        if process is not None and process.stdin is not None:
            process.stdin.close()
