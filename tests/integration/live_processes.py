"""`kubesched run` as a process on a server, and a place on it that a test has for itself.

Owns what such a process is told when nothing else is said, and short ways to make nodes and pods
and to read them. Processes and documents are the test kit's. Expected values are never computed
here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

from kubesched.playground.objects import is_ready_node
from kubesched.playground.waiting import until
from kubesched.testing import (
    Api,
    ApiServer,
    SchedulerProcess,
    SchedulerSettings,
    a_node,
    a_pod,
    start_scheduler,
)
from kubesched.testing.companions import HEARTBEAT
from kubesched.testing.http import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Answer
from kubesched.testing.ports import free_ports
from kubesched.testing.processes import ProcessGroup
from kubesched.testing.server import SCHEDULER

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
    """Start `kubesched run` with pages that everybody may read.

    Args:
        server: Whose pods it schedules.
        group: Ends it at last.
        flags: More of the command line.
        label: Names its log; a new name if empty.
        port: Of its pages; a free one if None.
        kubeconfig: Its way to the server, instead of the user's.
        user: Who it is.
        leads: Settings of leader election; none if None.
        config: More of the configuration file.
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
    """A namespace and nodes for one test, out of the way of the others; `with` clears it up."""

    api: Api
    name: str = field(default_factory=lambda: f"live-{next(_numbers)}")
    home: str = ""
    """Whose nodes its pods go to; its own if empty."""
    is_staffed: bool = False
    """Whether controllers and kubelets are there: who makes something waits until it is usable."""
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
        """Make a node; pods of this place go to such nodes only, unless it is not `is_here`."""
        name = f"{self.name}-{name}"
        here = {"place": self.home or self.name} if is_here else {}
        room = {"cpu": cpu, "memory": "8Gi"}
        alive = {HEARTBEAT: "on"} if self.is_staffed else {}
        node = a_node(name, labels={**here, **(labels or {})}, annotations=alive, capacity=room)
        node["spec"] |= spec
        self.api.post("/api/v1/nodes", node).must(201)
        self.nodes.append(name)
        if self.is_staffed:
            made = f"/api/v1/nodes/{name}"
            until(lambda: is_ready_node(self.api.get(made).must(200).json), f"{name} is ready")
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
        """Make a pod; return its name."""
        selector = {"place": self.home or self.name, **spec.pop("nodeSelector", {})}
        # Where no kubelet is, nobody else removes them: they end at once when deleted.
        spec.setdefault("terminationGracePeriodSeconds", 0)
        pod = a_pod(
            name,
            labels=labels,
            annotations=annotations,
            requests={"cpu": cpu},
            nodeSelector=selector,
            **spec,
        )
        made: list[Answer] = []

        def is_answered() -> bool:
            made.append(self.api.post(self.pods, pod))
            return made[-1].code == 201 or _UNKNOWN_CLASS not in made[-1].text

        # A real server's admission hears of a new priority class by a watch of its own.
        until(is_answered, f"the priority class of {name} is known")
        made[-1].must(201)
        return name

    def read(self, name: str) -> Document:
        """Return a pod as it is; empty if it is not."""
        answer = self.api.get(f"{self.pods}/{name}")
        return answer.json if answer.code == 200 else {}

    def node_of(self, name: str) -> str:
        """Return the node of a pod; empty if it has none."""
        return str(self.read(name).get("spec", {}).get("nodeName", ""))

    def condition(self, name: str) -> Document:
        """Return the condition PodScheduled of a pod."""
        conditions = self.read(name).get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == "PodScheduled"), {})

    def refused(self, name: str) -> bool:
        """Return whether a pod's status says that it could not be placed."""
        return self.condition(name).get("reason") in ("Unschedulable", "SchedulerError")

    def events(self, name: str) -> list[Document]:
        """Return the events about a pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.name}/events"
        found = self.api.get(path).must(200).json["items"]
        return [one for one in found if one["regarding"]["name"] == name]

    def notes(self, name: str, reason: str) -> list[str]:
        """Return the notes of the events about a pod that have a reason."""
        return [one["note"] for one in self.events(name) if one["reason"] == reason]

    def change(self, path: str, patch: Document, *, merge: bool = True) -> None:
        """Change an object."""
        kind = MERGE_PATCH if merge else STRATEGIC_MERGE_PATCH
        self.api.patch(path, patch, kind).must(200)

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        self.api.delete(f"{self.pods}/{name}", {"gracePeriodSeconds": 0}).must(200)


def in_order(messages: Sequence[str], *wanted: str) -> bool:
    """Return whether messages are there, in this order, whatever is between them."""
    left = iter(messages)
    return all(one in left for one in wanted)


def json_lines(text: str) -> list[Document]:
    """Return the lines of a JSON log, every one of which must be an object."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(one, dict) for one in found)
    return found
