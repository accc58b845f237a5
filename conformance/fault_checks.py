"""Checks that must hold under any fault: each pod bound once, no node overcommitted, nothing lost.

Watches bindings and reads the audit log.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from kubesched.api.quantity import parse_quantity
from kubesched.testing import Api, ApiServer

AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {
            "level": "Metadata",
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "None"},
    ],
}
_RETRY_S = 0.05


class Request(NamedTuple):
    """One line of the audit log: a request and its response."""

    at_s: float
    """When the response was sent, in seconds since the epoch."""
    source: str
    resource: str
    name: str
    code: int


def requests_of(audit_log: Path, resource: str) -> list[Request]:
    """Return the requests for a resource, in the order of their responses."""
    requests = []
    for line in audit_log.read_text().splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            # A truncated line: the API server was killed.
            continue
        reference = event["objectRef"]
        if (
            "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            != resource
        ):
            continue
        at = datetime.fromisoformat(event["stageTimestamp"])
        code = event.get("responseStatus", {}).get("code", 0)
        name = f"{reference.get('namespace', '')}/{reference.get('name', '')}"
        requests.append(Request(at.timestamp(), event["sourceIPs"][0], resource, name, code))
    return sorted(requests)


class Bindings:
    """The bindings of a namespace, from a watch that survives restarts of the server."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.nodes: dict[str, str] = {}
        """Node by pod."""
        self.moved: list[str] = []
        """Pods that were seen on a second node."""
        self.last_s = 0.0
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._server = server
        self._changed = threading.Condition()
        self._is_closed = False
        threading.Thread(target=self._follow, daemon=True, name="bindings").start()

    def close(self) -> None:
        """Stop; the watch ends with the server."""
        self._is_closed = True

    def wait_count(self, count: int, timeout_s: float) -> bool:
        """Wait until a number of pods is bound."""
        deadline_s = perf_counter() + timeout_s
        with self._changed:
            while len(self.nodes) < count:
                left_s = deadline_s - perf_counter()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
        return True

    def _follow(self) -> None:
        while not self._is_closed:
            try:
                with self._server.api() as api:
                    self._list_and_watch(api)
            except (OSError, http.client.HTTPException, AssertionError):
                with self._changed:
                    self._changed.wait(_RETRY_S)

    def _list_and_watch(self, api: Api) -> None:
        selector = {"fieldSelector": "spec.nodeName!="}
        listed = api.get(self._path, query=selector).must(200).json
        for pod in listed["items"]:
            self._take(pod)
        query = {**selector, "resourceVersion": listed["metadata"]["resourceVersion"]}
        with api.watch(self._path, query=query, timeout_s=600) as watch:
            for event in watch:
                if event["type"] == "ERROR" or self._is_closed:
                    return
                self._take(event["object"])

    def _take(self, pod: Mapping[str, Any]) -> None:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        with self._changed:
            if self.nodes.setdefault(name, node) != node:
                self.moved.append(name)
            self.last_s = perf_counter()
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The problems that the checks found; empty if there are none."""

    failures: list[str]
    answers: dict[str, int]
    """The number of bindings by status code; 409 prevents a second binding of a pod."""


def check(api: Api, namespace: str, audit_log: Path, bindings: Bindings) -> Verdict:
    """Check a cluster in which every pending pod fits."""
    pods = api.get(f"/api/v1/namespaces/{namespace}/pods").must(200).json["items"]
    nodes = api.get("/api/v1/nodes").must(200).json["items"]
    waiting = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
    failures = []
    if waiting:
        failures.append(f"{len(waiting)} pods are pending although they fit, such as {waiting[0]}")
    failures.extend(f"{name} was seen on two nodes" for name in bindings.moved)
    requests = requests_of(audit_log, "pods/binding")
    bound = Counter(request.name for request in requests if request.code == 201)
    failures.extend(f"{name} was bound {count} times" for name, count in bound.items() if count > 1)
    failures.extend(_overcommitted(pods, nodes))
    answers = Counter(str(request.code) for request in requests)
    return Verdict(failures, dict(sorted(answers.items())))


def _overcommitted(pods: list[Any], nodes: list[Any]) -> list[str]:
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        node = used.setdefault(pod["spec"].get("nodeName", ""), Counter())
        node["pods"] += 1
        for container in pod["spec"]["containers"]:
            for resource, amount in container["resources"]["requests"].items():
                node[resource] += parse_quantity(amount).milli_value()
    failures = []
    for node in nodes:
        name = node["metadata"]["name"]
        allocatable = node["status"]["allocatable"]
        for resource, amount in used.get(name, Counter()).items():
            quantity = parse_quantity(allocatable[resource])
            limit = quantity.value() if resource == "pods" else quantity.milli_value()
            if amount > limit:
                failures.append(f"{name} has {amount} of {limit} {resource}")
    return failures
