"""The process of `kubesched extender`: from options to an exit code.

Owns the order in which its parts start and end, and its signals. What answers is `app`'s, what is
served is `web`'s.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from kubesched.app.extender_binding import ExtenderBinder
from kubesched.app.extender_build import BuiltExtender, build_extender
from kubesched.app.extender_service import ExtenderService
from kubesched.app.extender_world import ExtenderWorld
from kubesched.app.live_settings import Outside
from kubesched.app.missing_rights import MissingRights
from kubesched.cache.cache import Cache
from kubesched.client.auth import AccessError
from kubesched.client.kubeconfig import load_access
from kubesched.client.resources import PODS
from kubesched.client.rest import Client
from kubesched.config.errors import ConfigError
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.fence import Budgets, Guard
from kubesched.framework.registry import Registry
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, LogFormat, make_log
from kubesched.kit.memory import keep_heap
from kubesched.kit.stdlib_logging import route_logging
from kubesched.kit.tasks import Tasks
from kubesched.kit.watchdog import Watchdog
from kubesched.model.extender_metrics import ExtenderMetrics
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.plugin_metrics import PluginFaults
from kubesched.model.process_metrics import ProcessMetrics
from kubesched.scheduler.api_client import LiveApiClient
from kubesched.web.extender_server import ExtenderParts, ExtenderServer, serving_settings
from kubesched.web.extender_verbs import ExtenderVerbs
from kubesched.web.settings import ServingError, ServingSettings

_VERSION: Final = "v1.36.4"


class CommandError(Exception):
    """Ends the process with `command failed` and exit code 1."""


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    """What the command line asks for."""

    config: KubeSchedulerConfiguration
    registry: Registry | None
    settings: ServingSettings = field(default_factory=serving_settings)
    kubeconfig: str = ""
    context: str = ""
    binds: bool = False
    max_score: int = 10
    budgets: Budgets = field(default_factory=Budgets)
    verbosity: int = 0
    log_format: LogFormat = "text"


def run(options: ExtenderOptions) -> int:
    """Serve until told to stop; return the exit code."""
    clock = SystemClock()
    log = make_log(sys.stderr, format=options.log_format, verbosity=options.verbosity, clock=clock)
    route_logging(log)
    keep_heap()
    try:
        return _run_loop(ExtenderProcess(options, clock, log).run())
    except CommandError as problem:
        log.error("command failed", err=str(problem))
        return 1
    finally:
        log.flush()


def _run_loop(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop  # noqa: PLC0415  # Not everywhere.
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


class ExtenderProcess:
    """One run of an extender."""

    def __init__(self, options: ExtenderOptions, clock: SystemClock, log: Log) -> None:
        self.options = options
        self.clock = clock
        self.log = log
        self.metrics = ExtenderMetrics()
        self.measured = ProcessMetrics(self.metrics.measures, version=_VERSION)
        self.guard = Guard(clock, log, PluginFaults(self.metrics.measures))
        self.rights = MissingRights(clock, log)
        self.tasks = Tasks()
        self.cache = Cache()
        self.stopping = asyncio.Event()

    async def run(self) -> int:
        """Start everything, wait for the end, and end everything."""
        self._listen_to_signals()
        client = self._client()
        server: ExtenderServer | None = None
        try:
            extender = self._built()
            world = self._world(extender, client)
            server = self._server(extender, world, client)
            server.listen()
            self.guard.start()
            world.start(self.tasks)
            self.tasks.start(self._beat(), name="heartbeat")
            self.tasks.start(self._count(world), name="known objects")
            await server.start()
            await self.stopping.wait()
            self.log.info("Requested to terminate, exiting")
        except ServingError as problem:
            raise CommandError(str(problem)) from None
        finally:
            if server is not None:
                await server.stop()
            self.guard.stop()
            await self.tasks.stop()
            await client.close()
        return 0

    # -- parts ------------------------------------------------------------------------------------

    def _client(self) -> Client:
        connection = self.options.config.client_connection
        try:
            access = load_access(
                kubeconfig=self.options.kubeconfig or connection.kubeconfig,
                context=self.options.context,
                reads_home=True,
                clock=self.clock,
                log=self.log,
            )
        except AccessError as problem:
            raise CommandError(str(problem)) from None
        return Client(
            access,
            qps=connection.qps,
            burst=connection.burst,
            user_agent="kubesched/extender",
            clock=self.clock,
            log=self.log,
            metrics=self.measured,
            on_forbidden=self.rights.note,
        )

    def _built(self) -> BuiltExtender:
        options = self.options
        try:
            extender = build_extender(
                options.config,
                out_of_tree=options.registry,
                view=self.cache.snapshot(),
                clock=self.clock,
                log=self.log,
                tasks=self.tasks,
                guard=self.guard,
                budgets=options.budgets,
            )
        except (ConfigError, ValueError) as refusal:
            raise CommandError(str(refusal)) from None
        if problem := extender.problem(options.registry, binds=options.binds):
            raise CommandError(problem)
        for plugin, points in extender.unserved(binds=options.binds).items():
            self.log.info("Nobody asks a plugin here", plugin=plugin, extensionPoints=points)
        return extender

    def _world(self, extender: BuiltExtender, client: Client) -> ExtenderWorld:
        if extender.built.reads_bound_pods:
            self.cache.keep_whole_pods()
        outside = Outside(client, self.clock, self.log, SchedulerMetrics(), self.measured)
        seed = int.from_bytes(os.urandom(8))
        read = extender.resources
        if extender.may_do_without_pods and not self.options.binds:
            read.remove(PODS)  # Until a plugin looks at them.
        world = ExtenderWorld(self.cache, read, outside, seed=seed)
        extender.lent.informer = world.informer
        extender.lent.client = LiveApiClient(client)
        return world

    def _server(
        self, extender: BuiltExtender, world: ExtenderWorld, client: Client
    ) -> ExtenderServer:
        service = ExtenderService(world, extender.profiles, self.options.max_score)
        binder = ExtenderBinder(service, LiveApiClient(client)) if self.options.binds else None
        verbs = ExtenderVerbs(service, binder, metrics=self.metrics, clock=self.clock, log=self.log)
        return ExtenderServer(
            self.options.settings,
            ExtenderParts(
                verbs=verbs,
                metrics=self.metrics,
                clock=self.clock,
                log=self.log,
                started_s=self.clock.now_s(),
                livez={"ping": lambda: None, "plugins": self.guard.problem},
                readyz={
                    "shutdown": self._shutdown_problem,
                    "informer-sync": lambda: _sync_problem(world),
                },
            ),
        )

    def _shutdown_problem(self) -> str | None:
        return "process is shutting down" if self.stopping.is_set() else None

    # -- beside serving ---------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Have what was logged written, and the watchdog know that the loop turns."""
        watchdog = Watchdog(self.clock, self._say_blocked, self.guard.problem)
        await watchdog.keep_beating(self.log.flush)

    def _say_blocked(self, still_s: float, stack: str) -> None:
        self.log.error(
            "The loop stands still: a plugin does not return", seconds=round(still_s), stack=stack
        )

    async def _count(self, world: ExtenderWorld) -> None:
        await world.watching.wait_until_synced()
        known = "Nodes and pods are known" if world.knows_pods else "Nodes are known"
        self.log.info(known, nodes=self.cache.snapshot().node_count)
        sizes = self.metrics.known_objects
        while True:
            view = self.cache.snapshot()
            sizes.labels("nodes").set(view.node_count)
            sizes.labels("pods").set(view.pods.counted.sum())
            await self.clock.sleep(1.0)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told_to_stop)

    def _told_to_stop(self) -> None:
        if self.stopping.is_set():
            self._die()
        self.stopping.set()

    def _die(self) -> NoReturn:
        # As `kubesched run`: a second signal ends the process at once.
        self.log.flush()
        os._exit(1)


def _sync_problem(world: ExtenderWorld) -> str | None:
    return None if world.has_synced else f"not read yet: {', '.join(world.missing)}"
