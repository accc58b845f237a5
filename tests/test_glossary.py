"""Every glossary entry names something that is in the code."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENTRY = re.compile(r"^\| \*\*(.+?)\*\* \| `(\w+)` \|", re.MULTILINE)
ENTRIES = ENTRY.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))


@cache
def names() -> frozenset[str]:
    """Return the modules, packages, classes, functions and attributes of the sources."""
    result = set()
    for folder in ("src/kubesched", "conformance"):
        for path in (ROOT / folder).rglob("*.py"):
            result |= {path.stem, path.parent.name}
            text = path.read_text(encoding="utf-8")
            result |= set(re.findall(r"^\s*(?:class|(?:async )?def) (\w+)", text, re.MULTILINE))
            result |= set(re.findall(r"^\s*(?:self\.)?(\w+)(?:: [^=\n]+)? = ", text, re.MULTILINE))
    return frozenset(result)


def test_the_glossary_has_entries() -> None:
    assert len(ENTRIES) > 30


@pytest.mark.parametrize(("word", "name"), ENTRIES)
def test_an_entry_is_in_the_code(word: str, name: str) -> None:
    assert name in names(), f"{word}: {name} is gone; name its replacement, or drop the entry"
