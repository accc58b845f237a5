"""Tables and paragraphs of plain text.

Owns alignment and width. Never knows what stands in a cell.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

_HEADER_WIDTH_MAX = 11
_CAMEL_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^A-Z]+|[A-Z]")
_IS_PLUGIN = re.compile(r"[A-Z][A-Za-z]+")
_LEAST_WIDTH = 20
_LEAST_FOLDED_WIDTH = 12
_NAME_PART = re.compile(r"[^-./]*[-./]+|[^-./]+")
_FOLD_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Grid:
    """A titled table; every column but those named as text is of numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: tuple[int, ...]
    footnotes: tuple[str, ...] = ()


def aligned(grid: Grid) -> list[str]:
    """Return the table as lines of plain text."""
    return _aligned(grid, [grid.header, *grid.rows])


def fitted(grid: Grid, width: int) -> list[str]:
    """Return the table as lines that fit, if it can.

    A text at the end is broken between its words, then names are folded over several lines, and
    numbers stand in parts below each other. Nothing is cut.
    """
    lines = aligned(grid)
    if _fits(lines, width):
        return lines
    if len(grid.header) - 1 not in grid.text_columns:
        return _in_parts(grid, width)
    broken = _with_last_broken(grid, lines, width)
    return broken if _fits(broken, width) else _with_texts_folded(grid, width)


def _fits(lines: Sequence[str], width: int) -> bool:
    return max(map(len, lines)) <= width


def _with_last_broken(grid: Grid, lines: list[str], width: int) -> list[str]:
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
    """Return the table with its widest texts over several lines; as it is if that cannot help."""
    widths = [max(map(len, column)) for column in zip(grid.header, *grid.rows, strict=True)]
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


def _in_parts(grid: Grid, width: int) -> list[str]:
    """Return several tables below each other, each with the first column and the rows it fills."""
    lines: list[str] = []
    columns = list(range(1, len(grid.header)))
    while columns:
        count = len(columns)
        part = aligned(_only(grid, [0, *columns]))
        while count > 1 and not _fits(part, width):
            count -= 1
            part = aligned(_only(grid, [0, *columns[:count]]))
        shown = _filled(_only(grid, [0, *columns[:count]]))
        columns = columns[count:]
        if shown.rows:
            part = _with_texts_folded(shown, width)
            lines += ["", *part] if lines else part
    return lines


def _filled(grid: Grid) -> Grid:
    """Return the table without rows that say nothing beside their name."""
    return replace(grid, rows=tuple(row for row in grid.rows if any(row[1:])))


def _only(grid: Grid, columns: Sequence[int]) -> Grid:
    return replace(
        grid,
        header=tuple(grid.header[at] for at in columns),
        rows=tuple(tuple(row[at] for at in columns) for row in grid.rows),
        text_columns=tuple(to for to, at in enumerate(columns) if at in grid.text_columns),
    )


def folded_lines(grid: Grid) -> list[str]:
    """Return the table with long names in its header broken between their words."""
    folded = [_folded(title) for title in grid.header]
    height = max(map(len, folded))
    heads = [
        tuple(parts[line - height] if height - line <= len(parts) else "" for parts in folded)
        for line in range(height)
    ]
    return _aligned(grid, [*heads, *grid.rows])


def paragraphs(grid: Grid, width: int) -> list[str]:
    """Return each row as a few short lines, where the table is too wide."""
    lines = []
    for row in grid.rows:
        first = f"{row[0]}: {grid.header[1]} {row[1]}" if len(row) > 1 else row[0]
        cells = zip(grid.header[2:], row[2:], strict=True)
        rest = ", ".join(f"{title} {cell}" for title, cell in cells if cell)
        lines += wrapped(first, width, indent=2)
        lines += wrapped(rest, width, indent=4, hang=0) if rest else []
    return lines


def wrapped(text: str, width: int, *, indent: int = 0, hang: int = 2) -> list[str]:
    """Return a text broken between words, what follows the first line indented further.

    Args:
        text: may hold several lines, which stay lines.
        width: words that are longer stick out rather than being cut.
        indent: spaces before every line.
        hang: more spaces before every line but the first.
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
    """Return a text broken between words, and names too long for a line after one of their marks.

    What follows the first line is indented, so that no line is taken for a row of its own.
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
    """Return the parts of a name, each with the mark that ends it, none longer than a line."""
    room = width - len(_FOLD_INDENT)
    return [
        part[at : at + room]
        for part in _NAME_PART.findall(name)
        for at in range(0, len(part), room)
    ]


def _aligned(grid: Grid, lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[place]) for line in lines) for place in range(len(grid.header))]
    return ["  " + "  ".join(_padded(grid, line, widths)).rstrip() for line in lines]


def _padded(grid: Grid, line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if place in grid.text_columns else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def _folded(title: str) -> list[str]:
    """Return a plugin's name over several lines, broken between its words."""
    if not _IS_PLUGIN.fullmatch(title):
        return [title]
    lines = [""]
    for word in _CAMEL_WORD.findall(title):
        if lines[-1] and len(lines[-1]) + len(word) > _HEADER_WIDTH_MAX:
            lines.append("")
        lines[-1] += word
    return lines
