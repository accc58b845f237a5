"""The process of `kubesched playground`: from options to an exit code.

Owns the startup and shutdown order, signals, and the location of files. API server and scheduler
are child processes; controllers and kubelets run in this one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml

from kubesched.cli.playground.messages import introduction_lines, summary_lines, unserved_line
from kubesched.cli.playground.view import LineView, TerminalView
from kubesched.client.auth.credentials import AccessError
from kubesched.client.errors import ApiError, TransportError
from kubesched.cluster.launch.ports import free_ports, is_free
from kubesched.cluster.launch.processes import StartError
from kubesched.cluster.launch.programs import MissingProgramError
from kubesched.cluster.playground.child_process import ChildProcess, ChildProcessFailedError
from kubesched.cluster.playground.control_planes import (
    ControlPlane,
    EmbeddedPlane,
    PlaygroundLocation,
    RealPlane,
)
from kubesched.cluster.playground.initial_objects import (
    BootstrapResult,
    InitialObjects,
    TemplateError,
    template_of,
)
from kubesched.cluster.playground.overview import Overview
from kubesched.cluster.playground.scheduler_process import SchedulerOptions, scheduler_arguments
from kubesched.cluster.playground.snapshots import (
    Document,
    SnapshotError,
    read_snapshot,
    write_snapshot,
)
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, make_log, route_logging
from kubesched.kit.tasks import Tasks, run_loop
from kubesched.run.options.parse import parse_options
from kubesched.run.options.values import OptionsError

if TYPE_CHECKING:
    from kubesched.cluster.playground.local_components import LocalComponents

DEFAULT_PORT: Final = 6443
_NODES: Final = 4
_TICK_S: Final = 0.5
_READY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class PlaygroundOptions:
    """Options of the command line."""

    config: Path | None
    plugins: tuple[str, ...]
    no_scheduler: bool
    nodes: int | None
    node_template: Path | None
    from_cluster: bool
    snapshot: Path | None
    data: Path | None
    port: int | None
    bind_address: str
    write_kubeconfig: Path | None
    control_plane: str
    speed: float
    verbosity: int

    @property
    def is_real(self) -> bool:
        return self.control_plane == "real"

    @property
    def is_copy(self) -> bool:
        """Return whether it starts with a copy of another cluster."""
        return self.from_cluster or self.snapshot is not None


def run_playground(options: PlaygroundOptions) -> int:
    """Run the playground until it is stopped; return the exit status."""
    _check(options)
    location = _new_location(options)
    session = PlaygroundSession(
        options, location, _scheduler_options_of(options, location), _template(options)
    )
    try:
        return run_loop(session.run())
    except (
        ChildProcessFailedError,
        SnapshotError,
        MissingProgramError,
        StartError,
        AccessError,
    ) as error:
        # Printed whole, since it may include the end of a log.
        click.echo(f"kubesched: {error}", err=True)
        return 1
    except (ApiError, TransportError) as error:
        raise click.ClickException(str(error)) from None


def _check(options: PlaygroundOptions) -> None:
    if options.is_copy and (options.nodes is not None or options.node_template is not None):
        raise click.UsageError("--nodes and --node-template do not apply to a copy of a cluster")
    if options.is_real and options.data is not None:
        raise click.UsageError("--data requires --control-plane embedded")
    if options.is_real and options.bind_address != "127.0.0.1":
        raise click.UsageError("--control-plane real supports --bind-address 127.0.0.1 only")
    if options.no_scheduler and (options.config is not None or options.plugins):
        raise click.UsageError("--config and --plugin cannot be used with --no-scheduler")
    if options.snapshot is not None and not options.from_cluster and not options.snapshot.exists():
        raise click.UsageError(
            f"{options.snapshot} does not exist: create it with --from-cluster --snapshot"
        )


def _new_location(options: PlaygroundOptions) -> PlaygroundLocation:
    port = options.port or 0
    if options.port is None and is_free(DEFAULT_PORT):
        port = DEFAULT_PORT
    port = port or free_ports(1)[0]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    # By port, so that KUBECONFIG of a terminal stays valid the next time.
    directory = Path(cache) / "kubesched" / "playground" / str(port)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    return PlaygroundLocation(
        directory=directory,
        kubeconfig=(options.write_kubeconfig or directory / "kubeconfig").absolute(),
        port=port,
        address=options.bind_address,
        data=options.data,
    )


def _scheduler_options_of(
    options: PlaygroundOptions, location: PlaygroundLocation
) -> SchedulerOptions | None:
    if options.no_scheduler:
        return None
    try:
        scheduler = parse_options([] if options.config is None else [f"--config={options.config}"])
    except OptionsError as error:
        raise click.ClickException(str(error)) from None
    # The default port 10259 stays free for a scheduler that the user starts.
    port = location.port + 1 if is_free(location.port + 1) else free_ports(1)[0]
    return SchedulerOptions(
        port=port,
        config=scheduler.config,
        config_file=options.config,
        plugins=options.plugins,
        verbosity=options.verbosity,
    )


def _template(options: PlaygroundOptions) -> Document | None:
    if options.node_template is None:
        return None
    try:
        return template_of(yaml.safe_load(options.node_template.read_text()))
    except (TemplateError, yaml.YAMLError) as error:
        text = f"{options.node_template} is not a node template: {error}"
        raise click.ClickException(text) from None


def _import_local_components() -> type[LocalComponents]:
    from kubesched.cluster.playground.local_components import LocalComponents  # noqa: PLC0415  # Slow import.

    return LocalComponents


@dataclass(slots=True)
class PlaygroundSession:
    """One run of the playground."""

    options: PlaygroundOptions
    location: PlaygroundLocation
    scheduler_options: SchedulerOptions | None
    template: Document | None
    clock: SystemClock = field(default_factory=SystemClock)
    tasks: Tasks = field(default_factory=Tasks)
    control_plane: ControlPlane = field(init=False)
    overview: Overview = field(init=False)
    log: Log = field(init=False)
    local_components: LocalComponents | None = None
    objects: list[Document] | None = None
    """Copy of another cluster to start with."""
    scheduler: ChildProcess | None = None
    mirror_pod: str = ""
    bootstrap_result: BootstrapResult = field(
        default_factory=lambda: BootstrapResult(has_new_nodes=True)
    )
    failure: str = ""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        names = self.scheduler_options.names if self.scheduler_options else []
        self.overview = Overview(self.clock, served=names)
        self.control_plane = (RealPlane if self.options.is_real else EmbeddedPlane)(self.location)
        file = self.location.log_path("playground").open("w", encoding="utf-8")
        self.log = make_log(file, clock=self.clock)
        route_logging(self.log)

    async def run(self) -> int:
        """Start everything, show it, and stop everything."""
        loop = asyncio.get_running_loop()
        for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(signal_number, self._request_stop)
        try:
            if not await self._unless_stopped(self._read_copy()):
                return 0
            started_s = self.clock.monotonic_s()
            if not await self._unless_stopped(self._start()):
                return 0
            self._introduce(self.clock.monotonic_s() - started_s)
            await self._show()
        finally:
            await self._stop()
        self._print_summary()
        return 1 if self.failure else 0

    def _request_stop(self) -> None:
        if self.stopping.is_set():
            # On the second signal exit at once; the children notice that and exit as well.
            os._exit(1)
        self.stopping.set()

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run a coroutine; return whether it completed before a stop was requested."""
        task = self.tasks.start(work, name="start")
        stop_task = self.tasks.start(self.stopping.wait(), name="stop requested")
        await asyncio.wait({task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
        stop_task.cancel()
        if task.done():
            task.result()
            return True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return False

    # -- starting ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        options = self.options
        # Import the rest of the package while the API server starts.
        components_class, _ = await asyncio.gather(
            asyncio.to_thread(_import_local_components), self.control_plane.start()
        )
        self.local_components = components_class(
            self.location, self.control_plane, self.overview, self.clock, self.log, options.speed
        )
        arguments = []
        if self.scheduler_options is not None:
            arguments = scheduler_arguments(self.scheduler_options, self.location)
            self.scheduler = ChildProcess("kubesched run", self.location.log_path("scheduler"))
            self.scheduler.on_line = self.local_components.scheduler_log.append
            await self.scheduler.start(arguments)
        count = _NODES if options.nodes is None else options.nodes
        # kube-apiserver requests the logs of all nodes from KWOK's single address.
        host = "" if self.control_plane.needs_machinery else "127.0.0.1"
        initial = InitialObjects(count, self.template, self.objects, host)
        self.bootstrap_result = await self.local_components.start(initial)
        if self.scheduler is not None:
            self.mirror_pod = await self.local_components.show_scheduler(arguments)
        await self._wait_until_ready()
        self.overview.start_recording()

    async def _read_copy(self) -> None:
        """Read the initial objects before anything is started."""
        options = self.options
        if not options.from_cluster:
            self.objects = None if options.snapshot is None else read_snapshot(options.snapshot)
            return
        from kubesched.cluster.playground.local_components import read_current_cluster  # noqa: PLC0415

        self.objects, unreadable = await read_current_cluster(self.clock)
        if unreadable:
            click.echo(f"not copied for lack of permission: {', '.join(unreadable)}", err=True)
        if options.snapshot is not None:
            write_snapshot(options.snapshot, self.objects)

    async def _wait_until_ready(self) -> None:
        deadline_s = self.clock.monotonic_s() + _READY_S
        while self.clock.monotonic_s() < deadline_s:
            self._check_children()
            if self.failure:
                raise ChildProcessFailedError(self.failure)
            if self._is_up():
                return
            await self.clock.sleep(0.02)

    def _is_up(self) -> bool:
        return all(
            # A node that was dead in the copied cluster stays dead.
            node.is_schedulable or not node.has_kubelet
            for node in self.overview.shown_nodes
        )

    # -- running ----------------------------------------------------------------------------------

    def _introduce(self, seconds: float) -> None:
        click.echo("\n".join(introduction_lines(self, seconds)))
        for error in self.bootstrap_result.rejected:
            click.echo(f"not copied: {error}", err=True)

    async def _show(self) -> None:
        view = (TerminalView if sys.stdout.isatty() else LineView)(self.overview)
        view.start()
        try:
            while not (self.stopping.is_set() or self.failure):
                try:
                    await asyncio.wait_for(self.stopping.wait(), _TICK_S)
                except TimeoutError:
                    self._check_children()
                for name, pods in self.overview.take_unserved().items():
                    keys = [pod.key for pod in pods]
                    view.print_line(unserved_line(name, keys, list(self.overview.served)))
                view.refresh()
                self.log.flush()
        finally:
            view.stop()

    def _check_children(self) -> None:
        self.failure = self.control_plane.problem()
        if not self.failure and self.scheduler is not None and self.scheduler.has_failed:
            self.failure = self.scheduler.failure_text()

    def _print_summary(self) -> None:
        if self.failure:
            click.echo(f"kubesched: {self.failure}", err=True)
            return
        lines = summary_lines(
            bound_count=self.overview.bound_count,
            pending_count=len(self.overview.pending),
            data=self.options.data,
        )
        click.echo("\n".join(lines))

    async def _stop(self) -> None:
        """Stop the scheduler, then controllers and kubelets, then the API server."""
        if self.scheduler is not None:
            await self.scheduler.stop()
        if self.local_components is not None:
            await self.local_components.stop()
        await self.control_plane.stop()
        await self.tasks.stop()
        self.log.flush()
