"""Races on a real API server: kube-scheduler, kubesched and a binder that does not decide.

Owns the command line of `make bench-drain`. Creates the nodes and the pending pods, then starts a
racer and measures the time from its first to its last binding. The racers take turns on one API
server, round by round.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.race import BASELINE, RACERS, Race, run_race  # noqa: E402
from benchmarks.race_cluster import RaceCluster  # noqa: E402
from benchmarks.race_report import (  # noqa: E402
    REFERENCE,
    SHORT_WORKLOADS,
    WORKLOADS,
    baseline_table,
    missed,
    racers_table,
    ratio_table,
)
from benchmarks.results import put_between, today  # noqa: E402
from benchmarks.workload import load_workload, workload_names  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402

RESULTS = ROOT / "benchmarks" / "DRAIN.md"
MARK, BASELINE_MARK = "drain", "baseline"
EPILOG = """examples:
  drain_race.py --short                    1,000 nodes and pods, three workloads, one round
  drain_race.py --write                    5,000 nodes and pods, three rounds, into DRAIN.md
  drain_race.py --workloads one-template --racers kube-scheduler,limit
  drain_race.py --check                    fail if a target is missed
  drain_race.py --racers kubesched --baseline ../before/.venv/bin/kubesched --write
                                           compare with an earlier version only
"""


def main() -> int:
    """Run the races and print the tables."""
    options = parsed()
    # SIGTERM ends the run like Ctrl-C, together with all child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start_s = perf_counter()
    results = saved(options.add) if options.add else {}
    names = [name for name in WORKLOADS if name in {*results, *options.workloads}]
    names += [name for name in options.workloads if name not in names]
    titles = {name: load_workload(name).title for name in names}
    for name in options.workloads:
        results[name] = race_workload(name, options)
        say(*racers_table(titles[name], results[name]), "")
        if options.save:
            options.save.write_bytes(msgspec.json.encode(results))
    results = {name: results[name] for name in names}
    say(*ratio_table(results, titles), "")
    if options.baseline:
        say(*baseline_table(results, titles), "")
    say(f"{machine.description()}; took {perf_counter() - start_s:.0f} s")
    misses = missed(results)
    say(*(f"missed: {miss}" for miss in misses))
    if options.write:
        write(results, titles, options)
    incomplete = [race for races in results.values() for race in races if race.bound < race.pods]
    return 1 if incomplete or (options.check and misses) else 0


def parsed() -> argparse.Namespace:
    """Return the parsed command line, defaults filled in."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int)
    parser.add_argument(
        "--pods", type=int, help="maximum of pending pods; as many as nodes by default"
    )
    parser.add_argument(
        "--pods-per-node", type=int, default=0, help="bound pods per node before the race"
    )
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--racers", type=comma_separated(RACERS), default=list(RACERS))
    parser.add_argument("--workloads", type=comma_separated(workload_names()))
    parser.add_argument(
        "--short", action="store_true", help="run a small race to check that everything works"
    )
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="S", help="limit of one race"
    )
    parser.add_argument(
        "--baseline", type=Path, metavar="KUBESCHED", help="also race this kubesched command"
    )
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    parser.add_argument("--save", type=Path, help="write all figures to this file as JSON")
    parser.add_argument("--add", type=Path, help="add the figures of a file written by --save")
    parser.add_argument("--write", action="store_true", help="write the tables to DRAIN.md")
    options = parser.parse_args()
    options.nodes = options.nodes or (1000 if options.short else 5000)
    options.pods = options.pods or options.nodes
    options.rounds = options.rounds or (1 if options.short else 3)
    if options.baseline:
        options.baseline = options.baseline.absolute()
        if not options.baseline.is_file():
            parser.error(f"--baseline: {options.baseline} does not exist")
        options.racers = [*options.racers, BASELINE]
    if options.workloads is None:
        options.workloads = list(SHORT_WORKLOADS if options.short else WORKLOADS)
    return options


def saved(path: Path) -> dict[str, list[Race]]:
    """Return the figures that an earlier run saved."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, list[Race]])


def comma_separated(known: list[str] | tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated names."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not in {', '.join(known)}")
        return names

    return parse


def race_workload(name: str, options: argparse.Namespace) -> list[Race]:
    """Race on one workload, on a new API server; the racers take turns."""
    races = []
    with real_cluster("bare") as cluster:
        course = RaceCluster(cluster, load_workload(name), options.nodes, options.pods_per_node)
        course.fill()
        for number in range(options.rounds):
            # The first racer meets a colder server: a different one begins in each round.
            turn = number % len(options.racers)
            for racer in options.racers[turn:] + options.racers[:turn]:
                pod_count = course.create_burst(options.pods)
                race = run_race(
                    cluster, racer, pod_count, options.timeout, baseline=options.baseline
                )
                races.append(race)
                say(
                    f"  {name} {number + 1}: {racer} {race.rate:.0f} pods/s, "
                    f"{race.cpu_ms:.2f} CPU ms/pod, {race.bound} of {race.pods} bound"
                )
                course.remove_burst()
    return races


def write(
    results: dict[str, list[Race]], titles: dict[str, str], options: argparse.Namespace
) -> None:
    """Write the tables to DRAIN.md."""
    size = f"{options.nodes:,} nodes, up to {options.pods:,} pods, {options.rounds} rounds: medians"
    head = f"{today()}. {machine.description()}. {size}."
    parts = [head, "", *ratio_table(results, titles), ""]
    for name, races in results.items():
        parts.extend([*racers_table(titles[name], races), ""])
    if REFERENCE in options.racers:
        put_between(RESULTS, MARK, parts)
    if options.baseline:
        put_between(RESULTS, BASELINE_MARK, [head, "", *baseline_table(results, titles), ""])


def say(*lines: str) -> None:
    """Print lines without buffering."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
