"""Run the benchmarks.

Owns the command line of `make bench`: the workloads, sizes and number of runs, and the output.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402
from rich.console import Console  # noqa: E402

from benchmarks import machine, report  # noqa: E402
from benchmarks.oracle import ask_oracle, build_oracle  # noqa: E402
from benchmarks.results import today  # noqa: E402
from benchmarks.session import Figures, Session  # noqa: E402
from benchmarks.workload import load_workload, with_nominated, workload_names  # noqa: E402

EPILOG = """examples:
  run.py --workload one-template --nodes 5000    one workload at one size
  run.py --workload 'owned*' --compare           compared with kube-scheduler
  run.py --profile one-template --nodes 5000     a profile of one run
  run.py --short                                 check that every workload drains
  run.py --write                                 all workloads, into RESULTS.md
"""
SIZES = (5_000, 15_000)
LONG_SIZE, LONG_MB_MAX = 100_000, 4_000
SHORT_SIZE = 500


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return 1 if a requirement fails."""
    options = arguments(argv)
    console = Console(stderr=True, soft_wrap=True)
    if options.profile:
        return show_profile(options)
    figures = [one for size in options.nodes for one in measure(options, size, console)]
    Console(width=None if sys.stdout.isatty() else 250).print(report.table_of(figures))
    console.print(machine.description())
    if options.json:
        Path(options.json).write_bytes(msgspec.json.encode([as_json(one) for one in figures]))
    if options.write:
        report.write_results(figures, heading(options))
    problems = [text for one in figures for text in problems_of(one, whole=options.short)]
    for text in problems:
        console.print(text)
    return 1 if problems else 0


def measure(options: argparse.Namespace, node_count: int, console: Console) -> Iterator[Figures]:
    """Yield the figures of each workload at one size."""
    session = session_of(options, node_count)
    program = build_oracle() if options.compare else None
    workloads = [
        with_nominated(load_workload(name), options.nominated) for name in options.workload
    ]
    # Workloads of one cluster are adjacent, so that it is loaded once.
    for workload in sorted(workloads, key=lambda one: one.cluster):
        runs = tuple(session.runs(workload, options.runs))
        theirs = None
        if program is not None:
            theirs = ask_oracle(
                program,
                workload,
                session.lines(workload),
                runs=options.runs,
                seconds_max=options.seconds,
            )
        figures = Figures(workload, node_count, runs, theirs)
        console.print(
            f"{workload.name}, {node_count:,} nodes: {figures.rate:,.0f} decisions/s "
            f"(cluster of {session.load_mb:,.0f} MB loaded in {session.load_seconds:.1f} s)"
        )
        yield figures


def show_profile(options: argparse.Namespace) -> int:
    """Print the functions in which a workload's decisions spend their time."""
    session = session_of(options, options.nodes[0])
    sys.stdout.write(session.profile(load_workload(options.profile), options.top))
    return 0


def problems_of(one: Figures, *, whole: bool) -> Iterator[str]:
    """Yield errors regardless of speed: pods without their expected outcome."""
    name = f"{one.workload.name}, {one.node_count:,} nodes"
    for run in one.runs:
        got = {
            "placed": run.placed,
            "preempting": run.preempting,
            "unschedulable": run.unschedulable,
        }[one.workload.expect]
        if got != run.decided:
            yield f"{name}: of {run.decided} decided pods, {got} were {one.workload.expect}: {run}"
        if whole and not run.is_complete:
            yield f"{name}: {run.decided} of {run.burst} pods were decided in time"
        if one.node_count == LONG_SIZE and run.resident_mb > LONG_MB_MAX:
            yield f"{name}: {run.resident_mb:,.0f} MB resident, {LONG_MB_MAX:,} are allowed"


def session_of(options: argparse.Namespace, node_count: int) -> Session:
    """Return a session with the options of the command line."""
    return Session(
        node_count,
        seed=options.seed,
        seconds_max=options.seconds,
        pods_per_node=options.pods_per_node,
        burst=options.burst,
        caching=not options.uncached,
    )


def as_json(one: Figures) -> dict[str, object]:
    """Return figures for other programs."""
    return {
        "workload": one.workload.name,
        "nodes": one.node_count,
        "rate": one.rate,
        "cpu_rate": one.cpu_rate,
        "floor": one.floor,
        "runs": one.runs,
        "oracle": one.oracle.runs if one.oracle else None,
    }


def heading(options: argparse.Namespace) -> str:
    """Return the line above the figures: date, machine and number of runs."""
    runs = f"{options.runs} runs of at most {options.seconds:g} s, seed {options.seed}"
    return f"{today()}. {machine.description()}. {runs}."


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed command line, defaults filled in."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = workload_names()
    parser.add_argument(
        "--nodes", type=int, nargs="+", help="numbers of nodes; 5000 and 15000 by default"
    )
    parser.add_argument(
        "--workload", nargs="+", default=["*"], help="names or patterns of workloads"
    )
    parser.add_argument("--runs", type=int, help="runs of each workload; 5 by default")
    parser.add_argument("--seconds", type=float, help="maximum duration of a run; 5 by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--burst", type=int, help="maximum number of pods to schedule")
    parser.add_argument(
        "--pods-per-node", type=int, help="bound pods per node, instead of the cluster's"
    )
    parser.add_argument(
        "--nominated", type=int, default=0, help="number of additional nominated pods"
    )
    parser.add_argument(
        "--short", action="store_true", help="500 nodes, one run; fail unless all drain"
    )
    parser.add_argument("--long", action="store_true", help="also 100,000 nodes, in at most 4 GB")
    parser.add_argument("--uncached", action="store_true", help="keep no verdicts")
    parser.add_argument("--compare", action="store_true", help="also run kube-scheduler's code")
    parser.add_argument("--profile", metavar="WORKLOAD", choices=names, help="profile one run")
    parser.add_argument("--top", type=int, default=30, help="number of functions in a profile")
    parser.add_argument("--write", action="store_true", help="update RESULTS.md")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args(argv)
    options.workload = [
        name for name in names if any(Path(name).match(one) for one in options.workload)
    ]
    if not options.workload:
        parser.error(f"no such workload: known workloads are {', '.join(names)}")
    options.nodes = options.nodes or ([SHORT_SIZE] if options.short else list(SIZES))
    options.nodes += [LONG_SIZE] if options.long else []
    options.runs = options.runs or (1 if options.short else 5)
    options.seconds = options.seconds or (60 if options.short else 5)
    return options


if __name__ == "__main__":
    sys.exit(main())
