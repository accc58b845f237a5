"""Files that are looked at again and again, and whether they have changed for good.

Owns what counts as a change: other content, wherever a path leads to. A mounted ConfigMap is
replaced by swapping a link that its files lie behind. A file that is being written is waited for:
what is found counts when it is found a second time. Never reads for anybody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

Stamp: TypeAlias = "tuple[int, int, int, int, int] | None"
"""What is known of the file that a path leads to, without reading it; None if there is none."""


class ChangedFiles:
    """Some files, as they were when they were last taken note of."""

    def __init__(self) -> None:
        self._stamps: dict[Path, Stamp] = {}
        self._contents: dict[Path, bytes] = {}
        self._pending: dict[Path, Stamp] | None = None

    def __len__(self) -> int:
        return len(self._stamps)

    def __iter__(self) -> Iterator[Path]:
        return iter(self._stamps)

    def follow(self, paths: Iterable[Path]) -> None:
        """Look at other files from now on; what is there now is what is known."""
        stamps, contents = self._stamps, self._contents
        # One that was followed before keeps what is known: it may have changed since.
        self._stamps = {p: stamps[p] if p in stamps else _stamp(p) for p in paths}
        self._contents = {p: contents[p] if p in contents else _digest(p) for p in self._stamps}
        self._pending = None

    def look(self, *, counts_touched: bool = False) -> list[Path]:
        """Return the files that have changed and do so no more; each is told once.

        Args:
            counts_touched: whether it is enough that a file was written anew, as it was before.
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
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError as problem:
        return str(problem.errno).encode()
