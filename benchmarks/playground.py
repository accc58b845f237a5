"""Benchmark of `kubesched playground` with 1,000 nodes and 10,000 pods.

Starts the command as a user does, creates 50 Deployments and measures when every pod runs; then the
idle cost of all processes. Required: settled within a minute, at most 1 GB, idle below 5 % of a
core.
"""

from __future__ import annotations

import argparse
import base64
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks import machine  # noqa: E402
from benchmarks.drain_race import say  # noqa: E402
from benchmarks.results import put_between, today  # noqa: E402
from conformance.own_playground import own_playground  # noqa: E402
from kubesched.cluster.launch.http import Api  # noqa: E402
from kubesched.cluster.launch.processes import usage_of  # noqa: E402

RESULTS = Path(__file__).parent / "PLAYGROUND.md"
SETTLED_S_MAX, MEMORY_MB_MAX, IDLE_SHARE_MAX = 60.0, 1000.0, 0.05
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Figures:
    """The measured figures."""

    ready_s: float
    settled_s: float
    settling_cpu_s: float
    memory_mb: float
    idle_share: float


def main() -> int:
    """Measure and print a table."""
    options = parsed()
    start_s = perf_counter()
    with own_playground(nodes=options.nodes) as playground:
        api = api_of(playground.kubeconfig)
        until_ready(api, options.nodes)
        ready_s = perf_counter() - start_s
        say(f"  {options.nodes} nodes ready after {ready_s:.1f} s")
        figures = measured(api, playground.pid, ready_s, options)
    lines = table(figures)
    say(*lines, machine.description())
    if options.write:
        size = f"{options.nodes:,} nodes, {options.pods:,} pods in {options.deployments} parts"
        head = f"{today()}. {machine.description()}. {size}."
        put_between(RESULTS, "playground", [head, "", *lines])
    is_met = (
        figures.settled_s <= SETTLED_S_MAX
        and figures.memory_mb <= MEMORY_MB_MAX
        and figures.idle_share <= IDLE_SHARE_MAX
    )
    return 0 if is_met or not options.check else 1


def parsed() -> argparse.Namespace:
    """Return the parsed command line, defaults filled in."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--deployments", type=int, default=50)
    parser.add_argument(
        "--idle", type=float, default=60.0, metavar="S", help="duration of the idle measurement"
    )
    parser.add_argument("--timeout", type=float, default=300.0, metavar="S")
    parser.add_argument(
        "--short", action="store_true", help="use a small cluster, to check that everything works"
    )
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    parser.add_argument("--write", action="store_true", help=f"write the table to {RESULTS.name}")
    options = parser.parse_args()
    if options.short:
        options.nodes, options.pods, options.deployments, options.idle = 100, 1000, 10, 10.0
    return options


def until_ready(api: Api, nodes: int) -> None:
    """Wait until every node is ready."""
    while True:
        items = api.get("/api/v1/nodes").must(200).json["items"]
        if sum(map(is_ready, items)) >= nodes:
            return
        sleep(POLL_S)


def api_of(kubeconfig: Path) -> Api:
    """Return the user of a kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    ca_file = kubeconfig.with_suffix(".ca")
    ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    return Api(cluster["server"], ca_file=ca_file, token=user["token"])


def is_ready(node: dict[str, Any]) -> bool:
    """Return whether pods can be put on a node."""
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not node["spec"].get("taints")


def measured(api: Api, pid: int, ready_s: float, options: argparse.Namespace) -> Figures:
    """Create the Deployments, wait until they are available, and measure the idle cluster."""
    before_s, start_s = cpu_s(pid), perf_counter()
    replicas = options.pods // options.deployments
    for number in range(options.deployments):
        body = deployment(f"app-{number}", replicas)
        api.post("/apis/apps/v1/namespaces/default/deployments", body).must(201)
    available = -1
    while available < replicas * options.deployments:
        if perf_counter() - start_s > options.timeout:
            raise SystemExit(f"only {available} pods were available after {options.timeout:.0f} s")
        sleep(POLL_S)
        items = api.get("/apis/apps/v1/namespaces/default/deployments").must(200).json["items"]
        available = sum(item["status"].get("availableReplicas", 0) for item in items)
    settled_s, used_s = perf_counter() - start_s, cpu_s(pid) - before_s
    say(f"  {available} pods available after {settled_s:.1f} s")
    # Controllers may still be writing events.
    sleep(options.idle / 2)
    idle_before_s, idle_start_s = cpu_s(pid), perf_counter()
    sleep(options.idle)
    idle_share = (cpu_s(pid) - idle_before_s) / (perf_counter() - idle_start_s)
    memory_mb = sum(usage_of(process).peak_mb for process in process_tree(pid))
    return Figures(ready_s, settled_s, used_s, memory_mb, idle_share)


def deployment(name: str, replicas: int) -> dict[str, Any]:
    """Return a Deployment of small pods."""
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }


def process_tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(directory.name))
    tree = [pid]
    for process in tree:
        tree += children.get(process, [])
    return tree


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and its descendants."""
    return sum(usage_of(process).cpu_s for process in process_tree(pid))


def table(figures: Figures) -> list[str]:
    """Return the figures with their targets."""
    rows = [
        ("nodes ready, s after the start", f"{figures.ready_s:.1f}", ""),
        ("all pods available, s", f"{figures.settled_s:.1f}", f"{SETTLED_S_MAX:.0f}"),
        ("CPU s until then", f"{figures.settling_cpu_s:.1f}", ""),
        ("peak memory of all processes, MB", f"{figures.memory_mb:.0f}", f"{MEMORY_MB_MAX:.0f}"),
        ("idle, % of a core", f"{100 * figures.idle_share:.1f}", f"{100 * IDLE_SHARE_MAX:.0f}"),
    ]
    return [
        "| | measured | target |",
        "|---|---:|---:|",
        *(f"| {title} | {value} | {target} |" for title, value, target in rows),
    ]


if __name__ == "__main__":
    sys.exit(main())
