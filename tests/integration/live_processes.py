"""`kubesched run` as a process on a server, and the objects that tests give it.

Owns the command line, the log and the ops pages of such a process, and short ways to make nodes and
pods. Expected values are never computed here.
"""

from __future__ import annotations

import json
import re
import signal
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from itertools import count
from pathlib import Path
from typing import Any, Self

import yaml

from kubesched.testing import Api, ApiServer
from kubesched.testing.http import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kubesched.testing.ports import free_ports
from kubesched.testing.processes import ProcessGroup
from kubesched.testing.schedulers import scheduler_command
from kubesched.testing.server import SCHEDULER

Document = dict[str, Any]

WAIT_S = 30.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_numbers = count(1)


@dataclass(slots=True)
class Scheduler:
    """One process of `kubesched run`."""

    label: str
    group: ProcessGroup
    process: subprocess.Popen[bytes]
    port: int

    @property
    def log(self) -> str:
        """Return what it has written."""
        return self.group.log_path(self.label).read_text(errors="replace")

    def lines(self, message: str) -> list[str]:
        """Return the lines that begin with a message, without their heads."""
        found = (line.partition("] ")[2] for line in self.log.splitlines())
        return [line for line in found if line.startswith(f'"{message}')]

    def messages_about(self, pod: str) -> list[str]:
        """Return the messages about a pod (`namespace/name`), in order."""
        return re.findall(rf'\] "([^"]*)".* pod="{re.escape(pod)}"', self.log)

    def page(self, path: str) -> tuple[int, str]:
        """Return status and text of an ops page."""
        # Its certificate is its own; nothing is told to it that matters.
        connection = HTTPSConnection(
            "127.0.0.1", self.port, timeout=WAIT_S, context=ssl._create_unverified_context()
        )
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's series that have these labels."""
        code, text = self.page("/metrics")
        assert code == 200, text
        found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        return sum(float(value) for shown, value in found if wanted <= set(shown.split(",")))

    def until(self, is_so: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Wait for something; StartError with the end of the logs if it does not come."""
        self.group.wait_until(is_so, what, timeout_s=timeout_s)

    def until_said(self, message: str, timeout_s: float = WAIT_S) -> None:
        """Wait for a line of its log."""
        self.until(lambda: bool(self.lines(message)), f"{message!r} in the log", timeout_s)

    def tell(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def ended(self, timeout_s: float = WAIT_S) -> int:
        """Wait for the end, and return its exit status."""
        return self.process.wait(timeout_s)


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
) -> Scheduler:
    """Start `kubesched run`.

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
    label = label or f"scheduler-{next(_numbers)}"
    port = free_ports(1)[0] if port is None else port
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(kubeconfig or server.kubeconfigs[user]),
            "qps": 5000,
            "burst": 5000,
        },
        "leaderElection": {"leaderElect": True, **leads} if leads else {"leaderElect": False},
        **config,
    }
    path = group.log_directory / f"{label}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    command = [
        *scheduler_command("kubesched"),
        f"--config={path}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        *flags,
    ]
    return Scheduler(label, group, group.start(label, command), port)


@dataclass(slots=True)
class Place:
    """A namespace and nodes for one test, out of the way of the others; `with` clears it up."""

    api: Api
    name: str = field(default_factory=lambda: f"live-{next(_numbers)}")
    home: str = ""
    """Whose nodes its pods go to; its own if empty."""
    nodes: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.api.post("/api/v1/namespaces", {"metadata": {"name": self.name}}).must(201)
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
        room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        here = {"place": self.home or self.name} if is_here else {}
        node = {
            "metadata": {"name": name, "labels": {**here, **(labels or {})}},
            "spec": spec,
            "status": {"capacity": room, "allocatable": room},
        }
        self.api.post("/api/v1/nodes", node).must(201)
        self.nodes.append(name)
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
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        selector = {"place": self.home or self.name, **spec.pop("nodeSelector", {})}
        metadata = {"name": name, "labels": dict(labels or {}), "annotations": annotations or {}}
        body = {"containers": [container], "nodeSelector": selector, **spec}
        # Nobody here removes pods of nodes that do not exist: they end at once when deleted.
        body.setdefault("terminationGracePeriodSeconds", 0)
        self.api.post(self.pods, {"metadata": metadata, "spec": body}).must(201)
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
