"""HTML report of a simulation or comparison: one self-contained page without scripts.

Owns the sections, the style (light and dark) and the inline SVG charts. Every chart has a text
alternative, so that none depends on color.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from kubesched.api.errors import one_line
from kubesched.api.resource_requests import CPU, MEMORY, PODS
from kubesched.kit.text import counted, joined
from kubesched.simulate.report import Comparison
from kubesched.simulate.simulation import Simulation
from kubesched.simulate.utilization import Fill, amount, percent
from kubesched.simulate.world import Victim

ROWS = 1000
"""The default number of table rows."""
_NODES_DRAWN_MAX = 40
_EXAMPLES_MAX = 8
_BINS = 10

_STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1c2128; --quiet: #59636e;
  --line: #d8dee4; --tile: #f5f7f9; --before: #8c98a4; --after: #1f6feb; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #12161b; --text: #e4e9ee; --quiet: #9aa5b1;
  --line: #2d343c; --tile: #1b2128; --before: #6b7682; --after: #58a6ff; --bad: #ff8a80; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--page);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: .95rem; margin: 1rem 0 .25rem; color: var(--quiet); font-weight: 600; }
p { margin: .25rem 0; } .quiet { color: var(--quiet); } .bad { color: var(--bad); }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; }
.tile { background: var(--tile); border: 1px solid var(--line); border-radius: 8px;
  padding: .5rem 1rem; min-width: 6.5rem; } .tile b { display: block; font-size: 1.5rem; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr));
  gap: 0 2rem; } .side > * { min-width: 0; }
.bars { max-width: 52rem; } .row { display: grid; align-items: center; gap: 0 .75rem;
  grid-template-columns: 8.5rem minmax(6rem, 1fr) 13rem; padding: .2rem 0; font-size: .9rem; }
.row .label { overflow-wrap: anywhere; } .row .value { font-variant-numeric: tabular-nums; }
.row svg { width: 100%; height: 1.35rem; display: block; }
@media (max-width: 34rem) { .row { grid-template-columns: 1fr auto; }
  .row svg { grid-column: 1 / -1; grid-row: 2; } }
.columns { width: 100%; min-width: 34rem; max-width: 44rem; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); }
svg .tick, svg .count { text-anchor: middle; }
svg .tick { fill: var(--quiet); font-size: 11px; } svg .count { font-size: 11px; }
svg .track { fill: var(--line); opacity: .55; } svg .before { fill: var(--before); }
svg .after { fill: var(--after); } svg .axis { stroke: var(--line); }
.key span::before { content: ""; display: inline-block; width: .8em; height: .8em;
  border-radius: 2px; margin: 0 .4em 0 0; } .key span { margin-right: 1.25rem; }
.key .b::before { background: var(--before); } .key .a::before { background: var(--after); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--quiet); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.n { white-space: nowrap; }
summary { cursor: pointer; margin: .5rem 0; }
"""
_KEY = '<p class="key quiet"><span class="b">before</span><span class="a">after</span></p>'


def simulation_page(run: Simulation, top: int | None = ROWS) -> str:
    """Return the page of one run; `top` limits the rows of a table."""
    body = ["<h1>Simulation</h1>", _subtitle(run), _tiles(run), *_sections(run, top)]
    return _page("kubesched simulation", body)


def comparison_page(compared: Comparison, top: int | None = ROWS) -> str:
    """Return the page of two runs side by side; `top` as for one."""
    first, second = (safe(name) for name in compared.names)
    body = [f"<h1>{first} and {second}, compared</h1>", _subtitle(compared.runs[0])]
    body.append(_differences(compared, top))
    body.append('<div class="side">')
    for name, run in zip((first, second), compared.runs, strict=True):
        body += ["<section>", f"<h2>{name}</h2>", _tiles(run), *_sections(run, top), "</section>"]
    body.append("</div>")
    return _page("kubesched comparison", body)


def _page(title: str, body: Iterable[str]) -> str:
    inside = "\n".join(part for part in body if part)
    return (
        '<!DOCTYPE html>\n<html lang="en" xmlns="http://www.w3.org/1999/xhtml"><head>'
        '<meta charset="utf-8"/>'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>"
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f"<title>{safe(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{inside}\n</body></html>\n"
    )


# -- sections -------------------------------------------------------------------------------------


def _subtitle(run: Simulation) -> str:
    nodes, zones = len(run.after.names), len(run.after.zone_names)
    cluster = f"{counted(nodes, 'node')} in {counted(zones, 'zone')}"
    return f'<p class="quiet">{cluster}, {counted(run.pending, "pending pod")}</p>'


def _tiles(run: Simulation) -> str:
    tiles = [
        ("placed", len(run.placements), ""),
        ("unschedulable", len(run.left), "bad" if run.left else ""),
        ("preempted", len(run.evicted), "bad" if run.evicted else ""),
        ("empty nodes", run.after.empty_node_count, ""),
    ]
    inner = "".join(
        f'<div class="tile"><b class="{css}">{count}</b>{name}</div>' for name, count, css in tiles
    )
    return f'<div class="tiles">{inner}</div>'


def _sections(run: Simulation, top: int | None) -> list[str]:
    return [
        *_resources(run),
        *_zones(run),
        *_nodes(run),
        *_left(run, top),
        *_preemptions(run, top),
        *_placements(run, top),
    ]


def _resources(run: Simulation) -> list[str]:
    rows = [
        _bar(name, name, run.before.total(name), run.after.total(name))
        for name in run.after.resources
    ]
    return ["<h2>Requested share of allocatable</h2>", _KEY, _bars("by resource", rows)]


def _zones(run: Simulation) -> list[str]:
    zones = run.after.zone_names
    if len(zones) < 2:
        return []
    parts = ["<h2>By zone</h2>", _KEY]
    for resource in _shown_resources(run):
        rows = []
        for zone in zones:
            where = run.after.in_zone(zone)
            before, after = run.before.total(resource, where), run.after.total(resource, where)
            if after.allocatable:
                rows.append(_bar(resource, zone, before, after))
        parts += [f"<h3>{safe(resource)}</h3>", _bars(f"{resource} by zone", rows)]
    return parts


def _nodes(run: Simulation) -> list[str]:
    before, after = run.before, run.after
    if not after.names:
        return []
    parts = ["<h2>By node</h2>", _KEY]
    for resource in _shown_resources(run):
        parts.append(f"<h3>{safe(resource)}</h3>")
        if len(after.names) > _NODES_DRAWN_MAX:
            title = f"number of nodes by {resource} requested"
            old, new = before.percents(resource).tolist(), after.percents(resource).tolist()
            parts.append(_histogram(title, old, new))
            continue
        rows = [
            _bar(resource, after.names[position], before.of_node(position, resource), fill)
            for position in after.by_name
            if (fill := after.of_node(position, resource)).allocatable
        ]
        parts.append(_bars(f"{resource} by node", rows))
    return parts


def _left(run: Simulation, top: int | None) -> list[str]:
    if not run.left:
        return []
    rows = [
        (
            str(len(pods)),
            outcome.kind.value,
            outcome.message,
            joined(pods[:_EXAMPLES_MAX], len(pods)),
        )
        for outcome, pods in run.left_by_message()
    ]
    head = ("#pods", "verdict", "message", "examples")
    return ["<h2>Unschedulable pods</h2>", _table(head, rows, top)]


def _preemptions(run: Simulation, top: int | None) -> list[str]:
    if not run.preemptions:
        return []
    rows = []
    for made in run.preemptions:
        victims = ", ".join(map(_victim, made.victims))
        priority, violations = str(made.pod.priority), str(made.pdb_violation_count)
        rows.append((made.pod.key, priority, made.node, victims, violations))
    head = ("pod", "#priority", "node", "preempted (priority)", "#budget violations")
    return ["<h2>Preemptions</h2>", _table(head, rows, top)]


def _victim(victim: Victim) -> str:
    fate = f", recreated as {victim.recreated_as}" if victim.recreated_as else ""
    return f"{victim.pod.key} ({victim.pod.priority}{fate})"


def _placements(run: Simulation, top: int | None) -> list[str]:
    if not run.placements:
        return []
    rows = [
        (placed.pod.key, placed.node, str(placed.pod.priority), str(placed.attempts))
        for placed in run.placements
    ]
    table = _table(("pod", "node", "#priority", "#attempts"), rows, top)
    count = counted(len(run.placements), "placement")
    is_open = ' open="open"' if len(rows) <= 50 else ""
    return [f"<h2>Placements</h2><details{is_open}><summary>{count}</summary>{table}</details>"]


def _differences(compared: Comparison, top: int | None) -> str:
    rows = [measure.cells for measure in compared.measures]
    first, second = compared.names
    head = ("", f"#{first}", f"#{second}", "#difference")
    parts = ["<h2>Differences</h2>", _table(head, rows)]
    if compared.moved:
        moved = [(pod, *(node or "–" for node in nodes)) for pod, nodes in compared.moved]
        count = f"{counted(len(moved), 'pod')} placed differently"
        table = _table(("pod", first, second), moved, top)
        parts.append(f"<details><summary>{count}</summary>{table}</details>")
    else:
        parts.append("<p>Every pod is on the same node.</p>")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], top_rows: int | None = None) -> str:
    """Return a table of the first rows; a column whose head starts with # is numeric."""
    numeric = [title.startswith("#") for title in head]

    def line(cells: Sequence[str], tag: str) -> str:
        inner = "".join(
            f'<{tag} class="n">{safe(cell)}</{tag}>'
            if is_number
            else f"<{tag}>{safe(cell)}</{tag}>"
            for cell, is_number in zip(cells, numeric, strict=True)
        )
        return f"<tr>{inner}</tr>"

    body = "\n".join(line(row, "td") for row in rows[:top_rows])
    top = line([title.removeprefix("#") for title in head], "th")
    more = 0 if top_rows is None else len(rows) - top_rows
    rest = f'<p class="quiet">and {more} more (--top, or -o json)</p>' if more > 0 else ""
    return (
        f'<div class="wide"><table><thead>{top}</thead>\n<tbody>{body}</tbody></table></div>{rest}'
    )


def _shown_resources(run: Simulation) -> list[str]:
    """Return the resources of the charts: cpu, memory, and other allocatable ones."""
    after = run.after
    names = [name for name in after.resources if name != PODS and after.total(name).allocatable]
    first = [name for name in (CPU, MEMORY) if name in names]
    return [*first, *(name for name in names if name not in first)][:5]


def _bar(resource: str, label: str, before: Fill, after: Fill) -> str:
    """Return a row of a chart: two bars, before above, after below.

    Labels are outside of the SVG, so that they keep their size on any screen.
    """
    shares = f"{percent(before.percent)} → {percent(after.percent)}"
    text = f"{shares} of {amount(resource, after.allocatable)}"
    bars = "".join(
        _rect("track", 0, top, 100, 8) + _rect(css, 0, top, _length(fill.percent), 8)
        for top, css, fill in ((1, "before", before), (10, "after", after))
    )
    svg = _open(f"{label}: {text}", 100, 20, 'preserveAspectRatio="none"') + bars + "</svg>"
    return (
        f'<div class="row"><span class="label">{safe(label)}</span>{svg}'
        f'<span class="value">{safe(text)}</span></div>'
    )


def _bars(title: str, rows: Sequence[str]) -> str:
    return f'<div class="bars" role="group" aria-label="{safe(title)}">{"".join(rows)}</div>'


def _histogram(title: str, before: Sequence[float], after: Sequence[float]) -> str:
    """Return a histogram of nodes by utilization: ten bins, two columns each."""
    counts = [_binned(before), _binned(after)]
    most = max(1, *counts[0], *counts[1])
    height, base, step = 190, 150, 62
    parts = ['<div class="wide">', _open(title, step * _BINS + 20, height, 'class="columns"')]
    for number in range(_BINS):
        left = 10 + number * step
        for offset, css, count in ((4, "before", counts[0]), (30, "after", counts[1])):
            tall = round(120 * count[number] / most, 1)
            parts.append(_rect(css, left + offset, base - tall, 24, tall))
            if count[number]:
                # Large numbers are condensed, so that they do not overlap.
                narrow = ' textLength="23" lengthAdjust="spacingAndGlyphs"'
                parts.append(
                    f'<text class="count" x="{left + offset + 12}" y="{base - tall - 4}"'
                    f"{narrow if count[number] > 999 else ''}>{count[number]}</text>"
                )
        parts.append(
            f'<text class="tick" x="{left + step / 2}" y="{base + 18}">'
            f"{number * 10}–{number * 10 + 10}%</text>"
        )
    right = step * _BINS + 10
    parts.append(f'<line class="axis" x1="10" y1="{base}" x2="{right}" y2="{base}"/>')
    parts.append(
        f'<text class="tick" x="{right / 2}" y="{base + 36}">{safe(title)}</text></svg></div>'
    )
    return "".join(parts)


def safe(text: str) -> str:
    """Return a text escaped for any place in the page."""
    return escape(one_line(text), quote=True)


def _open(title: str, width: int, height: int, more: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" {more} '
        f'aria-label="{safe(title)}"><title>{safe(title)}</title>'
    )


def _rect(css: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{css}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def _length(percent: float) -> float:
    # A node may be overcommitted; the text beside the bar shows the percentage.
    return round(min(max(percent, 0.0), 100.0), 2)


def _binned(percents: Sequence[float]) -> list[int]:
    counts = [0] * _BINS
    for value in percents:
        counts[min(max(int(value // 10), 0), _BINS - 1)] += 1
    return counts
