"""A binder that does not decide: the upper limit of an API server.

Binds every pending pod of a namespace to the nodes in turn, over persistent connections and without
events. drain_race.py runs it in place of a scheduler.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As a script this file sees only its own folder; the packages are one level up.
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from conformance.bulk import Request, send_all  # noqa: E402
from kubesched.cluster.launch.server import SCHEDULER  # noqa: E402
from kubesched.testing import ApiServer  # noqa: E402


def main() -> None:
    """Bind all pending pods."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--ca", type=Path, required=True)
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    server = ApiServer(url=options.url, directory=options.ca.parent, ca_file=options.ca)
    send_all(
        server,
        bindings(server, options.namespace),
        user=SCHEDULER,
        connections=options.connections,
    )
    # Stay alive: the figures are read from the running process.
    asyncio.run(_stay())


def bindings(server: ApiServer, namespace: str) -> Iterator[Request]:
    """Yield a binding for each pending pod."""
    with server.api(SCHEDULER) as api:
        listed = api.get("/api/v1/nodes").must(200).json["items"]
        pods = api.get(
            f"/api/v1/namespaces/{namespace}/pods", query={"fieldSelector": "spec.nodeName="}
        ).must(200)
    nodes = [node["metadata"]["name"] for node in listed]
    for pod, node in zip(pods.json["items"], itertools.cycle(nodes), strict=False):
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]},
            "target": {"kind": "Node", "name": node},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        yield Request("POST", path, msgspec.json.encode(body))


async def _stay() -> None:
    await asyncio.Event().wait()


if __name__ == "__main__":
    main()
