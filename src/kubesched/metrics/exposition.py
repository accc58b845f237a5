"""Metrics in Prometheus' text format and in OpenMetrics.

Owns the text format 0.0.4, written as Go's library writes it, and OpenMetrics 1.0. Never keeps a
number: `kubesched.metrics.instruments` does. A program that embeds the scheduler can show the same
metrics in a registry of prometheus_client, if it has that library.
Upstream: github.com/prometheus/common/expfmt/text_create.go and openmetrics_create.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from kubesched.golang.strconv import go_float
from kubesched.metrics.instruments import Child, Family, Histogram, Measures

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

TEXT_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_TOTAL = "_total"


def text_of(families: Iterable[Family]) -> str:
    """Return the text format; a family without children is left out."""
    return "".join(_rendered(family, family.name, family.name, go_number) for family in families)


def openmetrics_of(measures: Measures) -> str:
    """Return OpenMetrics 1.0: every counter ends in _total, and every number shows a point."""
    parts: list[str] = []
    for family in measures.families():
        name, sample_name = family.name, family.name
        if family.kind == "counter":
            name = name.removesuffix(_TOTAL)
            sample_name = name + _TOTAL
        parts.append(_rendered(family, name, sample_name, _openmetrics_number))
    return "".join((*parts, "# EOF\n"))


def _rendered(family: Family, name: str, sample_name: str, number: Callable[[float], str]) -> str:
    lines = _lines(family, sample_name, number)
    if not lines:
        return ""
    escapes = _HELP_ESCAPES if number is go_number else _ESCAPES
    help_text = family.help.translate(escapes)
    return "".join((f"# HELP {name} {help_text}\n# TYPE {name} {family.kind}\n", *lines))


def registry_of(measures: Measures) -> CollectorRegistry:
    """Return a registry of prometheus_client that shows these metrics."""
    # A library of the program that embeds the scheduler, not a dependency.
    from prometheus_client import CollectorRegistry  # noqa: PLC0415

    registry = CollectorRegistry(auto_describe=False)
    registry.register(FamilyCollector(measures))
    return registry


class Exposed:
    """Metrics that /metrics shows."""

    measures: Measures

    def text(self) -> str:
        """Return everything that /metrics shows."""
        return text_of(self.measures.families())

    def openmetrics(self) -> str:
        """Return the same as OpenMetrics."""
        return openmetrics_of(self.measures)

    def reset(self) -> None:
        """Reset the metrics, as DELETE /metrics does."""
        self.measures.reset()


class FamilyCollector:
    """Shows the families to prometheus_client."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have children."""
        from prometheus_client.openmetrics import parser  # noqa: PLC0415  # As above.

        text = openmetrics_of(self._measures)
        yield from parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # The library's gap.


def _lines(family: Family, sample_name: str, number: Callable[[float], str]) -> list[str]:
    names = family.label_names
    order = sorted(range(len(names)), key=names.__getitem__)
    bounds = [number(bound) for bound in family.buckets] + ["+Inf"]
    children: list[tuple[tuple[str, ...], Child]] = sorted(
        family.children(), key=lambda pair: [pair[0][at] for at in order]
    )
    lines: list[str] = []
    for values, child in children:
        labels = ",".join([f'{names[at]}="{values[at].translate(_ESCAPES)}"' for at in order])
        if isinstance(child, Histogram):
            lines += _histogram_lines(sample_name, labels, bounds, child, number)
        else:
            named = f"{sample_name}{{{labels}}}" if labels else sample_name
            lines.append(f"{named} {number(child.value)}\n")
    return lines


def _histogram_lines(
    name: str, labels: str, bounds: list[str], child: Histogram, number: Callable[[float], str]
) -> list[str]:
    totals = list(accumulate(child.counts))
    head = f"{name}_bucket{{{labels}," if labels else f"{name}_bucket{{"
    lines = [
        f'{head}le="{bound}"}} {number(total)}\n'
        for bound, total in zip(bounds, totals, strict=True)
    ]
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_sum{braces} {number(child.sum)}\n")
    lines.append(f"{name}_count{braces} {number(totals[-1])}\n")
    return lines


def _openmetrics_number(value: float) -> str:
    text = go_number(value)
    return text if any(char in text for char in ".eIN") else f"{text}.0"


def go_number(value: float) -> str:
    """Return a number as Go's %g writes it: an exponent from a million on."""
    if -1_000_000 < value < 1_000_000:
        if value == int(value):
            return str(int(value))
        return repr(float(value))
    return go_float(value)
