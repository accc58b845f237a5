"""Races on a real API server: kube-scheduler, kubesched and a binder that does not decide.

Owns the command line of `make bench-drain`. Nodes and waiting pods are made beforehand, then a
racer is started, and the time from its first to its last binding taken; racers take turns on one
API server, round by round.
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
  drain_race.py --check                    fail where a figure is not reached
  drain_race.py --baseline ../before/.venv/bin/kubesched --write
                                           an earlier version races, too
"""


def main() -> int:
    """Race and report."""
    options = parsed()
    # `kill` ends it as Ctrl-C does, with everything it started.
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
    failures = missed(results)
    say(*(f"missed: {failure}" for failure in failures))
    if options.write:
        write(results, titles, options)
    incomplete = [race for races in results.values() for race in races if race.bound < race.pods]
    return 1 if incomplete or (options.check and failures) else 0


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int, help="as many as nodes, or as the workload has")
    parser.add_argument("--pods-per-node", type=int, default=0, help="bound before the race")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--racers", type=chosen(RACERS), default=list(RACERS))
    parser.add_argument("--workloads", type=chosen(workload_names()))
    parser.add_argument("--short", action="store_true", help="small, does it all still work?")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="S", help="of one race")
    parser.add_argument(
        "--baseline", type=Path, metavar="KUBESCHED", help="command of another version, to race too"
    )
    parser.add_argument("--check", action="store_true", help="fail where a figure is missed")
    parser.add_argument("--save", type=Path, help="where to write all figures as JSON")
    parser.add_argument("--add", type=Path, help="saved figures of workloads that are not raced")
    parser.add_argument("--write", action="store_true", help="put the tables into DRAIN.md")
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


def chosen(known: list[str] | tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return a parser of names with commas between them."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        unknown = [name for name in found if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not of {', '.join(known)}")
        return found

    return names


def race_workload(name: str, options: argparse.Namespace) -> list[Race]:
    """Let the racers take turns on one workload, on a new API server."""
    races = []
    with real_cluster("bare") as cluster:
        course = RaceCluster(cluster, load_workload(name), options.nodes, options.pods_per_node)
        course.fill()
        for number in range(options.rounds):
            # The first racer finds a colder server: another one begins in each round.
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
    """Put the tables into DRAIN.md."""
    size = f"{options.nodes:,} nodes, up to {options.pods:,} pods, {options.rounds} rounds: medians"
    head = f"{today()}. {machine.description()}. {size}."
    parts = [head, "", *ratio_table(results, titles), ""]
    for name, races in results.items():
        parts.extend([*racers_table(titles[name], races), ""])
    put_between(RESULTS, MARK, parts)
    if options.baseline:
        put_between(RESULTS, BASELINE_MARK, [head, "", *baseline_table(results, titles), ""])


def say(*lines: str) -> None:
    """Print lines without buffering."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
