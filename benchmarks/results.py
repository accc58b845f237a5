"""Replaces the text between markers in files with measured tables, and dates it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path


def put_between(path: Path, mark: str, lines: Sequence[str]) -> None:
    """Replace the lines between two marks of a file; append them if there are no marks."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    text = path.read_text()
    if begin not in text:
        text = f"{text}\n{begin}\n{end}\n"
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    between = "\n".join(lines).strip()
    path.write_text(f"{before}{begin}\n{between}\n{end}{after}")


def today() -> datetime.date:
    """Return the date for a heading of results."""
    return datetime.datetime.now(tz=datetime.UTC).date()  # noqa: TID251  # Nothing depends on it.
