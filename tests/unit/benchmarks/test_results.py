"""Tables in the files that keep figures."""

from __future__ import annotations

from pathlib import Path

from benchmarks.results import put_between


def test_results_replace_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    path.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n")
    put_between(path, "x", ["new"])
    assert path.read_text() == "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n"


def test_results_of_a_new_kind_come_last(tmp_path: Path) -> None:
    path = tmp_path / "results.md"
    path.write_text("a\n")
    put_between(path, "x", ["new", "lines"])
    assert path.read_text() == "a\n\n<!-- x: begin -->\nnew\nlines\n<!-- x: end -->\n"
