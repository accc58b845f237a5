"""The process of `kubesched run`: from options to an exit code.

Owns the order in which the parts of the process start and end, its signals and its exit codes. What
schedules is `app.live`'s, what is served is `web`'s.
Upstream: cmd/kube-scheduler/app/server.go runCommand, Setup, Run
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kubesched.app.go_values import os_error
from kubesched.app.live import LiveScheduler, LiveSettings, Outside
from kubesched.app.missing_rights import MissingRights
from kubesched.app.option_values import Options
from kubesched.cli.options import registry_of
from kubesched.cli.run import advise
from kubesched.cli.run_pages import Shown, start_pages
from kubesched.client.auth import AccessError, ClusterAccess
from kubesched.client.event_recorder import CoreEventRecorder
from kubesched.client.kubeconfig import load_access
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
from kubesched.framework.registry import Registry
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, make_log
from kubesched.kit.memory import keep_heap
from kubesched.kit.rng import Generator
from kubesched.kit.stdlib_logging import route_logging
from kubesched.kit.watchdog import Watchdog
from kubesched.model.metrics import SchedulerMetrics
from kubesched.model.process_metrics import ProcessMetrics
from kubesched.web.settings import ServingError

if TYPE_CHECKING:
    from kubesched.app.reload import Reloader
    from kubesched.app.shadow import ShadowReport
    from kubesched.web.ops_server import OpsServer


class CommandError(Exception):
    """Ends the process with `command failed` and exit code 1."""


def run(options: Options, arguments: Sequence[str] = ()) -> int:
    """Schedule until told to stop; return the exit code.

    Args:
        options: What to do.
        arguments: The command line they come from, to be read again if it says `--reload`.
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
        return _run_loop(process.run())
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
        # A file that changes twice within a second would be taken for what was compiled before.
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


def _run_loop(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop  # noqa: PLC0415  # Not everywhere.
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


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
    stopping: asyncio.Event | None = None
    live: LiveScheduler | None = None
    elector: LeaderElector | None = None
    reloader: Reloader | None = None
    is_leading: bool = False
    watchdog: Watchdog | None = None

    def __post_init__(self) -> None:
        gates = self.options.feature_gates
        self.started_s = self.clock.now_s()
        self.rights = MissingRights(self.clock, self.log)
        self.metrics = SchedulerMetrics(gates.is_enabled)
        version = self.options.reported_version
        self.measured = ProcessMetrics(self.metrics.measures, version=version)
        self.measured.set_features(gates)

    def build(self, client: Client | None) -> LiveScheduler:
        """Return the scheduler that the configuration describes."""
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
        outside = Outside(
            client or self.client(), self.clock, self.log, self.metrics, self.measured
        )
        try:
            if options.shadow:
                from kubesched.app.shadow import ShadowScheduler  # noqa: PLC0415  # Seldom.

                return ShadowScheduler(settings, outside, self._shadow_report())
            return LiveScheduler(settings, outside)
        except (ConfigError, ValueError) as problem:
            raise CommandError(str(problem)) from None

    def _shadow_report(self) -> ShadowReport:
        from kubesched.app.shadow import ShadowReport  # noqa: PLC0415  # Seldom.

        path = self.options.shadow_report
        try:
            file = Path(path).open("a", encoding="utf-8") if path else None  # noqa: SIM115  # Ends with us.
        except OSError as problem:
            raise CommandError(os_error("open", path, problem)) from None
        measures = self.metrics.measures
        return ShadowReport(measures, clock=self.clock, log=self.log, out=sys.stdout, file=file)

    def access(self, kubeconfig: str = "") -> ClusterAccess:
        """Return where the API server is, and who we are to it."""
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
        """Start everything, wait for the end, and end everything."""
        self.stopping = asyncio.Event()
        self._listen()
        client = self.client()
        server: OpsServer | None = None
        try:
            self.live = self.build(client)
            beating = self.live.tasks.start(self._beat(), name="heartbeat")
            if self.options.reload:
                self._follow_files(self.live)
            config = self.options.config
            elects = config.leader_election.leader_elect and not self.options.shadow
            if not (elects and config.delay_cache_until_active):
                # Before anything else: from here on the API server is what takes time.
                self.live.start_watching()
            try:
                server = await self._serve(self.live)
                if self.watchdog is not None and server is not None and server.stand_in is not None:
                    self.watchdog.stand_in = server.stand_in.serve
                return await (self._run_elected(client) if elects else self._run_alone())
            finally:
                beating.cancel()
        finally:
            if self.live is not None:
                await self.live.stop()
            if server is not None:
                await server.stop()
            await client.close()

    def _follow_files(self, live: LiveScheduler) -> None:
        """Have changes of plugins and configuration put in force."""
        from kubesched.cli.run_reload import reloader  # noqa: PLC0415  # Seldom.

        self.reloader = reloader(live, self.options, self.arguments, self.registry)
        live.tasks.start(self.reloader.run(), name="reload")

    async def _serve(self, live: LiveScheduler) -> OpsServer | None:
        shown = Shown(
            options=self.options,
            live=live,
            clock=self.clock,
            log=self.log,
            metrics=self.metrics,
            measured=self.measured,
            started_s=self.started_s,
            access=self.access,
            missing_right=self.rights.problem,
            is_stopping=lambda: self.stopping is not None and self.stopping.is_set(),
            is_leading=lambda: self.is_leading,
            notes=lambda: {} if self.reloader is None else self.reloader.notes(),
        )
        try:
            return await start_pages(shown)
        except ServingError as problem:
            raise CommandError(str(problem)) from None

    async def _beat(self) -> None:
        """Have what was logged written, and the watchdog know that the loop turns."""
        assert self.live is not None
        problem = self.live.outside.guard.problem
        self.watchdog = Watchdog(self.clock, self._say_blocked, problem)
        await self.watchdog.keep_beating(self.log.flush)

    def _say_blocked(self, still_s: float, stack: str) -> None:
        self.log.error(
            "The loop stands still: a plugin or handler does not return",
            seconds=round(still_s),
            stack=stack,
        )

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._told_to_stop)
        loop.add_signal_handler(signal.SIGUSR2, self._told_to_compare)

    def _told_to_stop(self) -> None:
        assert self.stopping is not None
        if self.stopping.is_set():
            self._die()
        self.stopping.set()
        if self.elector is not None:
            self.elector.stop()

    def _die(self) -> NoReturn:
        # Parity: a second signal ends the process at once.
        self.log.flush()
        os._exit(1)

    def _told_to_compare(self) -> None:
        if self.live is not None:
            self.live.compare_and_dump()

    async def _schedule(self) -> None:
        """Place pods from now on, until cancelled."""
        assert self.live is not None
        if not self.live.reflectors:
            self.live.start_watching()
        await self.live.wait_until_synced()
        self.is_leading = True
        self.live.start_scheduling()
        try:
            await asyncio.Event().wait()
        finally:
            # What was decided reaches the API server before anybody else may lead.
            self.is_leading = False
            await self.live.stop_scheduling()

    async def _run_alone(self) -> int:
        assert self.live is not None
        assert self.stopping is not None
        work = self.live.tasks.start(self._schedule(), name="schedule")
        await self.stopping.wait()
        work.cancel()
        if self.options.shadow:
            return 0
        # Parity: server.go Run, v1.36.
        self.log.error("command failed", err="finished without leader elect")
        return 1

    async def _run_elected(self, client: Client) -> int:
        assert self.stopping is not None
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
        assert self.live is not None
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
                rng=Generator(int.from_bytes(os.urandom(8)), "election"),
                log=self.log,
                metrics=self.measured,
                name="kube-scheduler",
                record_event=record,
            )
        except LeaderElectionError as problem:
            raise CommandError(f"couldn't create leader elector: {problem}") from None

    async def _stopped_leading(self) -> None:
        self.is_leading = False
        if self.live is not None:
            self.live.scheduler.stop_scheduling()
