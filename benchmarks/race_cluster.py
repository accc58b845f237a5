"""Creates and removes the nodes and pods of a workload on a real API server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from benchmarks.generate import Line, Maker
from benchmarks.workload import Workload
from conformance.bulk import Request, send_all
from kubesched.testing import ApiServer

NAMESPACE = "default"
_SERVER_SET = ("uid", "resourceVersion", "creationTimestamp")
_PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/{}/pods",
}
_EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


class RaceCluster:
    """The objects of a workload on a server, and its burst, which can be repeated."""

    def __init__(
        self, server: ApiServer, workload: Workload, node_count: int, pods_per_node: int = 0
    ) -> None:
        self.server = server
        maker = Maker(node_count, pods_per_node=pods_per_node)
        self._cluster = maker.cluster(workload.cluster)
        self._lines = list(maker.workload(workload))

    def fill(self) -> None:
        """Create all objects except the burst."""
        others = [line for line in self._lines if not line.measured]
        by_kind: dict[str, list[Line]] = {}
        for line in [*self._cluster, *others]:
            by_kind.setdefault(line.kind, []).append(line)
        # The order matters: a pod's namespace must exist first.
        for kind in ("Namespace", "Node", "Pod"):
            send_all(self.server, _creations(by_kind.pop(kind, [])))
        assert not by_kind, f"no path for {', '.join(by_kind)}"

    def create_burst(self, pod_count: int) -> int:
        """Create the pending pods, and return their number."""
        burst = [line for line in self._lines if line.measured][:pod_count]
        return send_all(self.server, _creations(burst))

    def remove_burst(self) -> None:
        """Remove the pods of the burst and all events."""
        waiting = [line for line in self._lines if line.measured]
        at_once = b'{"gracePeriodSeconds":0}'
        removals = (
            Request("DELETE", f"{_PATHS['Pod'].format(NAMESPACE)}/{_name(line)}", at_once)
            for line in waiting
        )
        send_all(self.server, removals, tolerated=[404])
        with self.server.api() as api:
            events = api.get(_EVENTS).must(200).json["items"]
            names = [event["metadata"]["name"] for event in events]
        send_all(
            self.server, (Request("DELETE", f"{_EVENTS}/{name}") for name in names), tolerated=[404]
        )


def _creations(lines: Iterable[Line]) -> Iterator[Request]:
    for line in lines:
        document = msgspec.json.decode(line.data, type=dict[str, Any])
        for key in _SERVER_SET:
            document["metadata"].pop(key, None)
        namespace = document["metadata"].get("namespace", NAMESPACE)
        path = _PATHS[line.kind].format(namespace)
        yield Request("POST", path, msgspec.json.encode(document))


def _name(line: Line) -> str:
    document = msgspec.json.decode(line.data, type=dict[str, Any])
    return str(document["metadata"]["name"])
