"""Runs the embedded API server in this process, on an event loop and thread of its own.

Owns its lifecycle and its users, which are those of a real cluster of the test kit.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubesched.cluster.apiserver.admission.chain import BARE, WHOLE, AdmissionOptions
from kubesched.cluster.apiserver.embedded_server import EmbeddedServer, Settings, key_pem
from kubesched.cluster.apiserver.strategy import User
from kubesched.cluster.launch.components import COMPONENT_PROGRAMS, Components, start_components
from kubesched.cluster.launch.loop_thread import LoopThread
from kubesched.cluster.launch.processes import ProcessGroup
from kubesched.cluster.launch.programs import Programs
from kubesched.cluster.launch.schedulers import SchedulerName
from kubesched.cluster.launch.server import USERS, ApiServer
from kubesched.kit.clock import SystemClock


@dataclass(slots=True)
class RunningEmbedded(ApiServer):
    """A running embedded API server."""

    embedded: EmbeddedServer | None = None
    thread: LoopThread | None = field(default=None, repr=False)

    def compact(self) -> None:
        """Compact the history: only the current revision remains."""
        assert self.embedded is not None
        assert self.thread is not None
        self.thread.run(_compact(self.embedded))


@contextmanager
def embedded_server(
    *,
    port: int = 0,
    data: Path | None = None,
    directory: Path | None = None,
    tls: bool = True,
    admission: AdmissionOptions = BARE,
) -> Iterator[RunningEmbedded]:
    """Run the embedded API server with RBAC and the users of the test kit.

    Args:
        port: Port to listen on; a free one if 0.
        data: Data file; objects are in memory if None.
        directory: Directory for kubeconfigs and keys, which is kept; a temporary one if None.
        tls: Whether to serve HTTPS.
        admission: Admission plugins: BARE or WHOLE.
    """
    directory_path = directory or Path(tempfile.mkdtemp(prefix="kubesched-embedded-"))
    directory_path.mkdir(parents=True, exist_ok=True)
    users = {user.token: User(user.name, f"{user.name}-uid", user.groups) for user in USERS}
    settings = Settings(
        port=port, data=data, tokens=users, has_rbac=True, has_tls=tls, admission=admission
    )
    running = RunningEmbedded(url="", directory=directory_path, keeps_files=directory is not None)
    try:
        with LoopThread("embedded-api-server") as thread:
            running.thread = thread
            running.embedded = thread.run(_start(settings))
            try:
                _write_files(running, running.embedded)
                yield running
            finally:
                thread.run(_stop(running.embedded))
    finally:
        if not running.keeps_files:
            shutil.rmtree(directory_path, ignore_errors=True)


@contextmanager
def embedded_cluster(
    *,
    nodes: int = 3,
    scheduler: bool | SchedulerName = True,
    programs: Programs | None = None,
) -> Iterator[RunningEmbedded]:
    """Run the embedded API server with real controllers, a scheduler and KWOK.

    Args:
        nodes: Number of nodes.
        scheduler: The scheduler; kube-scheduler if True, none if False.
        programs: The programs; those in the user's cache if None.
    """
    programs = programs or Programs.built()
    programs.check(COMPONENT_PROGRAMS)
    with embedded_server(admission=WHOLE) as server:
        try:
            with ProcessGroup(server.directory) as processes:
                components = Components(nodes=nodes, scheduler=scheduler, json_only=True)
                start_components(server, programs, processes, components)
                yield server
                processes.check()
        except Exception as error:
            server.keep_files(error)
            raise


def _write_files(running: RunningEmbedded, server: EmbeddedServer) -> None:
    """Write the CA, keys and kubeconfigs for clients that read files."""
    directory_path = running.directory
    running.url = server.url
    if server.settings.has_tls:
        running.ca_file = directory_path / "ca.crt"
        running.ca_file.write_bytes(server.authority.pem)
        running.authority_key = directory_path / "ca.key"
        running.authority_key.touch(mode=0o600)
        running.authority_key.write_bytes(server.authority.key_pem)
    running.service_account_key = directory_path / "sa.key"
    running.service_account_key.touch(mode=0o600)
    running.service_account_key.write_bytes(key_pem(server.account_key))
    running.write_kubeconfigs()


async def _start(settings: Settings) -> EmbeddedServer:
    # Created on the loop's thread: SQLite connections belong to the thread that opened them.
    server = EmbeddedServer(settings, SystemClock())
    await server.start()
    return server


async def _stop(server: EmbeddedServer) -> None:
    await server.stop()
    # A TLS shutdown needs some loop iterations before the loop is closed.
    await SystemClock().sleep(0.15)


async def _compact(server: EmbeddedServer) -> None:
    store = server.context.store
    for bucket in store.buckets.values():
        bucket.history.compact(store.version)
