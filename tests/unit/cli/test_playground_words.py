"""What the playground says when it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.cli.playground_words import farewell

ROOT = Path(__file__).resolve().parents[3]


def _said() -> str:
    return "\n".join(farewell(bound_count=1, waiting_count=2, data=None))


def test_in_a_clone_it_names_files_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    said = _said()
    assert "1 pod was given a node; 2 still waited" in said
    for path in ("docs/first-ten-minutes.md", "examples/plugins/spare_gpu.py", "examples/cluster"):
        assert path in said
        assert (ROOT / path).exists()


def test_elsewhere_it_names_commands_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    said = _said()
    assert "kubesched new-plugin NAME" in said
    assert "docs/" not in said
    assert "examples/" not in said
