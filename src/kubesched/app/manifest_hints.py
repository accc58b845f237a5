"""What to try about a file that cannot be read.

Owns the guesses at what a user did: tabs, a table instead of YAML, a file that was cut off. Each is
an addition to what the reader says, and empty if nothing comes to mind. Never reads a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_LINE = re.compile(r"yaml: line (\d+): ")
_TABLE_HEADS = ("NAME ", "NAMESPACE ")
_CUT_OFF = "the file may be cut off"


def about_yaml(problem: object, data: bytes) -> str:
    """Return what to try about a YAML text that was refused; `data` is the file."""
    found = _LINE.search(str(problem))
    if found is None:
        return ""
    lines = data.splitlines()
    # Some lines are counted from zero: the one that is meant, or the one after it.
    number = int(found.group(1))
    for at in (number, number + 1):
        if 0 < at <= len(lines) and b"\t" in _indentation(lines[at - 1]):
            return f"; line {at} is indented with a tab, and YAML takes spaces only"
    return f"; {_CUT_OFF}" if number >= len(lines) - 1 and len(lines) > 1 else ""


def about_json(problem: Exception, text: str) -> str:
    """Return what to try about a JSON text that was refused."""
    at_end = getattr(problem, "pos", -1) >= len(text.rstrip())
    # A string that does not end is told where it begins.
    is_open = "Unterminated string" in str(problem)
    return f"; {_CUT_OFF}" if at_end or is_open or "truncated" in str(problem) else ""


def about_document(tree: object) -> str:
    """Return what to try about a document that is no object."""
    if isinstance(tree, str) and tree.startswith(_TABLE_HEADS):
        return "; this is a table, and what is read is kubectl get -o yaml or -o json"
    if isinstance(tree, Mapping) and "items" in tree and not tree.get("kind"):
        return f"; a list of kubectl ends with its kind, so {_CUT_OFF}"
    return ""


def _indentation(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip())]
