"""Formats benchmark figures for the terminal and for RESULTS.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.results import put_between
from benchmarks.session import Figures

RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
COLUMNS = (
    "workload",
    "nodes",
    "decisions/s",
    "min–max",
    "per CPU s",
    "floor",
    "p50 µs",
    "p99 µs",
    "parse/s",
    "MB",
)
ORACLE_COLUMNS = ("kube-scheduler, all nodes", "sampling", "times as fast", "per CPU")


def table_of(figures: Sequence[Figures]) -> Table:
    """Return a table for the terminal."""
    compared = any(one.oracle for one in figures)
    table = Table(pad_edge=False)
    for place, name in enumerate(_columns(compared)):
        table.add_column(name, justify="right" if place else "left", no_wrap=place > 0)
    for one in figures:
        table.add_row(*cells(one, compared=compared))
    return table


def cells(one: Figures, *, compared: bool) -> list[str]:
    """Return one row."""
    low, high = one.rates
    row = [
        one.workload.title + ("" if _drained(one) else " *"),
        f"{one.node_count:,}",
        f"{one.rate:,.0f}",
        f"{low:,.0f}–{high:,.0f}",
        f"{one.cpu_rate:,.0f}",
        floor_text(one),
        f"{one.middle(lambda run: run.p50_us):,.0f}",
        f"{one.middle(lambda run: run.p99_us):,.0f}",
        f"{one.middle(lambda run: run.burst / max(run.parse_seconds, 1e-9)):,.0f}",
        f"{one.middle(lambda run: run.resident_mb):,.0f}",
    ]
    return [*row, *_oracle_cells(one)] if compared else row


def floor_text(one: Figures) -> str:
    """Return the floor, marked by whether the median meets it."""
    if one.floor is None:
        return "–"
    return f"{one.floor:,.0f} {'✓' if one.rate >= one.floor else '✗'}"


def markdown(figures: Sequence[Figures]) -> str:
    """Return a table for RESULTS.md."""
    compared = any(one.oracle for one in figures)
    columns = _columns(compared)
    lines = [
        "| " + " | ".join(columns) + " |",
        "|---|" + "---:|" * (len(columns) - 1),
        *("| " + " | ".join(cells(one, compared=compared)) + " |" for one in figures),
    ]
    return "\n".join(lines)


def write_results(figures: Sequence[Figures], heading: str, path: Path = RESULTS) -> None:
    """Replace the figures of each size between their marks in the file."""
    for node_count in dict.fromkeys(one.node_count for one in figures):
        table = markdown([one for one in figures if one.node_count == node_count])
        mark = f"{node_count:,} nodes"
        put_between(path, mark, [f"## {mark}", "", heading, "", table])


def _columns(compared: bool) -> tuple[str, ...]:
    return COLUMNS + ORACLE_COLUMNS if compared else COLUMNS


def _drained(one: Figures) -> bool:
    return all(run.is_complete for run in one.runs)


def _oracle_cells(one: Figures) -> list[str]:
    if one.oracle is None:
        return ["–"] * len(ORACLE_COLUMNS)
    every, sampled = one.oracle.rate(100), one.oracle.rate(0)
    return [
        f"{every:,.0f}",
        f"{sampled:,.0f}",
        f"{one.rate / every:.1f}",
        f"{one.cpu_rate / one.oracle.cpu_rate(100):.1f}",
    ]
