"""One container of a pod: waiting, running, ended, and what its status says of it.

Owns the state of one container and how it is written. Never decides when it starts: pod_runs does.
Upstream: pkg/kubelet/kubelet_pods.go convertToAPIContainerStatuses
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from kubesched.kubelet.behaviour import Behaviour
from kubesched.objects.times import parse_time, time_text

Document: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["init", "sidecar", "main", "ephemeral"]

_RUNTIME: Final = "kubesched://"
CREATING: Final = "ContainerCreating"
INITIALIZING: Final = "PodInitializing"
CRASH_LOOP: Final = "CrashLoopBackOff"


@dataclass(slots=True)
class Ended:
    """A run that is over."""

    started_s: float
    finished_s: float
    exit_code: int
    run_index: int

    def state(self, container_id: str) -> Document:
        """Return it as ContainerStateTerminated is written."""
        return {
            "exitCode": self.exit_code,
            "reason": "Completed" if self.exit_code == 0 else "Error",
            "startedAt": time_text(self.started_s),
            "finishedAt": time_text(self.finished_s),
            "containerID": container_id,
        }


@dataclass(slots=True)
class ContainerRun:
    """What has become of one container."""

    name: str
    kind: Kind
    pod_uid: str
    restart_count: int = 0
    image: str = ""
    """Of the run under way."""
    started_s: float | None = None
    """Since when it runs; None if it does not."""
    behaviour: Behaviour | None = None
    """What the run under way comes to."""
    ready_s: float | None = None
    """When its readiness is looked at for the first time; None if that has been."""
    ended: Ended | None = None
    """The last run that is over: the state if it does not wait, else the state before."""
    waits_for: str = ""
    """Why it does not run though it will."""
    waits_note: str = ""
    starts_s: float | None = None
    """When it starts again."""

    @property
    def is_running(self) -> bool:
        """Return whether it runs."""
        return self.started_s is not None

    @property
    def is_over(self) -> bool:
        """Return whether it has ended and does not wait to start again."""
        return self.ended is not None and not self.is_running and not self.waits_for

    @property
    def has_run(self) -> bool:
        """Return whether it runs or ever did."""
        return self.started_s is not None or self.ended is not None

    @property
    def is_initialized(self) -> bool:
        """Return whether it has done what an init container is for."""
        return self.is_over and self.ended is not None and self.ended.exit_code == 0

    @property
    def ends_s(self) -> float | None:
        """Return when the run under way ends by itself."""
        if self.started_s is None or self.behaviour is None or not self.behaviour.ends:
            return None
        return self.started_s + self.behaviour.run_s

    def start(
        self, now_s: float, behaviour: Behaviour, image: str = "", delay_s: float = 0.0
    ) -> None:
        """Run from now on, and be ready after a delay."""
        if self.ended is not None:
            self.restart_count += 1
        self.image = image
        self.started_s = now_s
        self.ready_s = now_s + delay_s if delay_s else None
        self.behaviour = behaviour
        self.waits_for = self.waits_note = ""
        self.starts_s = None

    def end(self, now_s: float, exit_code: int) -> None:
        """Run no longer."""
        assert self.started_s is not None, "it runs"
        self.ended = Ended(self.started_s, now_s, exit_code, self.restart_count)
        self.started_s = None
        self.behaviour = None
        self.ready_s = None

    def wait(self, reason: str, note: str = "", starts_s: float | None = None) -> None:
        """Wait, and say why."""
        self.waits_for, self.waits_note, self.starts_s = reason, note, starts_s

    def container_id(self, run_index: int) -> str:
        """Return what stands for the container of one run."""
        seed = f"{self.pod_uid}/{self.name}/{run_index}"
        return f"{_RUNTIME}{hashlib.sha256(seed.encode()).hexdigest()}"

    def status(self, container: Mapping[str, Any], *, is_ready: bool) -> Document:
        """Return its ContainerStatus."""
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
        if self.is_running or self.ended is not None:
            status["imageID"] = image_id(image)
            run_index = self.restart_count if self.is_running else self._ended_index
            status["containerID"] = self.container_id(run_index)
        resources = container.get("resources")
        if resources and self.kind != "ephemeral":
            status["resources"] = resources
            if resources.get("requests"):
                status["allocatedResources"] = resources["requests"]
        return status

    @property
    def _ended_index(self) -> int:
        return 0 if self.ended is None else self.ended.run_index

    def _state(self) -> Document:
        if self.started_s is not None:
            return {"running": {"startedAt": time_text(self.started_s)}}
        if self.waits_for:
            waiting = {"reason": self.waits_for}
            if self.waits_note:
                waiting["message"] = self.waits_note
            return {"waiting": waiting}
        if self.ended is not None:
            return {"terminated": self.ended.state(self.container_id(self._ended_index))}
        return {"waiting": {"reason": CREATING}}

    def _last_state(self) -> Document:
        if self.ended is None or self.is_over:
            return {}
        return {"terminated": self.ended.state(self.container_id(self._ended_index))}


def image_id(image: str) -> str:
    """Return what stands for the content of an image."""
    return f"{image}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def adopt(run: ContainerRun, status: Mapping[str, Any]) -> None:
    """Take over what a status says of a container: it went on while no kubelet looked."""
    run.restart_count = int(status.get("restartCount") or 0)
    state = status.get("state") or {}
    terminated = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    if terminated:
        index = max(run.restart_count - 1, 0) if state.get("running") else run.restart_count
        run.ended = Ended(
            _time(terminated.get("startedAt")),
            _time(terminated.get("finishedAt")),
            int(terminated.get("exitCode") or 0),
            index,
        )
    if running := state.get("running"):
        # Other runtimes write images down in forms of their own.
        if str(status.get("containerID", "")).startswith(_RUNTIME):
            run.image = str(status.get("image") or "")
        run.started_s = _time(running.get("startedAt"))
    elif (waiting := state.get("waiting")) and run.ended is not None:
        run.wait(str(waiting.get("reason") or CRASH_LOOP), str(waiting.get("message") or ""))


def _time(text: object) -> float:
    return parse_time(text) if isinstance(text, str) and text else 0.0
