"""Progress on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

ItemT = TypeVar("ItemT")

_LONG_READ_BYTES = 5_000_000


def counted(items: Iterable[ItemT], what: str, total: int | None = None) -> Iterator[ItemT]:
    """Yield the items, counting them on standard error if that is a terminal.

    Args:
        items: what is counted as it is taken.
        what: what one of them is called, in the plural.
        total: how many there are to be, if that is known; there may be more in the end.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    bar: list[ProgressColumn] = [SpinnerColumn()] if total is None else [BarColumn()]
    columns = (*bar, TextColumn(what), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        for done, item in enumerate(items, start=1):
            yield item
            # Pods that are tried again make more attempts than there were pods.
            progress.update(task, completed=done, total=total and max(total, done))


@contextmanager
def reading(files: Sequence[str]) -> Iterator[None]:
    """Show on a terminal that files are being read, if that takes a while."""
    if not sys.stderr.isatty() or _bytes_of(files) < _LONG_READ_BYTES:
        yield
        return
    with Console(stderr=True).status("reading"):
        yield


def _bytes_of(files: Sequence[str]) -> int:
    """Return how much there is to read in files; nobody knows of a stream or a directory."""
    paths = (Path(file) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file())
