"""Time from the start of a scheduler to its first binding on a large cluster.

On a real API server with 5,000 nodes and 50,000 bound pods; kube-scheduler and kubesched alternate.
Required: at most 1.5 times kube-scheduler's time.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import machine  # noqa: E402
from benchmarks.drain_race import RESULTS, comma_separated, say  # noqa: E402
from benchmarks.race import Race, run_race  # noqa: E402
from benchmarks.race_cluster import RaceCluster  # noqa: E402
from benchmarks.race_report import REFERENCE, TESTED  # noqa: E402
from benchmarks.results import put_between, today  # noqa: E402
from benchmarks.workload import load_workload  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402
from kubesched.testing import SCHEDULERS  # noqa: E402

RATIO_MAX = 1.5
MARK = "start-up"


def main() -> int:
    """Measure and print a table."""
    options = parsed()
    # SIGTERM ends the run like Ctrl-C, together with all child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    races: dict[str, list[Race]] = {name: [] for name in options.racers}
    with real_cluster("bare") as cluster:
        start_s = perf_counter()
        workload = load_workload("one-template")
        course = RaceCluster(cluster, workload, options.nodes, options.pods_per_node)
        course.fill()
        say(f"  filled the cluster in {perf_counter() - start_s:.0f} s")
        for number in range(options.rounds):
            turn = number % len(options.racers)
            for racer in options.racers[turn:] + options.racers[:turn]:
                course.create_burst(1)
                race = run_race(cluster, racer, 1, options.timeout)
                course.remove_burst()
                say(f"  {number + 1}: {racer} {race.start_s:.2f} s, CPU {race.start_cpu_s:.2f} s")
                races[racer].append(race)
    lines = table(races)
    say(*lines, machine.description())
    if options.write:
        size = f"{options.nodes:,} nodes, {options.nodes * options.pods_per_node:,} bound pods"
        head = f"{today()}. {machine.description()}. {size}, {options.rounds} rounds: medians."
        put_between(RESULTS, MARK, [head, "", *lines])
    ratio = ratio_of(races)
    is_bound = all(race.bound for own in races.values() for race in own)
    return 0 if is_bound and (not options.check or ratio is None or ratio <= RATIO_MAX) else 1


def parsed() -> argparse.Namespace:
    """Return the parsed command line, defaults filled in."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods-per-node", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--racers", type=comma_separated(SCHEDULERS), default=list(SCHEDULERS))
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S")
    parser.add_argument(
        "--short", action="store_true", help="use 500 nodes, to check that everything works"
    )
    parser.add_argument(
        "--check", action="store_true", help=f"fail above {RATIO_MAX} times kube-scheduler's time"
    )
    parser.add_argument("--write", action="store_true", help="write the table to DRAIN.md")
    options = parser.parse_args()
    options.nodes = options.nodes or (500 if options.short else 5000)
    return options


def table(races: dict[str, list[Race]]) -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| | first binding s after start | spread | CPU s by then | peak MB |",
        "|---|---:|---|---:|---:|",
    ]
    for racer, own in races.items():
        times = sorted(race.start_s for race in own)
        lines.append(
            f"| {racer} | {median(times):.2f} | {times[0]:.2f}–{times[-1]:.2f} "
            f"| {median(race.start_cpu_s for race in own):.2f} "
            f"| {median(race.peak_mb for race in own):.0f} |"
        )
    ratio = ratio_of(races)
    if ratio is not None:
        lines.extend(["", f"{ratio:.2f} times kube-scheduler's time; target: at most {RATIO_MAX}."])
    return lines


def ratio_of(races: dict[str, list[Race]]) -> float | None:
    """Return kubesched's time divided by kube-scheduler's."""
    if not races.get(TESTED) or not races.get(REFERENCE):
        return None
    ours, theirs = (median(race.start_s for race in races[name]) for name in (TESTED, REFERENCE))
    return ours / theirs


if __name__ == "__main__":
    sys.exit(main())
