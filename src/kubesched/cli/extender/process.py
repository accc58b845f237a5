"""The process of `kubesched extender`: from options to an exit code.

Owns the order in which its components start and stop, and its signals. The components are in
kubesched.extender.server.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from kubesched.cache.cache import Cache
from kubesched.cli.options import registry_of
from kubesched.client.auth.credentials import AccessError
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.resources import PODS
from kubesched.client.rest import Client
from kubesched.config.errors import ConfigError
from kubesched.config.load import load_config
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.extender.server.binding import ExtenderBinder
from kubesched.extender.server.build import BuiltExtender, build_extender
from kubesched.extender.server.cluster_state import ClusterState
from kubesched.extender.server.config_snippet import SnippetOptions, print_config
from kubesched.extender.server.http_server import (
    ExtenderServer,
    ExtenderSources,
    is_secure,
    serving_settings,
    url_of,
)
from kubesched.extender.server.service import ExtenderService
from kubesched.extender.server.verbs import ExtenderVerbs
from kubesched.framework.runtime.registry import Registry
from kubesched.framework.sandbox.budget import Budgets, Guard
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, LogFormat, NullLog, make_log, route_logging
from kubesched.kit.memory import keep_heap
from kubesched.kit.tasks import Tasks, run_loop
from kubesched.kit.watchdog import Watchdog
from kubesched.metrics.extender import ExtenderMetrics
from kubesched.metrics.process import ProcessMetrics
from kubesched.metrics.scheduler import PluginFaults, SchedulerMetrics
from kubesched.ops.serving import ServingError, ServingSettings
from kubesched.profile.build import config_enabling
from kubesched.run.missing_rights import MissingRights
from kubesched.run.options.flag_types import PLUGIN_BUDGETS
from kubesched.run.rbac import Subject
from kubesched.run.settings import Environment
from kubesched.scheduler.live_handle import LiveApiClient

_VERSION: Final = "v1.36.4"


class CommandError(Exception):
    """Ends the process with `command failed` and exit code 1."""


@dataclass(frozen=True, slots=True)
class ExtenderOptions:
    """The options of the command line."""

    plugins: tuple[str, ...]
    config_file: str | None
    listen: str
    kubeconfig: str
    context: str
    binds: bool
    max_score: int
    tls_cert_file: str
    tls_private_key_file: str
    client_ca_file: str
    tls_min_version: str
    tls_cipher_suites: str
    plugin_budgets: tuple[str, ...]
    prints_config: bool
    url: str
    service_account: str
    verbosity: int
    log_format: LogFormat


def run(options: ExtenderOptions) -> int:
    """Serve until a signal; return the exit code."""
    clock = SystemClock()
    log = make_log(sys.stderr, format=options.log_format, verbosity=options.verbosity, clock=clock)
    process = ExtenderProcess(options, clock, log)
    route_logging(log)
    keep_heap()
    try:
        return run_loop(process.run())
    except CommandError as problem:
        log.error("command failed", err=str(problem))
        return 1
    finally:
        log.flush()


def config_snippet(options: ExtenderOptions) -> str:
    """Return the output of `--print-config`; ClickException if there is nothing to serve."""
    namespace, slash, name = options.service_account.partition("/")
    if not namespace or not slash or not name:
        raise click.BadParameter("not NAMESPACE/NAME", param_hint="--service-account")
    process = ExtenderProcess(options, SystemClock(), NullLog())
    snippet = SnippetOptions(
        options.url or url_of(process.settings),
        binds=options.binds,
        is_secure=is_secure(process.settings) or options.url.startswith("https:"),
        wants_certificates=bool(options.client_ca_file),
    )
    try:
        extender = run_loop(process.build_only())
    except CommandError as problem:
        raise click.ClickException(str(problem)) from None
    return print_config(extender, snippet, Subject(name, namespace))


def _config(config_file: str | None, registry: Registry | None) -> KubeSchedulerConfiguration:
    if config_file is None:
        return config_enabling(registry)
    try:
        return load_config(Path(config_file).read_bytes())
    except ConfigError as problem:
        raise click.ClickException(f"{config_file}: {problem}") from None


def _settings(options: ExtenderOptions) -> ServingSettings:
    address, colon, port = options.listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{options.listen!r} is not ADDRESS:PORT", param_hint="--listen")
    has_certificate = bool(options.tls_cert_file)
    if has_certificate != bool(options.tls_private_key_file):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file go together")
    if options.client_ca_file and not has_certificate:
        raise click.UsageError("--client-ca-file needs --tls-cert-file")
    return serving_settings(
        bind_address=address.strip("[]"),
        port=int(port),
        tls_cert_file=options.tls_cert_file,
        tls_private_key_file=options.tls_private_key_file,
        client_ca_file=options.client_ca_file,
        tls_min_version=options.tls_min_version,
        tls_cipher_suites=tuple(filter(None, options.tls_cipher_suites.split(","))),
    )


def _budgets(texts: tuple[str, ...]) -> Budgets:
    budgets: Budgets = PLUGIN_BUDGETS.default
    for text in texts:
        try:
            budgets = PLUGIN_BUDGETS.parse(text, budgets)
        except ValueError as problem:
            raise click.BadParameter(str(problem), param_hint="--plugin-budget") from None
    return budgets


class ExtenderProcess:
    """One run of an extender."""

    def __init__(self, options: ExtenderOptions, clock: SystemClock, log: Log) -> None:
        self.options = options
        self.registry = registry_of(options.plugins)
        self.config = _config(options.config_file, self.registry)
        self.settings = _settings(options)
        self.budgets = _budgets(options.plugin_budgets)
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
        """Start the components, wait for a signal, and stop them."""
        self._listen_to_signals()
        client = self._client()
        server: ExtenderServer | None = None
        try:
            extender = self._build()
            cluster = self._cluster_state(extender, client)
            server = self._server(extender, cluster, client)
            server.listen()
            self.guard.start()
            cluster.start(self.tasks)
            watchdog = Watchdog(self.clock, self._log_blocked, self.guard.problem)
            self.tasks.start(watchdog.keep_beating(self.log.flush), name="heartbeat")
            self.tasks.start(self._update_metrics(cluster), name="known objects")
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

    # -- components -------------------------------------------------------------------------------

    def _client(self) -> Client:
        connection = self.config.client_connection
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

    async def build_only(self) -> BuiltExtender:
        """Build inside a loop, for plugins that start a task in their constructor."""
        try:
            return self._build()
        finally:
            await self.tasks.stop()

    def _build(self) -> BuiltExtender:
        binds = self.options.binds
        try:
            extender = build_extender(
                self.config,
                out_of_tree=self.registry,
                view=self.cache.snapshot(),
                clock=self.clock,
                log=self.log,
                tasks=self.tasks,
                guard=self.guard,
                budgets=self.budgets,
            )
        except (ConfigError, ValueError) as rejection:
            raise CommandError(str(rejection)) from None
        if problem := extender.problem(self.registry, binds=binds):
            raise CommandError(problem)
        for plugin, points in extender.unserved(binds=binds).items():
            self.log.info(
                "Extension points are not used by an extender",
                plugin=plugin,
                extensionPoints=points,
            )
        return extender

    def _cluster_state(self, extender: BuiltExtender, client: Client) -> ClusterState:
        if extender.built.reads_bound_pods:
            self.cache.keep_whole_pods()
        outside = Environment(client, self.clock, self.log, SchedulerMetrics(), self.measured)
        seed = int.from_bytes(os.urandom(8))
        watched = extender.resources
        if extender.may_do_without_pods and not self.options.binds:
            watched.remove(PODS)  # Until a plugin reads them.
        cluster = ClusterState(self.cache, watched, outside, seed=seed)
        extender.services.informer = cluster.informer
        extender.services.client = LiveApiClient(client)
        return cluster

    def _server(
        self, extender: BuiltExtender, cluster: ClusterState, client: Client
    ) -> ExtenderServer:
        service = ExtenderService(cluster, extender.profiles, self.options.max_score)
        binder = ExtenderBinder(service, LiveApiClient(client)) if self.options.binds else None
        verbs = ExtenderVerbs(service, binder, metrics=self.metrics, clock=self.clock, log=self.log)
        return ExtenderServer(
            self.settings,
            ExtenderSources(
                verbs=verbs,
                metrics=self.metrics,
                clock=self.clock,
                log=self.log,
                started_s=self.clock.now_s(),
                livez={"ping": lambda: None, "plugins": self.guard.problem},
                readyz={
                    "shutdown": lambda: (
                        "process is shutting down" if self.stopping.is_set() else None
                    ),
                    "informer-sync": lambda: (
                        None
                        if cluster.has_synced
                        else f"not synced yet: {', '.join(cluster.missing)}"
                    ),
                },
            ),
        )

    # -- background tasks -------------------------------------------------------------------------

    def _log_blocked(self, blocked_s: float, stack: str) -> None:
        self.log.error(
            "Event loop blocked: a plugin has not returned", seconds=round(blocked_s), stack=stack
        )

    async def _update_metrics(self, cluster: ClusterState) -> None:
        await cluster.watching.wait_until_synced()
        synced = "Nodes and pods synced" if cluster.knows_pods else "Nodes synced"
        self.log.info(synced, nodes=self.cache.snapshot().node_count)
        sizes = self.metrics.known_objects
        while True:
            view = self.cache.snapshot()
            sizes.labels("nodes").set(view.node_count)
            sizes.labels("pods").set(view.pods.counted.sum())
            await self.clock.sleep(1.0)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        if self.stopping.is_set():
            # As `kubesched run`: a second signal ends the process at once.
            self.log.flush()
            os._exit(1)
        self.stopping.set()
