"""A scheduler in a program of the user's own: `kubesched.Scheduler`.

Owns what such a program may hand in, and how its scheduler starts and ends. What schedules is
`app.live`'s. There are no pages, no leader election and no flags here: `kubesched.main` has them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kubesched.app.build import config_enabling
from kubesched.app.live import LiveScheduler, LiveSettings, Outside
from kubesched.app.outside_plugins import GivenPlugins, registry_given
from kubesched.client.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.config.feature_gates import FeatureGates
from kubesched.config.load import load_config, load_config_object
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.config.validate import check_config
from kubesched.framework.registry import Registry
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, make_log
from kubesched.model.metrics import SchedulerMetrics

Configuration = Mapping[str, Any] | str | os.PathLike[str] | None


class Scheduler:
    """Schedules the pods of a cluster: `Scheduler(plugins=[Mine]).run()`.

    Inside a loop of one's own: `async with Scheduler(plugins=[Mine]): ...`, or `start` and `stop`.
    """

    def __init__(  # noqa: PLR0913  # What a program may hand in.
        self,
        plugins: GivenPlugins = (),
        config: Configuration = None,
        client: Client | None = None,
        clock: Clock | None = None,
        *,
        kubeconfig: str = "",
        context: str = "",
        log: Log | None = None,
        seed: int | None = None,
    ) -> None:
        """Build it; nothing is asked of the cluster yet.

        Args:
            plugins: Classes or factories, pairs of name and factory, texts `[NAME=]module:Class`;
                or a mapping by name. Without `config` they are enabled at multiPoint.
            config: A KubeSchedulerConfiguration: its file, or its fields.
            client: Asks the API server; one of our own if None. Whoever made it closes it.
            clock: What time it is.
            kubeconfig: Which cluster, if there is no client; as kubectl finds it if empty.
            context: Of the kubeconfig.
            log: Where lines go; standard error if None.
            seed: Decides between nodes that are equally good; by chance if None.

        Raises:
            ValueError, ConfigError: The configuration or a plugin is refused.
            AccessError: No cluster is to be found.
        """
        self.clock = clock or SystemClock()
        self.log = log or make_log(clock=self.clock)
        self.config, registry = _configured(plugins, config)
        gates = FeatureGates()
        self.metrics = SchedulerMetrics(gates.is_enabled)
        self._own_client = None if client is not None else self._client(kubeconfig, context)
        settings = LiveSettings(
            config=self.config,
            hostname=socket.gethostname(),
            out_of_tree=registry,
            is_enabled=gates.is_enabled,
            seed=int.from_bytes(os.urandom(8)) if seed is None else seed,
        )
        used = client or self._own_client
        assert used is not None
        self.live = LiveScheduler(settings, Outside(used, self.clock, self.log, self.metrics))
        self._ended = threading.Event()
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _client(self, kubeconfig: str, context: str) -> Client:
        connection = self.config.client_connection
        access = load_access(
            kubeconfig=kubeconfig or connection.kubeconfig,
            context=context,
            reads_home=True,
            clock=self.clock,
            log=self.log,
        )
        return Client(
            access,
            qps=connection.qps,
            burst=connection.burst,
            user_agent="kubesched/scheduler",
            clock=self.clock,
            log=self.log,
        )

    # -- inside a loop ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Read the cluster, then begin to place pods; returns when the first may be placed."""
        self.live.start_watching()
        await self.live.wait_until_synced()
        self.live.start_scheduling()

    async def stop(self) -> None:
        """Place no further pod, wait for bindings that are on their way, and end."""
        await self.live.stop()
        if self._own_client is not None:
            await self._own_client.close()
        self.log.flush()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    # -- as a whole program -----------------------------------------------------------------------

    def run(self) -> None:
        """Schedule until SIGINT, SIGTERM or `end`; in a thread of one's own only until `end`."""
        _run_loop(self._run())

    def end(self) -> None:
        """Have `run` return; may be called from any thread, and before it runs."""
        self._ended.set()
        if self._loop is not None and self._wake is not None:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        self._wake, self._loop = asyncio.Event(), asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.add_signal_handler(number, self.end)
        if self._ended.is_set():
            self._wake.set()
        work = self.live.tasks.start(self.start(), name="start")
        work.add_done_callback(self._started)
        try:
            await self._wake.wait()
            if work.done():
                work.result()
        finally:
            self._loop = None
            work.cancel()
            await self.stop()

    def _started(self, work: asyncio.Task[None]) -> None:
        """Have `run` end if the start failed; it raises what went wrong."""
        if not work.cancelled() and work.exception() is not None and self._wake is not None:
            self._wake.set()


_HEAD: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
"""What fields that are given by a program may leave out; a file may not."""


def _configured(
    plugins: GivenPlugins, config: Configuration
) -> tuple[KubeSchedulerConfiguration, Registry]:
    registry = registry_given(plugins, is_offer=True)
    if config is None:
        loaded = config_enabling(registry)
    elif isinstance(config, Mapping):
        loaded = load_config_object({**_HEAD, **config})
    else:
        loaded = load_config(Path(config).read_bytes())
    check_config(loaded)
    return loaded, registry


def _run_loop(main: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop  # noqa: PLC0415  # Not everywhere.
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)
