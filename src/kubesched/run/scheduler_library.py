"""The scheduler as a library: `kubesched.Scheduler` in a program of the user's own.

Wraps `run.live_scheduler` with configuration, start and stop. It has no HTTP server, no leader
election and no flags: `kubesched.main` has them.
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
from typing import Any, Self

from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.rest import Client
from kubesched.config.feature_gates import DEFAULT_GATES
from kubesched.config.load import load_config, load_config_object
from kubesched.config.schema import API_VERSION, KIND
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.config.validate import check_config
from kubesched.framework.runtime.registry import Registry
from kubesched.kit.clock import Clock, SystemClock
from kubesched.kit.log import Log, make_log
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.profile.build import config_enabling
from kubesched.profile.plugin_loading import ExtraPlugins, registry_with
from kubesched.run.live_scheduler import Environment, LiveScheduler, LiveSettings

Configuration = Mapping[str, Any] | str | os.PathLike[str] | None


class Scheduler:
    """Schedules the pods of a cluster: `Scheduler(plugins=[Mine]).run()`.

    Inside a running event loop: `async with Scheduler(plugins=[Mine]): ...`, or `start` and `stop`.
    """

    def __init__(  # noqa: PLR0913 - the options of the library
        self,
        plugins: ExtraPlugins = (),
        config: Configuration = None,
        client: Client | None = None,
        clock: Clock | None = None,
        *,
        kubeconfig: str = "",
        context: str = "",
        log: Log | None = None,
        seed: int | None = None,
    ) -> None:
        """Build the scheduler, without any request to the cluster.

        Args:
            plugins: Classes or factories, pairs of name and factory, texts `[NAME=]module:Class`;
                or a mapping by name. Without `config` they are enabled at multiPoint.
            config: A KubeSchedulerConfiguration: the path of its file, or its fields.
            client: The API client, closed by the caller; None creates one.
            clock: The clock; None uses the system's.
            kubeconfig: Path of the kubeconfig if there is no client; empty: as kubectl finds it.
            context: Context of the kubeconfig; empty uses the current one.
            log: The logger; None logs to standard error.
            seed: Seed of the choice between equally scored nodes; None draws one.

        Raises:
            ValueError, ConfigError: The configuration or a plugin is invalid.
            AccessError: No cluster is configured.
        """
        self.clock = clock or SystemClock()
        self.log = log or make_log(clock=self.clock)
        self.config, registry = _configured(plugins, config)
        self.metrics = SchedulerMetrics()
        self._own_client: Client | None = None
        if client is None:
            client = self._own_client = self._client(kubeconfig, context)
        settings = LiveSettings(
            config=self.config,
            hostname=socket.gethostname(),
            out_of_tree=registry,
            is_enabled=DEFAULT_GATES.is_enabled,
            seed=int.from_bytes(os.urandom(8)) if seed is None else seed,
        )
        environment = Environment(client, self.clock, self.log, self.metrics)
        self.live = LiveScheduler(settings, environment)
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

    # -- inside an event loop ---------------------------------------------------------------------

    async def start(self) -> None:
        """Sync with the cluster, then start to place pods; returns when placing starts."""
        self.live.start_watching()
        await self.live.wait_until_synced()
        self.live.start_scheduling()

    async def stop(self) -> None:
        """Stop placing pods, wait for outstanding bindings, and stop."""
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
        """Schedule until SIGINT, SIGTERM or `end`; outside the main thread until `end`."""
        _run_loop(self._run())

    def end(self) -> None:
        """Make `run` return; may be called from any thread, and before `run`."""
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
        """End `run` if the start failed; `run` raises the error."""
        if not work.cancelled() and work.exception() is not None and self._wake is not None:
            self._wake.set()


def _configured(
    plugins: ExtraPlugins, config: Configuration
) -> tuple[KubeSchedulerConfiguration, Registry]:
    registry = registry_with(plugins, is_offer=True)
    if config is None:
        loaded = config_enabling(registry)
    elif isinstance(config, Mapping):
        # A mapping may omit these fields, a file may not.
        loaded = load_config_object({"apiVersion": API_VERSION, "kind": KIND, **config})
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
