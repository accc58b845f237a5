"""Faults during a burst of thousands of pods, and recovery.

Scenarios, each on its own control plane: API server killed, watches cut, scheduler killed, leader
of two replicas killed or stopped, kube-scheduler and kubesched on one lease. The burst fills the
cluster completely, so that a pod that is lost or counted twice is noticed. Prints recovery times;
exit status 0 if every check passed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from conformance.bulk import Request, send_all  # noqa: E402
from conformance.fault_checks import (  # noqa: E402
    AUDIT_POLICY,
    Bindings,
    Verdict,
    check,
    requests_of,
)
from conformance.tcp_proxy import TcpProxy  # noqa: E402
from kubesched.cluster.launch.real_cluster import real_cluster  # noqa: E402
from kubesched.cluster.launch.server import SCHEDULER  # noqa: E402
from kubesched.testing import (  # noqa: E402
    SCHEDULERS,
    RealCluster,
    SchedulerName,
    SchedulerProcess,
    SchedulerSettings,
    start_scheduler,
)

NAMESPACE = "default"
POD_CPU_MILLI = 100
PODS_PER_NODE = 42
# Created at the end, for the last places: they stay pending if a watch is broken.
LATER_PODS = 100
DOWN_S = 2.0
# Requests are limited so that a burst takes this long, and a fault can happen during it.
BURST_S = 12.0
WAIT_S_MAX = 180.0
ELECTION = {
    "leaderElect": True,
    "leaseDuration": "4s",
    "renewDeadline": "3s",
    "retryPeriod": "500ms",
}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
SOURCES = ("127.0.0.2", "127.0.0.3")


@dataclass(slots=True)
class Stage:
    """A cluster with nodes, and its observers."""

    cluster: RealCluster
    audit_log: Path
    bindings: Bindings
    under_test: SchedulerName
    pod_count: int
    stack: ExitStack
    times: dict[str, float] = field(default_factory=dict)
    """Measured seconds by name."""
    failures: list[str] = field(default_factory=list)

    def create_pods(self, count: int, prefix: str = "burst") -> None:
        """Create pending pods."""
        send_all(self.cluster, (a_pod(f"{prefix}-{number}") for number in range(count)))

    def start(
        self, name: SchedulerName, *, label: str, source: str = "", elects: bool = False
    ) -> tuple[SchedulerProcess, TcpProxy]:
        """Start a scheduler behind its own proxy."""
        proxy = self.stack.enter_context(TcpProxy(self.cluster, source=source or SOURCES[0]))
        kubeconfig = proxy.write_kubeconfig(
            SCHEDULER, self.cluster.directory / f"{label}.kubeconfig"
        )
        election = ELECTION if elects else {"leaderElect": False}
        settings = SchedulerSettings(
            qps=self.pod_count / BURST_S,
            burst=20,
            kubeconfig=kubeconfig,
            leader_election=election,
            flags=("-v=2",),
        )
        started = start_scheduler(self.cluster, self.cluster.group, name, settings, label=label)
        return started, proxy

    def wait_share(self, share: float) -> int:
        """Wait until a share of the burst is bound; return the number of bound pods."""
        expected = int(self.pod_count * share)
        if not self.bindings.wait_count(expected, WAIT_S_MAX):
            raise TimeoutError(f"{len(self.bindings.nodes)} of {expected} pods bound in time")
        return len(self.bindings.nodes)

    def time_recovery(self, since_s: float, source: str = "") -> None:
        """Wait until the burst is bound; record the time until bindings resumed.

        Args:
            since_s: The time of the fault, in seconds since the epoch.
            source: Count only bindings from this address; all if empty.
        """
        self.bindings.wait_count(self.pod_count, WAIT_S_MAX)
        after = [
            one.at_s - since_s
            for one in requests_of(self.audit_log, "pods/binding")
            if one.code == 201 and one.at_s > since_s and one.source == (source or one.source)
        ]
        if after:
            self.times["bindings resumed after s"] = after[0]
            self.times["burst bound after s"] = after[-1]

    def finish(self) -> Verdict:
        """Fill the last places, then check."""
        self.create_pods(LATER_PODS, "later")
        start_s = time.perf_counter()
        if self.bindings.wait_count(self.pod_count + LATER_PODS, WAIT_S_MAX):
            self.times["later pods bound after s"] = self.bindings.last_s - start_s
        with self.cluster.api() as api:
            return check(api, NAMESPACE, self.audit_log, self.bindings)


def api_server_killed(stage: Stage) -> None:
    """kube-apiserver is killed during the burst, and restarted after a while."""
    stage.start(stage.under_test, label="scheduler")
    stage.wait_share(0.25)
    stage.cluster.kill_api_server()
    # The downtime of the server.
    time.sleep(DOWN_S)
    start_s = time.time()
    stage.cluster.start_api_server()
    stage.times["server ready after s"] = time.time() - start_s
    stage.time_recovery(start_s)


def watch_cut(stage: Stage) -> None:
    """All connections of the scheduler are cut, three times."""
    _, proxy = stage.start(stage.under_test, label="scheduler")
    for share in (0.2, 0.5, 0.8):
        stage.wait_share(share)
        start_s = time.time()
        stage.times[f"connections cut at {share:.0%}"] = float(proxy.cut())
    stage.time_recovery(start_s)


def scheduler_killed(stage: Stage) -> None:
    """The scheduler is killed during the burst and restarted."""
    process, _ = stage.start(stage.under_test, label="scheduler")
    stage.wait_share(0.3)
    process.kill()
    start_s = time.time()
    stage.start(stage.under_test, label="again", source=SOURCES[1])
    stage.time_recovery(start_s, SOURCES[1])


def leader_killed(stage: Stage) -> None:
    """The leader of two replicas is killed during the burst."""
    hand_over(stage, stage.under_test, stage.under_test)


def leader_stopped(stage: Stage) -> None:
    """The leader of two replicas is terminated during the burst, and releases its lease."""
    hand_over(stage, stage.under_test, stage.under_test, is_killed=False)


def lease_from_kube_scheduler(stage: Stage) -> None:
    """The scheduler under test takes over from kube-scheduler."""
    hand_over(stage, "kube-scheduler", stage.under_test)


def lease_to_kube_scheduler(stage: Stage) -> None:
    """kube-scheduler takes over from the scheduler under test."""
    hand_over(stage, stage.under_test, "kube-scheduler")


def hand_over(
    stage: Stage, first: SchedulerName, second: SchedulerName, *, is_killed: bool = True
) -> None:
    """Stop the leader during the burst; check that the other one bound nothing before."""
    leader, _ = stage.start(first, label=f"first-{first}", source=SOURCES[0], elects=True)
    wait_for(lambda: bool(holder_of(stage)), "a leader")
    stage.start(second, label=f"second-{second}", source=SOURCES[1], elects=True)
    wait_for(lambda: SOURCES[1] in sources_of(stage, "leases"), "the second replica")
    stage.wait_share(0.3)
    end_s = time.time()
    if is_killed:
        leader.kill()
    else:
        stage.times["exit status"] = float(leader.terminate())
        stage.times["ended after s"] = time.time() - end_s
    stage.time_recovery(end_s, SOURCES[1])
    bound = [one for one in requests_of(stage.audit_log, "pods/binding") if one.code == 201]
    by_source = {source: [one for one in bound if one.source == source] for source in SOURCES}
    stage.times["bindings of the first"] = float(len(by_source[SOURCES[0]]))
    stage.times["bindings of the second"] = float(len(by_source[SOURCES[1]]))
    early = [one for one in by_source[SOURCES[1]] if one.at_s < end_s]
    if early:
        stage.failures.append(f"the second bound {len(early)} pods while the first was leader")
    if not by_source[SOURCES[1]]:
        stage.failures.append("the second never bound a pod")
        return
    taken_s = by_source[SOURCES[1]][0].at_s
    late = [one for one in by_source[SOURCES[0]] if one.at_s > taken_s]
    if late:
        stage.failures.append(f"the first bound {len(late)} pods after the second had begun")


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    "api-server-killed": api_server_killed,
    "watch-cut": watch_cut,
    "scheduler-killed": scheduler_killed,
    "leader-killed": leader_killed,
    "leader-stopped": leader_stopped,
    "lease-from-kube-scheduler": lease_from_kube_scheduler,
    "lease-to-kube-scheduler": lease_to_kube_scheduler,
}


def main() -> int:
    """Run the scenarios and print the reports."""
    options = parsed()
    # SIGTERM ends the run like Ctrl-C, together with all child processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    failed = []
    for name in options.scenarios.split(","):
        report = run(name, options)
        print(json.dumps(report) if options.json else report_text(report), flush=True)
        if report["failures"]:
            failed.append(name)
    total = len(options.scenarios.split(","))
    print(f"faults: {total - len(failed)} of {total} passed with {options.under_test}")
    return 1 if failed else 0


def parsed() -> argparse.Namespace:
    """Return the parsed command line, defaults filled in."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--under-test", choices=SCHEDULERS, default="kubesched")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="comma-separated names")
    parser.add_argument("--pods", type=int, help="size of the burst; 2,000, or 600 with --short")
    parser.add_argument("--short", action="store_true", help="use fewer pods, for CI")
    parser.add_argument("--json", action="store_true", help="print one JSON line per scenario")
    options = parser.parse_args()
    options.pods = options.pods or (600 if options.short else 2000)
    unknown = set(options.scenarios.split(",")) - set(SCENARIOS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: not in {', '.join(SCENARIOS)}")
    return options


def run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one scenario and return its report."""
    start_s = time.perf_counter()
    with stage_of(options) as stage:
        try:
            SCENARIOS[name](stage)
            verdict = stage.finish()
        except (RuntimeError, TimeoutError, OSError, AssertionError) as error:
            verdict = Verdict([f"{type(error).__name__}: {error}"], {})
        failures = [*stage.failures, *verdict.failures]
        if failures:
            stage.cluster.keep_files()
    return {
        "scenario": name,
        "under_test": options.under_test,
        "pods": options.pods + LATER_PODS,
        "seconds": round(time.perf_counter() - start_s, 1),
        "times": {name: round(value, 2) for name, value in stage.times.items()},
        "bindingAnswers": verdict.answers,
        "failures": failures,
    }


@contextmanager
def stage_of(options: argparse.Namespace) -> Iterator[Stage]:
    """Start a control plane that logs bindings, with nodes that the burst fills exactly."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubesched-faults-"))
        policy, audit_log = Path(directory, "policy.json"), Path(directory, "audit.log")
        policy.write_text(json.dumps(AUDIT_POLICY))
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
        cluster = stack.enter_context(real_cluster("bare", api_server_flags=flags))
        total = options.pods + LATER_PODS
        send_all(cluster, (a_node(name, size) for name, size in node_sizes(total)))
        bindings = Bindings(cluster, NAMESPACE)
        stack.callback(bindings.close)
        stage = Stage(cluster, audit_log, bindings, options.under_test, options.pods, stack)
        stage.create_pods(options.pods)
        yield stage


def node_sizes(total: int) -> Iterator[tuple[str, int]]:
    """Yield nodes with one place for each pod."""
    number = 0
    while total > 0:
        yield f"node-{number}", min(PODS_PER_NODE, total)
        total -= PODS_PER_NODE
        number += 1


def a_node(name: str, places: int) -> Request:
    """Return the request for a node with places for a number of pods."""
    amounts = {"cpu": f"{places * POD_CPU_MILLI}m", "memory": "64Gi", "pods": "110"}
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return Request("POST", "/api/v1/nodes", json.dumps(body).encode())


def a_pod(name: str) -> Request:
    """Return the request for a pod that takes one place."""
    requests = {"cpu": f"{POD_CPU_MILLI}m", "memory": "64Mi"}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}
    body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    return Request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", json.dumps(body).encode())


def holder_of(stage: Stage) -> str:
    """Return the holder of the lease."""
    with stage.cluster.api() as api:
        answer = api.get(LEASE).must(200, 404)
    return answer.json.get("spec", {}).get("holderIdentity", "") if answer.code == 200 else ""


def sources_of(stage: Stage, resource: str) -> set[str]:
    """Return the source addresses of requests for a resource."""
    return {one.source for one in requests_of(stage.audit_log, resource)}


def wait_for(condition: Callable[[], bool], expected: str, timeout_s: float = 60.0) -> None:
    """Wait until a condition is true."""
    deadline_s = time.perf_counter() + timeout_s
    while not condition():
        if time.perf_counter() > deadline_s:
            raise TimeoutError(f"{expected} did not appear within {timeout_s:g} s")
        time.sleep(0.1)


def report_text(report: dict[str, Any]) -> str:
    """Return a scenario's report as text."""
    times = ", ".join(f"{name} {value:g}" for name, value in report["times"].items())
    verdict = "FAILED" if report["failures"] else "passed"
    answers = ", ".join(f"{count} of {code}" for code, count in report["bindingAnswers"].items())
    head = f"{verdict}  {report['scenario']}: {report['pods']} pods in {report['seconds']} s"
    lines = [f"{head}; {times}; answers to bindings: {answers}"]
    lines.extend(f"    {failure}" for failure in report["failures"])
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
