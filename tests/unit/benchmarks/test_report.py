"""The report of figures as readers see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import report, run
from benchmarks.drain import Drained
from benchmarks.oracle import OracleFigures, OracleRun
from benchmarks.session import Figures
from benchmarks.workload import Workload


def a_run(rate: float = 100.0, **parts: float) -> Drained:
    figures = {
        "burst": 100, "decided": 100, "placed": 100, "preempting": 0, "unschedulable": 0,
        "seconds": 100 / rate, "cpu_seconds": 50 / rate, "parse_seconds": 0.01,
        "p50_us": 10.0, "p99_us": 20.0, "max_us": 30.0, "resident_mb": 200.0,
    }  # fmt: skip
    return Drained(**(figures | parts))  # type: ignore[arg-type] # counts and seconds alike


def figures_of(*runs: Drained, floor: int = 0, nodes: int = 5000) -> Figures:
    return Figures(Workload("some title", "plain", (), name="some", floor=floor), nodes, runs)


def test_a_row_shows_the_median_and_the_spread() -> None:
    row = report.cells(figures_of(a_run(900), a_run(1000), a_run(2000)), compared=False)
    assert row[:5] == ["some title", "5,000", "1,000", "900–2,000", "2,000"]


@pytest.mark.parametrize(
    ("floor", "nodes", "text"),
    [
        (1000, 5000, "1,000 ✓"),
        (1001, 5000, "1,001 ✗"),
        (3000, 15_000, "1,000 ✓"),
        (3300, 15_000, "1,100 ✗"),
        (1000, 500, "–"),
        (0, 5000, "–"),
    ],
)
def test_a_floor_is_marked_met_or_missed_at_its_sizes(floor: int, nodes: int, text: str) -> None:
    assert report.floor_text(figures_of(a_run(1000), floor=floor, nodes=nodes)) == text


def test_a_run_that_was_cut_short_is_marked() -> None:
    assert report.cells(figures_of(a_run(decided=99)), compared=False)[0] == "some title *"


def test_the_report_compares_with_the_oracle_by_both_ratios() -> None:
    common = {
        "burst": 100, "decided": 100, "placed": 100, "preempting": 0, "unschedulable": 0,
        "p50_us": 1, "p99_us": 1, "resident_mb": 1,
    }  # fmt: skip
    theirs = OracleFigures(
        (
            OracleRun(percentage=100, seconds=1, cpu_seconds=2, **common),
            OracleRun(percentage=0, seconds=0.5, cpu_seconds=1, **common),
        )
    )
    workload = Workload("t", "plain", ())
    row = report.cells(Figures(workload, 5000, (a_run(1000),), theirs), compared=True)
    assert row[-4:] == ["100", "200", "10.0", "40.0"]


def test_writing_results_replaces_only_the_figures_of_their_size(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    sizes = [
        f"<!-- {size} nodes: begin -->\nold {size}\n<!-- {size} nodes: end -->"
        for size in ("5,000", "15,000")
    ]
    path.write_text("\n\n".join(("before", *sizes, "## Profile\nby hand\n")))
    report.write_results([figures_of(a_run(1000))], "today", path)
    text = path.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{sizes[1]}\n\n## Profile\nby hand\n")
    assert "old 5,000" not in text
    assert "## 5,000 nodes\n\ntoday\n" in text
    assert "| some title | 5,000 | 1,000 |" in text


def test_figures_of_a_new_size_come_last(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    path.write_text("by hand\n")
    for _ in range(2):
        report.write_results([figures_of(a_run(1000))], "today", path)
    text = path.read_text()
    assert text.startswith("by hand\n\n<!-- 5,000 nodes: begin -->\n")
    assert text.count("| some title | 5,000 | 1,000 |") == 1


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        ({}, True, ""),
        ({"placed": 99}, False, "of 100 decided pods, 99 were placed"),
        ({"decided": 99, "placed": 99}, True, "99 of 100 pods were decided in time"),
        ({"decided": 99, "placed": 99}, False, ""),
    ],
)
def test_a_pod_without_its_outcome_is_a_problem_and_slowness_is_none(
    part: dict[str, float], whole: bool, text: str
) -> None:
    problems = list(run.problems_of(figures_of(a_run(0.001, **part), floor=1000), whole=whole))
    assert len(problems) == bool(text)
    assert text in "".join(problems)


def test_memory_counts_at_the_largest_size() -> None:
    large = figures_of(a_run(resident_mb=4001), nodes=100_000)
    assert "4,001 MB resident" in "".join(run.problems_of(large, whole=False))
    assert not list(run.problems_of(figures_of(a_run(resident_mb=4001)), whole=False))
