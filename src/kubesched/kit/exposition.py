"""Metrics as Prometheus reads them.

Owns the text format 0.0.4, written as Go's library writes it, and the way to prometheus_client's
registry, whose OpenMetrics is used. Never keeps a number: `kubesched.kit.measures` does.
Upstream: github.com/prometheus/common/expfmt/text_create.go
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from kubesched.kit.measures import Child, Family, Histogram, Measures

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

TEXT_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def text_of(families: Iterable[Family]) -> str:
    """Return the text format; a family without children is left out."""
    parts: list[str] = []
    for family in families:
        lines = _lines(family)
        if lines:
            help_text = family.help.translate(_HELP_ESCAPES)
            parts.append(f"# HELP {family.name} {help_text}\n# TYPE {family.name} {family.kind}\n")
            parts += lines
    return "".join(parts)


def openmetrics_of(measures: Measures) -> str:
    """Return OpenMetrics 1.0."""
    from prometheus_client.openmetrics import exposition  # noqa: PLC0415  # As below.

    written: bytes = exposition.generate_latest(registry_of(measures))  # type: ignore[no-untyped-call]  # The library's gap.
    return written.decode()


def registry_of(measures: Measures) -> CollectorRegistry:
    """Return a registry of prometheus_client that shows these metrics."""
    # Imported when needed: it takes a tenth of a second, which a start without it saves.
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
        """Return the same to whoever asks for OpenMetrics."""
        return openmetrics_of(self.measures)

    def reset(self) -> None:
        """Do what DELETE /metrics does."""
        self.measures.reset()


class FamilyCollector:
    """Shows our families to prometheus_client."""

    def __init__(self, measures: Measures) -> None:
        self._measures = measures

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have children."""
        from prometheus_client import Metric  # noqa: PLC0415  # As above.

        for family in self._measures.families():
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for values, child in _sorted_children(family):
                labels = dict(zip(family.label_names, values, strict=True))
                _add_samples(metric, family, labels, child)
            if metric.samples:
                yield metric


def _add_samples(metric: Metric, family: Family, labels: dict[str, str], child: Child) -> None:
    if not isinstance(child, Histogram):
        suffix = "_total" if family.kind == "counter" else ""
        metric.add_sample(metric.name + suffix, labels, float(child.value))
        return
    totals = list(accumulate(child.counts))
    for bound, total in zip((*child.bounds, math.inf), totals, strict=True):
        bucket = {**labels, "le": _openmetrics_bound(bound)}
        metric.add_sample(f"{family.name}_bucket", bucket, float(total))
    metric.add_sample(f"{family.name}_count", labels, float(totals[-1]))
    metric.add_sample(f"{family.name}_sum", labels, child.sum)


def _openmetrics_bound(bound: float) -> str:
    text = go_number(bound)
    # OpenMetrics wants to see that a bound is no integer.
    return text if "." in text or "e" in text or "I" in text else f"{text}.0"


def _sorted_children(family: Family) -> list[tuple[tuple[str, ...], Child]]:
    order = sorted(range(len(family.label_names)), key=family.label_names.__getitem__)
    return sorted(family.children(), key=lambda pair: [pair[0][at] for at in order])


def _lines(family: Family) -> list[str]:
    order = sorted(range(len(family.label_names)), key=family.label_names.__getitem__)
    names = family.label_names
    bounds = [go_number(bound) for bound in family.buckets] + ["+Inf"]
    lines: list[str] = []
    for values, child in _sorted_children(family):
        labels = ",".join([f'{names[at]}="{values[at].translate(_ESCAPES)}"' for at in order])
        if isinstance(child, Histogram):
            lines += _histogram_lines(family.name, labels, bounds, child)
        else:
            named = f"{family.name}{{{labels}}}" if labels else family.name
            lines.append(f"{named} {go_number(child.value)}\n")
    return lines


def _histogram_lines(name: str, labels: str, bounds: list[str], child: Histogram) -> list[str]:
    totals = list(accumulate(child.counts))
    head = f"{name}_bucket{{{labels}," if labels else f"{name}_bucket{{"
    lines = [
        f'{head}le="{bound}"}} {go_number(total)}\n'
        for bound, total in zip(bounds, totals, strict=True)
    ]
    braces = f"{{{labels}}}" if labels else ""
    lines.append(f"{name}_sum{braces} {go_number(child.sum)}\n")
    lines.append(f"{name}_count{braces} {go_number(totals[-1])}\n")
    return lines


def go_number(value: float) -> str:
    """Return a number as Go's %g writes it: an exponent from a million on."""
    if -1_000_000 < value < 1_000_000:
        if value == int(value):
            return str(int(value))
        return repr(float(value))
    return _large(float(value))


def _large(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    exponent = f"{value:.16e}".partition("e")[2]
    # The shortest digits that mean the number, with the point after the first.
    digits = repr(value).partition("e")[0].removeprefix("-").replace(".", "").strip("0")
    sign = "-" if value < 0 else ""
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{exponent}"
