"""The process of `kubesched playground`: from options to an exit code.

Owns the order in which the parts start and end, its signals, and where its files are. API server
and scheduler are processes of their own, so that neither waits for the other; controllers and
kubelets are in this one.
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

from kubesched.app.option_values import OptionsError
from kubesched.app.options import parse_options
from kubesched.cli.playground_view import LineView, TerminalView, View
from kubesched.cli.playground_words import Started, farewell, introduction, unserved_line
from kubesched.client.auth import AccessError
from kubesched.client.errors import ApiError, TransportError
from kubesched.kit.clock import SystemClock
from kubesched.kit.log import Log, make_log
from kubesched.kit.stdlib_logging import route_logging
from kubesched.kit.tasks import Tasks
from kubesched.playground.children import Child, ChildError
from kubesched.playground.control_planes import ControlPlane, EmbeddedPlane, Place, RealPlane
from kubesched.playground.filling import Filled, Filling
from kubesched.playground.nodes import TemplateError, template_of
from kubesched.playground.overview import Overview
from kubesched.playground.scheduler_child import SchedulerWanted, scheduler_arguments
from kubesched.playground.snapshots import Document, SnapshotError, read_snapshot, write_snapshot
from kubesched.testing.loop_thread import new_loop
from kubesched.testing.ports import free_ports, is_free
from kubesched.testing.processes import StartError
from kubesched.testing.programs import MissingProgramError

if TYPE_CHECKING:
    from kubesched.playground.residents import Residents

DEFAULT_PORT: Final = 6443
_NODES: Final = 4
_TICK_S: Final = 0.5
_READY_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asks for."""

    config: Path | None
    plugins: tuple[str, ...]
    has_scheduler: bool
    node_count: int | None
    node_template: Path | None
    from_cluster: bool
    snapshot: Path | None
    data: Path | None
    port: int | None
    bind_address: str
    kubeconfig: Path | None
    is_real: bool
    speed: float
    verbosity: int

    @property
    def is_copy(self) -> bool:
        """Return whether it begins with a copy of another cluster."""
        return self.from_cluster or self.snapshot is not None


def run_playground(wanted: Wanted) -> int:
    """Run a cluster until told to stop; return the exit status."""
    _check(wanted)
    place = _place(wanted)
    session = Session(wanted, place, _scheduler(wanted, place), _template(wanted))
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(session.run())
    except (ChildError, SnapshotError, MissingProgramError, StartError, AccessError) as problem:
        # With all its lines: the end of a log is among them.
        click.echo(f"kubesched: {problem}", err=True)
        return 1
    except (ApiError, TransportError) as problem:
        raise click.ClickException(str(problem)) from None


def _check(wanted: Wanted) -> None:
    if wanted.is_copy and (wanted.node_count is not None or wanted.node_template is not None):
        raise click.UsageError("a copy of a cluster has its own nodes: leave --nodes out")
    if wanted.is_real and wanted.data is not None:
        raise click.UsageError("--data is for our own API server: leave --control-plane real out")
    if wanted.is_real and wanted.bind_address != "127.0.0.1":
        raise click.UsageError("real Kubernetes is started on 127.0.0.1 only here")
    if not wanted.has_scheduler and (wanted.config is not None or wanted.plugins):
        raise click.UsageError("--config and --plugin are the scheduler's: not with --no-scheduler")
    if wanted.snapshot is not None and not wanted.from_cluster and not wanted.snapshot.exists():
        raise click.UsageError(
            f"there is no {wanted.snapshot} yet: make it with --from-cluster --snapshot"
        )


def _place(wanted: Wanted) -> Place:
    port = wanted.port or 0
    if wanted.port is None and is_free(DEFAULT_PORT):
        port = DEFAULT_PORT
    port = port or free_ports(1)[0]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    # By port, so that a terminal that was led here is led here the next time, too.
    directory = Path(cache) / "kubesched" / "playground" / str(port)
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    return Place(
        directory=directory,
        kubeconfig=(wanted.kubeconfig or directory / "kubeconfig").absolute(),
        port=port,
        address=wanted.bind_address,
        data=wanted.data,
    )


def _scheduler(wanted: Wanted, place: Place) -> SchedulerWanted | None:
    if not wanted.has_scheduler:
        return None
    try:
        options = parse_options([] if wanted.config is None else [f"--config={wanted.config}"])
    except OptionsError as problem:
        raise click.ClickException(str(problem)) from None
    # Its own 10259 is left to a second scheduler that somebody starts.
    port = place.port + 1 if is_free(place.port + 1) else free_ports(1)[0]
    return SchedulerWanted(
        port=port,
        config=options.config,
        config_file=wanted.config,
        plugins=wanted.plugins,
        verbosity=wanted.verbosity,
    )


def _template(wanted: Wanted) -> Document | None:
    if wanted.node_template is None:
        return None
    try:
        return template_of(yaml.safe_load(wanted.node_template.read_text()))
    except (TemplateError, yaml.YAMLError) as problem:
        text = f"{wanted.node_template} is no node template: {problem}"
        raise click.ClickException(text) from None


def _residents() -> type[Residents]:
    from kubesched.playground.residents import Residents  # noqa: PLC0415  # Half of the package.

    return Residents


@dataclass(slots=True)
class Session:
    """One run of the playground."""

    wanted: Wanted
    place: Place
    scheduler_wanted: SchedulerWanted | None
    template: Document | None
    clock: SystemClock = field(default_factory=SystemClock)
    tasks: Tasks = field(default_factory=Tasks)
    plane: ControlPlane = field(init=False)
    overview: Overview = field(init=False)
    log: Log = field(init=False)
    residents: Residents | None = None
    objects: list[Document] | None = None
    """A copy of another cluster to begin with."""
    scheduler: Child | None = None
    mirror_pod: str = ""
    filled: Filled = field(default_factory=lambda: Filled(is_new=True))
    failure: str = ""
    stopping: asyncio.Event | None = None

    def __post_init__(self) -> None:
        names = self.scheduler_wanted.names if self.scheduler_wanted else []
        self.overview = Overview(self.clock, served=names)
        self.plane = (RealPlane if self.wanted.is_real else EmbeddedPlane)(self.place)
        file = self.place.log_path("playground").open("w", encoding="utf-8")
        self.log = make_log(file, clock=self.clock)
        route_logging(self.log)

    async def run(self) -> int:
        """Start everything, show it, and end everything."""
        self.stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._told_to_stop)
        try:
            if not await self._unless_stopped(self._copy()):
                return 0
            started_s = self.clock.monotonic_s()
            if not await self._unless_stopped(self._start()):
                return 0
            self._introduce(self.clock.monotonic_s() - started_s)
            await self._show(self.stopping)
        finally:
            await self._stop()
        self._take_leave()
        return 1 if self.failure else 0

    def _told_to_stop(self) -> None:
        assert self.stopping is not None
        if self.stopping.is_set():
            # The second time at once: the children see that nobody is left, and end too.
            os._exit(1)
        self.stopping.set()

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do something; return whether it was done before we were told to stop."""
        assert self.stopping is not None
        task = self.tasks.start(work, name="start")
        told = self.tasks.start(self.stopping.wait(), name="told to stop")
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if task.done():
            task.result()
            return True
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return False

    # -- starting ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        wanted = self.wanted
        # While the API server starts, this process reads the rest of the package.
        parts, _ = await asyncio.gather(asyncio.to_thread(_residents), self.plane.start())
        self.residents = parts(
            self.place, self.plane, self.overview, self.clock, self.log, wanted.speed
        )
        arguments = []
        if self.scheduler_wanted is not None:
            arguments = scheduler_arguments(self.scheduler_wanted, self.place)
            self.scheduler = Child("kubesched run", self.place.log_path("scheduler"))
            self.scheduler.on_line = self.residents.scheduler_log.append
            await self.scheduler.start(arguments)
        count = _NODES if wanted.node_count is None else wanted.node_count
        # kube-apiserver asks KWOK, which is in one place, for the logs of every node.
        host = "" if self.plane.has_own_machinery else "127.0.0.1"
        filling = Filling(count, self.template, self.objects, host)
        self.filled = await self.residents.start(filling)
        if self.scheduler is not None:
            self.mirror_pod = await self.residents.show_scheduler(arguments)
        await self._wait_until_ready()
        self.overview.go_live()

    async def _copy(self) -> None:
        """Read what the cluster begins with, before anything is started."""
        wanted = self.wanted
        if not wanted.from_cluster:
            self.objects = None if wanted.snapshot is None else read_snapshot(wanted.snapshot)
            return
        from kubesched.playground.residents import copy_of_current_cluster  # noqa: PLC0415

        self.objects, left_out = await copy_of_current_cluster(self.clock)
        if left_out:
            click.echo(f"left out, since we may not read them: {', '.join(left_out)}", err=True)
        if wanted.snapshot is not None:
            write_snapshot(wanted.snapshot, self.objects)

    async def _wait_until_ready(self) -> None:
        deadline_s = self.clock.monotonic_s() + _READY_S
        while self.clock.monotonic_s() < deadline_s:
            self._look_after_children()
            if self.failure:
                raise ChildError(self.failure)
            if self._is_up():
                return
            await self.clock.sleep(0.02)

    def _is_up(self) -> bool:
        return all(
            # One that was dead where it comes from stays so.
            node.is_open or not node.is_alive
            for node in self.overview.shown_nodes
        )

    # -- running ----------------------------------------------------------------------------------

    def _introduce(self, seconds: float) -> None:
        wanted = self.scheduler_wanted
        started = Started(
            seconds=seconds,
            url=self.plane.url,
            plane=self.plane.describe(),
            has_own_machinery=self.plane.has_own_machinery,
            nodes=[node.name for node in self.overview.shown_nodes],
            kubeconfig=self.place.kubeconfig,
            scheduler_names=wanted.names if wanted else [],
            scheduler_url=f"https://127.0.0.1:{wanted.port}" if wanted else "",
            plugins=self.wanted.plugins,
            mirror_pod=self.mirror_pod,
            copied=self.filled.copied,
            is_new=self.filled.is_new,
            logs=self.place.directory,
        )
        click.echo("\n".join(introduction(started)))
        for problem in self.filled.refused:
            click.echo(f"not copied: {problem}", err=True)

    async def _show(self, stopping: asyncio.Event) -> None:
        view: View = (TerminalView if sys.stdout.isatty() else LineView)(self.overview)
        view.start()
        try:
            while not (stopping.is_set() or self.failure):
                try:
                    await asyncio.wait_for(stopping.wait(), _TICK_S)
                except TimeoutError:
                    self._look_after_children()
                for name, pods in self.overview.unserved().items():
                    keys = [pod.key for pod in pods]
                    view.say(unserved_line(name, keys, list(self.overview.served)))
                view.refresh()
                self.log.flush()
        finally:
            view.stop()

    def _look_after_children(self) -> None:
        self.failure = self.plane.problem()
        if not self.failure and self.scheduler is not None and self.scheduler.has_failed:
            self.failure = self.scheduler.last_words()

    def _take_leave(self) -> None:
        if self.failure:
            click.echo(f"kubesched: {self.failure}", err=True)
            return
        lines = farewell(
            bound_count=self.overview.bound_count,
            waiting_count=len(self.overview.waiting),
            data=self.wanted.data,
        )
        click.echo("\n".join(lines))

    async def _stop(self) -> None:
        """End in order: nobody decides, nobody works, then nobody serves."""
        if self.scheduler is not None:
            await self.scheduler.stop()
        if self.residents is not None:
            await self.residents.stop()
        await self.plane.stop()
        await self.tasks.stop()
        self.log.flush()
