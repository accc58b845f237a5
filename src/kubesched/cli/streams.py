"""Standard streams: replacements for closed ones, and errors that name the stream."""

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
    """Replace closed streams, and make errors of standard output name it.

    A stream that was replaced before, for example by a test, is left alone.
    """
    # In this order: each one takes the file descriptor of the stream it replaces.
    if sys.stdin is None:
        raw = _Named(os.open(os.devnull, os.O_WRONLY), "rb", called=STDIN_NAME)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")
    if sys.stdout is None:
        raw = _Named(os.open(os.devnull, os.O_RDONLY), "wb", called=STDOUT_NAME)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")
    elif sys.stdout is sys.__stdout__:
        sys.stdout = _naming_itself(sys.stdout)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until exit


def drop_output() -> None:
    """Discard unwritten output, which Python would try to flush at exit."""
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until exit


@contextmanager
def named(called: str) -> Iterator[None]:
    """Set the file name of I/O errors."""
    try:
        yield
    except OSError as problem:
        problem.filename = problem.filename or called
        raise


class _Named(io.FileIO):
    """A file whose errors have its name."""

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
    """Return the same stream with errors that name it."""
    return io.TextIOWrapper(
        io.BufferedWriter(_Named(stream.fileno(), "wb", called=STDOUT_NAME)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
