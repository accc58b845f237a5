"""The summary that the playground prints at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.cli.playground.messages import summary_lines

ROOT = Path(__file__).resolve().parents[3]


def _summary() -> str:
    return "\n".join(summary_lines(bound_count=1, pending_count=2, data=None))


def test_in_a_clone_it_names_existing_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    output = _summary()
    assert "1 pod bound, 2 still pending" in output
    for path in ("docs/first-ten-minutes.md", "examples/plugins/spare_gpu.py", "examples/cluster"):
        assert path in output
        assert (ROOT / path).exists()


def test_elsewhere_it_names_commands_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    output = _summary()
    assert "kubesched new-plugin NAME" in output
    assert "docs/" not in output
    assert "examples/" not in output


@pytest.mark.parametrize("started_as", [".venv/bin/kubesched", "{here}/.venv/bin/kubesched"])
def test_a_command_off_the_path_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started_as: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [started_as.format(here=tmp_path)])
    output = _summary().splitlines()
    assert (
        "  .venv/bin/kubesched run --shadow                   compare with your scheduler" in output
    )
    program = tmp_path / "kubesched"
    program.touch(mode=0o755)
    assert (
        "  kubesched run --shadow                             compare with your scheduler"
        in _summary()
    )
