"""A whole cluster in threads of this process: for tests, and for trying things from Python.

Owns which parts run, real or our own, and in which order they start and end. Nothing is left of it
when the block ends.

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

from kubesched.apiserver.admission.chain import WHOLE
from kubesched.app.outside_plugins import GivenPlugins
from kubesched.client.kubeconfig import load_access
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, NullLog
from kubesched.playground.live_scheduler import RunningScheduler, live_scheduler
from kubesched.playground.machinery import Machinery, MachinerySettings
from kubesched.playground.nodes import node_documents
from kubesched.playground.objects import Document, ObjectPaths, is_ready_node
from kubesched.playground.waiting import until
from kubesched.testing.companions import (
    COMPANION_PROGRAMS,
    HEARTBEAT,
    Companions,
    start_companions,
)
from kubesched.testing.embedded import embedded_server
from kubesched.testing.http import Api
from kubesched.testing.loop_thread import LoopThread
from kubesched.testing.processes import ProcessGroup
from kubesched.testing.programs import MissingProgramError, Programs
from kubesched.testing.real_cluster import real_cluster
from kubesched.testing.server import ADMIN, ApiServer

ServerKind: TypeAlias = Literal["embedded", "real"]
ControllersKind: TypeAlias = Literal["own", "real"]

_START_S = 60.0


@dataclass(slots=True)
class Playground:
    """A cluster that lives, and short ways to work with it."""

    server: ApiServer
    api: Api
    """Asks as an administrator."""
    nodes: list[str] = field(default_factory=list)
    """The names of the nodes it began with."""
    machinery: Machinery | None = None
    """Our controllers and kubelets; None if real ones run."""
    scheduler_parts: RunningScheduler | None = None
    paths: ObjectPaths = field(init=False)

    def __post_init__(self) -> None:
        self.paths = ObjectPaths(self.api)

    @property
    def scheduler(self) -> RunningScheduler:
        """Return the scheduler; AssertionError if it was left out."""
        assert self.scheduler_parts is not None, "this playground has no scheduler"
        return self.scheduler_parts

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.server.kubeconfig

    def create(self, *documents: Mapping[str, Any], namespace: str = "default") -> list[Document]:
        """Create objects, in their own namespaces or in one; return them as they were stored."""
        return [
            self.api.post(self.paths.of(document, namespace), document).must(201).json
            for document in documents
        ]

    def pod(self, key: str) -> Document:
        """Return `namespace/name` as it is; empty if it is not."""
        namespace, _, name = key.rpartition("/")
        answer = self.api.get(f"/api/v1/namespaces/{namespace or 'default'}/pods/{name}")
        return answer.json if answer.code == 200 else {}

    def node_of(self, key: str) -> str:
        """Return the node of a pod; empty if it has none."""
        return str(self.pod(key).get("spec", {}).get("nodeName", ""))

    def notes(self, key: str, reason: str) -> list[str]:
        """Return the texts of the events about a pod that have a reason."""
        namespace, _, name = key.rpartition("/")
        path = f"/api/v1/namespaces/{namespace or 'default'}/events"
        found = self.api.get(path).must(200).json["items"]
        return [
            one["message"]
            for one in found
            if one["involvedObject"].get("name") == name and one.get("reason") == reason
        ]

    def until(self, is_so: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
        """Wait for something; AssertionError with what it was if it does not come."""
        until(is_so, what, timeout_s)

    def until_bound(self, key: str) -> str:
        """Wait until a pod has a node; return its name."""
        self.until(lambda: self.node_of(key), f"{key} is bound")
        return self.node_of(key)

    def until_running(self, key: str) -> Document:
        """Wait until a pod runs and is ready; return it."""
        self.until(lambda: _is_running(self.pod(key)), f"{key} runs")
        return self.pod(key)

    def kubectl(self, *arguments: str, program: str = "kubectl", timeout_s: float = 60.0) -> str:
        """Run kubectl as the administrator; return what it prints, AssertionError if it fails."""
        done = self.run_kubectl(*arguments, program=program, timeout_s=timeout_s)
        said = f"{done.stdout}{done.stderr}"
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {said}"
        return done.stdout

    def run_kubectl(
        self, *arguments: str, program: str = "kubectl", timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, whatever comes of it."""
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
        found = shutil.which(program)
        if found is None:
            raise
        return found


@contextmanager
def playground(  # noqa: PLR0913  # What tests vary.
    *,
    nodes: int = 4,
    node_template: Mapping[str, Any] | None = None,
    scheduler: bool = True,
    plugins: GivenPlugins = (),
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
        nodes: How many nodes it begins with.
        node_template: What they look like.
        scheduler: Whether ours runs.
        plugins: Classes, factories, or a mapping by name; enabled at every point they extend,
            unless `config` has profiles.
        config: Fields of the scheduler's configuration.
        speed: How many times faster than in a real cluster pods start, end and are noticed.
        node_grace_s: How long a node may be silent before it counts as lost.
        server: Whose API server: our own, or kube-apiserver.
        controllers: Whose controllers and kubelets: our own, or kube-controller-manager and KWOK.
        data: The file in which the embedded server keeps objects.
        log: Where controllers and kubelets tell what they do.
    """
    with ExitStack() as stack:
        running = stack.enter_context(_server(server, data))
        cluster = Playground(running, stack.enter_context(running.api(ADMIN)))
        if controllers == "real":
            stack.enter_context(_real_controllers(running, server, node_grace_s))
        else:
            settings = MachinerySettings(
                speed=speed, node_grace_s=node_grace_s, root_ca_pem=_pem(running.ca_file)
            )
            cluster.machinery = stack.enter_context(_own_controllers(running, settings, log))
        made = node_documents(nodes, node_template)
        cluster.nodes = [one["metadata"]["name"] for one in made]
        for node in made:
            if controllers == "real":
                node["metadata"].setdefault("annotations", {})[HEARTBEAT] = "on"
            cluster.api.post("/api/v1/nodes", node).must(201, 409)
        if scheduler:
            cluster.scheduler_parts = stack.enter_context(
                live_scheduler(running, plugins=plugins, config=config)
            )
        until(lambda: _is_up(cluster), "every node is ready, and pods can be made", _START_S)
        yield cluster


@contextmanager
def _server(kind: ServerKind, data: Path | None) -> Iterator[ApiServer]:
    if kind == "real":
        assert data is None, "a real API server keeps its objects in etcd"
        with real_cluster("unstaffed") as real:
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
        made = Machinery(access, clock=SystemClock(), log=log or NullLog(), settings=settings)
        await made.start()
        return made

    with LoopThread("controllers and kubelets") as thread:
        machinery = thread.run(make())
        try:
            yield machinery
        finally:
            thread.run(machinery.stop())


@contextmanager
def _real_controllers(server: ApiServer, kind: ServerKind, node_grace_s: float) -> Iterator[None]:
    programs = Programs.built()
    programs.check(COMPANION_PROGRAMS)
    try:
        with ProcessGroup(server.directory) as processes:
            wanted = Companions(
                nodes=0,
                scheduler=False,
                json_only=kind == "embedded",
                node_grace_s=node_grace_s,
                only_annotated=True,
            )
            start_companions(server, programs, processes, wanted)
            yield
            processes.check()
    except Exception as error:
        server.keep_files(error)
        raise


def _pem(path: Path | None) -> str:
    return "" if path is None else path.read_text()


def _is_up(cluster: Playground) -> bool:
    nodes = cluster.api.get("/api/v1/nodes").must(200).json["items"]
    ready = {one["metadata"]["name"] for one in nodes if is_ready_node(one)}
    # Pods are refused until their namespace has its account.
    account = cluster.api.get("/api/v1/namespaces/default/serviceaccounts/default")
    return ready.issuperset(cluster.nodes) and account.code == 200


def _is_running(pod: Document) -> bool:
    status = pod.get("status", {})
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    return status.get("phase") == "Running" and conditions.get("Ready") == "True"
