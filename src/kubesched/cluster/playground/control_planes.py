"""Control planes of the playground: the embedded API server, or real Kubernetes v1.36.4.

Owns their lifecycle, addresses and kubeconfigs.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import yaml

from kubesched.cluster.apiserver.auth.kubeconfig import kubeconfig, write_kubeconfig
from kubesched.cluster.launch.components import Components, start_components
from kubesched.cluster.launch.processes import StartError
from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.launch.real_cluster import RealCluster, real_cluster
from kubesched.cluster.launch.server import ADMIN
from kubesched.cluster.playground.child_process import ChildProcess

_START_S: Final = 60.0
_SERVING: Final = "serving Kubernetes"
SCHEDULER: Final = "system:kube-scheduler"


@dataclass(frozen=True, slots=True)
class PlaygroundLocation:
    """Address and files of a playground."""

    directory: Path
    kubeconfig: Path
    """The administrator's."""
    port: int
    address: str = "127.0.0.1"
    data: Path | None = None
    """Data file; objects are in memory if None."""

    @property
    def scheduler_kubeconfig(self) -> Path:
        """Return the scheduler's kubeconfig."""
        return self.directory / "scheduler.kubeconfig"

    @property
    def system_log(self) -> Path:
        """Return the log file that KWOK serves for the scheduler's pod."""
        return self.directory / "scheduler.container.log"

    def log_path(self, name: str) -> Path:
        """Return an empty log file for a component."""
        path = self.directory / f"{name}.log"
        path.unlink(missing_ok=True)
        return path


class ControlPlane(Protocol):
    """An API server, with or without controllers and kubelets."""

    needs_machinery: bool
    """Whether the playground must run controllers and kubelets."""
    url: str
    ca_pem: str

    @property
    def children(self) -> Sequence[ChildProcess]:
        """The processes whose end is the playground's."""

    async def start(self) -> None:
        """Start and wait until it serves."""

    def describe(self) -> str:
        """Return a short description."""

    def problem(self) -> str:
        """Return what failed since the start; empty if nothing did."""

    async def stop(self) -> None:
        """Stop it."""


@dataclass(slots=True)
class EmbeddedPlane:
    """`kubesched apiserver` as a child process."""

    location: PlaygroundLocation
    needs_machinery: bool = True
    url: str = ""
    ca_pem: str = ""
    child: ChildProcess = field(init=False)

    def __post_init__(self) -> None:
        self.child = ChildProcess("kubesched apiserver", self.location.log_path("apiserver"))

    @property
    def children(self) -> Sequence[ChildProcess]:
        """Return the one process."""
        return (self.child,)

    async def start(self) -> None:
        """Start it and wait until it serves."""
        location = self.location
        token = secrets.token_urlsafe(24)
        users = location.directory / "users.csv"
        users.touch(mode=0o600)
        # The scheduler has all permissions: plugins may watch any resource.
        users.write_text(f'{token},{SCHEDULER},{SCHEDULER}-uid,"system:masters"\n')
        arguments = [
            "apiserver",
            f"--port={location.port}",
            f"--bind-address={location.address}",
            "--authorization=rbac",
            "--service-accounts",
            f"--token-auth-file={users}",
            f"--write-kubeconfig={location.kubeconfig}",
        ]
        if location.data is not None:
            arguments.append(f"--data={location.data}")
        await self.child.start(arguments)
        line = await self.child.wait_for_line(_SERVING, _START_S)
        self.url = line.rpartition(" ")[2]
        # The kubeconfig is complete once this line is printed.
        await self.child.wait_for_line("  export KUBECONFIG=", _START_S)
        written = yaml.safe_load(location.kubeconfig.read_text())
        cluster = written["clusters"][0]["cluster"]
        self.ca_pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
        config = kubeconfig(self.url, token=token, ca_pem=self.ca_pem.encode(), user=SCHEDULER)
        write_kubeconfig(location.scheduler_kubeconfig, config)

    def describe(self) -> str:
        """Return where objects are stored."""
        data = self.location.data
        return "embedded, objects in memory" if data is None else f"embedded, objects in {data}"

    def problem(self) -> str:
        """Return the end of its output if it exited."""
        return self.child.failure_text() if self.child.has_failed else ""

    async def stop(self) -> None:
        """Stop the process."""
        await self.child.stop()


@dataclass(slots=True)
class RealPlane:
    """etcd, kube-apiserver, kube-controller-manager and KWOK, built by `make control-plane`."""

    location: PlaygroundLocation
    needs_machinery: bool = False
    url: str = ""
    ca_pem: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)
    _cluster: RealCluster | None = None

    @property
    def children(self) -> Sequence[ChildProcess]:
        """Return none: they end with this process by themselves."""
        return ()

    async def start(self) -> None:
        """Start the programs and wait until pods can be created."""
        programs = Programs.built()
        programs.check(("etcd", "kube-apiserver", "kube-controller-manager", "kwok"))
        cluster = self._stack.enter_context(
            real_cluster("without-controllers", port=self.location.port)
        )
        self.location.system_log.write_bytes(b"")
        components = Components(
            nodes=0, scheduler=False, skip_dead_nodes=True, system_log=self.location.system_log
        )
        start_components(cluster, programs, cluster.group, components)
        self._cluster = cluster
        self.url = cluster.url
        assert cluster.ca_file is not None
        self.ca_pem = cluster.ca_file.read_text()
        for path, name in (
            (self.location.kubeconfig, "admin"),
            # All permissions, as on the embedded server.
            (self.location.scheduler_kubeconfig, SCHEDULER),
        ):
            config = kubeconfig(self.url, token=ADMIN.token, ca_pem=self.ca_pem.encode(), user=name)
            write_kubeconfig(path, config)

    def describe(self) -> str:
        """Return its components."""
        return "kube-apiserver and etcd, with kube-controller-manager and KWOK"

    def problem(self) -> str:
        """Return the end of the log of a program that exited."""
        if self._cluster is None:
            return ""
        try:
            self._cluster.group.check()
        except StartError as error:
            return str(error)
        return ""

    async def stop(self) -> None:
        """Stop the programs."""
        self._stack.close()
