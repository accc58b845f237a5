"""The paths through the code that docs/architecture.md lists are the ones that the code takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
TITLES = {
    "binding": "A pod from watch to binding",
    "explain": "`explain -f`",
    "request": "An API request",
    "plugin": "A plugin from `--plugin`",
}
FILES_MAX = 13


def documented(path: str) -> list[str]:
    """Return the modules of a path, in the order of the page."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"### {TITLES[path]}")[2].partition("\n#")[0]
    files = re.findall(r"^\d+\. `([\w/]+)\.py`", section, re.MULTILINE)
    return [file.replace("/", ".") for file in files]


def taken(path: str) -> list[str]:
    """Return the modules that the code enters, in the order of their first calls."""
    command = [sys.executable, str(ROOT / "tests" / "tracing.py"), path]
    completed = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": str(ROOT)},
    )
    modules: list[str] = json.loads(completed.stdout.splitlines()[-1])
    return modules


@pytest.mark.parametrize("path", TITLES)
def test_a_path_is_short_and_its_modules_exist(path: str) -> None:
    modules = documented(path)
    assert 5 <= len(modules) <= FILES_MAX
    assert [module for module in modules if find_spec(f"kubesched.{module}") is None] == []


@pytest.mark.parametrize("path", TITLES)
def test_the_code_takes_the_path(path: str) -> None:
    expected, modules = documented(path), taken(path)
    missing = [module for module in expected if module not in modules]
    assert missing == [], f"the path no longer passes these modules; it passes {modules}"
    assert expected == sorted(expected, key=modules.index), "the order of the modules is another"
