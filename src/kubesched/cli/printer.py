"""Output of commands: text for a terminal or a pipe, JSON, and progress on standard error.

Color never carries meaning of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
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
from rich.text import Text

from kubesched.api.errors import one_line
from kubesched.kit.text import Grid, aligned, fitted, wrapped

PLAIN_WIDTH = 80
_WIDE_WIDTH = 100_000
_LONG_READ_BYTES = 5_000_000

ItemT = TypeVar("ItemT")


class _Console(Console):
    """A console that leaves broken pipes to the command."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this while it handles the error


class Printer:
    """Writes to a terminal, with its width and colors, or plain text to standard output."""

    def __init__(self, *, is_wide: bool = False, has_all: bool = True) -> None:
        """Detect the terminal.

        Args:
            is_wide: whether lines may have any length.
            has_all: whether an option of the command shows what is truncated.
        """
        self.has_all = has_all
        self._console = _Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.is_wide = is_wide
        self.width = self._console.width if self._console.is_terminal else PLAIN_WIDTH
        if is_wide:
            self.width = _WIDE_WIDTH

    def line(self, text: str = "", *, style: str = "") -> None:
        """Write one line without wrapping it."""
        text = _encodable(text)
        if self._console.is_terminal:
            self._console.print(Text(text, style=style))
        else:
            click.echo(text)

    def prose(self, text: str, *, indent: int = 0, hang: int = 2) -> None:
        """Write a wrapped text."""
        for line in wrapped(text, self.width, indent=indent, hang=hang):
            self.line(line)

    def sentence(self, text: str) -> None:
        """Write the first sentence: wrapped on a terminal, on one line elsewhere."""
        width = self.width if self._console.is_terminal else _WIDE_WIDTH
        for line in wrapped(text, width, hang=0):
            self.line(line, style="bold")

    def heading(self, text: str) -> None:
        self.line()
        for line in wrapped(text, self.width):
            self.line(line, style="bold")

    def grid(self, grid: Grid, *, strong_rows: int = 0) -> None:
        """Write a table that fits; `strong_rows` is the number of rows to highlight at the top."""
        lines, heads = fitted(grid, self.width), len(grid.header_lines)
        is_split = lines != aligned(grid)
        for number, line in enumerate(lines):
            is_strong = heads <= number < heads + strong_rows
            style = "dim" if number < heads else "green" if is_strong else ""
            self.line(line, style="" if is_split else style)

    def table(
        self,
        title: str,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        text_columns: Sequence[int],
    ) -> None:
        """Write a heading and a table; nothing if it has no rows."""
        if rows:
            cells = tuple(tuple(map(one_line, row)) for row in rows)
            self.heading(title)
            self.grid(Grid(tuple(header), cells, tuple(text_columns)))


def _encodable(text: str) -> str:
    """Return the text with characters escaped that standard output cannot encode."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("→", "->").encode(encoding, "backslashreplace").decode(encoding)
    return text


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


# -- progress ------------------------------------------------------------------------------------


def with_progress(items: Iterable[ItemT], noun: str, total: int | None = None) -> Iterator[ItemT]:
    """Yield the items, and show their count if standard error is a terminal.

    Args:
        items: the items.
        noun: the plural noun of the items.
        total: the expected number of items, if known; it may be exceeded.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    bar: list[ProgressColumn] = [SpinnerColumn()] if total is None else [BarColumn()]
    columns = (*bar, TextColumn(noun), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(noun, total=total)
        for done, item in enumerate(items, start=1):
            yield item
            # Pods that are tried again make more attempts than there were pods.
            progress.update(task, completed=done, total=total and max(total, done))


@contextmanager
def reading_progress(files: Sequence[str]) -> Iterator[None]:
    """Show a spinner on a terminal while large files are read."""
    paths = map(Path, files if sys.stderr.isatty() else ())
    is_long = sum(path.stat().st_size for path in paths if path.is_file()) >= _LONG_READ_BYTES
    with Console(stderr=True).status("reading") if is_long else nullcontext():
        yield
