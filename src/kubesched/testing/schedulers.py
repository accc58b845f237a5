"""Schedulers as programs: kube-scheduler and kubesched, started alike and told apart by name.

Owns their command lines and the configuration file that both of them read. Never looks at what they
decide.
Upstream: cmd/kube-scheduler, whose flags both take.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import yaml

from kubesched.testing.processes import ProcessGroup, StartError
from kubesched.testing.programs import MissingProgramError, Programs
from kubesched.testing.server import SCHEDULER, ApiServer

SchedulerName: TypeAlias = Literal["kube-scheduler", "kubesched"]
SCHEDULERS: tuple[SchedulerName, ...] = get_args(SchedulerName)


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """What a scheduler is told, in its configuration file and by flags."""

    qps: float = 5000
    burst: int = 5000
    profiles: Sequence[Mapping[str, Any]] = ()
    leader_election: Mapping[str, Any] = field(default_factory=lambda: {"leaderElect": False})
    kubeconfig: Path | None = None
    """Another way to the server than that of user system:kube-scheduler."""
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
        return written


def scheduler_command(name: SchedulerName, programs: Programs | None = None) -> list[str]:
    """Return how a scheduler is started, without its flags."""
    if name == "kube-scheduler":
        return [str((programs or Programs.built()).path(name))]
    # The command of the environment that the tests run in, as a user would have it.
    installed = Path(sys.prefix) / "bin" / "kubesched"
    if not installed.is_file():
        raise MissingProgramError(f"kubesched is not installed: there is no {installed}")
    return [str(installed), "run"]


class SchedulerProcess:
    """One run of a scheduler; it belongs to a group, and ends with it at the latest."""

    def __init__(self, group: ProcessGroup, label: str, name: SchedulerName) -> None:
        self.name = name
        self.label = label
        self._group = group

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._group.pids()[self.label]

    @property
    def log_path(self) -> Path:
        """Return where its log is."""
        return self._group.log_path(self.label)

    def check(self) -> None:
        """Raise StartError with the end of its log if it has ended by itself."""
        status = self._group.poll(self.label)
        if status is not None:
            tail = self._group.tail(self.label)
            raise StartError(f"{self.label} ended with status {status}\n{tail}")

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._group.stop(self.label)

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Ask it to end with SIGTERM and return its exit status."""
        return self._group.terminate(self.label, timeout_s)


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
    path = group.log_directory / f"{label}.yaml"
    path.write_text(yaml.safe_dump(settings.document(server), sort_keys=False))
    flags = [f"--config={path}", *_serving_flags(settings.flags), *settings.flags]
    group.start(label, [*scheduler_command(name), *flags])
    return SchedulerProcess(group, label, name)


def _serving_flags(given: Sequence[str]) -> list[str]:
    is_given = any(flag.startswith("--secure-port") for flag in given)
    return [] if is_given else ["--secure-port=0"]
