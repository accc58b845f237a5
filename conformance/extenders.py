"""Extenders called by kube-scheduler and by kubesched: `python conformance/extenders.py`.

Owns the runs: the same extenders, scripted, are given to both schedulers in turn, on one control
plane with the same nodes and the same pods, and it is compared what each asked them, where pods
went, and what was said of it. Exit status 0 if nothing differs.
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
from conformance.extender.stage import Seen, Stage  # noqa: E402
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
        wanted = [case for case in group if (case.in_short or not options.short)]
        wanted = [case for case in wanted if not only or case.name in only]
        if wanted:
            yield wanted


def main() -> int:
    """Run the cases and report."""
    options = parsed()
    # SIGTERM ends it like Ctrl-C, with everything it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started_s = time.monotonic()
    if options.keep:
        shutil.rmtree(options.keep, ignore_errors=True)
    with ExitStack() as stack:
        cluster = stack.enter_context(real_cluster("bare", directory=options.keep))
        certificates = write_certificates(_made(cluster.directory / "extender"))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.serving, certificates.serving_key)
        tls.load_verify_locations(certificates.authority)
        tls.verify_mode = ssl.CERT_OPTIONAL
        plain = stack.enter_context(ScriptedExtender())
        secure = stack.enter_context(ScriptedExtender(tls=tls))
        api = stack.enter_context(cluster.api())
        stage = Stage(cluster, api, plain, secure, certificates)
        prepare(stage)
        theirs = played(stage, options, options.reference)
        ours = played(stage, options, options.under_test)
        lost = [] if options.only else run_storm(stage, options.under_test)
    bad = [name for name in theirs if not shown(name, ours[name], theirs[name], options)]
    print(
        f"extenders: {options.under_test} against {options.reference}: {len(theirs)} cases, "
        f"{len(bad)} different, in {time.monotonic() - started_s:.0f} s"
    )
    for problem in lost:
        print(f"  storm: {problem}")
    if bad:
        print(f"  again: --only {','.join(bad)}")
    return 1 if bad or lost or not theirs else 0


def played(stage: Stage, options: argparse.Namespace, scheduler: SchedulerName) -> dict[str, Seen]:
    """Return a scheduler's results of all cases; stateful scripts are reset first."""
    return {
        name: seen
        for group in groups(stage, options)
        for name, seen in stage.play(group, scheduler).items()
    }


def prepare(stage: Stage) -> None:
    """Create the objects that all cases share."""
    for name in NODES:
        stage.api.post("/api/v1/nodes", a_node(name)).must(201)
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, value in PRIORITIES.items():
        one = {**head, "metadata": {"name": name}, "value": value}
        stage.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", one).must(201)


def shown(name: str, ours: Seen, theirs: Seen, options: argparse.Namespace) -> bool:
    """Print the verdict on one case, and return whether it is equal."""
    fields = Seen.__dataclass_fields__
    mine, reference = ({key: getattr(seen, key) for key in fields} for seen in (ours, theirs))
    found = list(differences(mine, reference))
    if theirs.problem:
        found.append(f"{options.reference}: {theirs.problem}")
    if not found and not options.verbose:
        return True
    asked = len(theirs.asked)
    came_to = theirs.node or " ".join(theirs.condition)
    print(f"{'different' if found else 'equal':>9}  {name}: {asked} asked, {came_to[:200]}")
    for difference in found[:12]:
        print(f"    {difference}")
    return not found


def _made(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--short", action="store_true", help="fewer cases, for CI")
    parser.add_argument("--only", default="", metavar="CASE", help="comma-separated")
    parser.add_argument("--verbose", action="store_true", help="also show equal cases")
    parser.add_argument("--under-test", choices=SCHEDULERS, default="kubesched")
    parser.add_argument("--reference", choices=SCHEDULERS, default="kube-scheduler")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="directory for logs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
