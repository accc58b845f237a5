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


@pytest.mark.parametrize("started_as", [".venv/bin/kubesched", "{here}/.venv/bin/kubesched"])
def test_what_is_not_on_the_path_is_named_as_it_was_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started_as: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [started_as.format(here=tmp_path)])
    said = _said().splitlines()
    assert (
        "  .venv/bin/kubesched run --shadow                   beside your scheduler, without risk"
        in said
    )
    program = tmp_path / "kubesched"
    program.touch(mode=0o755)
    assert (
        "  kubesched run --shadow                             beside your scheduler, without risk"
        in _said()
    )
