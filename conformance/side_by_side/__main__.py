"""Compare two schedulers live: `python conformance/side_by_side`.

Owns the command line and the report. Exit status 0 if no sequence differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
# As a script this file sees only its own folder; the packages are above it.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from conformance.side_by_side.generate import FAMILIES, sequence_of  # noqa: E402
from conformance.side_by_side.pair import Outcome, Pair  # noqa: E402
from conformance.side_by_side.side import Side  # noqa: E402
from conformance.side_by_side.steps import Sequence  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402
from kubesched.testing import SCHEDULERS  # noqa: E402

SHORT_COUNT = 12
EPILOG = """examples:
  side_by_side --sequences 200 --seed 1              200 sequences, all families in turn
  side_by_side --short                               12 sequences, for CI
  side_by_side --families preemption,volumes         two families
  side_by_side --only spread-17                      repeat one sequence
  side_by_side --only spread-17 --print              print its steps without running it
  side_by_side --under-test kube-scheduler           kube-scheduler against itself: must be equal
"""


def main() -> int:
    """Run the sequences and print the verdicts."""
    options = parsed()
    sequences = list(selected(options))
    if options.print:
        for sequence in sequences:
            print(json.dumps(sequence.document(), indent=1))
        return 0
    # SIGTERM ends the run like Ctrl-C, together with all child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = perf_counter()
    outcomes = list(run(sequences, options))
    return summary(outcomes, perf_counter() - start, options)


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sequences", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the first of N seeds")
    parser.add_argument(
        "--families", default="all", help="comma-separated names of " + ",".join(FAMILIES)
    )
    parser.add_argument(
        "--only", default="", metavar="FAMILY-SEED", help="run only these; comma-separated"
    )
    parser.add_argument("--under-test", choices=SCHEDULERS, default="kubesched")
    parser.add_argument("--reference", choices=SCHEDULERS, default="kube-scheduler")
    parser.add_argument(
        "--lanes", type=int, default=1, help="number of concurrent pairs of clusters"
    )
    parser.add_argument("--report", type=Path, help="write one JSON line per sequence to this file")
    parser.add_argument("--short", action="store_true", help=f"{SHORT_COUNT} sequences, for CI")
    parser.add_argument(
        "--print", action="store_true", help="print the sequences without running them"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the logs in this directory")
    return parser.parse_args()


def selected(options: argparse.Namespace) -> Iterator[Sequence]:
    """Yield the sequences to run."""
    if options.only:
        for name in options.only.split(","):
            family, _, seed = name.rpartition("-")
            yield sequence_of(family, int(seed))
        return
    families = list(FAMILIES) if options.families == "all" else options.families.split(",")
    number = SHORT_COUNT if options.short else options.sequences
    for seed in range(options.seed, options.seed + number):
        yield sequence_of(families[seed % len(families)], seed)


def run(sequences: list[Sequence], options: argparse.Namespace) -> Iterator[Outcome]:
    """Run sequences, several at a time if there are several lanes, and print each verdict."""
    lanes = min(options.lanes, len(sequences))
    with ExitStack() as stack:
        pairs: SimpleQueue[Pair] = SimpleQueue()
        for number in range(lanes):
            pairs.put(stack.enter_context(a_pair(options, number)))
        report = stack.enter_context(options.report.open("w")) if options.report else None

        def on_free_pair(sequence: Sequence) -> Outcome:
            pair = pairs.get()
            try:
                return pair.run(sequence)
            finally:
                pairs.put(pair)

        threads = stack.enter_context(ThreadPoolExecutor(lanes))
        stack.callback(threads.shutdown, wait=True, cancel_futures=True)
        for done in as_completed(threads.submit(on_free_pair, one) for one in sequences):
            outcome = done.result()
            show(outcome)
            if report:
                report.write(json.dumps(outcome.document()) + "\n")
                report.flush()
            yield outcome


@contextmanager
def a_pair(options: argparse.Namespace, number: int) -> Iterator[Pair]:
    """Start two control planes with a scheduler each."""
    with ExitStack() as stack:
        sides = []
        for role in ("reference", "under_test"):
            directory = options.keep / f"{number}-{role}" if options.keep else None
            if directory:
                shutil.rmtree(directory, ignore_errors=True)
            cluster = stack.enter_context(real_cluster("bare", directory=directory))
            side = Side(cluster, getattr(options, role))
            stack.callback(side.close)
            sides.append(side)
        pair = Pair(*sides)
        pair.start()
        yield pair


def show(outcome: Outcome) -> None:
    """Print the verdict on one sequence."""
    sequence = outcome.sequence
    print(
        f"{outcome.status:>9}  {sequence.name:<15} {outcome.compared:>3} of "
        f"{len(sequence.steps):>3} steps, {outcome.events:>3} events, {outcome.seconds:5.1f} s",
        flush=True,
    )
    for step, late_s in outcome.late.items():
        print(f"    {late_s:.1f} s late: {step}")
    if outcome.status not in {"equal", "tied", "raced"}:
        print(f"    after {outcome.stopped_at}")
        for difference in outcome.differences[:12]:
            print(f"    {difference}")
    if outcome.error:
        print(f"    {outcome.error}")


def summary(outcomes: list[Outcome], took_s: float, options: argparse.Namespace) -> int:
    """Print the totals and return the exit status."""
    counts = Counter(outcome.status for outcome in outcomes)
    steps = sum(outcome.compared for outcome in outcomes)
    late = sum(len(outcome.late) for outcome in outcomes)
    totals = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    print(
        f"side by side: {options.under_test} against {options.reference}: "
        f"{len(outcomes)} sequences, {steps} steps compared, {late} late, "
        f"in {took_s:.0f} s: {totals}"
    )
    failed = [one.sequence.name for one in outcomes if one.status in {"different", "error"}]
    if failed:
        print(f"  repeat with: --only {','.join(failed)}")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
