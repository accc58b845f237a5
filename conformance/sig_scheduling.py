"""Upstream's [sig-scheduling] specs on a whole real cluster with one scheduler.

Owns the run of the specs, and the list of those that pass with kube-scheduler:
sig-scheduling-specs.txt has them with their durations. Prints every spec's outcome, then
`N of M passed`; exit status 0 if every spec of the list passed. Needs `make control-plane`.
Upstream: test/e2e/scheduling.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT)]

from conformance.own_playground import own_playground  # noqa: E402
from conformance.retries import count_retries  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402
from kubesched.testing import SCHEDULERS, Programs, SchedulerSettings, start_scheduler  # noqa: E402

SPECS = Path(__file__).parent / "sig-scheduling-specs.txt"
FOCUS, SKIP = r"\[sig-scheduling\]", "Flaky|FeatureGate|Alpha"
# Ginkgo's report appends labels to names, which its focus does not match.
LABELS = re.compile(r" \[sig-scheduling(, [^\]]*)?\]$")
FAILS = "# fails there: "
SHORT_S_MAX = 30.0
NODE_COUNT = 3
RETRIED_MAX = 3

EPILOG = """examples:
  sig_scheduling.py                                 kubesched, all that pass with kube-scheduler
  sig_scheduling.py --short                         only those that take less than 30 s each
  sig_scheduling.py --under-test kube-scheduler --record   run all specs, rewrite the list
  sig_scheduling.py --only hostPort                 only specs that match
  sig_scheduling.py --playground                    on `kubesched playground`
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one spec."""

    seconds: float
    failure: str
    """The failure; empty if it passed."""


def main() -> int:
    """Run the specs and print the results."""
    options = parsed()
    # One spec fails on a real cluster: it needs kubelets that set allocatable.
    known = recorded(every=options.playground)
    # Recording runs all of upstream's specs, other runs those that are known to pass.
    selected = [] if options.record else selection(known, options)
    if not selected and not options.record:
        print("sig-scheduling: no spec matches", file=sys.stderr)
        return 2
    with started(options) as kubeconfig:
        start = time.perf_counter()
        outcomes = run(kubeconfig, selected, options)
        failed = [spec for spec, outcome in outcomes.items() if outcome.failure]
        if failed and len(failed) <= RETRIED_MAX and not options.record:
            # Upstream's deadlines assume more cores than this machine may have, and KWOK deletes
            # by name: a pod recreated at once may be deleted with its predecessor.
            for spec in failed:
                print(f"retrying: {spec}: {outcomes[spec].failure}", flush=True)
            outcomes.update(run(kubeconfig, failed, options))
            count_retries(spec for spec in failed if not outcomes[spec].failure)
        took_s = time.perf_counter() - start
    for spec, outcome in sorted(outcomes.items()):
        verdict = f"FAILED: {outcome.failure}" if outcome.failure else "passed"
        print(f"{outcome.seconds:7.1f} s  {spec}: {verdict}")
    missing = [spec for spec in selected if spec not in outcomes]
    for spec in missing:
        print(f"           {spec}: did not run")
    passed = sum(not outcome.failure for outcome in outcomes.values())
    total = len(outcomes) + len(missing)
    where = "on the playground" if options.playground else f"with {options.under_test}"
    print(f"sig-scheduling: {passed} of {total} passed in {took_s:.0f} s {where}")
    if options.record:
        record(outcomes)
        return 0
    return 0 if passed == total else 1


@contextmanager
def started(options: argparse.Namespace) -> Iterator[Path]:
    """Run the cluster until the end of the block; yields the administrator's kubeconfig."""
    if options.playground:
        with own_playground(nodes=NODE_COUNT) as own:
            yield own.kubeconfig
        return
    with real_cluster("whole", nodes=NODE_COUNT, scheduler=False, directory=options.keep) as server:
        settings = SchedulerSettings(qps=50, burst=100, flags=(f"-v={options.verbosity}",))
        start_scheduler(server, server.group, options.under_test, settings)
        yield server.kubeconfig


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", 1)[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--under-test", choices=SCHEDULERS, default="kubesched")
    parser.add_argument(
        "--playground",
        action="store_true",
        help="run on the playground, without upstream's components",
    )
    parser.add_argument(
        "--short", action="store_true", help="run only specs that take less than 30 s each"
    )
    parser.add_argument(
        "--only", default="", metavar="PATTERN", help="run only specs that match this pattern"
    )
    parser.add_argument("--minutes", type=int, default=60, help="timeout of the run")
    parser.add_argument("--report", type=Path, help="write ginkgo's output to this file")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep the cluster's logs in this directory"
    )
    parser.add_argument("--verbosity", type=int, default=2, help="verbosity of the scheduler's log")
    parser.add_argument("--record", action="store_true", help="write sig-scheduling-specs.txt")
    return parser.parse_args()


def recorded(*, every: bool) -> dict[str, float]:
    """Return the specs that pass with kube-scheduler, or all, with their durations in seconds."""
    durations = {}
    lines = SPECS.read_text().splitlines() if SPECS.exists() else []
    for line in lines:
        entry = line.removeprefix(FAILS) if every else line
        if entry and not entry.startswith("#"):
            seconds, _, spec = entry.strip().partition(" ")
            durations[spec] = float(seconds)
    return durations


def selection(known: Mapping[str, float], options: argparse.Namespace) -> list[str]:
    """Return the specs to run."""
    return [
        spec
        for spec, seconds in known.items()
        if re.search(options.only, spec) and (seconds < SHORT_S_MAX or not options.short)
    ]


def record(outcomes: Mapping[str, Outcome]) -> None:
    """Write the passed specs, and the others as comments."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    lines = [
        "# [sig-scheduling] specs of Kubernetes v1.36.4 that pass with kube-scheduler on a whole",
        f"# real cluster of {NODE_COUNT} nodes (KWOK's kubelets), with the seconds each took.",
        f"# Written on {today} by sig_scheduling.py --under-test kube-scheduler --record.",
    ]
    for spec, outcome in sorted(outcomes.items()):
        mark = FAILS if outcome.failure else ""
        lines.append(f"{mark}{outcome.seconds:.1f} {spec}")
    SPECS.write_text("\n".join(lines) + "\n")


def run(
    kubeconfig: Path, selected: Iterable[str], options: argparse.Namespace
) -> dict[str, Outcome]:
    """Run specs in sequence; all of [sig-scheduling] if the list is empty."""
    programs = Programs.built()
    focus = "|".join(re.escape(spec) for spec in selected) or FOCUS
    with tempfile.TemporaryDirectory(prefix="kubesched-e2e-") as directory:
        report = Path(directory, "junit.xml")
        command = [
            programs.path("e2e.test"),
            f"--ginkgo.focus={focus}",
            f"--ginkgo.skip={SKIP}",
            "--ginkgo.no-color",
            f"--ginkgo.timeout={options.minutes}m",
            f"--ginkgo.junit-report={report}",
            f"--kubeconfig={kubeconfig}",
            f"--kubectl-path={programs.path('kubectl')}",
            "--provider=skeleton",
            "--minStartupPods=0",
        ]
        finished = subprocess.run(
            [str(part) for part in command],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if options.report:
            options.report.write_text(finished.stdout)
        if not report.exists():
            print(finished.stdout[-3000:], file=sys.stderr)
            raise RuntimeError(f"e2e.test ended with status {finished.returncode}, no report")
        return outcomes_of(report)


def outcomes_of(report: Path) -> dict[str, Outcome]:
    """Return the results in ginkgo's report."""
    results = {}
    for case in ET.parse(report).iter("testcase"):
        name = case.get("name") or ""
        status = case.get("status")
        if not name.startswith("[It] ") or status in {"skipped", "pending", None}:
            continue
        failure = case.find("failure")
        text = str(failure.get("message") if failure is not None else status)
        results[LABELS.sub("", name.removeprefix("[It] "))] = Outcome(
            float(case.get("time") or 0), "" if status == "passed" else " ".join(text.split())[:300]
        )
    return results


if __name__ == "__main__":
    sys.exit(main())
