"""Client processes of the API server benchmark: creators and watchers.

Each prints one line of JSON before it ends; a watcher prints `watching` when all watches are open.
"""

import argparse
import asyncio
import ssl
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import aiohttp  # noqa: E402
import msgspec  # noqa: E402
import uvloop  # noqa: E402
import yaml  # noqa: E402

from kubesched.kit.clock import SystemClock  # noqa: E402

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
PATHS = {"pods": PODS, "nodes": NODES}


class Metadata(msgspec.Struct):
    """The metadata that a watcher reads."""

    name: str = ""


class WatchedObject(msgspec.Struct):
    """The part of an object that a watcher reads."""

    metadata: Metadata


class Event(msgspec.Struct):
    """The part of an event that a watcher reads."""

    type: str
    object: WatchedObject


def pod(prefix: str, number: int) -> dict[str, Any]:
    """Return a pod like those that controllers create."""
    labels = {"app": f"app-{number % 300}", "tier": "web", "pod-template-hash": "6d4cf56db6"}
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "ports": [{"containerPort": 8080}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
    }
    spec = {
        "containers": [container],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    }
    metadata = {"name": f"{prefix}-{number:06}", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(prefix: str, number: int) -> dict[str, Any]:
    """Return a node like those that kubelets register, with images."""
    name = f"{prefix}-{number:06}"
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "200Gi"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
    }
    at = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": at, "lastTransitionTime": at}
    images = [
        {"names": [f"registry.example/app-{image}:v1"], "sizeBytes": 10_000_000 + image}
        for image in range(20)
    ]
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{**ready, "reason": "KubeletReady", "message": "kubelet is ready"}],
        "images": images,
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


MAKERS = {"pods": pod, "nodes": node}


def session_of(kubeconfig: Path, connections: int) -> aiohttp.ClientSession:
    """Return persistent connections to the server of a kubeconfig."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    tls: ssl.SSLContext | bool = True
    if "certificate-authority-data" in cluster:
        pem = msgspec.json.decode(
            msgspec.json.encode(cluster["certificate-authority-data"]), type=bytes
        )
        tls = ssl.create_default_context(cadata=pem.decode())
    connector = aiohttp.TCPConnector(limit=connections, ssl=tls)
    return aiohttp.ClientSession(
        cluster["server"],
        connector=connector,
        headers={"Authorization": f"Bearer {user['token']}", "User-Agent": "benchmark/1"},
        timeout=aiohttp.ClientTimeout(total=600),
        read_bufsize=2**20,
    )


async def create(options: argparse.Namespace) -> dict[str, Any]:
    """Create objects at a rate, or as fast as the connections allow."""
    path, make = PATHS[options.resource], MAKERS[options.resource]
    bodies = [msgspec.json.encode(make(options.prefix, number)) for number in range(options.count)]
    clock = SystemClock()
    latencies: list[float] = []
    failures: list[str] = []
    numbers: Iterator[int] = iter(range(options.count))
    async with session_of(options.kubeconfig, options.connections) as session:
        start, cpu = perf_counter(), process_time()

        async def worker() -> None:
            for number in numbers:
                due_s = start + number / options.rate if options.rate else 0.0
                # A timer is accurate to a millisecond: shorter waits are skipped.
                if (early_s := due_s - perf_counter()) > 0.001:
                    await clock.sleep(early_s)
                began = max(due_s, start) if options.rate else perf_counter()
                headers = {"Content-Type": "application/json"}
                async with session.post(path, data=bodies[number], headers=headers) as answer:
                    text = await answer.read()
                if answer.status != 201:
                    failures.append(f"{answer.status} {text[:300]!r}")
                latencies.append(perf_counter() - began)

        await asyncio.gather(*(worker() for _ in range(options.connections)))
        took_s, cpu_s = perf_counter() - start, process_time() - cpu
    latencies.sort()
    return {
        "count": len(latencies) - len(failures),
        "seconds": took_s,
        "cpu": cpu_s,
        "failures": failures[:3],
        "p50": latencies[len(latencies) // 2],
        "p99": latencies[len(latencies) * 99 // 100],
        "max": latencies[-1],
    }


async def watch(options: argparse.Namespace) -> dict[str, Any]:
    """Watch pods until every watcher has seen the expected number."""
    decoder = msgspec.json.Decoder(Event)
    opened: list[int] = []
    async with session_of(options.kubeconfig, options.connections) as session:
        cpu = process_time()
        async with session.get(PODS, params={"limit": "1"}) as answer:
            version = (await answer.json())["metadata"]["resourceVersion"]

        async def watcher(number: int) -> list[str]:
            seen: list[str] = []
            query = {"watch": "true", "resourceVersion": version}
            async with session.get(PODS, params=query) as answer:
                opened.append(number)
                if len(opened) == options.connections:
                    sys.stdout.write("watching\n")
                    sys.stdout.flush()
                while len(seen) < options.count and (line := await answer.content.readline()):
                    event = decoder.decode(line)
                    if event.type == "ADDED":
                        seen.append(event.object.metadata.name)
            return seen

        seen = await asyncio.gather(*(watcher(number) for number in range(options.connections)))
        cpu_s = process_time() - cpu
    names = {f"{options.prefix}-{number:06}" for number in range(options.count)}
    complete = [set(one) == names and len(one) == len(names) for one in seen]
    return {"complete": complete, "seen": [len(one) for one in seen], "cpu": cpu_s}


async def read(options: argparse.Namespace) -> dict[str, Any]:
    """List all pods a few times; measure until the answer is complete."""
    times = []
    async with session_of(options.kubeconfig, 1) as session:
        for _ in range(options.connections):
            start = perf_counter()
            async with session.get(PODS) as answer:
                data = await answer.read()
            times.append(perf_counter() - start)
    count = len(msgspec.json.decode(data)["items"])
    return {"seconds": times, "megabytes": len(data) / 1e6, "count": count}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one client and print its measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["create", "watch", "list"])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--resource", choices=list(PATHS), default="pods")
    parser.add_argument("--prefix", default="pod")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument(
        "--rate", type=float, default=0.0, help="creations per second; 0: unlimited"
    )
    parser.add_argument(
        "--connections", type=int, default=16, help="number of connections, watchers or lists"
    )
    options = parser.parse_args(argv)
    work = {"create": create, "watch": watch, "list": read}[options.work]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(work(options))
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
