"""Views of a running playground: a live table on a terminal, lines elsewhere.

Shows playground.overview.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kubesched.cluster.playground.overview import Decision, NodeState, Overview

_NODES_SHOWN: Final = 12
_PENDING_SHOWN: Final = 6
_DECISIONS_SHOWN: Final = 8
_LINES_AT_ONCE: Final = 20
_ANY: Final = 1000
_GIB: Final = 2**30
_LAYOUTS: Final = ((10, True), (5, True), (0, True), (0, False))
"""The length of bars and whether zones are shown: narrow terminals omit them."""


class LineView:
    """Prints a line per decision; of many at once, the first ones and a count."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._new: list[Decision] = []
        self._more_bound = 0
        self._more_pending = 0

    def start(self) -> None:
        self._overview.on_decision = self._on_decision

    def _on_decision(self, decision: Decision) -> None:
        if len(self._new) < _LINES_AT_ONCE:
            self._new.append(decision)
        elif decision.node:
            self._more_bound += 1
        else:
            self._more_pending += 1

    def refresh(self) -> None:
        """Print the decisions since the last call."""
        for decision in self._new:
            click.echo(decision_line(decision))
        self._new.clear()
        if self._more_bound or self._more_pending:
            click.echo(f"... and {self._more_bound} more bound, {self._more_pending} unschedulable")
            self._more_bound = self._more_pending = 0

    def print_line(self, text: str) -> None:
        self.refresh()
        click.echo(text)

    def stop(self) -> None:
        self.refresh()


class TerminalView:
    """A live table."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._shown_version = -1

    def start(self) -> None:
        self._live.start()
        self.refresh()

    def refresh(self) -> None:
        """Redraw the table if the overview changed."""
        version = self._overview.version
        if version != self._shown_version:
            self._shown_version = version
            self._live.update(render(self._overview), refresh=True)

    def print_line(self, text: str) -> None:
        """Print a line above the table."""
        self._console.print(Text(text, style="yellow"))

    def stop(self) -> None:
        self._live.stop()


def decision_line(decision: Decision) -> str:
    """Return a decision as one line."""
    at = time.strftime("%H:%M:%S", time.localtime(decision.at_s))
    if decision.node:
        return f"{at} {decision.key} -> {decision.node}"
    return f"{at} {decision.key} pending: {decision.reason}"


def render(overview: Overview) -> RenderableType:
    """Render the overview."""
    counts = overview.counts()
    counts_text = [
        f"{counts.running} running",
        f"{counts.starting} starting",
        f"{counts.stopping} stopping",
        f"{counts.finished} finished",
        f"{len(overview.pending)} pending",
    ]
    head = Text(
        f"pods: {', '.join(counts_text)}; {overview.bound_count} bound so far", style="bold"
    )
    sections: list[RenderableType] = [NodesTable(overview.shown_nodes), head]
    if overview.pending:
        sections.append(_pending_table(overview))
    if overview.decisions:
        sections.append(_decisions(overview))
    return Group(*sections)


@dataclass(frozen=True, slots=True)
class NodesTable:
    """The nodes and their load, as wide as fits; of many, the fullest."""

    nodes: Sequence[NodeState]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the widest layout that fits."""
        for bar_cells, has_zone in _LAYOUTS:
            table = self._table(bar_cells, has_zone)
            if Measurement.get(console, options.update(width=_ANY), table).maximum <= (
                options.max_width
            ):
                break
        yield table

    def _table(self, bar_cells: int, has_zone: bool) -> Table:
        table = Table(box=None, pad_edge=False)
        zone = ("ZONE",) if has_zone else ()
        requested = "REQUESTED" if bar_cells else "REQ."
        used = (f"CPU {requested}", f"MEMORY {requested}")
        for title in ("NODE", "STATUS", "TAINTS", *zone, "PODS", *used):
            table.add_column(title, no_wrap=True)
        shown = self.nodes
        if len(shown) > _NODES_SHOWN:
            shown = sorted(shown, key=lambda node: -node.pod_count)[:_NODES_SHOWN]
        for node in shown:
            table.add_row(*_row(node, bar_cells, has_zone))
        if len(self.nodes) > len(shown):
            table.add_row(f"... and {len(self.nodes) - len(shown)} more")
        return table


def _row(node: NodeState, bar_cells: int, has_zone: bool) -> list[RenderableType]:
    color = "" if node.is_ready and not node.is_cordoned else "red"
    cpu = _bar(node.cpu_milli, node.cpu_milli_max, bar_cells)
    memory = _bar(node.memory_bytes, node.memory_bytes_max, bar_cells)
    return [
        Text(node.name, style=color),
        Text(node.status, style=color),
        Text(str(node.taint_count), style="red") if node.taint_count else "",
        *([node.zone] if has_zone else []),
        f"{node.pod_count}/{node.pod_count_max}",
        f"{cpu}{node.cpu_milli / 1000:g}/{node.cpu_milli_max / 1000:g}",
        f"{memory}{node.memory_bytes / _GIB:.1f}/{node.memory_bytes_max / _GIB:.1f} GiB",
    ]


def _pending_table(overview: Overview) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("PENDING", no_wrap=True)
    table.add_column("REASON", overflow="ellipsis")
    pods = sorted(overview.pending.values(), key=lambda pod: pod.since_s)
    for pod in pods[:_PENDING_SHOWN]:
        reason = pod.reason or ("scheduling gated" if pod.is_gated else "")
        if not reason and not overview.is_served(pod):
            reason = f"scheduler {pod.scheduler!r} is not running"
        table.add_row(pod.key, reason or "not yet scheduled")
    if len(pods) > _PENDING_SHOWN:
        table.add_row(f"... and {len(pods) - _PENDING_SHOWN} more")
    return table


def _decisions(overview: Overview) -> Text:
    latest = list(overview.decisions)[-_DECISIONS_SHOWN:]
    lines = [decision_line(decision) for decision in reversed(latest)]
    return Text("\n".join(["LATEST DECISIONS", *lines]), no_wrap=True, overflow="ellipsis")


def _bar(used: int, capacity: int, cells: int) -> str:
    if not cells:
        return ""
    share = min(1.0, used / capacity) if capacity else 0.0
    filled = round(share * cells)
    return "█" * filled + "░" * (cells - filled) + " "
