"""The files and commands of docs/first-ten-minutes.md, from its plugin on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.playground.commands import KUBESCHED, Command, blocks_of

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "first-ten-minutes.md"


def section(title: str) -> str:
    match = re.search(rf"^## {title}.*?(?=^## |\Z)", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[0]


def files() -> dict[str, str]:
    """Return the files that the guide has its reader save."""
    names = ["same_team.py", "conftest.py", "test_same_team.py"]
    blocks = blocks_of(GUIDE.read_text(), "python")
    assert len(blocks) == len(names)
    return dict(zip(names, blocks, strict=True))


def commands(title: str) -> list[str]:
    return "".join(blocks_of(section(title))).splitlines()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_test_of_the_guide_passes(place: Path) -> None:
    (line,) = commands("Minute 8")
    assert line.startswith("python -m pytest ")
    completed = subprocess.run(
        [sys.executable, *line.split()[1:], "-q", "-p", "no:cacheprovider", "-c", os.devnull],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": str(place)},
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "1 passed" in completed.stdout


@pytest.mark.programs
@pytest.mark.timeout(120)
@pytest.mark.parametrize("program", ["kubectl", "kubectl-1.32"])
def test_the_plugin_of_the_guide_decides(place: Path, program: str) -> None:
    start, *lines = commands("Minute 5")
    assert start.startswith("kubesched playground --plugin ")
    with Command(place, tuple(start.split()[2:])) as command:
        command.until_ready()

        def nodes() -> dict[str, str]:
            text = command.kubectl("get", "pods", "-o", "json", program=program)
            pods = json.loads(text)["items"]
            return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}

        walk = iter(lines)
        assert command.run_line(next(walk), program) == "node/node-3 labeled\n"
        command.run_line(next(walk), program)
        command.run_line(next(walk), program)
        command.until(lambda: nodes() == {"paint": "node-3", "rust": ""}, "paint is placed")
        command.until(lambda: "default/rust pending" in command.output, "rust is rejected")
        assert "paint" in command.run_line(next(walk), program)
        output = command.run_line(next(walk), program)
        assert "0/4 nodes are available: 4 node(s) of another team." in output
        name, *arguments = next(walk).split()
        assert name == "kubesched"
        reported = subprocess.run(
            [str(KUBESCHED), *arguments],
            cwd=place,
            env={**os.environ, "KUBECONFIG": str(command.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=50,
            check=True,
        )
        assert "node(s) of another team" in reported.stdout
        command.run_line(next(walk), program)
        command.until(lambda: nodes()["rust"] == "node-4", "rust is placed")
        assert "rust" in command.run_line(next(walk), program)
        assert next(walk, None) is None
