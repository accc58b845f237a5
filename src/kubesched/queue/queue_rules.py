"""The plugins of the queue, replaced together: QueueSort order, PreEnqueue gate, queueing hints.

They are checked while they are built, so that replacing them cannot fail. Never holds a pod.
Upstream: pkg/scheduler/scheduler.go New,
pkg/scheduler/backend/queue/scheduling_queue.go runPreEnqueuePlugins
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.framework.status import SUCCESS, Code, Status, error
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log
from kubesched.queue.hints import Hints
from kubesched.queue.interface import Less, PreEnqueue, ProfileQueueing, Recorder, SortKey
from kubesched.snapshot.pod_info import PodInfo

_SAMPLED_ONE_IN: Final = 10
_CODE_NAMES: Final = {code: code.wire_name for code in Code}


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
        """Run the plugins until one rejects the pod, starting with the plugin that gated it."""
        profile, monotonic_s = queued.pod.scheduler_name, self._clock.monotonic_s
        start_s = monotonic_s()
        plugins = self._plugins.get(profile, ())
        if first := queued.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin[0] != first))
        self._runs += 1
        if self._runs % _SAMPLED_ONE_IN == 0:  # Upstream samples randomly.
            plugins = tuple((name, self._measured(name, call)) for name, call in plugins)
        rejection = _first_rejection(plugins, queued.pod)
        if rejection is None:
            queued.gating_plugin = ""
        else:
            self._reject(queued, *rejection)
        self._recorder.pre_enqueue[profile].observe(monotonic_s() - start_s)

    def _measured(self, name: str, call: PreEnqueue) -> PreEnqueue:
        def measured(pod: PodInfo) -> Status | None:
            start_s = self._clock.monotonic_s()
            status = call(pod)
            code = _CODE_NAMES[(status or SUCCESS).code]
            elapsed_s = self._clock.monotonic_s() - start_s
            self._recorder.plugins[name, "PreEnqueue", code].observe(elapsed_s)
            return status

        return measured

    def _reject(self, queued: QueuedPodInfo, name: str, status: Status) -> None:
        pod = queued.pod
        if name not in queued.unschedulable_plugins and name not in queued.pending_plugins:
            self._recorder.rejected_by[name, pod.scheduler_name].inc()
        queued.unschedulable_plugins.add(name)
        queued.gating_plugin = name
        queued.gating_plugin_events = self._events_of(name)
        if status.code is Code.ERROR:
            message = "Unexpected error running PreEnqueue plugin"
            self._log.error(message, err=status.message, pod=pod, plugin=name)
        elif self._log.enabled(4):
            message = "Status after running PreEnqueue plugin"
            self._log.info(message, level=4, pod=pod, plugin=name, status=status.message)


def _first_rejection(
    plugins: Iterable[tuple[str, PreEnqueue]], pod: PodInfo
) -> tuple[str, Status] | None:
    name = ""
    try:
        for name, call in plugins:
            status = call(pod)
            if status is not None and not status.is_success:
                return name, status
    except Exception as problem:  # noqa: BLE001 - a failing plugin gates the pod, nothing else
        return name, error(f"{type(problem).__name__}: {problem}")
    return None


RULES_CHANGED: Final = "RulesChanged"
RULES_CHANGED_EVENT: Final = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, RULES_CHANGED)
"""New rules apply: pods that the old rules rejected are tried again."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The queue's rules for a set of profiles."""

    names: frozenset[str]
    """Names of the profiles."""
    order: SortKey
    gate: Gate
    hints: Hints


_LOGGED_MAX: Final = 20


@dataclass(slots=True)
class QueueOrder:
    """Orders pods by an out-of-tree QueueSort plugin; by arrival where the plugin raises.

    Differs: upstream's process ends when such a plugin panics.
    """

    plugin: str
    less: Less
    sort_key: SortKey | None
    log: Log
    _logged: set[str] = field(default_factory=set)

    def key(self, queued: QueuedPodInfo) -> _Key:
        """Return the sort key of a pod, which calls the plugin's `less` if it has no sort key."""
        value = None
        if self.sort_key is not None:
            try:
                value = self.sort_key(queued)
            except Exception as problem:  # noqa: BLE001 - a plugin error must not stop the loop
                self.log_failure(problem)
        return _Key(self, queued, value)

    def log_failure(self, problem: Exception) -> None:
        """Log an exception, each text once: it may occur at every comparison."""
        text = f"{type(problem).__name__}: {problem}"
        if text not in self._logged and len(self._logged) < _LOGGED_MAX:
            self._logged.add(text)
            self.log.error(
                "Plugin failed", err=text, plugin=self.plugin, extensionPoint="QueueSort"
            )


@dataclass(slots=True)
class _Key:
    order: QueueOrder
    queued: QueuedPodInfo
    value: Any
    """The plugin's sort key; None if it has none or failed."""

    def __lt__(self, other: _Key) -> bool:
        try:
            if self.order.sort_key is None:
                return bool(self.order.less(self.queued, other.queued))
            return bool(self.value < other.value)
        except Exception as problem:  # noqa: BLE001 - incomparable values, or a failing comparison
            self.order.log_failure(problem)
            return self.queued.timestamp_s < other.queued.timestamp_s
