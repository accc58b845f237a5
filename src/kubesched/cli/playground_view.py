"""How a playground is shown while it runs: a table on a terminal, lines elsewhere.

Owns both forms. What is shown is playground.overview's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import click
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from kubesched.playground.overview import Decision, NodeState, Overview

_NODES_SHOWN: Final = 12
_WAITING_SHOWN: Final = 6
_DECISIONS_SHOWN: Final = 8
_LINES_AT_ONCE: Final = 20
_ANY: Final = 1000
_GIB: Final = 2**30


class View(Protocol):
    """Shows an overview, again and again."""

    def start(self) -> None:
        """Begin to show."""

    def refresh(self) -> None:
        """Show what has changed."""

    def say(self, text: str) -> None:
        """Show a line that stays."""

    def stop(self) -> None:
        """Show nothing further."""


class LineView:
    """One line for each decision; of many at once, the first and how many more."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._new: list[Decision] = []
        self._more_bound = 0
        self._more_waiting = 0

    def start(self) -> None:
        """Begin to tell decisions."""
        self._overview.on_decision = self._note

    def _note(self, decision: Decision) -> None:
        if len(self._new) < _LINES_AT_ONCE:
            self._new.append(decision)
        elif decision.node:
            self._more_bound += 1
        else:
            self._more_waiting += 1

    def refresh(self) -> None:
        """Print what was decided since the last time."""
        for decision in self._new:
            click.echo(decision_line(decision))
        self._new.clear()
        if self._more_bound or self._more_waiting:
            click.echo(f"... and {self._more_bound} more placed, {self._more_waiting} told to wait")
            self._more_bound = self._more_waiting = 0

    def say(self, text: str) -> None:
        """Print a line."""
        self.refresh()
        click.echo(text)

    def stop(self) -> None:
        """Print what is left."""
        self.refresh()


class TerminalView:
    """A table that is kept up to date."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._shown_version = -1

    def start(self) -> None:
        """Begin to show the table."""
        self._live.start()
        self.refresh()

    def refresh(self) -> None:
        """Draw it again, if anything has changed."""
        version = self._overview.version
        if version != self._shown_version:
            self._shown_version = version
            self._live.update(rendered(self._overview), refresh=True)

    def say(self, text: str) -> None:
        """Print a line above the table."""
        self._console.print(Text(text, style="yellow"))

    def stop(self) -> None:
        """Take the table away."""
        self._live.stop()


def decision_line(decision: Decision) -> str:
    """Return what was decided, in one line."""
    at = time.strftime("%H:%M:%S", time.localtime(decision.at_s))
    if decision.node:
        return f"{at} {decision.key} -> {decision.node}"
    return f"{at} {decision.key} waits: {decision.reason}"


def rendered(overview: Overview) -> RenderableType:
    """Return the whole picture."""
    counts = overview.counts()
    words = [
        f"{counts.running} running",
        f"{counts.starting} starting",
        f"{counts.ending} ending",
        f"{counts.over} over",
        f"{len(overview.waiting)} waiting",
    ]
    head = Text(f"pods: {', '.join(words)}; {overview.bound_count} placed so far", style="bold")
    parts: list[RenderableType] = [NodesTable(overview.shown_nodes), head]
    if overview.waiting:
        parts.append(_waiting_table(overview))
    if overview.decisions:
        parts.append(_decisions(overview))
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class _Form:
    """How much of a node is shown; what does not fit is left out rather than cut."""

    bar_cells: int
    has_zone: bool = True


_FORMS: Final = (_Form(10), _Form(5), _Form(0), _Form(0, has_zone=False))


@dataclass(frozen=True, slots=True)
class NodesTable:
    """The nodes and how full they are, as wide as there is room for; the fullest of many."""

    nodes: Sequence[NodeState]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the widest form that fits."""
        for form in _FORMS:
            table = self._table(form)
            if Measurement.get(console, options.update(width=_ANY), table).maximum <= (
                options.max_width
            ):
                break
        yield table

    def _table(self, form: _Form) -> Table:
        table = Table(box=None, pad_edge=False)
        zone = ("ZONE",) if form.has_zone else ()
        asked = "REQUESTED" if form.bar_cells else "REQ."
        for title in ("NODE", "STATUS", "TAINTS", *zone, "PODS", f"CPU {asked}", f"MEMORY {asked}"):
            table.add_column(title, no_wrap=True)
        shown = self.nodes
        if len(shown) > _NODES_SHOWN:
            shown = sorted(shown, key=lambda node: -node.pod_count)[:_NODES_SHOWN]
        for node in shown:
            table.add_row(*_row(node, form))
        if len(self.nodes) > len(shown):
            table.add_row(f"... and {len(self.nodes) - len(shown)} more")
        return table


def _row(node: NodeState, form: _Form) -> list[RenderableType]:
    color = "" if node.is_ready and not node.is_cordoned else "red"
    cpu = _bar(node.cpu_milli, node.cpu_milli_max, form.bar_cells)
    memory = _bar(node.memory_bytes, node.memory_bytes_max, form.bar_cells)
    return [
        Text(node.name, style=color),
        Text(node.status, style=color),
        Text(str(node.taint_count), style="red") if node.taint_count else "",
        *([node.zone] if form.has_zone else []),
        f"{node.pod_count}/{node.pod_count_max}",
        f"{cpu}{node.cpu_milli / 1000:g}/{node.cpu_milli_max / 1000:g}",
        f"{memory}{node.memory_bytes / _GIB:.1f}/{node.memory_bytes_max / _GIB:.1f} GiB",
    ]


def _waiting_table(overview: Overview) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("WAITING", no_wrap=True)
    table.add_column("WHY", overflow="ellipsis")
    pods = sorted(overview.waiting.values(), key=lambda pod: pod.since_s)
    for pod in pods[:_WAITING_SHOWN]:
        why = pod.reason or ("it is gated" if pod.is_gated else "")
        if not why and not overview.is_served(pod):
            why = f"nobody runs the scheduler {pod.scheduler!r}"
        table.add_row(pod.key, why or "its turn has not come")
    if len(pods) > _WAITING_SHOWN:
        table.add_row(f"... and {len(pods) - _WAITING_SHOWN} more")
    return table


def _decisions(overview: Overview) -> Text:
    latest = list(overview.decisions)[-_DECISIONS_SHOWN:]
    lines = [decision_line(decision) for decision in reversed(latest)]
    return Text("\n".join(["LATEST DECISIONS", *lines]), no_wrap=True, overflow="ellipsis")


def _bar(used: int, room: int, cells: int) -> str:
    if not cells:
        return ""
    share = min(1.0, used / room) if room else 0.0
    filled = round(share * cells)
    return "█" * filled + "░" * (cells - filled) + " "
