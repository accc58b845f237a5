"""The embedded API server under load: 5,000 nodes, 20,000 pods, three watchers.

Owns the measurement: creations a second while three watchers look on and the generator runs in
another process, the time of a list of all pods, and the server's memory. Prints a table; with
--check the exit status says whether the limits hold.

    python benchmarks/apiserver.py [--nodes N] [--pods N] [--no-tls] [--data FILE] [--check]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

PODS = "/api/v1/namespaces/default/pods"
ALL_PODS = "/api/v1/pods"
CREATED_PER_S_LEAST = 1000.0
LIST_S_MOST = 2.0
MEMORY_MB_MOST = 1024.0


@dataclass(frozen=True)
class Load:
    """What a generator found."""

    node_per_s: float
    pod_per_s: float
    slowest_second_per_s: float
    lag_s: float
    """From the last creation's answer to the last watcher's last event."""
    list_s: float
    list_mb: float


def main() -> int:
    """Measure and report."""
    options = parsed()
    if options.generate:
        print(json.dumps(asdict(asyncio.run(generated(options)))))
        return 0
    with tempfile.TemporaryDirectory(prefix="kubesched-bench-") as directory:
        found, memory_mb = measured(options, Path(directory))
    return report(found, memory_mb, options)


def parsed() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--watchers", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--no-tls", action="store_true", help="plain HTTP")
    parser.add_argument("--data", help="keep objects in this file")
    parser.add_argument("--check", action="store_true", help="fail beyond the limits")
    parser.add_argument("--generate", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measured(options: argparse.Namespace, directory: Path) -> tuple[Load, float]:
    """Run a server and a generator, and return what they say."""
    kubeconfig = directory / "kubeconfig"
    start = "from kubesched.cli.main import main; main()"
    command = [sys.executable, "-c", start, "apiserver", "--port", "0"]
    command += ["--write-kubeconfig", str(kubeconfig)]
    command += ["--no-tls"] if options.no_tls else []
    command += ["--data", options.data] if options.data else []
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not kubeconfig.exists() or not kubeconfig.stat().st_size:
            if server.poll() is not None:
                raise SystemExit((directory / "log").read_text())
            time.sleep(0.05)
        generator = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--generate", str(kubeconfig)],
            stdout=subprocess.PIPE,
            check=True,
        )
        return Load(**json.loads(generator.stdout)), peak_mb(server.pid)
    finally:
        server.terminate()
        server.wait()


def peak_mb(pid: int) -> float:
    """Return the most memory a process ever had (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found, "Linux tells it"
    return int(found[1]) / 1024


def report(found: Load, memory_mb: float, options: argparse.Namespace) -> int:
    """Print the figures; return the exit status."""
    rows = [
        ("nodes created a second", f"{found.node_per_s:,.0f}", "", True),
        (
            f"pods created a second, {options.watchers} watchers",
            f"{found.pod_per_s:,.0f}",
            f"{CREATED_PER_S_LEAST:,.0f} or more",
            found.pod_per_s >= CREATED_PER_S_LEAST,
        ),
        ("  in the slowest second", f"{found.slowest_second_per_s:,.0f}", "", True),
        ("  watchers behind at the end", f"{found.lag_s:.2f} s", "", True),
        (
            f"list of all pods ({found.list_mb:.0f} MB)",
            f"{found.list_s:.2f} s",
            f"under {LIST_S_MOST:g} s",
            found.list_s < LIST_S_MOST,
        ),
        (
            "memory of the server, peak",
            f"{memory_mb:,.0f} MB",
            f"under {MEMORY_MB_MOST:,.0f} MB",
            memory_mb < MEMORY_MB_MOST,
        ),
    ]
    print(f"embedded API server, {options.nodes:,} nodes, {options.pods:,} pods")
    for name, value, limit, holds in rows:
        print(f"  {name:<40} {value:>12}  {limit}{'' if holds else '  EXCEEDED'}")
    return 0 if not options.check or all(row[3] for row in rows) else 1


async def generated(options: argparse.Namespace) -> Load:
    """Create everything, watch, list, and return the figures."""
    url, headers, tls = connection(options.generate)
    connector = aiohttp.TCPConnector(limit=0, ssl=tls or True)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        url, headers=headers, connector=connector, timeout=timeout
    ) as session:
        nodes = [node(number) for number in range(options.nodes)]
        node_s, _ = await created(session, "/api/v1/nodes", nodes, options.connections)
        watchers = [
            asyncio.create_task(watched(session, options.pods)) for _ in range(options.watchers)
        ]
        pods = [pod(number, options.nodes) for number in range(options.pods)]
        pod_s, per_second = await created(session, PODS, pods, options.connections)
        answered = time.monotonic()
        ends = await asyncio.gather(*watchers)
        lists = [await listed(session) for _ in range(3)]
    return Load(
        node_per_s=len(nodes) / node_s,
        pod_per_s=len(pods) / pod_s,
        slowest_second_per_s=min(per_second, default=0),
        lag_s=max([0.0, *(end - answered for end in ends)]),
        list_s=statistics.median(took for took, _ in lists),
        list_mb=lists[0][1] / 1e6,
    )


def connection(kubeconfig: Path) -> tuple[str, dict[str, str], ssl.SSLContext | None]:
    """Return the address, the headers and the trust that a kubeconfig asks for."""
    read: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster = read["clusters"][0]["cluster"]
    token = read["users"][0]["user"].get("token")
    tls = None
    if "certificate-authority-data" in cluster:
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return cluster["server"], headers, tls


async def created(
    session: aiohttp.ClientSession, path: str, bodies: list[bytes], connection_count: int
) -> tuple[float, list[int]]:
    """Create objects over some connections; return the time and how many came in each second."""
    remaining = iter(bodies)
    start = time.monotonic()
    seconds: dict[int, int] = {}

    async def one_after_another() -> None:
        for body in remaining:
            async with session.post(path, data=body) as answer:
                await answer.read()
                assert answer.status == 201, await answer.text()
            second = int(time.monotonic() - start)
            seconds[second] = seconds.get(second, 0) + 1

    async with asyncio.TaskGroup() as group:
        for _ in range(connection_count):
            group.create_task(one_after_another())
    took_s = time.monotonic() - start
    return took_s, [seconds.get(second, 0) for second in range(int(took_s))]


async def watched(session: aiohttp.ClientSession, count: int) -> float:
    """Watch all pods until enough have come; return when."""
    seen = 0
    async with session.get(ALL_PODS, params={"watch": "true"}) as answer:
        async for piece in answer.content.iter_any():
            seen += piece.count(b"\n")
            if seen >= count:
                break
    return time.monotonic()


async def listed(session: aiohttp.ClientSession) -> tuple[float, int]:
    """List all pods; return the time and the size."""
    start = time.monotonic()
    async with session.get(ALL_PODS) as answer:
        body = await answer.read()
    return time.monotonic() - start, len(body)


def node(number: int) -> bytes:
    """Return a node of an ordinary size."""
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    name = f"node-{number:05}"
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "topology.kubernetes.io/zone": f"zone-{number % 3}",
                },
            },
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
    ).encode()


def pod(number: int, node_count: int) -> bytes:
    """Return a pod of an ordinary size."""
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"pod-{number:06}",
                "labels": {"app": f"app-{number % 100}", "tier": "web"},
                "annotations": {"example.com/note": f"number {number}"},
            },
            "spec": {
                "nodeName": f"node-{number % max(node_count, 1):05}" if number % 2 else "",
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example.com/app:1.2.3",
                        "ports": [{"containerPort": 8080}],
                        "env": [{"name": "NUMBER", "value": str(number)}],
                        "resources": resources,
                    }
                ],
            },
        }
    ).encode()


if __name__ == "__main__":
    sys.exit(main())
