"""Watches files for changes by polling.

A change is different content behind a path, also through a symbolic link: a mounted ConfigMap is
replaced by swapping a link. A file that is being written counts when it is unchanged at the next
poll.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

Stamp: TypeAlias = "tuple[int, int, int, int, int] | None"
"""The identity, times and size of a file; None if it does not exist."""


class WatchedFiles:
    """Files, with the state in which they were last reported."""

    def __init__(self) -> None:
        self._stamps: dict[Path, Stamp] = {}
        self._contents: dict[Path, bytes] = {}
        self._pending: dict[Path, Stamp] | None = None

    def __len__(self) -> int:
        return len(self._stamps)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._stamps)

    def watch(self, paths: Iterable[Path]) -> None:
        """Replace the watched files; only later changes of a new file count."""
        stamps, contents = self._stamps, self._contents
        # A file that was watched before keeps its last state: it may have changed since.
        self._stamps = {p: stamps[p] if p in stamps else _stamp(p) for p in paths}
        self._contents = {p: contents[p] if p in contents else _digest(p) for p in self._stamps}
        self._pending = None

    def poll(self, *, counts_touched: bool = False) -> list[Path]:
        """Return the files that have changed and are stable again, each change once.

        Args:
            counts_touched: Whether a file that was rewritten with the same content counts.
        """
        stamps = {path: _stamp(path) for path in self._stamps}
        if stamps == self._stamps:
            self._pending = None
            return []
        if stamps != self._pending:
            self._pending = stamps
            return []
        touched = [path for path, stamp in stamps.items() if stamp != self._stamps[path]]
        contents = {path: _digest(path) for path in touched}
        changed = [path for path in touched if contents[path] != self._contents[path]]
        self._stamps, self._pending = stamps, None
        self._contents.update(contents)
        return touched if counts_touched else changed


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError as problem:
        return str(problem.errno).encode()
