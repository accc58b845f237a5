"""Progress on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

ItemT = TypeVar("ItemT")


def counted(items: Iterable[ItemT], what: str) -> Iterator[ItemT]:
    """Yield the items, counting them on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    columns = (SpinnerColumn(), TextColumn(what), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        for item in items:
            yield item
            progress.advance(task)
