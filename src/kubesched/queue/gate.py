"""What is asked before a pod may be tried: the PreEnqueue plugins.

Owns their order and what a refusal leaves on the pod. Never puts the pod anywhere.
Upstream: pkg/scheduler/backend/queue/scheduling_queue.go runPreEnqueuePlugins
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.model.cluster_event import ClusterEvent
from kubesched.model.pod_info import PodInfo
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.interface import PreEnqueue, ProfileQueueing, Status
from kubesched.queue.recorder import Recorder

_ERROR: Final = 1
_SAMPLED_ONE_IN: Final = 10
_CODES: Final = {
    0: "Success",
    1: "Error",
    2: "Unschedulable",
    3: "UnschedulableAndUnresolvable",
    4: "Wait",
    5: "Skip",
    6: "Pending",
}


class Raised:
    """The verdict of a plugin that failed to give one."""

    code = _ERROR
    is_success = False

    def __init__(self, problem: Exception) -> None:
        self.message = f"{type(problem).__name__}: {problem}"


class Gate:
    """The PreEnqueue plugins of every profile."""

    def __init__(
        self,
        profiles: Mapping[str, ProfileQueueing],
        events_of: Callable[[str], Sequence[ClusterEvent]],
        *,
        clock: Clock,
        recorder: Recorder,
        log: Log,
    ) -> None:
        self._plugins = {
            name: tuple(profile.pre_enqueue.items()) for name, profile in profiles.items()
        }
        self._events_of = events_of
        self._clock = clock
        self._recorder = recorder
        self._log = log
        self._runs = 0

    def run(self, queued: QueuedPodInfo) -> None:
        """Ask the plugins, who gated the pod before first; the first refusal ends it."""
        profile, monotonic_s = queued.pod.scheduler_name, self._clock.monotonic_s
        start_s = monotonic_s()
        plugins = self._plugins.get(profile, ())
        if first := queued.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin[0] != first))
        self._runs += 1
        if self._runs % _SAMPLED_ONE_IN == 0:  # Upstream samples by chance.
            plugins = tuple((name, self._measured(name, ask)) for name, ask in plugins)
        refusal = _first_refusal(plugins, queued.pod)
        if refusal is None:
            queued.gating_plugin = ""
        else:
            self._refuse(queued, *refusal)
        self._recorder.pre_enqueue[profile].observe(monotonic_s() - start_s)

    def _measured(self, name: str, ask: PreEnqueue) -> PreEnqueue:
        def measured(pod: PodInfo) -> Status | None:
            start_s = self._clock.monotonic_s()
            status = ask(pod)
            code = _CODES[0 if status is None else int(status.code)]
            elapsed_s = self._clock.monotonic_s() - start_s
            self._recorder.plugins[name, "PreEnqueue", code].observe(elapsed_s)
            return status

        return measured

    def _refuse(self, queued: QueuedPodInfo, name: str, status: Status) -> None:
        pod = queued.pod
        if name not in queued.unschedulable_plugins and name not in queued.pending_plugins:
            self._recorder.rejected_by[name, pod.scheduler_name].inc()
        queued.unschedulable_plugins.add(name)
        queued.gating_plugin = name
        queued.gating_plugin_events = self._events_of(name)
        ref = Ref(pod.namespace, pod.name)
        if status.code == _ERROR:
            self._log.error(
                "Unexpected error running PreEnqueue plugin",
                err=status.message,
                pod=ref,
                plugin=name,
            )
        elif self._log.enabled(4):
            self._log.info(
                "Status after running PreEnqueue plugin",
                level=4,
                pod=ref,
                plugin=name,
                status=status.message,
            )


def _first_refusal(
    plugins: Iterable[tuple[str, PreEnqueue]], pod: PodInfo
) -> tuple[str, Status] | None:
    name = ""
    try:
        for name, ask in plugins:
            status = ask(pod)
            if status is not None and not status.is_success:
                return name, status
    except Exception as problem:  # noqa: BLE001 - any fault of a plugin gates the pod, no more
        return name, Raised(problem)
    return None
