"""One cluster for all tests of controllers and kubelets, with a namespace per test.

--server and --controllers select the API server and the controllers. Expected values are upstream's
and hold in all four combinations.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from kubesched.cluster.playground.in_process import (
    ControllersKind,
    Playground,
    ServerKind,
    playground,
)
from kubesched.testing import Api

Document = dict[str, Any]
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class World:
    """A cluster, and a namespace for one test."""

    cluster: Playground
    namespace: str
    server: ServerKind
    controllers: ControllersKind
    has_programs: bool
    """Whether the test is marked `programs`, so that it may run kubectl."""

    @property
    def api(self) -> Api:
        """Return the client of the administrator."""
        return self.cluster.api

    @property
    def nodes(self) -> list[str]:
        """Return the names of the permanent nodes."""
        return self.cluster.nodes

    def path(self, plural: str, name: str = "", *, group: str = "") -> str:
        """Return a path in the test's namespace: `pods`, `deployments` with group `apps/v1`."""
        root = f"/apis/{group}" if group else "/api/v1"
        end = f"/{name}" if name else ""
        return f"{root}/namespaces/{self.namespace}/{plural}{end}"

    def create(self, *documents: Mapping[str, Any]) -> list[Document]:
        """Create objects of any kind, in the test's namespace unless they name another."""
        return self.cluster.create(*documents, namespace=self.namespace)

    def get(self, path: str) -> Document:
        """Return an object; empty if it does not exist."""
        response = self.api.get(path)
        return response.json if response.code == 200 else {}

    def items(self, path: str, **query: str) -> list[Document]:
        """Return the objects of a collection."""
        documents: list[Document] = self.api.get(path, query=query).must(200).json["items"]
        return documents

    def pods(self, selector: str = "") -> list[Document]:
        """Return the pods of the test's namespace."""
        query = {"labelSelector": selector} if selector else {}
        return self.items(self.path("pods"), **query)

    def reasons(self, name: str) -> list[str]:
        """Return the reasons of the events about an object."""
        return [
            str(one.get("reason"))
            for one in self.items(self.path("events"))
            if one["involvedObject"].get("name") == name
        ]

    def until(
        self, predicate: Callable[[], object], condition: str, timeout_s: float = 30.0
    ) -> None:
        """Wait for a condition; fail with its description on a timeout."""
        self.cluster.until(predicate, condition, timeout_s)

    def kubectl(self, *arguments: str, program: str = "kubectl") -> str:
        """Run kubectl in the test's namespace; return its output, fail if it fails."""
        assert self.has_programs, "a test that runs kubectl is marked `programs`"
        return self.cluster.kubectl("-n", self.namespace, *arguments, program=program)

    def run_kubectl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl in the test's namespace; return the completed process."""
        assert self.has_programs, "a test that runs kubectl is marked `programs`"
        return self.cluster.run_kubectl("-n", self.namespace, *arguments)


@pytest.fixture(scope="session")
def world_cluster(request: pytest.FixtureRequest) -> Iterator[Playground]:
    option = request.config.getoption
    with playground(
        nodes=3, server=option("--server"), controllers=option("--controllers")
    ) as cluster:
        yield cluster


@pytest.fixture
def world(world_cluster: Playground, request: pytest.FixtureRequest) -> Iterator[World]:
    """Return a fresh namespace of the cluster."""
    option = request.config.getoption
    name = f"test-{next(_numbers)}"
    api = world_cluster.api
    api.post("/api/v1/namespaces", {"metadata": {"name": name}}).must(201)
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    # Pods are rejected until the namespace has its service account.
    world_cluster.until(lambda: api.get(account).code == 200, f"{name} has its account")
    has_programs = request.node.get_closest_marker("programs") is not None
    yield World(world_cluster, name, option("--server"), option("--controllers"), has_programs)
    api.delete(f"/api/v1/namespaces/{name}").must(200, 202, 404, 409)
