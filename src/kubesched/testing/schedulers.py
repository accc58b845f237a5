"""Schedulers as programs: kube-scheduler and kubesched, started alike and told apart by name.

Owns their command lines, the configuration file that both of them read, and short ways to their
logs and pages. Never looks at what they decide.
Upstream: cmd/kube-scheduler, whose flags both take.
"""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import yaml

from kubesched.testing.processes import ProcessGroup, StartError
from kubesched.testing.programs import MissingProgramError, Programs
from kubesched.testing.server import SCHEDULER, ApiServer

SchedulerName: TypeAlias = Literal["kube-scheduler", "kubesched"]
SCHEDULERS: tuple[SchedulerName, ...] = get_args(SchedulerName)

_WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What a scheduler is told, in its configuration file and by flags."""

    qps: float = 5000
    burst: int = 5000
    profiles: Sequence[Mapping[str, Any]] = ()
    extenders: Sequence[Mapping[str, Any]] = ()
    leader_election: Mapping[str, Any] = field(default_factory=lambda: {"leaderElect": False})
    kubeconfig: Path | None = None
    """Another way to the server than that of user system:kube-scheduler."""
    port: int = 0
    """Where its pages are on loopback; nowhere if 0."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the configuration file."""
    flags: Sequence[str] = ()

    def document(self, server: ApiServer) -> dict[str, Any]:
        """Return the configuration file."""
        written: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self.kubeconfig or server.kubeconfigs[SCHEDULER.name]),
                "qps": self.qps,
                "burst": self.burst,
            },
            "leaderElection": dict(self.leader_election),
        }
        if self.profiles:
            written["profiles"] = [dict(profile) for profile in self.profiles]
        if self.extenders:
            written["extenders"] = [dict(extender) for extender in self.extenders]
        return written | dict(self.config)


def scheduler_command(name: SchedulerName, programs: Programs | None = None) -> list[str]:
    """Return how a scheduler is started, without its flags."""
    if name == "kube-scheduler":
        return [str((programs or Programs.built()).path(name))]
    # The command of the environment that the tests run in, as a user would have it.
    installed = Path(sys.prefix) / "bin" / "kubesched"
    if not installed.is_file():
        raise MissingProgramError(f"kubesched is not installed: there is no {installed}")
    return [str(installed), "run"]


@dataclass(frozen=True, slots=True)
class SchedulerProcess:
    """One run of a scheduler; it belongs to a group, and ends with it at the latest."""

    name: SchedulerName
    label: str
    group: ProcessGroup = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    port: int = 0
    """Where its pages are; nowhere if 0."""

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    @property
    def log_path(self) -> Path:
        """Return where its log is."""
        return self.group.log_path(self.label)

    @property
    def config_path(self) -> Path:
        """Return where its configuration file is."""
        return _config_path(self.group, self.label)

    # -- what it says

    @property
    def log(self) -> str:
        """Return what it has written."""
        return self.log_path.read_text(errors="replace")

    def lines(self, message: str) -> list[str]:
        """Return the lines of a text log that begin with a message, without their heads."""
        found = (line.partition("] ")[2] for line in self.log.splitlines())
        return [line for line in found if line.startswith(f'"{message}')]

    def messages_about(self, pod: str) -> list[str]:
        """Return the messages about a pod (`namespace/name`) in a text log, in order."""
        return re.findall(rf'\] "([^"]*)".* pod="{re.escape(pod)}"', self.log)

    def page(self, path: str) -> tuple[int, str]:
        """Return status and text of one of its pages; waits for it while it starts."""
        got: list[tuple[int, str]] = []

        def is_answered() -> bool:
            # A program that was just started does not listen yet.
            with suppress(ConnectionRefusedError):
                got.append(self._get(path))
            return bool(got)

        self.until(is_answered, f"{self.label} serves {path}")
        return got[0]

    def _get(self, path: str) -> tuple[int, str]:
        trusting = ssl.create_default_context()
        # Its certificate is its own; nothing is told to it that matters.
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=_WAIT_S, context=trusting)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's series that have these labels."""
        code, text = self.page("/metrics")
        assert code == 200, text
        found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        return sum(float(value) for shown, value in found if wanted <= set(shown.split(",")))

    # -- waiting

    def until(self, is_so: Callable[[], bool], what: str, timeout_s: float = _WAIT_S) -> None:
        """Wait for something; StartError with the end of the logs if it does not come."""
        self.group.wait_until(is_so, what, timeout_s=timeout_s)

    def until_said(self, message: str, timeout_s: float = _WAIT_S) -> None:
        """Wait for a line of its log."""
        self.until(lambda: bool(self.lines(message)), f"{message!r} in the log", timeout_s)

    def until_ready(self, timeout_s: float = _WAIT_S) -> None:
        """Wait until its page /readyz says so."""
        self.until(self._is_ready, f"{self.label} is ready", timeout_s)

    def _is_ready(self) -> bool:
        try:
            return self._get("/readyz")[0] == 200
        except OSError:
            return False

    def check(self) -> None:
        """Raise StartError with the end of its log if it has ended by itself."""
        status = self.process.poll()
        if status is not None:
            tail = self.group.tail(self.label)
            raise StartError(f"{self.label} ended with status {status}\n{tail}")

    # -- its end

    def tell(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def ended(self, timeout_s: float = _WAIT_S) -> int:
        """Wait for the end, and return its exit status."""
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.group.stop(self.label)

    def terminate(self, timeout_s: float = _WAIT_S) -> int:
        """Ask it to end with SIGTERM and return its exit status."""
        return self.group.terminate(self.label, timeout_s)


def start_scheduler(
    server: ApiServer,
    group: ProcessGroup,
    name: SchedulerName,
    settings: SchedulerSettings | None = None,
    *,
    label: str | None = None,
) -> SchedulerProcess:
    """Start a scheduler on a server.

    Args:
        server: Whose pods it schedules.
        group: What it belongs to; its log and its configuration file are in the group's directory.
        name: Which one.
        settings: What it is told; default profiles, no leader election, fast clients if None.
        label: Its name in the group, if it is not the only one.
    """
    settings = settings or SchedulerSettings()
    label = label or name
    path = _config_path(group, label)
    path.write_text(yaml.safe_dump(settings.document(server), sort_keys=False))
    flags = [f"--config={path}", *_serving_flags(settings), *settings.flags]
    process = group.start(label, [*scheduler_command(name), *flags])
    return SchedulerProcess(name, label, group, process, settings.port)


def _config_path(group: ProcessGroup, label: str) -> Path:
    return group.log_directory / f"{label}.yaml"


def _serving_flags(settings: SchedulerSettings) -> list[str]:
    if settings.port:
        return ["--bind-address=127.0.0.1", f"--secure-port={settings.port}"]
    is_given = any(flag.startswith("--secure-port") for flag in settings.flags)
    return [] if is_given else ["--secure-port=0"]
