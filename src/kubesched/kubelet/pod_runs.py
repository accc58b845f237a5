"""One pod on its node: which containers run at a moment, and what happened on the way there.

Owns the order in which containers start, when they are started again, and the end of a pod that
completes, fails, runs out of time or is deleted. Never writes anything, and never reads a clock:
`advance` is told the time, `next_s` says when there is something to do again.
Upstream: pkg/kubelet/{kubelet,pod_workers}.go, pkg/kubelet/kuberuntime/kuberuntime_manager.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kubesched.kubelet import wishes
from kubesched.kubelet.behaviour import Behaviour, behaviour_of, should_restart
from kubesched.kubelet.commands import FOREVER
from kubesched.kubelet.containers import (
    CRASH_LOOP,
    CREATING,
    INITIALIZING,
    ContainerRun,
    Kind,
    adopt,
)
from kubesched.kubelet.settings import KubeletSettings
from kubesched.kubelet.wishes import AnnotationError
from kubesched.objects.times import parse_time

_KILLED: Final = 137
TERMINAL: Final = ("Succeeded", "Failed")
# Parity: pkg/kubelet/active_deadline.go, v1.36.
_LATE: Final = "DeadlineExceeded"
_LATE_NOTE: Final = "Pod was active on the node longer than the specified deadline"


class Happening(NamedTuple):
    """What people are told by an event."""

    type: str
    reason: str
    note: str
    field_path: str = ""
    """The container it is about."""


class PodRun:
    """A pod, as the kubelet of its node has it."""

    def __init__(self, pod: Mapping[str, Any], now_s: float, settings: KubeletSettings) -> None:
        self.uid = str(pod["metadata"]["uid"])
        self.settings = settings
        self.pod = pod
        self.started_s = now_s
        """When the kubelet saw it first."""
        self.reason = self.message = ""
        """Why it has failed, where that is not for its containers."""
        self.phase = "Pending"
        self.version = 0
        """How often something has changed."""
        self.is_stopped = False
        """Whether it was told to end, and has."""
        self.watchers: list[Callable[[], None]] = []
        """Who is told whenever something has happened: followed logs."""
        self._containers: dict[str, ContainerRun] = {}
        self._happenings: list[Happening] = []
        self._has_changed = False
        self._stops_s: float | None = None
        self._grace_s = 0.0
        self._starts_s = now_s + self._starting_s()
        self._adopt(pod, now_s)

    # -- what there is to know --------------------------------------------------------------------

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return the pod's spec."""
        spec: Mapping[str, Any] = self.pod["spec"]
        return spec

    @property
    def is_terminal(self) -> bool:
        """Return whether it has completed or failed."""
        return self.phase in TERMINAL

    @property
    def is_stopping(self) -> bool:
        """Return whether it was told to end."""
        return self._stops_s is not None

    @property
    def has_sandbox(self) -> bool:
        """Return whether its containers can start: it has an address."""
        return any(one.has_run for one in self._containers.values())

    def containers(self) -> Iterator[tuple[Mapping[str, Any], ContainerRun]]:
        """Return every container of the spec and what became of it, init containers first."""
        for field in ("initContainers", "containers", "ephemeralContainers"):
            for container in self.spec.get(field) or ():
                yield container, self._containers[container["name"]]

    def container(self, name: str) -> tuple[Mapping[str, Any], ContainerRun] | None:
        """Return one container; None if the pod has none of that name."""
        for container, run in self.containers():
            if run.name == name:
                return container, run
        return None

    def is_ready(self, run: ContainerRun) -> bool:
        """Return whether a container is ready: it was looked at, and nobody says otherwise."""
        is_found = run.is_running and run.ready_s is None
        return is_found and not wishes.is_switched_off(self.pod, wishes.READY)

    def next_s(self) -> float | None:
        """Return when there is something to do again; None if nothing happens by itself."""
        if self.is_stopped or (self.is_terminal and self._stops_s is None):
            return None
        times = [run.ends_s for run in self._containers.values()]
        times += [run.starts_s for run in self._containers.values()]
        times += [run.ready_s for run in self._containers.values()]
        times += [self._stops_s, self._deadline_s()]
        if not self.has_sandbox:
            times.append(self._starts_s)
        return min((one for one in times if one is not None), default=None)

    # -- what happens -----------------------------------------------------------------------------

    def observe(self, pod: Mapping[str, Any], now_s: float) -> None:
        """Take over what the API server says of the pod now."""
        self.pod = pod
        self._add_missing()
        phase = pod.get("status", {}).get("phase")
        if phase in TERMINAL and not self.is_terminal:
            # Somebody else has given it up: an eviction, or the garbage collector.
            self.phase = phase
            self._end_all(now_s)
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            self._tell_to_stop(now_s, float(metadata.get("deletionGracePeriodSeconds") or 0))

    def advance(self, now_s: float) -> list[Happening]:
        """Let everything happen that is due; return what to tell people."""
        while self._step(now_s):
            pass
        told, self._happenings = self._happenings, []
        self._wake()
        return told

    def vanish(self, now_s: float) -> None:
        """End at once: the API server has no such pod any more."""
        self._end_all(now_s)
        self.is_stopped = True
        self._wake()

    def _wake(self) -> None:
        if self._has_changed:
            self._has_changed = False
            self.version += 1
            for watcher in list(self.watchers):
                watcher()

    def _step(self, now_s: float) -> bool:
        """Do what is due; return whether that may have made something else due."""
        if self.is_stopped:
            return False
        if self._stops_s is not None:
            if now_s >= self._stops_s:
                self._end_all(now_s)
                self.is_stopped = True
                self._set_phase()
            return False
        if self.is_terminal:
            return False
        deadline_s = self._deadline_s()
        if deadline_s is not None and now_s >= deadline_s:
            self.phase, self.reason, self.message = "Failed", _LATE, _LATE_NOTE
            self._tell("Normal", _LATE, _LATE_NOTE)
            self._end_all(now_s)
            return False
        has_ended = self._end_changed(now_s) or self._end_due(now_s)
        has_started = now_s >= self._starts_s and self._start_due(now_s)
        self._probe_due(now_s)
        self._set_phase()
        if self.is_terminal:
            self._end_all(now_s)
        return has_ended or has_started

    def _probe_due(self, now_s: float) -> None:
        for _, run in self.containers():
            if run.ready_s is not None and now_s >= run.ready_s:
                run.ready_s = None
                self._has_changed = True

    def _end_changed(self, now_s: float) -> bool:
        """End containers that have another image by now; they start again with it."""
        has_changed = False
        for container, run in self.containers():
            if not run.is_running or run.image == container.get("image", ""):
                continue
            # Parity: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions, v1.36.
            note = f"Container {run.name} definition changed, will be restarted"
            self._tell("Normal", "Killing", note, run)
            run.end(now_s, 0)
            run.wait(CREATING, starts_s=now_s)
            self._has_changed = has_changed = True
        return has_changed

    def _end_due(self, now_s: float) -> bool:
        has_changed = False
        for container, run in self.containers():
            if (ends_s := run.ends_s) is None or ends_s > now_s:
                continue
            assert run.behaviour is not None, "who ends by itself has a behaviour"
            run.end(max(ends_s, run.started_s or ends_s), run.behaviour.exit_code)
            self._plan_restart(container, run, now_s)
            self._has_changed = has_changed = True
        return has_changed

    def _plan_restart(self, container: Mapping[str, Any], run: ContainerRun, now_s: float) -> None:
        assert run.ended is not None, "it has just ended"
        if run.kind == "ephemeral":
            return
        is_again = should_restart(self.pod, container, run.ended.exit_code)
        if run.kind == "init":
            # Parity: an init container that has succeeded is done, whatever the policy.
            is_again = is_again and run.ended.exit_code != 0
        if not is_again:
            return
        wait_s = self._backoff_s(run)
        if not wait_s:
            run.wait(CRASH_LOOP, starts_s=now_s)
            return
        shown = f"{wait_s:g}s" if wait_s < 60 else f"{int(wait_s // 60)}m{int(wait_s % 60)}s"
        pod_text = f"{self._name}_{self._namespace}({self.uid})"
        note = f"back-off {shown} restarting failed container={run.name} pod={pod_text}"
        run.wait(CRASH_LOOP, note, run.ended.finished_s + wait_s / self.settings.speed)
        text = f"Back-off restarting failed container {run.name} in pod {pod_text}"
        self._tell("Warning", "BackOff", text, run)

    def _backoff_s(self, run: ContainerRun) -> float:
        """Return how long to wait before a restart: not at all the first time, then ever longer."""
        # Parity: client-go util/flowcontrol/backoff.go, pkg/kubelet/kubelet.go, v1.36.
        settings, doublings = self.settings, run.restart_count - 1
        if doublings < 0:
            return 0.0
        return min(settings.backoff_s * 2.0 ** min(doublings, 60), settings.backoff_s_max)

    def _start_due(self, now_s: float) -> bool:
        """Start what may run: init containers one after the other, then all others."""
        has_changed = False
        # Init containers run once, even if nothing is left of their statuses.
        is_initialized = any(run.kind == "main" and run.has_run for _, run in self.containers())
        for container, run in self.containers():
            if run.kind == "init":
                if is_initialized or run.is_initialized:
                    continue
                return self._start_if_due(container, run, now_s) or has_changed
            has_changed = self._start_if_due(container, run, now_s) or has_changed
            if run.kind == "sidecar" and not run.has_run:
                return has_changed
        return has_changed

    def _start_if_due(self, container: Mapping[str, Any], run: ContainerRun, now_s: float) -> bool:
        if run.is_running or run.is_over:
            return False
        if run.starts_s is not None and run.starts_s > now_s:
            return False
        self._has_changed = True
        image = str(container.get("image", ""))
        run.start(now_s, self._behaviour(container, run), image, self._probing_s(container))
        present = f'Container image "{image}" already present on machine and can be accessed by '
        self._tell("Normal", "Pulled", f"{present}the pod", run)
        self._tell("Normal", "Created", "Container created", run)
        self._tell("Normal", "Started", "Container started", run)
        return True

    def _behaviour(self, container: Mapping[str, Any], run: ContainerRun) -> Behaviour:
        run_index = run.restart_count + (1 if run.ended is not None and not run.is_running else 0)
        try:
            return behaviour_of(
                self.pod,
                container,
                is_init=run.kind == "init",
                run_index=run_index,
                settings=self.settings,
            )
        except AnnotationError as error:
            self._tell("Warning", "InvalidAnnotation", str(error))
            return Behaviour(0.0 if run.kind == "init" else FOREVER)

    def _tell_to_stop(self, now_s: float, grace_s: float) -> None:
        if self._stops_s is not None:
            if grace_s < self._grace_s:
                self._grace_s = grace_s
                self._stops_s = min(self._stops_s, now_s + grace_s)
            return
        self._grace_s = grace_s
        is_running = False
        for _, run in self.containers():
            if run.is_running:
                is_running = True
                self._tell("Normal", "Killing", f"Stopping container {run.name}", run)
        self._stops_s = now_s + (min(grace_s, self._stopping_s()) if is_running else 0.0)

    def _end_all(self, now_s: float) -> None:
        """End every container, as it ends when it is told to."""
        for _, run in self.containers():
            if run.is_running:
                # What would have ended by itself had not done its work yet.
                run.end(now_s, _KILLED if run.behaviour and run.behaviour.ends else 0)
            if run.ended is not None and run.waits_for:
                run.wait("")
        self._has_changed = True

    # -- phases and times -------------------------------------------------------------------------

    def _set_phase(self) -> None:
        """Work out the phase.

        Parity: pkg/kubelet/kubelet_pods.go getPhase, v1.36.
        """
        if self.is_terminal:
            return
        mains = [run for _, run in self.containers() if run.kind == "main"]
        inits = [run for _, run in self.containers() if run.kind == "init"]
        failed = [run for run in inits if run.is_over and run.ended and run.ended.exit_code]
        if failed:
            self.phase = "Failed"
        elif mains and all(run.is_over for run in mains):
            codes = [run.ended.exit_code for run in mains if run.ended]
            self.phase = "Failed" if any(codes) else "Succeeded"
        elif any(run.has_run for run in mains):
            self.phase = "Running"
        elif self.is_stopped:
            self.phase = "Failed"

    def _deadline_s(self) -> float | None:
        allowed_s = self.spec.get("activeDeadlineSeconds")
        if allowed_s is None or self.is_terminal:
            return None
        return self.started_s + float(allowed_s) / self.settings.speed

    def _starting_s(self) -> float:
        asked_s = self._asked_s(wishes.START_AFTER)
        return (self.settings.start_s if asked_s is None else asked_s) / self.settings.speed

    def _stopping_s(self) -> float:
        asked_s = self._asked_s(wishes.STOP_AFTER)
        hooks_s = [
            float(((one.get("lifecycle") or {}).get("preStop") or {})["sleep"]["seconds"])
            for one in self.spec.get("containers") or ()
            if "sleep" in ((one.get("lifecycle") or {}).get("preStop") or {})
        ]
        wanted_s = self.settings.stop_s if asked_s is None else asked_s
        return max([wanted_s, *hooks_s]) / self.settings.speed

    def _probing_s(self, container: Mapping[str, Any]) -> float:
        """Return how long nobody looks whether a container is ready; it is when they do."""
        delays_s = [
            float((container.get(probe) or {}).get("initialDelaySeconds") or 0)
            for probe in ("startupProbe", "readinessProbe")
        ]
        return sum(delays_s) / self.settings.speed

    def _asked_s(self, annotation: str) -> float | None:
        try:
            return wishes.duration_s(self.pod, annotation)
        except AnnotationError as error:
            self._tell("Warning", "InvalidAnnotation", str(error))
            return None

    # -- the rest ---------------------------------------------------------------------------------

    def _adopt(self, pod: Mapping[str, Any], now_s: float) -> None:
        """Go on from the status: the pod may have been running before we came."""
        status = pod.get("status") or {}
        if start := status.get("startTime"):
            self.started_s = parse_time(start)
        self.phase = status.get("phase") or "Pending"
        known: dict[str, Mapping[str, Any]] = {
            one["name"]: one for field in _STATUSES for one in status.get(field) or ()
        }
        self._add_missing()
        for container, run in self.containers():
            if run.name not in known:
                continue
            adopt(run, known[run.name])
            if run.is_running:
                run.behaviour = self._behaviour(container, run)
                run.image = run.image or str(container.get("image", ""))
                if not known[run.name].get("ready") and (delay_s := self._probing_s(container)):
                    run.ready_s = (run.started_s or now_s) + delay_s
            elif run.waits_for and run.ended:
                wait_s = self._backoff_s(run) / self.settings.speed
                run.starts_s = run.ended.finished_s + wait_s
        self._happenings.clear()
        if self.is_terminal:
            self._end_all(now_s)

    def _add_missing(self) -> None:
        """Begin to follow containers that were not there before."""
        has_inits = bool(self.spec.get("initContainers"))
        for field, kind in _KINDS:
            for container in self.spec.get(field) or ():
                name = container["name"]
                if name in self._containers:
                    continue
                is_sidecar = kind == "init" and container.get("restartPolicy") == "Always"
                run = ContainerRun(name, "sidecar" if is_sidecar else kind, self.uid)
                run.wait(INITIALIZING if has_inits else CREATING)
                self._containers[name] = run

    def _tell(self, type_: str, reason: str, note: str, run: ContainerRun | None = None) -> None:
        self._happenings.append(Happening(type_, reason, note, _field_path(run)))

    @property
    def _name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def _namespace(self) -> str:
        return str(self.pod["metadata"].get("namespace", ""))


_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("initContainers", "init"),
    ("containers", "main"),
    ("ephemeralContainers", "ephemeral"),
)
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_FIELDS: Final[Mapping[Kind, str]] = {
    "init": "initContainers",
    "sidecar": "initContainers",
    "main": "containers",
    "ephemeral": "ephemeralContainers",
}


def _field_path(run: ContainerRun | None) -> str:
    return "" if run is None else f"spec.{_FIELDS[run.kind]}{{{run.name}}}"
