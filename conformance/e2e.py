"""Upstream's conformance specs on a cluster with the embedded API server.

Owns the run of the specs in conformance-specs.txt: ginkgo with kubernetes' e2e.test, on a cluster
with real controllers, a real scheduler and KWOK's kubelets, or on the playground. Prints the specs
that failed, then `N of M passed`; exit status 0 if enough passed. Needs `make control-plane`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT)]

from conformance.own_playground import own_playground  # noqa: E402
from conformance.retries import count_retries  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402
from kubesched.testing import Programs, embedded_cluster  # noqa: E402

SPECS = Path(__file__).parent / "conformance-specs.txt"


class Cluster(Protocol):
    """The parts of a cluster that the specs need."""

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""


CLUSTERS: dict[str, Callable[[], AbstractContextManager[Cluster]]] = {
    "embedded": embedded_cluster,
    "real": lambda: real_cluster("whole"),
    "playground": lambda: own_playground(nodes=3),
}


def main() -> int:
    """Run the specs and print the results."""
    options = parsed()
    selected = [spec for spec in specs(options.specs) if re.search(options.focus, spec)]
    start = time.perf_counter()
    with CLUSTERS[options.server]() as server:
        print(f"e2e: cluster started in {time.perf_counter() - start:.1f} s", flush=True)
        start = time.perf_counter()
        results = run(server, selected, options)
        failed = [spec for spec in selected if results.get(spec) != ""]
        if failed and len(failed) < len(selected):
            # Upstream's deadlines assume more cores than this machine may have.
            print(f"e2e: retrying {len(failed)} failed specs, two at a time")
            options.procs = 2
            results.update(run(server, failed, options))
            recovered = [spec for spec in failed if results.get(spec) == ""]
            print("".join(f"  passed at the retry: {spec}\n" for spec in recovered), end="")
            count_retries(recovered)
    passed = [spec for spec in selected if results.get(spec) == ""]
    for spec in selected:
        if results.get(spec) != "":
            print(f"  {spec}: {results.get(spec, 'did not run')}")
    took_s = time.perf_counter() - start
    print(f"e2e: {len(passed)} of {len(selected)} passed in {took_s:.0f} s ({options.server})")
    return 0 if len(passed) >= min(options.least or len(selected), len(selected)) else 1


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--server",
        choices=list(CLUSTERS),
        default="embedded",
        help="embedded API server with real controllers, scheduler and KWOK; all real; all ours",
    )
    parser.add_argument("--specs", type=Path, default=SPECS, help="file with one spec per line")
    parser.add_argument("--focus", default="", help="run only specs that match this pattern")
    parser.add_argument("--procs", type=int, default=8)
    parser.add_argument("--minutes", type=int, default=20)
    parser.add_argument("--least", type=int, default=0, help="minimum of passed specs; all if 0")
    parser.add_argument("--report", type=Path, help="write ginkgo's output to this file")
    return parser.parse_args()


def specs(path: Path) -> list[str]:
    """Return the names of the specs."""
    lines = path.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run(server: Cluster, selected: list[str], options: argparse.Namespace) -> dict[str, str]:
    """Run specs and return the failure of each; empty if it passed."""
    programs = Programs.built()
    with tempfile.TemporaryDirectory(prefix="kubesched-e2e-") as directory:
        command = [
            programs.path("ginkgo"),
            f"--procs={options.procs}",
            "--no-color",
            f"--focus={'|'.join(re.escape(spec) for spec in selected)}",
            f"--timeout={options.minutes}m",
            f"--output-dir={directory}",
            "--junit-report=junit.xml",
            programs.path("e2e.test"),
            "--",
            f"--kubeconfig={server.kubeconfig}",
            f"--kubectl-path={programs.path('kubectl')}",
            "--provider=skeleton",
            "--minStartupPods=0",
            "--kube-api-content-type=application/json",
        ]
        finished = subprocess.run(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if options.report:
            options.report.write_text(finished.stdout)
        try:
            return outcomes(Path(directory, "junit.xml"), selected)
        except OSError:
            print(finished.stdout[-3000:], file=sys.stderr)
            raise


def outcomes(report: Path, selected: list[str]) -> dict[str, str]:
    """Return the failure of each spec in ginkgo's report."""
    failures: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        name = (case.get("name") or "").removeprefix("[It] ")
        spec = next((one for one in selected if one in name), None)
        status = case.get("status")
        if spec is None or status in {"skipped", None}:
            continue
        failure = case.find("failure")
        if status == "passed":
            failures[spec] = ""
        else:
            failures[spec] = str(failure.get("message") if failure is not None else status)[:300]
    return failures


if __name__ == "__main__":
    sys.exit(main())
