"""Schedulers as processes: kube-scheduler and kubesched, started with the same flags.

Owns their command lines, their configuration file, and access to their logs and endpoints.
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

from kubesched.cluster.launch.processes import ProcessGroup, StartError
from kubesched.cluster.launch.programs import MissingProgramError, Programs
from kubesched.cluster.launch.server import SCHEDULER, ApiServer

SchedulerName: TypeAlias = Literal["kube-scheduler", "kubesched"]
SCHEDULERS: tuple[SchedulerName, ...] = get_args(SchedulerName)

_WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """Configuration and flags of a scheduler."""

    qps: float = 5000
    burst: int = 5000
    profiles: Sequence[Mapping[str, Any]] = ()
    extenders: Sequence[Mapping[str, Any]] = ()
    leader_election: Mapping[str, Any] = field(default_factory=lambda: {"leaderElect": False})
    kubeconfig: Path | None = None
    """Kubeconfig; that of system:kube-scheduler if None."""
    port: int = 0
    """Secure port on loopback; disabled if 0."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the configuration file."""
    flags: Sequence[str] = ()
    command: Sequence[str] = ()
    """The command to start, without flags; the built or installed one if empty."""

    def document(self, server: ApiServer) -> dict[str, Any]:
        """Return the configuration file."""
        fields: dict[str, Any] = {
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
            fields["profiles"] = [dict(profile) for profile in self.profiles]
        if self.extenders:
            fields["extenders"] = [dict(extender) for extender in self.extenders]
        return fields | dict(self.config)


def scheduler_command(name: SchedulerName, programs: Programs | None = None) -> list[str]:
    """Return the command that starts a scheduler, without flags."""
    if name == "kube-scheduler":
        return [str((programs or Programs.built()).path(name))]
    # The installed command of this environment, as a user would run it.
    installed = Path(sys.prefix) / "bin" / "kubesched"
    if not installed.is_file():
        raise MissingProgramError(f"kubesched is not installed: {installed} does not exist")
    return [str(installed), "run"]


@dataclass(frozen=True, slots=True)
class SchedulerProcess:
    """A running scheduler; it ends with its process group at the latest."""

    name: SchedulerName
    label: str
    group: ProcessGroup = field(repr=False)
    process: subprocess.Popen[bytes] = field(repr=False)
    port: int = 0
    """Secure port; disabled if 0."""

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    @property
    def log_path(self) -> Path:
        """Return the path of its log."""
        return self.group.log_path(self.label)

    @property
    def config_path(self) -> Path:
        """Return the path of its configuration file."""
        return _config_path(self.group, self.label)

    # -- output

    @property
    def log(self) -> str:
        """Return its log."""
        return self.log_path.read_text(errors="replace")

    def lines(self, message: str) -> list[str]:
        """Return the lines of a text log that start with a message, without klog headers."""
        found = (line.partition("] ")[2] for line in self.log.splitlines())
        return [line for line in found if line.startswith(f'"{message}')]

    def messages_about(self, pod: str) -> list[str]:
        """Return the messages about a pod (`namespace/name`) in a text log, in order."""
        return re.findall(rf'\] "([^"]*)".* pod="{re.escape(pod)}"', self.log)

    def page(self, path: str) -> tuple[int, str]:
        """Return status and text of an endpoint; waits while the scheduler starts."""
        responses: list[tuple[int, str]] = []

        def is_served() -> bool:
            # It may not listen yet.
            with suppress(ConnectionRefusedError):
                responses.append(self._get(path))
            return bool(responses)

        self.until(is_served, f"{self.label} serves {path}")
        return responses[0]

    def _get(self, path: str) -> tuple[int, str]:
        tls_context = ssl.create_default_context()
        # Its certificate is self-signed, and no secrets are sent.
        tls_context.check_hostname = False
        tls_context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=_WAIT_S, context=tls_context)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's series with these labels."""
        code, text = self.page("/metrics")
        assert code == 200, text
        found = re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE)
        required_labels = {f'{key}="{value}"' for key, value in labels.items()}
        return sum(
            float(value)
            for series_labels, value in found
            if required_labels <= set(series_labels.split(","))
        )

    # -- waiting

    def until(
        self, predicate: Callable[[], bool], condition: str, timeout_s: float = _WAIT_S
    ) -> None:
        """Wait for a condition; StartError with the end of the logs on a timeout."""
        self.group.wait_until(predicate, condition, timeout_s=timeout_s)

    def until_logged(self, message: str, timeout_s: float = _WAIT_S) -> None:
        """Wait for a message in its log."""
        self.until(lambda: bool(self.lines(message)), f"{message!r} in the log", timeout_s)

    def until_ready(self, timeout_s: float = _WAIT_S) -> None:
        """Wait until /readyz returns 200."""
        self.until(self._is_ready, f"{self.label} is ready", timeout_s)

    def _is_ready(self) -> bool:
        try:
            return self._get("/readyz")[0] == 200
        except OSError:
            return False

    def check(self) -> None:
        """Raise StartError with the end of its log if it has exited."""
        status = self.process.poll()
        if status is not None:
            tail = self.group.tail(self.label)
            raise StartError(f"{self.label} ended with status {status}\n{tail}")

    # -- termination

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = _WAIT_S) -> int:
        """Wait until it exits; return its exit status."""
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.group.stop(self.label)

    def terminate(self, timeout_s: float = _WAIT_S) -> int:
        """Send SIGTERM and return its exit status."""
        return self.group.terminate(self.label, timeout_s)


def start_scheduler(
    server: ApiServer,
    group: ProcessGroup,
    name: SchedulerName,
    settings: SchedulerSettings | None = None,
    *,
    label: str | None = None,
) -> SchedulerProcess:
    """Start a scheduler for a server.

    Args:
        server: The API server.
        group: Its process group, whose directory has its log and configuration file.
        name: The scheduler to start.
        settings: Settings; default profiles, no leader election and high client limits if None.
        label: Its name in the group, if there are several.
    """
    settings = settings or SchedulerSettings()
    label = label or name
    path = _config_path(group, label)
    path.write_text(yaml.safe_dump(settings.document(server), sort_keys=False))
    flags = [f"--config={path}", *_serving_flags(settings), *settings.flags]
    process = group.start(label, [*(settings.command or scheduler_command(name)), *flags])
    return SchedulerProcess(name, label, group, process, settings.port)


def _config_path(group: ProcessGroup, label: str) -> Path:
    return group.log_directory / f"{label}.yaml"


def _serving_flags(settings: SchedulerSettings) -> list[str]:
    if settings.port:
        return ["--bind-address=127.0.0.1", f"--secure-port={settings.port}"]
    has_port = any(flag.startswith("--secure-port") for flag in settings.flags)
    return [] if has_port else ["--secure-port=0"]
