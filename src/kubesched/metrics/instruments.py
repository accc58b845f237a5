"""Counters, gauges and histograms, kept as plain numbers.

Owns the storage, cheap enough for the hottest path, and the registry. Formatting is in
`kubesched.metrics.exposition`.
Upstream: staging/src/k8s.io/component-base/metrics/{registry,counter,gauge,histogram}.go
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from typing import Generic, Literal, TypeAlias, TypeVar

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Stability: TypeAlias = Literal["", "INTERNAL", "ALPHA", "BETA", "STABLE"]


class Counter:
    """A number that only goes up."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        """Count."""
        self.value += amount

    @property
    def is_untouched(self) -> bool:
        """Return whether it is unused since the start or the last reset."""
        return self.value == 0

    def reset(self) -> None:
        """Start from zero."""
        self.value = 0


class Gauge(Counter):
    """A number that goes up and down."""

    __slots__ = ()

    def dec(self, amount: float = 1) -> None:
        """Count down."""
        self.value -= amount

    def set(self, value: float) -> None:
        """Set the number."""
        self.value = value


class Histogram:
    """Counts of observed values by bucket; a bound belongs to the bucket below it."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_many(self, value: float, count: int) -> None:
        """Count the same value several times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    @property
    def count(self) -> int:
        """Return the number of observed values."""
        return sum(self.counts)

    @property
    def is_untouched(self) -> bool:
        """Return whether it is unused since the start or the last reset."""
        return not any(self.counts)

    def reset(self) -> None:
        """Start from zero."""
        self.counts = [0] * len(self.counts)
        self.sum = 0.0


Child: TypeAlias = Counter | Gauge | Histogram
C = TypeVar("C", Counter, Gauge, Histogram)


class Family:
    """A metric: its name, help text and labels, and a child for each combination of values."""

    def __init__(
        self, kind: Kind, name: str, help_text: str, label_names: tuple[str, ...] = ()
    ) -> None:
        self.kind: Kind = kind
        self.name = name
        self.help = help_text
        self.label_names = label_names
        self.buckets: tuple[float, ...] = ()

    def children(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """Yield the children to show, with their label values."""
        raise NotImplementedError

    def reset(self) -> None:
        """Reset the family, as DELETE /metrics does."""


class Single(Family):
    """A family without labels: one child."""

    def __init__(self, kind: Kind, name: str, help_text: str, child: Child) -> None:
        super().__init__(kind, name, help_text)
        self._child = child
        if isinstance(child, Histogram):
            self.buckets = child.bounds

    def children(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """Yield the only child."""
        yield (), self._child

    def reset(self) -> None:
        """Set a counter to zero; upstream leaves gauges and histograms without labels alone."""
        if self.kind == "counter":
            self._child.reset()


class Vec(Family, Generic[C]):
    """A family with labels: a child for each combination of values in use."""

    def __init__(
        self,
        kind: Kind,
        name: str,
        help_text: str,
        label_names: tuple[str, ...],
        make: Callable[[], C],
    ) -> None:
        super().__init__(kind, name, help_text, label_names)
        self._make: Callable[[], C] = make
        self._children: dict[tuple[str, ...], C] = {}
        self._dormant: dict[tuple[str, ...], C] = {}

    def labels(self, *values: str) -> C:
        """Return the child for label values, in the order of the label names; keep it if hot."""
        child = self._children.get(values)
        return self._new(values) if child is None else child

    def _new(self, values: tuple[str, ...]) -> C:
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has labels {self.label_names}, not {values}")
        # A child from before a reset may still be held by a caller.
        child = self._dormant.pop(values, None) or self._make()
        self._children[values] = child
        return child

    def remove(self, *values: str) -> None:
        """Remove a child."""
        self._children.pop(values, None)
        self._dormant.pop(values, None)

    def children(self) -> Iterator[tuple[tuple[str, ...], C]]:
        """Yield the children, except those that were reset and not used since."""
        if self._dormant:
            used = [(at, child) for at, child in self._dormant.items() if not child.is_untouched]
            for at, child in used:
                del self._dormant[at]
                self._children[at] = child
        yield from self._children.items()

    def reset(self) -> None:
        """Remove all children; one that a caller still holds returns when it is used."""
        self._dormant.update(self._children)
        for child in self._dormant.values():
            child.reset()
        self._children = {}


CounterVec: TypeAlias = Vec[Counter]
GaugeVec: TypeAlias = Vec[Gauge]
HistogramVec: TypeAlias = Vec[Histogram]


class Measures:
    """All families of a process, without some disabled ones."""

    def __init__(self, disabled: Collection[str] = ()) -> None:
        self.disabled = disabled
        self._families: dict[str, Family] = {}
        self._preparations: list[Callable[[], None]] = []
        self.registered_counts: dict[Stability, int] = {}

    def before_look(self, prepare: Callable[[], None]) -> None:
        """Register a function that updates numbers before they are shown."""
        self._preparations.append(prepare)

    def families(self) -> list[Family]:
        """Return the families, up to date, sorted by name."""
        for prepare in self._preparations:
            prepare()
        return [self._families[name] for name in sorted(self._families)]

    def family(self, name: str) -> Family:
        """Return one family."""
        return self._families[name]

    def reset(self) -> None:
        """Reset all families, as DELETE /metrics does."""
        for prepare in self._preparations:
            prepare()  # Or earlier counts would return.
        for family in self._families.values():
            family.reset()

    def remove(self, name: str) -> None:
        """Stop showing a family."""
        self._families.pop(name, None)

    def register(self, family: Family, stability: Stability) -> None:
        """Show a family."""
        if family.name in self.disabled:
            return
        if family.name in self._families:
            raise ValueError(f"{family.name} is registered already")
        self._families[family.name] = family
        if stability:
            counts = self.registered_counts
            counts[stability] = counts.get(stability, 0) + 1


class Maker:
    """Makes and registers families."""

    def __init__(self, measures: Measures, prefix: str = "") -> None:
        self._measures = measures
        self._prefix = prefix

    def counter(self, name: str, help_text: str, stability: Stability) -> Counter:
        """Return a counter without labels."""
        return self._single("counter", Counter(), name, help_text, stability)

    def gauge(self, name: str, help_text: str, stability: Stability) -> Gauge:
        """Return a gauge without labels."""
        return self._single("gauge", Gauge(), name, help_text, stability)

    def histogram(
        self, name: str, help_text: str, stability: Stability, buckets: tuple[float, ...]
    ) -> Histogram:
        """Return a histogram without labels."""
        return self._single("histogram", Histogram(buckets), name, help_text, stability)

    def counter_vec(
        self, name: str, help_text: str, stability: Stability, labels: tuple[str, ...]
    ) -> CounterVec:
        """Return a counter with labels."""
        family = Vec("counter", *self._named(name, help_text, stability), labels, Counter)
        self._measures.register(family, stability)
        return family

    def gauge_vec(
        self, name: str, help_text: str, stability: Stability, labels: tuple[str, ...]
    ) -> GaugeVec:
        """Return a gauge with labels."""
        family = Vec("gauge", *self._named(name, help_text, stability), labels, Gauge)
        self._measures.register(family, stability)
        return family

    def histogram_vec(
        self,
        name: str,
        help_text: str,
        stability: Stability,
        labels: tuple[str, ...],
        buckets: tuple[float, ...],
    ) -> HistogramVec:
        """Return a histogram with labels."""
        named = self._named(name, help_text, stability)
        family = Vec("histogram", *named, labels, lambda: Histogram(buckets))
        family.buckets = buckets
        self._measures.register(family, stability)
        return family

    def _named(self, name: str, help_text: str, stability: Stability) -> tuple[str, str]:
        return self._prefix + name, f"[{stability}] {help_text}" if stability else help_text

    def _single(self, kind: Kind, child: C, name: str, help_text: str, stability: Stability) -> C:
        family = Single(kind, *self._named(name, help_text, stability), child)
        self._measures.register(family, stability)
        return child


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds that grow by a factor, rounded as upstream's are."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)
