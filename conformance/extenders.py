"""Extenders called by kube-scheduler and by kubesched: `python conformance/extenders.py`.

Owns the runs: both schedulers run in turn with the same scripted extenders, on one control plane
with the same nodes and the same pods. Compares their requests, placements, conditions and events.
Exit status 0 if nothing differs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from conformance.extender.cases import (  # noqa: E402
    NODES,
    PRIORITIES,
    Case,
    bind_cases,
    fault_cases,
    filter_cases,
    for_all_cases,
    preempt_cases,
    prioritize_cases,
    trusted_cases,
    untrusted_cases,
)
from conformance.extender.server import ScriptedExtender  # noqa: E402
from conformance.extender.stage import CaseResult, Stage  # noqa: E402
from conformance.extender.storm import run_storm  # noqa: E402
from kubesched.cluster.launch.certificates import write_certificates  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402
from kubesched.testing import SCHEDULERS, SchedulerName, a_node  # noqa: E402

# -- comparing -------------------------------------------------------------------------------------


def differences(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Yield the differences of two values."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            missing = "<missing>"
            yield from differences(
                ours.get(key, missing), theirs.get(key, missing), f"{where}.{key}".strip(".")
            )
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif ours != theirs:
        yield f"{where}: {_short(ours)}, upstream {_short(theirs)}"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) < 400 else f"{text[:400]}..."


def groups(stage: Stage, options: argparse.Namespace) -> Iterator[list[Case]]:
    """Yield the cases that share a configuration."""
    managed = [
        *filter_cases(),
        *prioritize_cases(),
        *fault_cases(),
        *preempt_cases(),
        *bind_cases(stage.bind),
    ]
    only = options.only.split(",") if options.only else []
    trusted = trusted_cases(stage.certificates)
    for group in (managed, for_all_cases(), trusted, untrusted_cases()):
        selected = [case for case in group if (case.in_short or not options.short)]
        selected = [case for case in selected if not only or case.name in only]
        if selected:
            yield selected


def main() -> int:
    """Run the cases and print the verdicts."""
    options = parsed()
    # SIGTERM ends the run like Ctrl-C, together with all child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started_s = time.monotonic()
    if options.keep:
        shutil.rmtree(options.keep, ignore_errors=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(real_cluster("bare", directory=options.keep))
        certificates = write_certificates(_created(cluster.directory / "extender"))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.serving, certificates.serving_key)
        tls.load_verify_locations(certificates.authority)
        tls.verify_mode = ssl.CERT_OPTIONAL
        plain = stack.enter_context(ScriptedExtender())
        secure = stack.enter_context(ScriptedExtender(tls=tls))
        api = stack.enter_context(cluster.api())
        stage = Stage(cluster, api, plain, secure, certificates)
        prepare(stage)
        theirs = results_of(stage, options, options.reference)
        ours = results_of(stage, options, options.under_test)
        problems = [] if options.only else run_storm(stage, options.under_test)
    bad = [name for name in theirs if not is_equal(name, ours[name], theirs[name], options)]
    print(
        f"extenders: {options.under_test} against {options.reference}: {len(theirs)} cases, "
        f"{len(bad)} different, in {time.monotonic() - started_s:.0f} s"
    )
    for problem in problems:
        print(f"  storm: {problem}")
    if bad:
        print(f"  repeat with: --only {','.join(bad)}")
    return 1 if bad or problems or not theirs else 0


def results_of(
    stage: Stage, options: argparse.Namespace, scheduler: SchedulerName
) -> dict[str, CaseResult]:
    """Return a scheduler's results of all cases; stateful scripts are reset first."""
    return {
        name: result
        for group in groups(stage, options)
        for name, result in stage.play(group, scheduler).items()
    }


def prepare(stage: Stage) -> None:
    """Create the objects that all cases share."""
    for name in NODES:
        stage.api.post("/api/v1/nodes", a_node(name)).must(201)
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, value in PRIORITIES.items():
        one = {**head, "metadata": {"name": name}, "value": value}
        stage.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", one).must(201)


def is_equal(name: str, ours: CaseResult, theirs: CaseResult, options: argparse.Namespace) -> bool:
    """Return whether the results of a case are equal; print the verdict if not, or if verbose."""
    fields = CaseResult.__dataclass_fields__
    mine, reference = ({key: getattr(side, key) for key in fields} for side in (ours, theirs))
    found = list(differences(mine, reference))
    if theirs.problem:
        found.append(f"{options.reference}: {theirs.problem}")
    if not found and not options.verbose:
        return True
    verbs = len(theirs.calls)
    outcome = theirs.node or " ".join(theirs.condition)
    print(f"{'different' if found else 'equal':>9}  {name}: {verbs} verbs called, {outcome[:200]}")
    for difference in found[:12]:
        print(f"    {difference}")
    return not found


def _created(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--short", action="store_true", help="run fewer cases, for CI")
    parser.add_argument(
        "--only", default="", metavar="CASE", help="run only these; comma-separated"
    )
    parser.add_argument("--verbose", action="store_true", help="also print equal cases")
    parser.add_argument("--under-test", choices=SCHEDULERS, default="kubesched")
    parser.add_argument("--reference", choices=SCHEDULERS, default="kube-scheduler")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the logs in this directory")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
