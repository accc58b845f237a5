"""State and status of one simulated container.

Owns the states waiting, running and terminated. Never decides when it starts: pod_runs does.
Upstream: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from kubesched.api.times import parse_time, time_text
from kubesched.cluster.kubelet.behaviour import Behaviour

Document: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["init", "sidecar", "main", "ephemeral"]

_RUNTIME: Final = "kubesched://"
CREATING: Final = "ContainerCreating"
INITIALIZING: Final = "PodInitializing"
CRASH_LOOP: Final = "CrashLoopBackOff"


@dataclass(slots=True)
class TerminatedRun:
    """A run that has terminated."""

    started_s: float
    finished_s: float
    exit_code: int
    run_index: int

    def state(self, container_id: str) -> Document:
        """Return it as ContainerStateTerminated."""
        return {
            "exitCode": self.exit_code,
            "reason": "Completed" if self.exit_code == 0 else "Error",
            "startedAt": time_text(self.started_s),
            "finishedAt": time_text(self.finished_s),
            "containerID": container_id,
        }


@dataclass(slots=True)
class ContainerRun:
    """The state of one container."""

    name: str
    kind: Kind
    pod_uid: str
    restart_count: int = 0
    image: str = ""
    """Image of the current run."""
    started_s: float | None = None
    """Start of the current run; None if it is not running."""
    behaviour: Behaviour | None = None
    """Behaviour of the current run."""
    ready_s: float | None = None
    """When its readiness is first probed; None once that happened."""
    terminated_run: TerminatedRun | None = None
    """The last terminated run: `state` if it is not waiting, else `lastState`."""
    waiting_reason: str = ""
    """Why it is waiting; empty if it is not."""
    waiting_message: str = ""
    starts_s: float | None = None
    """When it restarts."""

    @property
    def is_running(self) -> bool:
        """Return whether it is running."""
        return self.started_s is not None

    @property
    def is_terminated(self) -> bool:
        """Return whether it terminated and will not restart."""
        return self.terminated_run is not None and not self.is_running and not self.waiting_reason

    @property
    def has_run(self) -> bool:
        """Return whether it is running or has ever run."""
        return self.started_s is not None or self.terminated_run is not None

    @property
    def is_initialized(self) -> bool:
        """Return whether it is a completed init container."""
        return (
            self.is_terminated
            and self.terminated_run is not None
            and self.terminated_run.exit_code == 0
        )

    @property
    def ends_s(self) -> float | None:
        """Return when the current run exits by itself."""
        if self.started_s is None or self.behaviour is None or not self.behaviour.ends:
            return None
        return self.started_s + self.behaviour.run_s

    def start(
        self, now_s: float, behaviour: Behaviour, image: str = "", delay_s: float = 0.0
    ) -> None:
        """Start a run; it is ready after a delay."""
        if self.terminated_run is not None:
            self.restart_count += 1
        self.image = image
        self.started_s = now_s
        self.ready_s = now_s + delay_s if delay_s else None
        self.behaviour = behaviour
        self.waiting_reason = self.waiting_message = ""
        self.starts_s = None

    def end(self, now_s: float, exit_code: int) -> None:
        """Terminate the current run."""
        assert self.started_s is not None, "it runs"
        self.terminated_run = TerminatedRun(self.started_s, now_s, exit_code, self.restart_count)
        self.started_s = None
        self.behaviour = None
        self.ready_s = None

    def wait(self, reason: str, note: str = "", starts_s: float | None = None) -> None:
        """Enter the waiting state."""
        self.waiting_reason, self.waiting_message, self.starts_s = reason, note, starts_s

    def container_id(self, run_index: int) -> str:
        """Return the container ID of a run."""
        seed = f"{self.pod_uid}/{self.name}/{run_index}"
        return f"{_RUNTIME}{hashlib.sha256(seed.encode()).hexdigest()}"

    def status(self, container: Mapping[str, Any], *, is_ready: bool) -> Document:
        """Return the ContainerStatus."""
        image = str(container.get("image", ""))
        status: Document = {
            "name": self.name,
            "image": image,
            "imageID": "",
            "restartCount": self.restart_count,
            "ready": is_ready if self.kind != "init" else self.is_initialized,
            "started": self.is_running,
            "state": self._state(),
            "lastState": self._last_state(),
        }
        if self.is_running or self.terminated_run is not None:
            status["imageID"] = image_id(image)
            run_index = self.restart_count if self.is_running else self._terminated_index
            status["containerID"] = self.container_id(run_index)
        resources = container.get("resources")
        if resources and self.kind != "ephemeral":
            status["resources"] = resources
            if resources.get("requests"):
                status["allocatedResources"] = resources["requests"]
        return status

    @property
    def _terminated_index(self) -> int:
        return 0 if self.terminated_run is None else self.terminated_run.run_index

    def _state(self) -> Document:
        if self.started_s is not None:
            return {"running": {"startedAt": time_text(self.started_s)}}
        if self.waiting_reason:
            waiting = {"reason": self.waiting_reason}
            if self.waiting_message:
                waiting["message"] = self.waiting_message
            return {"waiting": waiting}
        if self.terminated_run is not None:
            return {
                "terminated": self.terminated_run.state(self.container_id(self._terminated_index))
            }
        return {"waiting": {"reason": CREATING}}

    def _last_state(self) -> Document:
        if self.terminated_run is None or self.is_terminated:
            return {}
        return {"terminated": self.terminated_run.state(self.container_id(self._terminated_index))}


def image_id(image: str) -> str:
    """Return the image ID of an image."""
    return f"{image}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def restore(run: ContainerRun, status: Mapping[str, Any]) -> None:
    """Restore a container from its status: it continued while no kubelet was running."""
    run.restart_count = int(status.get("restartCount") or 0)
    state = status.get("state") or {}
    terminated = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    if terminated:
        index = max(run.restart_count - 1, 0) if state.get("running") else run.restart_count
        run.terminated_run = TerminatedRun(
            _time(terminated.get("startedAt")),
            _time(terminated.get("finishedAt")),
            int(terminated.get("exitCode") or 0),
            index,
        )
    if running := state.get("running"):
        # Other runtimes format images differently.
        if str(status.get("containerID", "")).startswith(_RUNTIME):
            run.image = str(status.get("image") or "")
        run.started_s = _time(running.get("startedAt"))
    elif (waiting := state.get("waiting")) and run.terminated_run is not None:
        run.wait(str(waiting.get("reason") or CRASH_LOOP), str(waiting.get("message") or ""))


def _time(text: object) -> float:
    return parse_time(text) if isinstance(text, str) and text else 0.0
