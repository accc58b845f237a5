"""`kubesched run` as a process, and a namespace with nodes for one test.

Owns the default options of the process, and helpers to create and read nodes and pods. Processes
and documents are the test kit's. Expected values are never computed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

from kubesched.cluster.launch.components import HEARTBEAT
from kubesched.cluster.launch.http import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Response
from kubesched.cluster.launch.ports import free_ports
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.server import SCHEDULER
from kubesched.cluster.playground.in_process import is_ready_node
from kubesched.cluster.playground.scheduler_thread import until
from kubesched.testing import (
    Api,
    ApiServer,
    SchedulerProcess,
    SchedulerSettings,
    a_node,
    a_pod,
    start_scheduler,
)

Document = dict[str, Any]
Scheduler = SchedulerProcess

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_OPEN = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics,/debug/explain"
_UNKNOWN_CLASS = "no PriorityClass with name"
_numbers = count(1)


def start(
    server: ApiServer,
    group: ProcessGroup,
    *flags: str,
    label: str = "",
    port: int | None = None,
    kubeconfig: Path | None = None,
    user: str = SCHEDULER.name,
    leads: Mapping[str, Any] | None = None,
    **config: Any,
) -> SchedulerProcess:
    """Start `kubesched run` with public pages.

    Args:
        server: The server of its pods.
        group: The group that ends it.
        flags: Further command-line flags.
        label: The name of its log; a new name if empty.
        port: The port of its pages; a free one if None.
        kubeconfig: Its kubeconfig, instead of the user's.
        user: Its user.
        leads: Settings of leader election; disabled if None.
        config: Further fields of the configuration file.
    """
    settings = SchedulerSettings(
        leader_election={"leaderElect": True, **leads} if leads else {"leaderElect": False},
        kubeconfig=kubeconfig or server.kubeconfigs[user],
        port=free_ports(1)[0] if port is None else port,
        config=config,
        flags=(_OPEN, *flags),
    )
    label = label or f"scheduler-{next(_numbers)}"
    return start_scheduler(server, group, "kubesched", settings, label=label)


@dataclass(slots=True)
class Place:
    """A namespace and nodes for one test; `with` removes them."""

    api: Api
    name: str = field(default_factory=lambda: f"live-{next(_numbers)}")
    home: str = ""
    """The place whose nodes its pods use; its own if empty."""
    is_staffed: bool = False
    """Whether controllers and kubelets run: new objects are waited for until they are usable."""
    nodes: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.api.post("/api/v1/namespaces", {"metadata": {"name": self.name}}).must(201)
        if self.is_staffed:
            account = f"/api/v1/namespaces/{self.name}/serviceaccounts/default"
            until(lambda: self.api.get(account).code == 200, f"{self.name} has its account")
        return self

    def __exit__(self, *raised: object) -> None:
        self.api.delete(self.pods, {"gracePeriodSeconds": 0}).must(200)
        for node in self.nodes:
            self.api.delete(f"/api/v1/nodes/{node}").must(200)

    @property
    def pods(self) -> str:
        """Return the path of its pods."""
        return f"/api/v1/namespaces/{self.name}/pods"

    def key(self, pod: str) -> str:
        """Return `namespace/name` of a pod."""
        return f"{self.name}/{pod}"

    def node(
        self,
        name: str = "node",
        *,
        labels: Mapping[str, str] | None = None,
        cpu: str = "4",
        is_here: bool = True,
        **spec: Any,
    ) -> str:
        """Create a node; pods of this place use only such nodes, unless `is_here` is False."""
        name = f"{self.name}-{name}"
        own_label = {"place": self.home or self.name} if is_here else {}
        room = {"cpu": cpu, "memory": "8Gi"}
        alive = {HEARTBEAT: "on"} if self.is_staffed else {}
        node = a_node(
            name, labels={**own_label, **(labels or {})}, annotations=alive, capacity=room
        )
        node["spec"] |= spec
        self.api.post("/api/v1/nodes", node).must(201)
        self.nodes.append(name)
        if self.is_staffed:
            path = f"/api/v1/nodes/{name}"
            until(lambda: is_ready_node(self.api.get(path).must(200).json), f"{name} is ready")
        return name

    def pod(
        self,
        name: str,
        *,
        cpu: str = "100m",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> str:
        """Create a pod; return its name."""
        selector = {"place": self.home or self.name, **spec.pop("nodeSelector", {})}
        # Without a kubelet nothing removes terminating pods: no grace period.
        spec.setdefault("terminationGracePeriodSeconds", 0)
        pod = a_pod(
            name,
            labels=labels,
            annotations=annotations,
            requests={"cpu": cpu},
            nodeSelector=selector,
            **spec,
        )
        responses: list[Response] = []

        def is_answered() -> bool:
            responses.append(self.api.post(self.pods, pod))
            return responses[-1].code == 201 or _UNKNOWN_CLASS not in responses[-1].text

        # A real server's admission sees a new priority class through its own watch.
        until(is_answered, f"the priority class of {name} is known")
        responses[-1].must(201)
        return name

    def read(self, name: str) -> Document:
        """Return a pod; empty if there is none."""
        answer = self.api.get(f"{self.pods}/{name}")
        return answer.json if answer.code == 200 else {}

    def node_of(self, name: str) -> str:
        """Return the node of a pod; empty if it has none."""
        return str(self.read(name).get("spec", {}).get("nodeName", ""))

    def condition(self, name: str) -> Document:
        """Return the condition PodScheduled of a pod."""
        conditions = self.read(name).get("status", {}).get("conditions", [])
        return next(
            (condition for condition in conditions if condition["type"] == "PodScheduled"), {}
        )

    def rejected(self, name: str) -> bool:
        """Return whether a pod's condition is Unschedulable."""
        return self.condition(name).get("reason") in ("Unschedulable", "SchedulerError")

    def events(self, name: str) -> list[Document]:
        """Return the events about a pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.name}/events"
        found = self.api.get(path).must(200).json["items"]
        return [one for one in found if one["regarding"]["name"] == name]

    def notes(self, name: str, reason: str) -> list[str]:
        """Return the notes of the events about a pod that have a reason."""
        return [event["note"] for event in self.events(name) if event["reason"] == reason]

    def change(self, path: str, patch: Document, *, merge: bool = True) -> None:
        """Change an object."""
        kind = MERGE_PATCH if merge else STRATEGIC_MERGE_PATCH
        self.api.patch(path, patch, kind).must(200)

    def delete(self, name: str) -> None:
        """Delete a pod without a grace period."""
        self.api.delete(f"{self.pods}/{name}", {"gracePeriodSeconds": 0}).must(200)


def in_order(messages: Sequence[str], *expected: str) -> bool:
    """Return whether messages occur in this order, with others between them."""
    left = iter(messages)
    return all(one in left for one in expected)


def json_lines(text: str) -> list[Document]:
    """Return the lines of a JSON log, every one of which must be an object."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(one, dict) for one in found)
    return found
