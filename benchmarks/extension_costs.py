"""Cost of an extender, a second scheduler and a controller.

Owns three small measurements for docs/from-go.md; plugin_costs.py measures plugins.

An extender: a request and its answer over loopback, with whole nodes or with names
(`nodeCacheCapable`). Both sides use msgspec, and the extender passes every node, so a real extender
takes longer. A second scheduler: memory, time to its first binding, and the number of pods that two
schedulers place on full nodes, since neither knows the latest decisions of the other. A
controller: examples/tiny-controller, memory and bindings per second.
"""

import argparse
import asyncio
import http.client
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from benchmarks import machine  # noqa: E402
from benchmarks.generate import Maker  # noqa: E402
from benchmarks.populate import Population, populate  # noqa: E402
from kubesched.api.builders import a_node, a_pod  # noqa: E402
from kubesched.cluster.launch.embedded import embedded_server  # noqa: E402
from kubesched.cluster.launch.http import Api  # noqa: E402
from kubesched.cluster.launch.processes import ProcessGroup, usage_of  # noqa: E402
from kubesched.cluster.launch.schedulers import SchedulerSettings, start_scheduler  # noqa: E402
from kubesched.cluster.launch.server import ADMIN, ApiServer  # noqa: E402
from kubesched.cluster.playground.scheduler_thread import live_scheduler, until  # noqa: E402

CONTROLLER = ROOT / "examples" / "tiny-controller" / "tiny_controller.py"
PODS = "/api/v1/namespaces/default/pods"
WAIT_S = 120.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5_000, help="nodes of an extender call")
    parser.add_argument("--cluster-nodes", type=int, default=1_000, help="nodes of the API server")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--pods", type=int, default=500, help="pods for the controller")
    parser.add_argument("--rounds", type=int, default=5, help="rounds with two schedulers")
    options = parser.parse_args(argv)
    rows = [
        *extender_rows(options),
        *scheduler_rows(options),
        *overcommit_rows(options),
        *controller_rows(options),
    ]
    sys.stdout.write("| measurement | cost |\n|---|---|\n")
    for title, cost in rows:
        sys.stdout.write(f"| {title} | {cost} |\n")
    sys.stdout.write(f"\n{machine.description()}.\n")
    return 0


# -- an extender ----------------------------------------------------------------------------------


class Extender(BaseHTTPRequestHandler):
    """Passes every node."""

    protocol_version = "HTTP/1.1"
    # Otherwise the kernel delays small packets.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:  # The base class requires this name.
        args = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        result = {"Nodes": args.get("Nodes"), "NodeNames": args.get("NodeNames"), "Error": ""}
        body = msgspec.json.encode(result)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def extender_rows(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Measure a call with names, and one with whole nodes."""
    nodes = [
        msgspec.json.decode(line.data)
        for line in Maker(options.nodes, 1, 0).cluster("plain")
        if line.kind == "Node"
    ]
    names = [node["metadata"]["name"] for node in nodes]
    bodies: dict[str, dict[str, Any]] = {
        "node names": {"Pod": a_pod("web"), "NodeNames": names},
        "whole nodes": {"Pod": a_pod("web"), "Nodes": {"items": nodes}},
    }
    server = HTTPServer(("127.0.0.1", 0), Extender)
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    server.server_close()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    try:
        for form, body in bodies.items():
            size_mb = len(msgspec.json.encode(body)) / 1e6
            times_ms = [call_ms(connection, body) for _ in range(options.calls)]
            yield (
                f"one call of an extender, {options.nodes:,} {form}, {size_mb:.1f} MB each way",
                f"{median(times_ms):.1f} ms",
            )
    finally:
        connection.close()
        process.terminate()
        process.join()


def call_ms(connection: http.client.HTTPConnection, body: dict[str, Any]) -> float:
    """Send one request; return the time until its answer is decoded."""
    start = perf_counter()
    connection.request("POST", "/filter", msgspec.json.encode(body))
    answer = msgspec.json.decode(connection.getresponse().read())
    assert answer["Error"] == ""
    return (perf_counter() - start) * 1e3


# -- a second scheduler, and a controller ---------------------------------------------------------


@contextmanager
def filled_server(options: argparse.Namespace) -> Iterator[tuple[ApiServer, Api]]:
    """Run an API server with nodes and five bound pods per node."""
    with embedded_server() as server, server.api(ADMIN) as api:
        asyncio.run(populate(server, Population(options.cluster_nodes, 5)))
        yield server, api


def scheduler_rows(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Measure another `kubesched run` beside the first."""
    with (
        filled_server(options) as (server, api),
        tempfile.TemporaryDirectory() as place,
        ProcessGroup(Path(place)) as group,
    ):
        api.post(PODS, a_pod("first", scheduler="second")).must(201)
        start = perf_counter()
        settings = SchedulerSettings(profiles=[{"schedulerName": "second"}])
        process = start_scheduler(server, group, "kubesched", settings)
        until(lambda: is_bound(api, "first"), "the first pod is bound", WAIT_S)
        took_s, used = perf_counter() - start, usage_of(process.pid)
        size = f"{options.cluster_nodes:,} nodes and {options.cluster_nodes * 5:,} pods"
        yield f"a second scheduler on {size}: to its first binding", f"{took_s:.1f} s"
        yield f"a second scheduler on {size}: memory", f"{used.resident_mb:.0f} MB"


def overcommit_rows(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Count the pods that two schedulers, or two profiles of one, place on full nodes."""
    for title, names in (
        ("two schedulers", (("one",), ("two",))),
        ("two profiles of one scheduler", (("one", "two"),)),
    ):
        counts = [overcommitted(names) for _ in range(options.rounds)]
        yield (
            f"{title}, 32 pods for 32 places at once: pods beyond their node's capacity",
            f"{median(counts):g} (of {options.rounds} rounds: {min(counts)} to {max(counts)})",
        )


def overcommitted(processes: Sequence[Sequence[str]]) -> int:
    """Return the number of pods beyond the capacity of their nodes."""
    with embedded_server() as server, server.api(ADMIN) as api, nested(server, processes):
        for number in range(8):
            api.post("/api/v1/nodes", a_node(f"node-{number}")).must(201)
        for number in range(16):
            for name in ("one", "two"):
                pod = a_pod(f"{name}-{number}", scheduler=name, requests={"cpu": "1"})
                api.post(PODS, pod).must(201)
        counts: dict[str, int] = {}

        def is_settled() -> bool:
            pods = api.get(PODS).must(200).json["items"]
            counts.clear()
            for pod in pods:
                node = pod["spec"].get("nodeName", "")
                counts[node] = counts.get(node, 0) + bool(node)
            # The remaining pods have been rejected.
            waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
            return all(pod["status"].get("conditions") for pod in waiting)

        until(is_settled, "every pod is bound or rejected", WAIT_S)
        return sum(max(count - 4, 0) for count in counts.values())


@contextmanager
def nested(server: ApiServer, processes: Sequence[Sequence[str]]) -> Iterator[None]:
    """Run schedulers side by side, each with some profiles."""
    if not processes:
        yield
        return
    profiles = [{"schedulerName": name} for name in processes[0]]
    with live_scheduler(server, config={"profiles": profiles}), nested(server, processes[1:]):
        yield


def controller_rows(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Measure examples/tiny-controller."""
    with (
        filled_server(options) as (server, api),
        tempfile.TemporaryDirectory() as place,
        ProcessGroup(Path(place)) as group,
    ):
        for number in range(options.pods):
            api.post(PODS, a_pod(f"web-{number}", scheduler="my-scheduler")).must(201)
        start = perf_counter()
        process = group.start(
            "controller",
            [sys.executable, CONTROLLER],
            env={"KUBECONFIG": str(server.kubeconfig), "PYTHONPATH": str(ROOT / "src")},
        )
        first_s = seconds_until(lambda: bound_count(api) > 0, start)
        all_s = seconds_until(lambda: bound_count(api) == options.pods, start)
        used = usage_of(process.pid)
        yield "examples/tiny-controller: to its first binding", f"{first_s:.1f} s"
        rate = options.pods / max(all_s - first_s, 1e-9)
        yield f"examples/tiny-controller: bindings a second, of {options.pods}", f"{rate:.0f}"
        yield "examples/tiny-controller: memory", f"{used.resident_mb:.0f} MB"


def seconds_until(condition: Callable[[], bool], start: float) -> float:
    """Wait for a condition; return the seconds since the start."""
    until(condition, "pods are bound", WAIT_S)
    return perf_counter() - start


def is_bound(api: Api, name: str) -> bool:
    """Return whether a pod has a node."""
    return bool(api.get(f"{PODS}/{name}").must(200).json["spec"].get("nodeName"))


def bound_count(api: Api) -> int:
    """Return the number of the controller's pods that have a node."""
    pods = api.get(PODS, query={"fieldSelector": "spec.schedulerName=my-scheduler"}).must(200)
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods.json["items"])


if __name__ == "__main__":
    sys.exit(main())
