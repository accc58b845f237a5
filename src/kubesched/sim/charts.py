"""Charts as inline SVG, drawn without scripts.

Owns geometry and the classes by which the page colours them. Every chart says in words what it
shows, so that none depends on colour. Never works out what to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kubesched.objects.errors import one_line

_BINS = 10


@dataclass(frozen=True, slots=True)
class Bar:
    """One thing before and after, in percent, with the words that go beside it."""

    label: str
    before: float
    after: float
    text: str


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Return a chart of horizontal bars, two for each row: before above, after below.

    The words stand beside the drawing and not in it, so that they keep their size on any screen.
    """
    lines = [
        f'<div class="row"><span class="label">{safe(row.label)}</span>{_pair(row)}'
        f'<span class="value">{safe(row.text)}</span></div>'
        for row in rows
    ]
    return f'<div class="bars" role="group" aria-label="{safe(title)}">{"".join(lines)}</div>'


def _pair(row: Bar) -> str:
    words = f"{row.label}: {row.text}"
    parts = [_open(words, 100, 20, 'preserveAspectRatio="none"')]
    for top, css, value in ((1, "before", row.before), (10, "after", row.after)):
        parts += [_rect("track", 0, top, 100, 8), _rect(css, 0, top, _length(value), 8)]
    return "".join((*parts, "</svg>"))


def histogram(title: str, before: Sequence[float], after: Sequence[float]) -> str:
    """Return how many nodes are how full: ten bins, two columns each."""
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
                # A large number is made narrow, so that it does not run into the next one.
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
    """Return a text that can stand anywhere in the page."""
    return escape(one_line(text), quote=True)


def _open(title: str, width: int, height: int, more: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" {more} '
        f'aria-label="{safe(title)}"><title>{safe(title)}</title>'
    )


def _rect(css: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{css}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def _length(percent: float) -> float:
    # A node may be fuller than full; the words beside the bar then say by how much.
    return round(min(max(percent, 0.0), 100.0), 2)


def _binned(percents: Sequence[float]) -> list[int]:
    counts = [0] * _BINS
    for value in percents:
        counts[min(max(int(value // 10), 0), _BINS - 1)] += 1
    return counts
