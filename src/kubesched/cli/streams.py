"""The standard streams of the process, whatever state they were handed over in.

Owns two promises: a stream that was closed is missed only by whoever uses it, and an error of
standard output says that it was the output. Never decides what is written where.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

STDIN_NAME: Final = "standard input"
STDOUT_NAME: Final = "standard output"


def settle_streams() -> None:
    """Put streams in place that can be used, and that name themselves if they fail.

    A stream that something else put there, a test for one, is left alone.
    """
    # In this order: each takes the number of the stream it stands for.
    if sys.stdin is None:
        raw = _Named(os.open(os.devnull, os.O_WRONLY), "rb", called=STDIN_NAME)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")
    if sys.stdout is None:
        raw = _Named(os.open(os.devnull, os.O_RDONLY), "wb", called=STDOUT_NAME)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    elif sys.stdout is sys.__stdout__:
        sys.stdout = _naming_itself(sys.stdout)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as we live


def drop_output() -> None:
    """Forget what standard output did not take: at the exit, it would be tried once more."""
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as we live


@contextmanager
def named(called: str) -> Iterator[None]:
    """Have errors of reading and writing say what the file is called."""
    try:
        yield
    except OSError as problem:
        problem.filename = problem.filename or called
        raise


class _Named(io.FileIO):
    """A file whose errors say what it is called."""

    def __init__(self, number: int, mode: str, *, called: str) -> None:
        super().__init__(number, mode, closefd=False)
        self._called = called

    def write(self, data: Any, /) -> int:
        with named(self._called):
            return super().write(data)

    def readinto(self, buffer: Any, /) -> int:
        with named(self._called):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with named(self._called):
            return super().readall()


def _naming_itself(stream: Any) -> io.TextIOWrapper:
    """Return the same stream, as it was opened, with errors that name it."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Named(stream.fileno(), "wb", called=STDOUT_NAME)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
