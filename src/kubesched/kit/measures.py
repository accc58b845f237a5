"""Counters, gauges and histograms, kept as plain numbers.

Owns the storage, cheap enough for the hottest path, and what the registry of component-base does
with it. Never formats: `kubesched.kit.exposition` does.
Upstream: staging/src/k8s.io/component-base/metrics/{registry,counter,gauge,histogram}.go
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Generic, Literal, TypeAlias, TypeVar

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Stability: TypeAlias = Literal["", "INTERNAL", "ALPHA", "BETA", "STABLE"]


class Counter:
    """A number that goes up."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        """Count."""
        self.value += amount

    @property
    def is_untouched(self) -> bool:
        """Return whether nothing was counted since the start or the last reset."""
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
        """Give the number as it is now."""
        self.value = value


class Histogram:
    """How often a number fell between which bounds; a bound belongs to the bucket below it."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0.0

    def observe(self, value: float) -> None:
        """Count a number."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_many(self, value: float, count: int) -> None:
        """Count the same number several times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    @property
    def count(self) -> int:
        """Return how many numbers were counted."""
        return sum(self.counts)

    @property
    def is_untouched(self) -> bool:
        """Return whether nothing was counted since the start or the last reset."""
        return not any(self.counts)

    def reset(self) -> None:
        """Start from zero."""
        self.counts = [0] * len(self.counts)
        self.sum = 0.0


Child: TypeAlias = Counter | Gauge | Histogram
C = TypeVar("C", Counter, Gauge, Histogram)


class Family:
    """What all children of one name share."""

    def __init__(
        self, kind: Kind, name: str, help_text: str, label_names: tuple[str, ...] = ()
    ) -> None:
        self.kind: Kind = kind
        self.name = name
        self.help = help_text
        self.label_names = label_names
        self.buckets: tuple[float, ...] = ()

    def children(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """Yield what is to be shown, by label values."""
        raise NotImplementedError

    def reset(self) -> None:
        """Do what DELETE /metrics does to this family."""


class Single(Family):
    """A family without labels: one child."""

    def __init__(self, kind: Kind, name: str, help_text: str, child: Child) -> None:
        super().__init__(kind, name, help_text)
        self._child = child
        if isinstance(child, Histogram):
            self.buckets = child.bounds

    def children(self) -> Iterator[tuple[tuple[str, ...], Child]]:
        """Yield the one child."""
        yield (), self._child

    def reset(self) -> None:
        """Set a counter to zero; upstream leaves gauges and histograms without labels alone."""
        if self.kind == "counter":
            self._child.reset()


class Vec(Family, Generic[C]):
    """A family with labels: a child for each combination of values that was asked for."""

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
        """Return the child of some values, in the order of the label names; bind it once."""
        child = self._children.get(values)
        return self._new(values) if child is None else child

    def _new(self, values: tuple[str, ...]) -> C:
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has labels {self.label_names}, not {values}")
        # A child that was bound before a reset is still somebody's.
        child = self._dormant.pop(values, None) or self._make()
        self._children[values] = child
        return child

    def remove(self, *values: str) -> None:
        """Forget a child."""
        self._children.pop(values, None)
        self._dormant.pop(values, None)

    def children(self) -> Iterator[tuple[tuple[str, ...], C]]:
        """Yield the children, but not those that were reset and not used since."""
        if self._dormant:
            used = [(at, child) for at, child in self._dormant.items() if not child.is_untouched]
            for at, child in used:
                del self._dormant[at]
                self._children[at] = child
        yield from self._children.items()

    def reset(self) -> None:
        """Forget all children; those bound before come back when they are used."""
        self._dormant.update(self._children)
        for child in self._dormant.values():
            child.reset()
        self._children = {}


CounterVec: TypeAlias = Vec[Counter]
GaugeVec: TypeAlias = Vec[Gauge]
HistogramVec: TypeAlias = Vec[Histogram]


class Measures:
    """All families of a process."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._preparations: list[Callable[[], None]] = []
        self.registered_counts: dict[Stability, int] = {}

    def before_look(self, prepare: Callable[[], None]) -> None:
        """Have something brought up to date before numbers are shown."""
        self._preparations.append(prepare)

    def families(self) -> list[Family]:
        """Return the families, by name, as they are now."""
        for prepare in self._preparations:
            prepare()
        return [self._families[name] for name in sorted(self._families)]

    def family(self, name: str) -> Family:
        """Return one family."""
        return self._families[name]

    def reset(self) -> None:
        """Do what DELETE /metrics does."""
        for prepare in self._preparations:
            prepare()  # What was counted before must not come back.
        for family in self._families.values():
            family.reset()

    def register(self, family: Family, stability: Stability) -> None:
        """Have a family shown."""
        if family.name in self._families:
            raise ValueError(f"{family.name} is there already")
        self._families[family.name] = family
        if stability:
            counts = self.registered_counts
            counts[stability] = counts.get(stability, 0) + 1


class Maker:
    """Makes families; one that is not shown may be used all the same."""

    def __init__(self, measures: Measures, prefix: str = "") -> None:
        self._measures = measures
        self._prefix = prefix

    def counter(
        self, name: str, help_text: str, stability: Stability, *, shown: bool = True
    ) -> Counter:
        """Return a counter without labels."""
        child = Counter()
        self._single("counter", name, help_text, stability, child, shown)
        return child

    def gauge(
        self, name: str, help_text: str, stability: Stability, *, shown: bool = True
    ) -> Gauge:
        """Return a gauge without labels."""
        child = Gauge()
        self._single("gauge", name, help_text, stability, child, shown)
        return child

    def histogram(
        self,
        name: str,
        help_text: str,
        stability: Stability,
        buckets: tuple[float, ...],
        *,
        shown: bool = True,
    ) -> Histogram:
        """Return a histogram without labels."""
        child = Histogram(buckets)
        self._single("histogram", name, help_text, stability, child, shown)
        return child

    def counter_vec(
        self,
        name: str,
        help_text: str,
        stability: Stability,
        labels: tuple[str, ...],
        *,
        shown: bool = True,
    ) -> CounterVec:
        """Return a counter with labels."""
        named, helped = self._named(name, help_text, stability)
        family = Vec("counter", named, helped, labels, Counter)
        return self._shown(family, stability, shown)

    def gauge_vec(
        self,
        name: str,
        help_text: str,
        stability: Stability,
        labels: tuple[str, ...],
        *,
        shown: bool = True,
    ) -> GaugeVec:
        """Return a gauge with labels."""
        named, helped = self._named(name, help_text, stability)
        family = Vec("gauge", named, helped, labels, Gauge)
        return self._shown(family, stability, shown)

    def histogram_vec(
        self,
        name: str,
        help_text: str,
        stability: Stability,
        labels: tuple[str, ...],
        buckets: tuple[float, ...],
        *,
        shown: bool = True,
    ) -> HistogramVec:
        """Return a histogram with labels."""
        named, helped = self._named(name, help_text, stability)
        family = Vec("histogram", named, helped, labels, lambda: Histogram(buckets))
        family.buckets = buckets
        return self._shown(family, stability, shown)

    def _named(self, name: str, help_text: str, stability: Stability) -> tuple[str, str]:
        return self._prefix + name, f"[{stability}] {help_text}" if stability else help_text

    def _single(
        self,
        kind: Kind,
        name: str,
        help_text: str,
        stability: Stability,
        child: Child,
        shown: bool,
    ) -> None:
        named, helped = self._named(name, help_text, stability)
        if shown:
            self._measures.register(Single(kind, named, helped, child), stability)

    def _shown(self, family: Vec[C], stability: Stability, shown: bool) -> Vec[C]:
        if shown:
            self._measures.register(family, stability)
        return family


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds, each a factor above the one before, multiplied as upstream does."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)
