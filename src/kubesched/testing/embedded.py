"""The embedded API server, as a test sees it.

Owns its start and end inside the test process, on a loop and thread of its own, with the users a
real cluster of the test kit has. What it serves is apiserver's.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kubesched.apiserver.admission.chain import BARE, WHOLE, AdmissionOptions
from kubesched.apiserver.embedded import EmbeddedServer, Settings, key_pem
from kubesched.apiserver.strategy import User
from kubesched.kit.clock import SystemClock
from kubesched.testing.companions import COMPANION_PROGRAMS, Companions, start_companions
from kubesched.testing.loop_thread import LoopThread
from kubesched.testing.processes import ProcessGroup
from kubesched.testing.programs import Programs
from kubesched.testing.schedulers import SchedulerName
from kubesched.testing.server import USERS, ApiServer


@dataclass(slots=True)
class RunningEmbedded(ApiServer):
    """A running embedded server."""

    embedded: EmbeddedServer | None = None
    thread: LoopThread | None = field(default=None, repr=False)

    def compact(self) -> None:
        """Have it forget every version but the newest."""
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
    """Run the embedded server, with RBAC and the users of the test kit.

    Args:
        port: Where it listens; a free port if 0.
        data: The file where objects are kept; in memory if None.
        directory: Where kubeconfigs and keys go, and stay; a temporary one if None.
        tls: Whether it serves HTTPS.
        admission: Which admission plugins are on: those of a bare cluster, or WHOLE.
    """
    place = directory or Path(tempfile.mkdtemp(prefix="kubesched-embedded-"))
    place.mkdir(parents=True, exist_ok=True)
    users = {one.token: User(one.name, f"{one.name}-uid", one.groups) for one in USERS}
    settings = Settings(
        port=port, data=data, tokens=users, has_rbac=True, has_tls=tls, admission=admission
    )
    running = RunningEmbedded(url="", directory=place, keeps_files=directory is not None)
    try:
        with LoopThread("embedded-api-server") as thread:
            running.thread = thread
            running.embedded = thread.run(_start(settings))
            try:
                _announce(running, running.embedded)
                yield running
            finally:
                thread.run(_stop(running.embedded))
    finally:
        if not running.keeps_files:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def embedded_cluster(
    *,
    nodes: int = 3,
    scheduler: bool | SchedulerName = True,
    programs: Programs | None = None,
) -> Iterator[RunningEmbedded]:
    """Run the embedded server with real controllers, scheduler and KWOK's kubelets beside it.

    Args:
        nodes: How many nodes the cluster has.
        scheduler: Which scheduler runs, kube-scheduler if True, or none.
        programs: What to run; the user's cache if None.
    """
    programs = programs or Programs.built()
    programs.check(COMPANION_PROGRAMS)
    with embedded_server(admission=WHOLE) as server:
        try:
            with ProcessGroup(server.directory) as processes:
                wanted = Companions(nodes=nodes, scheduler=scheduler, json_only=True)
                start_companions(server, programs, processes, wanted)
                yield server
                processes.check()
        except Exception as error:
            server.keep_files(error)
            raise


def _announce(running: RunningEmbedded, server: EmbeddedServer) -> None:
    """Write down where it listens and under which keys, for clients that read files."""
    place = running.directory
    running.url = server.url
    if server.settings.has_tls:
        running.ca_file = place / "ca.crt"
        running.ca_file.write_bytes(server.authority.pem)
        running.authority_key = place / "ca.key"
        running.authority_key.touch(mode=0o600)
        running.authority_key.write_bytes(server.authority.key_pem)
    running.service_account_key = place / "sa.key"
    running.service_account_key.touch(mode=0o600)
    running.service_account_key.write_bytes(key_pem(server.account_key))
    running.write_kubeconfigs()


async def _start(settings: Settings) -> EmbeddedServer:
    # Made on the loop's thread: a data file is for the thread that opened it.
    server = EmbeddedServer(settings, SystemClock())
    await server.start()
    return server


async def _stop(server: EmbeddedServer) -> None:
    await server.stop()
    # Taking leave over TLS needs some turns of the loop, which is closed afterwards.
    await SystemClock().sleep(0.15)


async def _compact(server: EmbeddedServer) -> None:
    store = server.context.store
    for bucket in store.buckets.values():
        bucket.history.compact(store.version)
