"""Tables of the drain race: medians, ratios, and required figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.race import BASELINE, LIMIT, Race

REFERENCE, TESTED = "kube-scheduler", "kubesched"


@dataclass(frozen=True, slots=True)
class Target:
    """The required ratios of kubesched to kube-scheduler."""

    rate: float
    """The minimum ratio of pods per second."""
    cpu: float
    """The maximum ratio of processor time per pod."""


_PLAIN = Target(2.5, 1 / 3)
_COUPLED = Target(5.0, 1 / 6)
WORKLOADS = {
    "one-template": _PLAIN,
    "every-pod-distinct": _PLAIN,
    "node-affinity": _PLAIN,
    "hard-spread-zone": _COUPLED,
    "soft-spread": _COUPLED,
    "anti-affinity-host": _COUPLED,
    "affinity-zone": _COUPLED,
    "preferred-affinity": _COUPLED,
}
SHORT_WORKLOADS = ("one-template", "hard-spread-zone", "anti-affinity-host")

_RACERS_HEAD = (
    "| | pods/s | spread | CPU ms/pod | API server's CPU ms/pod | peak MB "
    "| last event after s | bound after s | first binding s after start | CPU s before it |"
)
_BASELINE_HEAD = (
    "| workload | pods/s before | now | now / before | CPU a pod, now / before "
    "| peak memory | last event |"
)
_RATIOS_HEAD = (
    "| workload | pods/s, times kube-scheduler's | target | CPU a pod, of kube-scheduler's "
    "| target | peak memory | last event | of the limit |"
)


def racers_table(title: str, races: Iterable[Race]) -> list[str]:
    """Return one workload's table: a row per racer with medians and the spread of rates."""
    lines = [f"### {title}", "", _RACERS_HEAD, "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|"]
    for racer, own in _by_racer(races).items():
        rates = sorted(race.rate for race in own)
        missing = [race for race in own if race.bound < race.pods]
        note = f" ({len(missing)} of {len(own)} incomplete)" if missing else ""
        events = f"{_median_of(own, lambda race: race.events_s):.1f}" if own[0].events else "–"
        lines.append(
            f"| {racer}{note} | {median(rates):.0f} | {rates[0]:.0f}–{rates[-1]:.0f} "
            f"| {_median_of(own, lambda race: race.cpu_ms):.2f} "
            f"| {_median_of(own, lambda race: race.server_cpu_ms):.2f} "
            f"| {_median_of(own, lambda race: race.peak_mb):.0f} | {events} "
            f"| {_median_of(own, lambda race: race.drain_s):.1f} "
            f"| {_median_of(own, lambda race: race.start_s):.1f} "
            f"| {_median_of(own, lambda race: race.start_cpu_s):.1f} |"
        )
    return lines


def ratio_table(results: dict[str, list[Race]], titles: dict[str, str]) -> list[str]:
    """Return the table of ratios, with missed targets in bold."""
    lines = [_RATIOS_HEAD, "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for name, races in results.items():
        values = ratios(races)
        if values is None:
            continue
        target = WORKLOADS.get(name, _PLAIN)
        lines.append(
            f"| {titles[name]} | {_marked(f'{values.rate:.1f}', values.rate >= target.rate)} "
            f"| {target.rate:g} | {_marked(f'{values.cpu:.2f}', values.cpu <= target.cpu)} "
            f"| {target.cpu:.2f} | {_marked(f'{values.memory:.2f}', values.memory <= 1)} "
            f"| {_marked(f'{values.events:.2f}', values.events <= 1)} | {_share(values.limit)} |"
        )
    return lines


def baseline_table(results: dict[str, list[Race]], titles: dict[str, str]) -> list[str]:
    """Return the table that compares kubesched with an earlier version."""
    lines = [_BASELINE_HEAD, "|---|---:|---:|---:|---:|---:|---:|"]
    for name, races in results.items():
        by_racer = _by_racer(races)
        if BASELINE in by_racer and TESTED in by_racer:
            before, now = by_racer[BASELINE], by_racer[TESTED]
            cells = [
                f"{_median_of(before, lambda race: race.rate):.0f}",
                f"{_median_of(now, lambda race: race.rate):.0f}",
                f"{_ratio(now, before, lambda race: race.rate):.2f}",
                f"{_ratio(now, before, lambda race: race.cpu_ms):.2f}",
                f"{_ratio(now, before, lambda race: race.peak_mb):.2f}",
                f"{_ratio(now, before, lambda race: race.events_s):.2f}",
            ]
            lines.append(f"| {titles[name]} | {' | '.join(cells)} |")
    return lines


def missed(results: dict[str, list[Race]]) -> list[str]:
    """Return the missed targets."""
    misses: list[str] = []
    for name, races in results.items():
        misses.extend(
            f"{name}: {race.racer} bound {race.bound} of {race.pods} pods"
            for race in races
            if race.bound < race.pods
        )
        misses.extend(
            f"{name}: {race.racer} wrote {race.events} of {race.pods} events"
            for race in races
            if race.racer != LIMIT and race.events < race.pods
        )
        values = ratios(races)
        target = WORKLOADS.get(name, _PLAIN)
        if values is None:
            continue
        if values.rate < target.rate:
            misses.append(f"{name}: {values.rate:.1f} times the rate, target {target.rate:g}")
        if values.cpu > target.cpu:
            misses.append(f"{name}: {values.cpu:.2f} of the CPU per pod, target {target.cpu:.2f}")
        if values.memory > 1:
            misses.append(f"{name}: {values.memory:.2f} times the peak memory")
        if values.events > 1:
            misses.append(f"{name}: the last event {values.events:.2f} times as late")
    return misses


@dataclass(frozen=True, slots=True)
class Ratios:
    """kubesched's medians divided by kube-scheduler's, and by the limit's if it raced."""

    rate: float
    cpu: float
    memory: float
    events: float
    limit: float | None


def ratios(races: Iterable[Race]) -> Ratios | None:
    """Return the ratios of a workload in which both schedulers raced."""
    by_racer = _by_racer(races)
    if REFERENCE not in by_racer or TESTED not in by_racer:
        return None
    ours, theirs = by_racer[TESTED], by_racer[REFERENCE]
    limit = _median_of(by_racer[LIMIT], lambda race: race.rate) if LIMIT in by_racer else 0.0
    return Ratios(
        rate=_ratio(ours, theirs, lambda race: race.rate),
        cpu=_ratio(ours, theirs, lambda race: race.cpu_ms),
        memory=_ratio(ours, theirs, lambda race: race.peak_mb),
        events=_ratio(ours, theirs, lambda race: race.events_s),
        limit=_median_of(ours, lambda race: race.rate) / limit if limit else None,
    )


def _by_racer(races: Iterable[Race]) -> dict[str, list[Race]]:
    groups: dict[str, list[Race]] = {}
    for race in races:
        groups.setdefault(race.racer, []).append(race)
    return dict(sorted(groups.items()))


def _median_of(races: Sequence[Race], value: Callable[[Race], float]) -> float:
    return median(value(race) for race in races)


def _ratio(ours: Sequence[Race], theirs: Sequence[Race], value: Callable[[Race], float]) -> float:
    divisor = _median_of(theirs, value)
    return _median_of(ours, value) / divisor if divisor else 0.0


def _marked(text: str, is_met: bool) -> str:
    return text if is_met else f"**{text}**"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
