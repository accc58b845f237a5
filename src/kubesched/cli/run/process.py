"""The process of `kubesched run`: startup, signals, leader election, shutdown, exit codes.

Owns the order in which components start and stop. `run.live_scheduler` schedules, `ops` serves.
Upstream: cmd/kube-scheduler/app/server.go runCommand, Setup, Run
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubesched.cli.options import registry_of
from kubesched.cli.run.command import advise
from kubesched.cli.run.pages import start_pages
from kubesched.client.auth.credentials import AccessError, ClusterAccess
from kubesched.client.auth.kubeconfig import load_access
from kubesched.client.events.recorder import CoreEventRecorder
from kubesched.client.leader_election import (
    LeaderCallbacks,
    LeaderElectionError,
    LeaderElector,
    LeaseLock,
    new_identity,
)
from kubesched.client.read_only import ReadOnlyClient
from kubesched.client.rest import Client
from kubesched.config.encode import to_yaml
from kubesched.config.errors import ConfigError
from kubesched.framework.runtime.registry import Registry
from kubesched.golang.os import os_error
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, make_log, route_logging
from kubesched.kit.memory import keep_heap
from kubesched.kit.rng import RandomStream
from kubesched.kit.tasks import run_loop
from kubesched.kit.watchdog import Watchdog
from kubesched.metrics.process import ProcessMetrics
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.ops.serving import ServingError
from kubesched.run.live_scheduler import Environment, LiveScheduler, LiveSettings
from kubesched.run.missing_rights import MissingRights
from kubesched.run.options.values import Options

if TYPE_CHECKING:
    from kubesched.ops.server import OpsServer
    from kubesched.run.reload import Reloader
    from kubesched.shadow.run import ShadowReport


class CommandError(Exception):
    """Ends the process with `command failed` and exit code 1."""


def run(options: Options, arguments: Sequence[str] = ()) -> int:
    """Schedule until a signal arrives; return the exit code.

    Args:
        options: The parsed command line.
        arguments: The command line, to be parsed again with `--reload`.
    """
    clock = SystemClock()
    log = make_log(
        sys.stderr,
        format="json" if options.logging.format == "json" else "text",
        verbosity=options.logging.verbosity,
        vmodule=options.logging.vmodule,
        clock=clock,
    )
    route_logging(log)
    keep_heap()
    try:
        process = _prepare(options, arguments, clock, log)
        if options.write_config_to:
            return _write_config(process)
        return run_loop(process.run())
    except CommandError as problem:
        log.error("command failed", err=str(problem))
        advise(log, str(problem), options.config_file, options.logging.format)
        return 1
    finally:
        log.flush()


def _prepare(options: Options, arguments: Sequence[str], clock: SystemClock, log: Log) -> Process:
    for warning in options.warnings:
        log.info(warning.message, **dict[str, Any](warning.fields))
    if log.enabled(1):
        for name, value in options.flags.items():
            log.line(f'FLAG: --{name}="{value}"', level=1)
    log.info("Starting Kubernetes Scheduler", version=options.reported_version)
    if options.reload:
        # Bytecode caches miss a second change of a file within one second.
        sys.dont_write_bytecode = True
    try:
        registry = registry_of(options.plugins)
    except click.ClickException as problem:
        raise CommandError(problem.format_message()) from None
    if registry is not None:
        options = options.enabling(list(registry))
    return Process(options, registry, clock, log, arguments)


def _write_config(process: Process) -> int:
    path = Path(process.options.write_config_to)
    text = to_yaml(process.build(None).built.config)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CommandError(os_error("open", str(path), problem)) from None
    process.log.info("Wrote configuration", file=str(path))
    return 0


@dataclass(slots=True)
class Process:
    """One run of the scheduler."""

    options: Options
    registry: Registry | None
    clock: SystemClock
    log: Log
    arguments: Sequence[str] = ()
    metrics: SchedulerMetrics = field(init=False)
    measured: ProcessMetrics = field(init=False)
    rights: MissingRights = field(init=False)
    started_s: float = field(init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    live: LiveScheduler = field(init=False)
    elector: LeaderElector | None = None
    reloader: Reloader | None = None
    is_leading: bool = False

    def __post_init__(self) -> None:
        gates = self.options.feature_gates
        self.started_s = self.clock.now_s()
        self.rights = MissingRights(self.clock, self.log)
        self.metrics = SchedulerMetrics(gates.is_enabled, self.options.disabled_metrics)
        version = self.options.reported_version
        self.measured = ProcessMetrics(self.metrics.measures, version=version, at=gates.versions)
        self.measured.set_features(gates)

    def build(self, client: Client | None) -> LiveScheduler:
        options = self.options
        settings = LiveSettings(
            config=options.config,
            hostname=socket.gethostname(),
            out_of_tree=self.registry,
            is_enabled=options.feature_gates.is_enabled,
            max_in_unschedulable_s=options.pod_max_in_unschedulable_pods_duration_s,
            seed=int.from_bytes(os.urandom(8)),
            budgets=options.plugin_budgets,
        )
        outside = Environment(
            client or self.client(), self.clock, self.log, self.metrics, self.measured
        )
        try:
            if options.shadow:
                from kubesched.shadow.run import ShadowScheduler  # noqa: PLC0415  # Seldom.

                return ShadowScheduler(settings, outside, self._shadow_report())
            return LiveScheduler(settings, outside)
        except (ConfigError, ValueError) as problem:
            raise CommandError(str(problem)) from None

    def _shadow_report(self) -> ShadowReport:
        from kubesched.shadow.run import ShadowReport  # noqa: PLC0415  # Seldom.

        path = self.options.shadow_report
        try:
            file = Path(path).open("a", encoding="utf-8") if path else None  # noqa: SIM115  # Ends with us.
        except OSError as problem:
            raise CommandError(os_error("open", path, problem)) from None
        measures = self.metrics.measures
        return ShadowReport(measures, clock=self.clock, log=self.log, out=sys.stdout, file=file)

    def access(self, kubeconfig: str = "") -> ClusterAccess:
        """Return the address and credentials of the API server."""
        options = self.options
        if not options.kubeconfig and not options.master and not kubeconfig:
            self.log.line(
                "Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  "
                "This might not work.",
                severity="W",
            )
        try:
            return load_access(
                kubeconfig=kubeconfig or options.kubeconfig,
                context=options.context,
                master="" if kubeconfig else options.master,
            )
        except AccessError as problem:
            raise CommandError(str(problem)) from None

    def client(self) -> Client:
        """Return the client that schedules."""
        connection = self.options.config.client_connection
        make = ReadOnlyClient if self.options.shadow else Client
        return make(
            self.access(),
            qps=connection.qps,
            burst=connection.burst,
            user_agent="kubesched/scheduler",
            clock=self.clock,
            log=self.log,
            metrics=self.measured,
            on_forbidden=self.rights.note,
        )

    # -- running ----------------------------------------------------------------------------------

    async def run(self) -> int:
        """Start all components, wait for the end, and stop them."""
        self._listen()
        client = self.client()
        try:
            self.live = self.build(client)
            return await self._run(client)
        finally:
            await client.close()

    async def _run(self, client: Client) -> int:
        live, config = self.live, self.options.config
        server: OpsServer | None = None
        watchdog = Watchdog(self.clock, self._log_blocked, live.environment.guard.problem)
        heartbeat = live.tasks.start(watchdog.keep_beating(self.log.flush), name="heartbeat")
        try:
            if self.options.reload:
                self._follow_files()
            elects = config.leader_election.leader_elect and not self.options.shadow
            if not (elects and config.delay_cache_until_active):
                # First of all: the initial lists take the most time.
                live.start_watching()
            server = await start_pages(self)
            if server is not None and server.fallback is not None:
                watchdog.fallback = server.fallback.serve
            return await (self._run_elected(client) if elects else self._run_alone())
        except ServingError as problem:
            raise CommandError(str(problem)) from None
        finally:
            heartbeat.cancel()
            await live.stop()
            if server is not None:
                await server.stop()

    def _follow_files(self) -> None:
        """Apply changes of plugin and configuration files."""
        from kubesched.cli.run.reload import reloader  # noqa: PLC0415  # Seldom.

        self.reloader = reloader(self.live, self.options, self.arguments, self.registry)
        self.live.tasks.start(self.reloader.run(), name="reload")

    def _log_blocked(self, blocked_s: float, stack: str) -> None:
        self.log.error(
            "Event loop blocked: a plugin or handler has not returned",
            seconds=round(blocked_s),
            stack=stack,
        )

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGUSR2, self._compare_cache)

    def _compare_cache(self) -> None:
        self.live.compare_and_dump()

    def _stop(self) -> None:
        if self.stopping.is_set():
            # Parity: a second signal ends the process at once.
            self.log.flush()
            os._exit(1)
        self.stopping.set()
        if self.elector is not None:
            self.elector.stop()

    async def _schedule(self) -> None:
        """Schedule pods until canceled."""
        if not self.live.watching.reflectors:
            self.live.start_watching()
        await self.live.wait_until_synced()
        self.is_leading = True
        self.live.start_scheduling()
        try:
            await asyncio.Event().wait()
        finally:
            # Pending bindings reach the API server before another instance can lead.
            self.is_leading = False
            await self.live.stop_scheduling()

    async def _run_alone(self) -> int:
        work = self.live.tasks.start(self._schedule(), name="schedule")
        await self.stopping.wait()
        work.cancel()
        if self.options.shadow:
            return 0
        # Parity: server.go Run, v1.36.
        self.log.error("command failed", err="finished without leader elect")
        return 1

    async def _run_elected(self, client: Client) -> int:
        self.elector = self._elector(client)
        if self.stopping.is_set():
            self.elector.stop()
        await self.elector.run()
        if self.stopping.is_set():
            self.log.info("Requested to terminate, exiting")
            return 0
        self.log.error("Leaderelection lost")
        return 1

    def _elector(self, client: Client) -> LeaderElector:
        election = self.options.config.leader_election
        first = next(iter(self.live.profiles))
        events = CoreEventRecorder(self.live.events, first)
        identity = new_identity(socket.gethostname())

        def record(lease: dict[str, Any], note: str) -> None:
            events.event(lease, reason="LeaderElection", note=note)

        try:
            return LeaderElector(
                client.sibling(user_agent="kubesched/leader-election"),
                lock=LeaseLock(election.resource_namespace, election.resource_name, identity),
                lease_duration_s=election.lease_duration_ns / 1e9,
                renew_deadline_s=election.renew_deadline_ns / 1e9,
                retry_period_s=election.retry_period_ns / 1e9,
                callbacks=LeaderCallbacks(self._schedule, self._stopped_leading),
                clock=self.clock,
                rng=RandomStream(int.from_bytes(os.urandom(8)), "election"),
                log=self.log,
                metrics=self.measured,
                record_event=record,
            )
        except LeaderElectionError as problem:
            raise CommandError(f"couldn't create leader elector: {problem}") from None

    async def _stopped_leading(self) -> None:
        self.is_leading = False
        self.live.scheduler.stop_scheduling()
