"""The API server of a playground: our own, or real Kubernetes v1.36.4 with what belongs to it.

Owns their start and end, where they listen, and the kubeconfigs that lead to them. Who works on
them beside is the playground's.
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

from kubesched.apiserver.auth.kubeconfig import kubeconfig, write_kubeconfig
from kubesched.playground.children import Child
from kubesched.testing.companions import Companions, start_companions
from kubesched.testing.processes import StartError
from kubesched.testing.programs import Programs
from kubesched.testing.real_cluster import RealCluster, real_cluster
from kubesched.testing.server import ADMIN

_START_S: Final = 60.0
_SERVING: Final = "serving Kubernetes"
SCHEDULER: Final = "system:kube-scheduler"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a playground listens, and where its files are."""

    directory: Path
    kubeconfig: Path
    """Of the administrator."""
    port: int
    address: str = "127.0.0.1"
    data: Path | None = None
    """Where objects are kept; in memory if None."""

    @property
    def scheduler_kubeconfig(self) -> Path:
        """Return the scheduler's own kubeconfig."""
        return self.directory / "scheduler.kubeconfig"

    @property
    def system_log(self) -> Path:
        """Return what KWOK shows as the log of the scheduler's pod."""
        return self.directory / "scheduler.container.log"

    def log_path(self, name: str) -> Path:
        """Return where a part of the playground writes what it does; empty at the start."""
        path = self.directory / f"{name}.log"
        path.unlink(missing_ok=True)
        return path


class ControlPlane(Protocol):
    """An API server, and whether controllers and kubelets come with it."""

    has_own_machinery: bool
    """Whether controllers and kubelets are ours to run."""
    url: str
    ca_pem: str

    @property
    def children(self) -> Sequence[Child]:
        """The processes whose end is the playground's."""

    async def start(self) -> None:
        """Serve from now on."""

    def describe(self) -> str:
        """Return what it is, in a few words."""

    def problem(self) -> str:
        """Return what has gone wrong since it was started; empty if nothing has."""

    async def stop(self) -> None:
        """End it, when nobody needs it any more."""


@dataclass(slots=True)
class EmbeddedPlane:
    """`kubesched apiserver`, as a process of its own."""

    place: Place
    has_own_machinery: bool = True
    url: str = ""
    ca_pem: str = ""
    child: Child = field(init=False)

    def __post_init__(self) -> None:
        self.child = Child("kubesched apiserver", self.place.log_path("apiserver"))

    @property
    def children(self) -> Sequence[Child]:
        """Return the one process."""
        return (self.child,)

    async def start(self) -> None:
        """Start it and wait until it serves."""
        place = self.place
        token = secrets.token_urlsafe(24)
        users = place.directory / "users.csv"
        users.touch(mode=0o600)
        # The scheduler of a playground may do everything: plugins ask for kinds of their own.
        users.write_text(f'{token},{SCHEDULER},{SCHEDULER}-uid,"system:masters"\n')
        arguments = [
            "apiserver",
            f"--port={place.port}",
            f"--bind-address={place.address}",
            "--authorization=rbac",
            "--service-accounts",
            f"--token-auth-file={users}",
            f"--write-kubeconfig={place.kubeconfig}",
        ]
        if place.data is not None:
            arguments.append(f"--data={place.data}")
        await self.child.start(arguments)
        line = await self.child.wait_for_line(_SERVING, _START_S)
        self.url = line.rpartition(" ")[2]
        # It is written after the line was said, whole or not at all.
        await self.child.wait_for_line("  export KUBECONFIG=", _START_S)
        written = yaml.safe_load(place.kubeconfig.read_text())
        cluster = written["clusters"][0]["cluster"]
        self.ca_pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
        document = kubeconfig(self.url, token=token, ca_pem=self.ca_pem.encode(), user=SCHEDULER)
        write_kubeconfig(place.scheduler_kubeconfig, document)

    def describe(self) -> str:
        """Return where objects are kept."""
        kept = self.place.data
        return "our own, objects in memory" if kept is None else f"our own, objects in {kept}"

    def problem(self) -> str:
        """Return its last words if it has ended."""
        return self.child.last_words() if self.child.has_failed else ""

    async def stop(self) -> None:
        """End the process."""
        await self.child.stop()


@dataclass(slots=True)
class RealPlane:
    """etcd, kube-apiserver, kube-controller-manager and KWOK, built by `make control-plane`."""

    place: Place
    has_own_machinery: bool = False
    url: str = ""
    ca_pem: str = ""
    _stack: ExitStack = field(default_factory=ExitStack)
    _cluster: RealCluster | None = None

    @property
    def children(self) -> Sequence[Child]:
        """Return none: they end with this process by themselves."""
        return ()

    async def start(self) -> None:
        """Start the programs and wait until pods can be made."""
        programs = Programs.built()
        programs.check(("etcd", "kube-apiserver", "kube-controller-manager", "kwok"))
        cluster = self._stack.enter_context(real_cluster("unstaffed", port=self.place.port))
        self.place.system_log.write_bytes(b"")
        wanted = Companions(
            nodes=0, scheduler=False, some_dead=True, system_log=self.place.system_log
        )
        start_companions(cluster, programs, cluster.group, wanted)
        self._cluster = cluster
        self.url = cluster.url
        assert cluster.ca_file is not None
        self.ca_pem = cluster.ca_file.read_text()
        for path, name in (
            (self.place.kubeconfig, "admin"),
            # As on our own server: it may do everything.
            (self.place.scheduler_kubeconfig, SCHEDULER),
        ):
            document = kubeconfig(
                self.url, token=ADMIN.token, ca_pem=self.ca_pem.encode(), user=name
            )
            write_kubeconfig(path, document)

    def describe(self) -> str:
        """Return what it is made of."""
        return "kube-apiserver and etcd, with kube-controller-manager and KWOK"

    def problem(self) -> str:
        """Return the last words of a program that has ended."""
        if self._cluster is None:
            return ""
        try:
            self._cluster.group.check()
        except StartError as error:
            return str(error)
        return ""

    async def stop(self) -> None:
        """End the programs."""
        self._stack.close()
