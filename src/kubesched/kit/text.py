"""Plain text: tables, wrapped paragraphs, lists of names, counts with their nouns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from os.path import commonprefix

NAMES_MAX = 10
_HEADER_WIDTH_MAX = 11
_CAMEL_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+|[A-Z]")
_IS_PLUGIN = re.compile(r"[A-Z][A-Za-z]+")
_LEAST_WIDTH = 20
_LEAST_FOLDED_WIDTH = 12
_NAME_PART = re.compile(r"[^-./]*[-./]+|[^-./]+")
_FOLD_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; every column but those named as text is of numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: tuple[int, ...]

    @property
    def header_lines(self) -> list[tuple[str, ...]]:
        """Return the header over several lines, with long names of plugins broken."""
        titles = [_words_of(title) for title in self.header]
        height = max(map(len, titles))
        padded = [[""] * (height - len(title)) + title for title in titles]
        return list(zip(*padded, strict=True))


def aligned(grid: Grid) -> list[str]:
    """Return the table as lines of plain text."""
    lines = [*grid.header_lines, *grid.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  " + "  ".join(_padded(grid, line, widths)).rstrip() for line in lines]


def _padded(grid: Grid, line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if place in grid.text_columns else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def fitted(grid: Grid, width: int) -> list[str]:
    """Return the table as lines that fit into a width, if possible.

    Text in the last column is wrapped, then names are folded over several lines, and columns of
    numbers are split into tables below each other. Nothing is truncated.
    """
    lines = aligned(grid)
    if _fits(lines, width):
        return lines
    if len(grid.header) - 1 not in grid.text_columns:
        return _split(grid, width)
    wrapped_lines = _with_last_wrapped(grid, lines, width)
    return wrapped_lines if _fits(wrapped_lines, width) else _with_texts_folded(grid, width)


def _fits(lines: Sequence[str], width: int) -> bool:
    return max(map(len, lines)) <= width


def _with_last_wrapped(grid: Grid, lines: list[str], width: int) -> list[str]:
    """Return the table with texts in the last column wrapped; unchanged if there is no room."""
    longest = max(len(row[-1]) for row in (grid.header, *grid.rows))
    room = width - (max(map(len, lines)) - longest)
    if room < _LEAST_WIDTH:
        return lines
    rows = []
    for row in grid.rows:
        first, *more = wrapped(row[-1], room, hang=0)
        rows.append((*row[:-1], first))
        rows += [(*[""] * (len(row) - 1), part) for part in more]
    return aligned(replace(grid, rows=tuple(rows)))


def _with_texts_folded(grid: Grid, width: int) -> list[str]:
    """Return the table with its widest texts over several lines; unchanged if that cannot help."""
    widths = [max(map(len, column)) for column in zip(*grid.header_lines, *grid.rows, strict=True)]
    for _ in range(max(map(len, aligned(grid))) - width):
        widest = max(grid.text_columns, key=lambda at: widths[at])
        if widths[widest] <= max(_LEAST_FOLDED_WIDTH, len(grid.header[widest])):
            return aligned(grid)
        widths[widest] -= 1
    rows: list[tuple[str, ...]] = []
    for row in grid.rows:
        cells = [
            folded(cell, room) if at in grid.text_columns else [cell]
            for at, (cell, room) in enumerate(zip(row, widths, strict=True))
        ]
        rows += zip_longest(*cells, fillvalue="")
    return aligned(replace(grid, rows=tuple(rows)))


def _split(grid: Grid, width: int) -> list[str]:
    """Return several tables below each other, each with the first column and the rows it fills."""
    lines: list[str] = []
    columns = list(range(1, len(grid.header)))
    while columns:
        parts = (_only(grid, [0, *columns[:count]]) for count in range(len(columns), 0, -1))
        part = next((part for part in parts if _fits(aligned(part), width)), None)
        part = part or _only(grid, [0, columns[0]])
        columns = columns[len(part.header) - 1 :]
        if rows := tuple(row for row in part.rows if any(row[1:])):
            lines += [""] if lines else []
            lines += _with_texts_folded(replace(part, rows=rows), width)
    return lines


def _only(grid: Grid, columns: Sequence[int]) -> Grid:
    return replace(
        grid,
        header=tuple(grid.header[at] for at in columns),
        rows=tuple(tuple(row[at] for at in columns) for row in grid.rows),
        text_columns=tuple(to for to, at in enumerate(columns) if at in grid.text_columns),
    )


def wrapped(text: str, width: int, *, indent: int = 0, hang: int = 2) -> list[str]:
    """Return text wrapped between words, with a hanging indent.

    Args:
        text: Line breaks in it are kept.
        width: Longer words stick out rather than being cut.
        indent: Spaces before every line.
        hang: More spaces before every line but the first.
    """
    lines: list[str] = []
    for number, part in enumerate(text.split("\n")):
        before = indent + (hang if number else 0)
        lines += textwrap.wrap(
            part,
            max(width, _LEAST_WIDTH),
            initial_indent=" " * before,
            subsequent_indent=" " * (indent + hang),
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
            replace_whitespace=False,
        ) or [""]
    return lines


def folded(text: str, width: int) -> list[str]:
    """Return text wrapped between words; a name too long for a line is broken after a separator.

    Lines after the first are indented, so that none is taken for a row of its own.
    """
    lines = [""]
    for word in text.split():
        start = " " if lines[-1].strip() else ""
        if len(lines[-1] + start + word) <= width:
            lines[-1] += start + word
            continue
        pieces = [word] if len(word) + len(_FOLD_INDENT) <= width else _pieces(word, width)
        if start:
            lines.append(_FOLD_INDENT)
        for piece in pieces:
            if lines[-1].strip() and len(lines[-1] + piece) > width:
                lines.append(_FOLD_INDENT)
            lines[-1] += piece
    return lines


def _pieces(name: str, width: int) -> list[str]:
    """Return the parts of a name, each with its separator, none longer than a line."""
    room = width - len(_FOLD_INDENT)
    return [
        part[at : at + room]
        for part in _NAME_PART.findall(name)
        for at in range(0, len(part), room)
    ]


def _words_of(title: str) -> list[str]:
    """Return a plugin's name over several lines, broken between its words."""
    if not _IS_PLUGIN.fullmatch(title):
        return [title]
    lines = [""]
    for word in _CAMEL_WORD.findall(title):
        if lines[-1] and len(lines[-1]) + len(word) > _HEADER_WIDTH_MAX:
            lines.append("")
        lines[-1] += word
    return lines


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def joined(names: Sequence[str], count: int) -> str:
    """Return names as a list that ends with the number of those left out of `count`."""
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def nearest(names: Iterable[str], like: str = "") -> str:
    """Return some names as a list, those with the longest common prefix first.

    Args:
        names: Names that exist, with or without a namespace.
        like: The name that does not exist.
    """
    target = like.rpartition("/")[2]

    def distance(name: str) -> tuple[int, str]:
        return -len(commonprefix((target, name.rpartition("/")[2]))), name  # noqa: RUF071  # No path.

    ordered = sorted(names, key=distance)
    return joined(ordered[:NAMES_MAX], len(ordered))
