"""A run as one HTML page that needs nothing else: no script, no font, no address.

Owns the page's parts and looks, in light and dark. What it shows is the run's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubesched.model.resources import CPU, MEMORY, PODS
from kubesched.sim.amounts import amount, percent
from kubesched.sim.charts import Bar, bars, histogram, safe
from kubesched.sim.comparison import Comparison
from kubesched.sim.simulation import Simulation
from kubesched.sim.usage import Fill

ROWS = 1000
"""How many rows a table has, unless another number is asked for."""
_NODES_DRAWN_MAX = 40
_EXAMPLES_MAX = 8

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
    """Return the page of one run; `top` is how many rows a table of pods has at most."""
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


# -- parts ----------------------------------------------------------------------------------------


def _subtitle(run: Simulation) -> str:
    nodes, zones = len(run.after.names), len(run.after.zone_names)
    words = f"{_counted(nodes, 'node')} in {_counted(zones, 'zone')}, "
    words += f"{_counted(run.pending, 'pod')} waiting at the start"
    return f'<p class="quiet">{words}</p>'


def _tiles(run: Simulation) -> str:
    tiles = [
        ("placed", len(run.placements), ""),
        ("left", len(run.left), " bad" if run.left else ""),
        ("evicted", len(run.evicted), " bad" if run.evicted else ""),
        ("empty nodes", run.after.empty_node_count, ""),
    ]
    inner = "".join(
        f'<div class="tile"><b class="{css.strip()}">{count}</b>{name}</div>'
        for name, count, css in tiles
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
    return ["<h2>Requested, of what the nodes offer</h2>", _KEY, bars("per resource", rows)]


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
        parts += [f"<h3>{safe(resource)}</h3>", bars(f"{resource} by zone", rows)]
    return parts


def _nodes(run: Simulation) -> list[str]:
    before, after = run.before, run.after
    if not after.names:
        return []
    parts = ["<h2>By node</h2>", _KEY]
    order = sorted(range(len(after.names)), key=lambda at: after.names[at])
    for resource in _shown_resources(run):
        parts.append(f"<h3>{safe(resource)}</h3>")
        if len(order) > _NODES_DRAWN_MAX:
            title = f"number of nodes by {resource} requested"
            old, new = before.percents(resource).tolist(), after.percents(resource).tolist()
            parts.append(histogram(title, old, new))
            continue
        rows = [
            _bar(
                resource, after.names[at], before.of_node(at, resource), after.of_node(at, resource)
            )
            for at in order
            if after.of_node(at, resource).allocatable
        ]
        parts.append(bars(f"{resource} by node", rows))
    return parts


def _left(run: Simulation, top: int | None) -> list[str]:
    if not run.left:
        return []
    groups: dict[tuple[str, str], list[str]] = {}
    for one in run.left:
        key = (one.outcome.verdict.value, one.outcome.message)
        groups.setdefault(key, []).append(one.pod)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [
        (str(len(pods)), verdict, message, _examples(pods)) for (verdict, message), pods in ordered
    ]
    return ["<h2>Pods left</h2>", _table(("#pods", "what", "why", "which"), rows, top)]


def _preemptions(run: Simulation, top: int | None) -> list[str]:
    if not run.preemptions:
        return []
    rows = []
    for one in run.preemptions:
        victims = ", ".join(
            f"{v.pod} ({v.priority}{f', again as {v.recreated_as}' if v.recreated_as else ''})"
            for v in one.victims
        )
        rows.append((one.pod, str(one.priority), one.node, victims, str(one.pdb_violation_count)))
    head = ("pod", "#priority", "node", "evicted (priority)", "#against budgets")
    return ["<h2>Preemptions</h2>", _table(head, rows, top)]


def _placements(run: Simulation, top: int | None) -> list[str]:
    if not run.placements:
        return []
    rows = [(one.pod, one.node, str(one.priority), str(one.attempts)) for one in run.placements]
    table = _table(("pod", "node", "#priority", "#attempts"), rows, top)
    count = _counted(len(run.placements), "placement")
    is_open = ' open="open"' if len(rows) <= 50 else ""
    return [f"<h2>Placements</h2><details{is_open}><summary>{count}</summary>{table}</details>"]


def _differences(compared: Comparison, top: int | None) -> str:
    rows = [
        (
            one.name,
            f"{one.values[0]:g}{one.unit}",
            f"{one.values[1]:g}{one.unit}",
            "" if one.difference == 0 else f"{one.difference:+g}",
        )
        for one in compared.measures
    ]
    first, second = compared.names
    head = ("", f"#{first}", f"#{second}", "#difference")
    parts = ["<h2>What differs</h2>", _table(head, rows)]
    if compared.moved:
        moved = [(one.pod, one.nodes[0] or "–", one.nodes[1] or "–") for one in compared.moved]
        count = f"{_counted(len(moved), 'pod')} ended elsewhere"
        table = _table(("pod", first, second), moved, top)
        parts.append(f"<details><summary>{count}</summary>{table}</details>")
    else:
        parts.append("<p>Every pod ended on the same node.</p>")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], top_rows: int | None = None) -> str:
    """Return a table of the first so many rows; a head that starts with # is of numbers."""
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
    """Return what is drawn by zone and node: cpu, memory, and what some nodes offer besides."""
    after = run.after
    names = [one for one in after.resources if one != PODS and after.total(one).allocatable]
    first = [name for name in (CPU, MEMORY) if name in names]
    return [*first, *(name for name in names if name not in first)][:5]


def _bar(resource: str, label: str, before: Fill, after: Fill) -> Bar:
    words = f"{percent(before.percent)} → {percent(after.percent)}"
    offered = amount(resource, after.allocatable)
    return Bar(label, before.percent, after.percent, f"{words} of {offered}")


def _examples(pods: Sequence[str]) -> str:
    more = len(pods) - _EXAMPLES_MAX
    text = ", ".join(pods[:_EXAMPLES_MAX])
    return f"{text} and {more} more" if more > 0 else text


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
