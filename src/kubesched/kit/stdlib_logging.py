"""What libraries say through Python's own logging, among our lines.

Owns the way from there to kit.log: warnings and errors of libraries, and tasks that failed. Never
changes what is said.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

from kubesched.kit.log import Log


@dataclass(frozen=True, slots=True)
class _Code:
    co_filename: str


@dataclass(frozen=True, slots=True)
class _Place:
    f_code: _Code
    f_lineno: int


class LogHandler(logging.Handler):
    """Writes records of Python's logging as plain lines, with the place where they came from."""

    def __init__(self, log: Log, level: int = logging.WARNING) -> None:
        super().__init__(level)
        self._log = log
        # Only what was said, and what was raised: the head of the line is ours.
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        severity: Literal["I", "W", "E"] = "I"
        if record.levelno >= logging.WARNING:
            severity = "E" if record.levelno >= logging.ERROR else "W"
        place = _Place(_Code(record.pathname), record.lineno)
        self._log.line_from(place, self.format(record), severity)


def route_logging(log: Log) -> None:
    """Have everything that Python's logging gets from now on written by a logger of ours."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, LogHandler)]:
        root.removeHandler(handler)
    root.addHandler(LogHandler(log))
