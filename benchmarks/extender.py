"""Race of kube-scheduler with our extender and with one in Go.

Owns the command line and the tables of EXTENDER.md. Both extenders exclude a pool of nodes and
prefer large nodes, called with names (`nodeCacheCapable`) and with whole nodes. Before the race,
both must return the same results.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import machine  # noqa: E402
from benchmarks.drain_race import comma_separated, say  # noqa: E402
from benchmarks.extender_course import (  # noqa: E402
    GO,
    NONE,
    OURS,
    RACERS,
    SETTINGS,
    Calls,
    ExtenderRace,
    measure_calls,
    race_once,
)
from benchmarks.race_cluster import RaceCluster  # noqa: E402
from benchmarks.results import put_between, today  # noqa: E402
from benchmarks.workload import load_workload  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402
from kubesched.testing import RealCluster  # noqa: E402

Item = TypeVar("Item")
RESULTS = ROOT / "benchmarks" / "EXTENDER.md"
MARK = "extender"
RATIO_MIN = 1.0
TITLES = {
    "names": "node names (`nodeCacheCapable: true`)",
    "nodes": "whole nodes (`nodeCacheCapable: false`)",
}
EPILOG = """examples:
  extender.py --short      200 nodes, one round: check that everything works
  extender.py --write      1,000 nodes, 500 pods, three rounds, into EXTENDER.md
  extender.py --check      fail if our extender is slower
  extender.py --settings nodes --racers 'kubesched extender'
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the races and print the tables."""
    options = parsed(argv)
    # SIGTERM ends the run like Ctrl-C, together with all child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start_s = perf_counter()
    with real_cluster("bare") as cluster:
        course = RaceCluster(
            cluster, load_workload("one-template"), options.nodes, options.pods_per_node
        )
        course.fill()
        calls = list(measured_calls(cluster, options))
        races = list(run_races(cluster, course, options))
    tables = report(races, calls)
    say("", *tables, "", f"{machine.description()}; took {perf_counter() - start_s:.0f} s")
    wrong = [*differences(calls), *mistakes(races)]
    slow = slower(races)
    say(*(f"wrong: {one}" for one in wrong), *(f"missed: {one}" for one in slow))
    if options.write and not wrong:
        size = f"{options.nodes:,} nodes with {options.pods_per_node} pods each"
        rounds = f"{options.pods:,} pods, {options.rounds} rounds: medians"
        head = f"{today()}. {machine.description()}. {size}, {rounds}."
        put_between(RESULTS, MARK, [head, "", *tables])
    return 1 if wrong or (options.check and slow) else 0


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed command line, defaults filled in."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n", 1)[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument(
        "--pods-per-node", type=int, default=5, help="bound pods per node before the race"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--racers", type=comma_separated(RACERS), default=list(RACERS))
    parser.add_argument("--settings", type=comma_separated(tuple(SETTINGS)), default=list(SETTINGS))
    parser.add_argument(
        "--short", action="store_true", help="run a small race to check that everything works"
    )
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="S", help="limit of one race"
    )
    parser.add_argument("--check", action="store_true", help="fail if our extender is slower")
    parser.add_argument("--write", action="store_true", help="write the tables to EXTENDER.md")
    options = parser.parse_args(argv)
    options.nodes = options.nodes or (200 if options.short else 1000)
    options.pods = options.pods or (100 if options.short else 500)
    options.rounds = options.rounds or (1 if options.short else 3)
    return options


def measured_calls(cluster: RealCluster, options: argparse.Namespace) -> Iterator[Calls]:
    """Call each extender with all nodes, by names and as whole nodes."""
    for setting in options.settings:
        for racer in options.racers:
            if racer != NONE:
                calls = measure_calls(cluster, racer, setting)
                say(
                    f"  {setting}: {racer} filters in {calls.filter_ms:.2f} ms, "
                    f"prioritizes in {calls.prioritize_ms:.2f} ms"
                )
                yield calls


def run_races(
    cluster: RealCluster, course: RaceCluster, options: argparse.Namespace
) -> Iterator[ExtenderRace]:
    """Run the races; the racers take turns, and a different one begins in each round."""
    for setting in options.settings:
        for number in range(options.rounds):
            turn = number % len(options.racers)
            for racer in options.racers[turn:] + options.racers[:turn]:
                outcome = race_once(
                    cluster,
                    course,
                    setting,
                    racer,
                    pods=options.pods,
                    timeout_s=options.timeout,
                    number=number,
                )
                say(
                    f"  {setting} {number + 1}: {racer} {outcome.race.rate:.1f} pods/s, "
                    f"{outcome.cpu_ms:.2f} CPU ms/pod, "
                    f"{outcome.race.bound} of {outcome.race.pods} bound"
                )
                yield outcome


def report(races: Sequence[ExtenderRace], calls: Sequence[Calls]) -> list[str]:
    """Return the lines of all tables."""
    lines = [
        "| kube-scheduler sends | pods/s, times the Go extender's | of each round | target |",
        "|---|---:|---|---:|",
    ]
    for setting, own in _by(races, lambda one: one.setting):
        ratios = round_ratios(own)
        if ratios:
            middle = median(ratios)
            text = f"{middle:.2f}" if middle >= RATIO_MIN else f"**{middle:.2f}**"
            rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            lines.append(f"| {TITLES[setting]} | {text} | {rounds} | {RATIO_MIN:g} |")
    for setting, own in _by(races, lambda one: one.setting):
        lines += ["", f"### {TITLES[setting]}", "", *_racers(own, calls)]
    return lines


def _racers(races: Iterable[ExtenderRace], calls: Iterable[Calls]) -> Iterator[str]:
    yield (
        "| | pods/s | spread | extender's CPU ms/pod | extender's peak MB "
        "| kube-scheduler's CPU ms/pod | one filter call, all nodes, ms | prioritize |"
    )
    yield "|---|---:|---|---:|---:|---:|---:|---:|"
    for racer, own in _by(races, lambda one: one.racer):
        rates = sorted(one.race.rate for one in own)
        call = next((c for c in calls if (c.racer, c.setting) == (racer, own[0].setting)), None)
        times = "– | –" if call is None else f"{call.filter_ms:.2f} | {call.prioritize_ms:.2f}"
        used = "– | –"
        if racer != NONE:
            cpu_ms = median(one.cpu_ms for one in own)
            used = f"{cpu_ms:.2f} | {median(one.peak_mb for one in own):.0f}"
        yield (
            f"| {racer} | {median(rates):.1f} | {rates[0]:.1f}–{rates[-1]:.1f} | {used} "
            f"| {median(one.race.cpu_ms for one in own):.2f} | {times} |"
        )


def round_ratios(races: Iterable[ExtenderRace]) -> list[float]:
    """Return our rate divided by the Go extender's, for every round in which both raced."""
    rates = {(one.round, one.racer): one.race.rate for one in races}
    return [
        rate / rates[number, GO]
        for (number, racer), rate in sorted(rates.items())
        if racer == OURS and rates.get((number, GO))
    ]


def differences(calls: Iterable[Calls]) -> list[str]:
    """Return the differences between the extenders' answers."""
    found = []
    for setting, own in _by(calls, lambda one: one.setting):
        for verb, answers in zip(
            ("filter", "prioritize"), zip(*(one.answers for one in own), strict=True), strict=True
        ):
            if any(answer != answers[0] for answer in answers):
                found.append(f"{setting}: the extenders do not answer the same to {verb}")
            if not answers[0]:
                found.append(f"{setting}: nothing was answered to {verb}")
    return found


def mistakes(races: Iterable[ExtenderRace]) -> list[str]:
    """Return the pods that are unbound or break the rule."""
    found = []
    for one in races:
        where = f"{one.setting} {one.round + 1}, {one.racer}"
        if one.race.bound < one.race.pods:
            found.append(f"{where}: {one.race.bound} of {one.race.pods} pods bound")
        if one.racer != NONE and one.avoided:
            found.append(f"{where}: {one.avoided} pods are where the extender refused them")
    return found


def slower(races: Sequence[ExtenderRace]) -> list[str]:
    """Return the settings in which kube-scheduler was slower with our extender than with Go's."""
    return [
        f"{setting}: {median(ratios):.2f} times the Go extender's rate, wanted {RATIO_MIN:g}"
        for setting, own in _by(races, lambda one: one.setting)
        if (ratios := round_ratios(own)) and median(ratios) < RATIO_MIN
    ]


def _by(items: Iterable[Item], key: Callable[[Item], str]) -> list[tuple[str, list[Item]]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.items())


if __name__ == "__main__":
    sys.exit(main())
