"""A whole cluster in threads of this process, for tests and for use from Python.

Owns which components run, real or simulated, and their lifecycle. Nothing is left when the block
ends.

    with playground(nodes=3, plugins=[SpareGpu]) as cluster:
        cluster.create(a_pod("web"))
        cluster.until_running("default/web")
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kubesched.client.auth.kubeconfig import load_access
from kubesched.cluster.apiserver.admission.chain import WHOLE
from kubesched.cluster.launch.components import (
    COMPONENT_PROGRAMS,
    HEARTBEAT,
    Components,
    start_components,
)
from kubesched.cluster.launch.embedded import embedded_server
from kubesched.cluster.launch.http import Api
from kubesched.cluster.launch.loop_thread import LoopThread
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.programs import MissingProgramError, Programs
from kubesched.cluster.launch.real_cluster import real_cluster
from kubesched.cluster.launch.server import ADMIN, ApiServer
from kubesched.cluster.playground.initial_objects import node_documents
from kubesched.cluster.playground.machinery import Machinery, MachinerySettings
from kubesched.cluster.playground.scheduler_thread import RunningScheduler, live_scheduler, until
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.profile.plugin_loading import ExtraPlugins

ServerKind: TypeAlias = Literal["embedded", "real"]
ControllersKind: TypeAlias = Literal["own", "real"]

_START_S = 60.0
Document = dict[str, Any]


@dataclass(slots=True)
class Playground:
    """A running cluster, and shortcuts to work with it."""

    server: ApiServer
    api: Api
    """Client of the administrator."""
    nodes: list[str] = field(default_factory=list)
    """Names of the initial nodes."""
    machinery: Machinery | None = None
    """Our controllers and kubelets; None if real ones run."""
    scheduler_parts: RunningScheduler | None = None
    paths: ObjectPaths = field(init=False)

    def __post_init__(self) -> None:
        self.paths = ObjectPaths(self.api)

    @property
    def scheduler(self) -> RunningScheduler:
        """Return the scheduler; AssertionError if there is none."""
        assert self.scheduler_parts is not None, "this playground has no scheduler"
        return self.scheduler_parts

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.server.kubeconfig

    def create(self, *documents: Mapping[str, Any], namespace: str = "default") -> list[Document]:
        """Create objects, in their own namespace or in a default one; return the stored ones."""
        return [
            self.api.post(self.paths.of(document, namespace), document).must(201).json
            for document in documents
        ]

    def pod(self, key: str) -> Document:
        """Return a pod by `namespace/name`; empty if it does not exist."""
        namespace, _, name = key.rpartition("/")
        response = self.api.get(f"/api/v1/namespaces/{namespace or 'default'}/pods/{name}")
        return response.json if response.code == 200 else {}

    def node_of(self, key: str) -> str:
        """Return the node of a pod; empty if it is not bound."""
        return str(self.pod(key).get("spec", {}).get("nodeName", ""))

    def notes(self, key: str, reason: str) -> list[str]:
        """Return the messages of a pod's events with a reason."""
        namespace, _, name = key.rpartition("/")
        path = f"/api/v1/namespaces/{namespace or 'default'}/events"
        events = self.api.get(path).must(200).json["items"]
        return [
            event["message"]
            for event in events
            if event["involvedObject"].get("name") == name and event.get("reason") == reason
        ]

    def until(
        self, predicate: Callable[[], object], description: str, timeout_s: float = 30.0
    ) -> None:
        """Wait for a condition; AssertionError with its description on a timeout."""
        until(predicate, description, timeout_s)

    def until_bound(self, key: str) -> str:
        """Wait until a pod is bound; return its node."""
        self.until(lambda: self.node_of(key), f"{key} is bound")
        return self.node_of(key)

    def until_running(self, key: str) -> Document:
        """Wait until a pod is running and ready; return it."""
        self.until(lambda: _is_running(self.pod(key)), f"{key} runs")
        return self.pod(key)

    def kubectl(self, *arguments: str, program: str = "kubectl", timeout_s: float = 60.0) -> str:
        """Run kubectl as the administrator; return its output, AssertionError if it fails."""
        completed = self.run_kubectl(*arguments, program=program, timeout_s=timeout_s)
        output = f"{completed.stdout}{completed.stderr}"
        assert completed.returncode == 0, f"{program} {' '.join(arguments)}: {output}"
        return completed.stdout

    def run_kubectl(
        self, *arguments: str, program: str = "kubectl", timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator; return the completed process."""
        home = self.server.directory / "home"
        return subprocess.run(
            [kubectl_path(program), *arguments],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def kubectl_path(program: str = "kubectl") -> str:
    """Return the built kubectl, or the one on the PATH."""
    try:
        return str(Programs.built().path(program))
    except MissingProgramError:
        path = shutil.which(program)
        if path is None:
            raise
        return path


@contextmanager
def playground(  # noqa: PLR0913  # What tests vary.
    *,
    nodes: int = 4,
    node_template: Mapping[str, Any] | None = None,
    scheduler: bool = True,
    plugins: ExtraPlugins = (),
    config: Mapping[str, Any] | None = None,
    speed: float = 1.0,
    node_grace_s: float = 50.0,
    server: ServerKind = "embedded",
    controllers: ControllersKind = "own",
    data: Path | None = None,
    log: Log | None = None,
) -> Iterator[Playground]:
    """Run a cluster until the end of the block.

    Args:
        nodes: Number of initial nodes.
        node_template: Template of these nodes.
        scheduler: Whether to run our scheduler.
        plugins: Classes, factories, or a mapping by name; enabled at every point they extend,
            unless `config` has profiles.
        config: Fields of the scheduler's configuration.
        speed: How many times faster than in a real cluster pods start and stop.
        node_grace_s: How long a node may be silent before it is unhealthy.
        server: The API server: embedded, or kube-apiserver.
        controllers: Controllers and kubelets: our own, or kube-controller-manager and KWOK.
        data: Data file of the embedded server.
        log: Log of controllers and kubelets.
    """
    with ExitStack() as stack:
        api_server = stack.enter_context(_server(server, data))
        cluster = Playground(api_server, stack.enter_context(api_server.api(ADMIN)))
        if controllers == "real":
            stack.enter_context(_real_controllers(api_server, server, node_grace_s))
        else:
            settings = MachinerySettings(
                speed=speed, node_grace_s=node_grace_s, root_ca_pem=_pem(api_server.ca_file)
            )
            cluster.machinery = stack.enter_context(_own_controllers(api_server, settings, log))
        documents = node_documents(nodes, node_template)
        cluster.nodes = [document["metadata"]["name"] for document in documents]
        for node in documents:
            if controllers == "real":
                node["metadata"].setdefault("annotations", {})[HEARTBEAT] = "on"
            cluster.api.post("/api/v1/nodes", node).must(201, 409)
        if scheduler:
            cluster.scheduler_parts = stack.enter_context(
                live_scheduler(api_server, plugins=plugins, config=config)
            )
        until(lambda: _is_up(cluster), "every node is ready, and pods can be made", _START_S)
        yield cluster


@contextmanager
def _server(kind: ServerKind, data: Path | None) -> Iterator[ApiServer]:
    if kind == "real":
        assert data is None, "a real API server keeps its objects in etcd"
        with real_cluster("without-controllers") as real:
            yield real
        return
    with embedded_server(admission=WHOLE, data=data) as embedded:
        yield embedded


@contextmanager
def _own_controllers(
    server: ApiServer, settings: MachinerySettings, log: Log | None
) -> Iterator[Machinery]:
    access = load_access(kubeconfig=str(server.kubeconfig), environ={})

    async def make() -> Machinery:
        machinery = Machinery(access, clock=SystemClock(), log=log or NullLog(), settings=settings)
        await machinery.start()
        return machinery

    with LoopThread("controllers and kubelets") as thread:
        machinery = thread.run(make())
        try:
            yield machinery
        finally:
            thread.run(machinery.stop())


@contextmanager
def _real_controllers(server: ApiServer, kind: ServerKind, node_grace_s: float) -> Iterator[None]:
    programs = Programs.built()
    programs.check(COMPONENT_PROGRAMS)
    try:
        with ProcessGroup(server.directory) as processes:
            components = Components(
                nodes=0,
                scheduler=False,
                json_only=kind == "embedded",
                node_grace_s=node_grace_s,
                only_annotated_nodes=True,
            )
            start_components(server, programs, processes, components)
            yield
            processes.check()
    except Exception as error:
        server.keep_files(error)
        raise


def _pem(path: Path | None) -> str:
    return "" if path is None else path.read_text()


def _is_up(cluster: Playground) -> bool:
    nodes = cluster.api.get("/api/v1/nodes").must(200).json["items"]
    ready = {node["metadata"]["name"] for node in nodes if is_ready_node(node)}
    # Pods are rejected until the namespace has its service account.
    account = cluster.api.get("/api/v1/namespaces/default/serviceaccounts/default")
    return ready.issuperset(cluster.nodes) and account.code == 200


def _is_running(pod: Document) -> bool:
    status = pod.get("status", {})
    conditions = {
        condition["type"]: condition["status"] for condition in status.get("conditions", [])
    }
    return status.get("phase") == "Running" and conditions.get("Ready") == "True"


class ObjectPaths:
    """Finds the collection path of an object by discovery."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._resources_by_root: dict[str, dict[str, tuple[str, bool]]] = {}

    def of(self, document: Mapping[str, Any], namespace: str = "default") -> str:
        """Return the path to create an object at; KeyError for a kind that is not served."""
        version, kind = str(document["apiVersion"]), str(document["kind"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural, is_namespaced = self._kinds(root)[kind]
        if not is_namespaced:
            return f"{root}/{plural}"
        target_namespace = document.get("metadata", {}).get("namespace") or namespace
        return f"{root}/namespaces/{target_namespace}/{plural}"

    def _kinds(self, root: str) -> dict[str, tuple[str, bool]]:
        if root not in self._resources_by_root:
            resources = self._api.get(root).must(200).json["resources"]
            self._resources_by_root[root] = {
                resource["kind"]: (resource["name"], resource["namespaced"])
                for resource in resources
                if "/" not in resource["name"]
            }
        return self._resources_by_root[root]


def is_ready_node(node: Mapping[str, Any]) -> bool:
    """Return whether a node is Ready and not tainted not-ready."""
    taints = node.get("spec", {}).get("taints") or ()
    if any(taint["key"].startswith("node.kubernetes.io/not-ready") for taint in taints):
        return False
    conditions = node.get("status", {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
