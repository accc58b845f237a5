"""State machine of one simulated pod.

Owns the order in which containers start, restarts, and the end of a pod that completes, fails,
exceeds its deadline or is deleted. Never writes and never reads a clock: `advance` takes the time,
`next_s` returns when to call it again.
Upstream: pkg/kubelet/{kubelet,pod_workers}.go, pkg/kubelet/kuberuntime/kuberuntime_manager.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kubesched.api.times import parse_time
from kubesched.cluster.kubelet.annotations import (
    READY,
    START_AFTER,
    STOP_AFTER,
    AnnotationError,
    duration_s,
    is_switched_off,
)
from kubesched.cluster.kubelet.behaviour import Behaviour, behaviour_of, should_restart
from kubesched.cluster.kubelet.commands import FOREVER
from kubesched.cluster.kubelet.containers import (
    CRASH_LOOP,
    CREATING,
    INITIALIZING,
    ContainerRun,
    Kind,
    restore,
)
from kubesched.cluster.kubelet.settings import KubeletSettings

_SIGKILL_EXIT_CODE: Final = 137
TERMINAL: Final = ("Succeeded", "Failed")
# Parity: pkg/kubelet/active_deadline.go, v1.36.
_DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
_DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"


class PodEvent(NamedTuple):
    """An event about a pod."""

    type: str
    reason: str
    note: str
    field_path: str = ""
    """The container it concerns."""


class PodRun:
    """A pod on its node."""

    def __init__(self, pod: Mapping[str, Any], now_s: float, settings: KubeletSettings) -> None:
        self.uid = str(pod["metadata"]["uid"])
        self.settings = settings
        self.pod = pod
        self.started_s = now_s
        """When the kubelet first saw it."""
        self.reason = self.message = ""
        """Why the pod itself failed, not its containers."""
        self.phase = "Pending"
        self.version = 0
        """Incremented on each change."""
        self.is_stopped = False
        """Whether it was deleted and has terminated."""
        self.watchers: list[Callable[[], None]] = []
        """Called on each change, for followed logs."""
        self._containers: dict[str, ContainerRun] = {}
        self._events: list[PodEvent] = []
        self._has_changed = False
        self._stops_s: float | None = None
        self._grace_s = 0.0
        self._starts_s = now_s + self._start_delay_s()
        self._restore(pod, now_s)

    # -- queries ----------------------------------------------------------------------------------

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return the pod's spec."""
        spec: Mapping[str, Any] = self.pod["spec"]
        return spec

    @property
    def is_terminal(self) -> bool:
        """Return whether it succeeded or failed."""
        return self.phase in TERMINAL

    @property
    def is_stopping(self) -> bool:
        """Return whether it is terminating."""
        return self._stops_s is not None

    @property
    def has_sandbox(self) -> bool:
        """Return whether it has an address, so that containers can start."""
        return any(container.has_run for container in self._containers.values())

    def containers(self) -> Iterator[tuple[Mapping[str, Any], ContainerRun]]:
        """Yield each container of the spec with its state, init containers first."""
        for field in ("initContainers", "containers", "ephemeralContainers"):
            for container in self.spec.get(field) or ():
                yield container, self._containers[container["name"]]

    def container(self, name: str) -> tuple[Mapping[str, Any], ContainerRun] | None:
        """Return one container; None if there is none of that name."""
        for container, run in self.containers():
            if run.name == name:
                return container, run
        return None

    def is_ready(self, run: ContainerRun) -> bool:
        """Return whether a container is probed and ready, unless an annotation overrides it."""
        is_probed = run.is_running and run.ready_s is None
        return is_probed and not is_switched_off(self.pod, READY)

    def next_s(self) -> float | None:
        """Return when to call `advance` again; None if nothing is scheduled."""
        if self.is_stopped or (self.is_terminal and self._stops_s is None):
            return None
        times = [run.ends_s for run in self._containers.values()]
        times += [run.starts_s for run in self._containers.values()]
        times += [run.ready_s for run in self._containers.values()]
        times += [self._stops_s, self._deadline_s()]
        if not self.has_sandbox:
            times.append(self._starts_s)
        return min((time for time in times if time is not None), default=None)

    # -- transitions ------------------------------------------------------------------------------

    def observe(self, pod: Mapping[str, Any], now_s: float) -> None:
        """Use the pod from the API server."""
        self.pod = pod
        self._add_missing()
        phase = pod.get("status", {}).get("phase")
        if phase in TERMINAL and not self.is_terminal:
            # Another component failed it: an eviction, or pod garbage collection.
            self.phase = phase
            self._end_all(now_s)
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            self._begin_termination(now_s, float(metadata.get("deletionGracePeriodSeconds") or 0))

    def advance(self, now_s: float) -> list[PodEvent]:
        """Make all transitions that are due; return the events to record."""
        while self._step(now_s):
            pass
        events, self._events = self._events, []
        self._wake()
        return events

    def vanish(self, now_s: float) -> None:
        """Terminate at once: the pod was deleted from the API server."""
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
        """Make the transitions that are due; return whether others may be due now."""
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
            self.phase, self.reason, self.message = "Failed", _DEADLINE_EXCEEDED, _DEADLINE_MESSAGE
            self._record("Normal", _DEADLINE_EXCEEDED, _DEADLINE_MESSAGE)
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
        """Stop containers whose image changed; they restart with the new one."""
        has_changed = False
        for container, run in self.containers():
            if not run.is_running or run.image == container.get("image", ""):
                continue
            # Parity: pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions, v1.36.
            note = f"Container {run.name} definition changed, will be restarted"
            self._record("Normal", "Killing", note, run)
            run.end(now_s, 0)
            run.wait(CREATING, starts_s=now_s)
            self._has_changed = has_changed = True
        return has_changed

    def _end_due(self, now_s: float) -> bool:
        has_changed = False
        for container, run in self.containers():
            if (ends_s := run.ends_s) is None or ends_s > now_s:
                continue
            assert run.behaviour is not None, "a container that exits by itself has a behaviour"
            run.end(max(ends_s, run.started_s or ends_s), run.behaviour.exit_code)
            self._schedule_restart(container, run, now_s)
            self._has_changed = has_changed = True
        return has_changed

    def _schedule_restart(
        self, container: Mapping[str, Any], run: ContainerRun, now_s: float
    ) -> None:
        assert run.terminated_run is not None, "it has just ended"
        if run.kind == "ephemeral":
            return
        restarts = should_restart(self.pod, container, run.terminated_run.exit_code)
        if run.kind == "init":
            # Parity: an init container that has succeeded is done, whatever the policy.
            restarts = restarts and run.terminated_run.exit_code != 0
        if not restarts:
            return
        wait_s = self._backoff_s(run)
        if not wait_s:
            run.wait(CRASH_LOOP, starts_s=now_s)
            return
        duration = f"{wait_s:g}s" if wait_s < 60 else f"{int(wait_s // 60)}m{int(wait_s % 60)}s"
        pod_text = f"{self._name}_{self._namespace}({self.uid})"
        note = f"back-off {duration} restarting failed container={run.name} pod={pod_text}"
        run.wait(CRASH_LOOP, note, run.terminated_run.finished_s + wait_s / self.settings.speed)
        text = f"Back-off restarting failed container {run.name} in pod {pod_text}"
        self._record("Warning", "BackOff", text, run)

    def _backoff_s(self, run: ContainerRun) -> float:
        """Return the restart backoff: none the first time, then exponential."""
        # Parity: client-go util/flowcontrol/backoff.go, pkg/kubelet/kubelet.go, v1.36.
        settings, doublings = self.settings, run.restart_count - 1
        if doublings < 0:
            return 0.0
        return min(settings.backoff_s * 2.0 ** min(doublings, 60), settings.backoff_s_max)

    def _start_due(self, now_s: float) -> bool:
        """Start containers that may run: init containers in order, then all others."""
        has_changed = False
        # Init containers run once, even if their statuses are lost.
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
        if run.is_running or run.is_terminated:
            return False
        if run.starts_s is not None and run.starts_s > now_s:
            return False
        self._has_changed = True
        image = str(container.get("image", ""))
        run.start(now_s, self._behaviour(container, run), image, self._probe_delay_s(container))
        present = f'Container image "{image}" already present on machine and can be accessed by '
        self._record("Normal", "Pulled", f"{present}the pod", run)
        self._record("Normal", "Created", "Container created", run)
        self._record("Normal", "Started", "Container started", run)
        return True

    def _behaviour(self, container: Mapping[str, Any], run: ContainerRun) -> Behaviour:
        run_index = run.restart_count + (
            1 if run.terminated_run is not None and not run.is_running else 0
        )
        try:
            return behaviour_of(
                self.pod,
                container,
                is_init=run.kind == "init",
                run_index=run_index,
                settings=self.settings,
            )
        except AnnotationError as error:
            self._record("Warning", "InvalidAnnotation", str(error))
            return Behaviour(0.0 if run.kind == "init" else FOREVER)

    def _begin_termination(self, now_s: float, grace_s: float) -> None:
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
                self._record("Normal", "Killing", f"Stopping container {run.name}", run)
        self._stops_s = now_s + (min(grace_s, self._stop_delay_s()) if is_running else 0.0)

    def _end_all(self, now_s: float) -> None:
        """Stop every container."""
        for _, run in self.containers():
            if run.is_running:
                # A container that would exit by itself is killed before it completes.
                run.end(now_s, _SIGKILL_EXIT_CODE if run.behaviour and run.behaviour.ends else 0)
            if run.terminated_run is not None and run.waiting_reason:
                run.wait("")
        self._has_changed = True

    # -- phases and times -------------------------------------------------------------------------

    def _set_phase(self) -> None:
        """Compute the phase.

        Parity: pkg/kubelet/kubelet_pods.go getPhase, v1.36.
        """
        if self.is_terminal:
            return
        mains = [run for _, run in self.containers() if run.kind == "main"]
        inits = [run for _, run in self.containers() if run.kind == "init"]
        failed = [
            run
            for run in inits
            if run.is_terminated and run.terminated_run and run.terminated_run.exit_code
        ]
        if failed:
            self.phase = "Failed"
        elif mains and all(run.is_terminated for run in mains):
            codes = [run.terminated_run.exit_code for run in mains if run.terminated_run]
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

    def _start_delay_s(self) -> float:
        annotated_s = self._annotated_s(START_AFTER)
        return (self.settings.start_s if annotated_s is None else annotated_s) / self.settings.speed

    def _stop_delay_s(self) -> float:
        annotated_s = self._annotated_s(STOP_AFTER)
        hook_sleeps_s = [
            float(((container.get("lifecycle") or {}).get("preStop") or {})["sleep"]["seconds"])
            for container in self.spec.get("containers") or ()
            if "sleep" in ((container.get("lifecycle") or {}).get("preStop") or {})
        ]
        stop_s = self.settings.stop_s if annotated_s is None else annotated_s
        return max([stop_s, *hook_sleeps_s]) / self.settings.speed

    def _probe_delay_s(self, container: Mapping[str, Any]) -> float:
        """Return the initial delay of the probes; every probe succeeds."""
        delays_s = [
            float((container.get(probe) or {}).get("initialDelaySeconds") or 0)
            for probe in ("startupProbe", "readinessProbe")
        ]
        return sum(delays_s) / self.settings.speed

    def _annotated_s(self, annotation: str) -> float | None:
        try:
            return duration_s(self.pod, annotation)
        except AnnotationError as error:
            self._record("Warning", "InvalidAnnotation", str(error))
            return None

    # -- helpers ----------------------------------------------------------------------------------

    def _restore(self, pod: Mapping[str, Any], now_s: float) -> None:
        """Continue from the status: the pod may have been running before we started."""
        status = pod.get("status") or {}
        if start := status.get("startTime"):
            self.started_s = parse_time(start)
        self.phase = status.get("phase") or "Pending"
        statuses: dict[str, Mapping[str, Any]] = {
            one["name"]: one for field in _STATUSES for one in status.get(field) or ()
        }
        self._add_missing()
        for container, run in self.containers():
            if run.name not in statuses:
                continue
            restore(run, statuses[run.name])
            if run.is_running:
                run.behaviour = self._behaviour(container, run)
                run.image = run.image or str(container.get("image", ""))
                if not statuses[run.name].get("ready") and (
                    delay_s := self._probe_delay_s(container)
                ):
                    run.ready_s = (run.started_s or now_s) + delay_s
            elif run.waiting_reason and run.terminated_run:
                wait_s = self._backoff_s(run) / self.settings.speed
                run.starts_s = run.terminated_run.finished_s + wait_s
        self._events.clear()
        if self.is_terminal:
            self._end_all(now_s)

    def _add_missing(self) -> None:
        """Add containers that are new in the spec."""
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

    def _record(self, type_: str, reason: str, note: str, run: ContainerRun | None = None) -> None:
        self._events.append(PodEvent(type_, reason, note, _field_path(run)))

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
