"""Plugins for tests of the scheduling queue: configurable gates, and hints that compute.

Owns their registrations, the part of a pod that each hint reads, and the answers; `main.go` has the
same plugins in Go. Never moves a pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHint
from kubesched.framework.interface import EventRegistration
from kubesched.framework.status import Status, unresolvable
from kubesched.kit.clock import Clock
from kubesched.kit.log import NullLog
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.queue.interface import ProfileQueueing, QueueSettings
from kubesched.queue.nominator import Nominator
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.snapshot.pod_info import PodInfo

NODE_ADD = "NodeAdd"
CSI_NODE_ADD = "storage.k8s.io/CSINodeAdd"
POD_DELETE = "AssignedPodDelete"
POD_LABEL = "UnschedulablePodUpdatePodLabel"

PLUGINS: dict[str, dict[str, Any]] = {
    "OfShape": {NODE_ADD: "shape", POD_DELETE: "nothing"},
    "OfTemplate": {NODE_ADD: "template", POD_LABEL: "template"},
    "OfPod": {NODE_ADD: "pod", CSI_NODE_ADD: "pod", POD_DELETE: "shape"},
    "OfNothing": {CSI_NODE_ADD: "nothing", POD_LABEL: "nothing"},
    "Varying": {NODE_ADD: lambda _shape, _old, new: "shape" if new % 2 else "pod"},
    "Gate": {NODE_ADD: "pod"},
    "OtherGate": {CSI_NODE_ADD: "shape"},
}
"""Each plugin's registrations: the part of a pod that its hint reads, by the event's label."""
GATES = ("Gate", "OtherGate")
EVENTS = {
    NODE_ADD: ClusterEvent(EventResource.NODE, ActionType.ADD),
    CSI_NODE_ADD: ClusterEvent(EventResource.CSI_NODE, ActionType.ADD),
}
"""Events whose new object is a number that the answers depend on."""
_REGISTERED = EVENTS | {
    POD_DELETE: ClusterEvent(EventResource.POD, ActionType.DELETE),
    POD_LABEL: ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL),
}


def is_registered(plugin: str, event: str) -> bool:
    """Return whether a plugin registered for an event of a label."""
    # A plugin that registers for new nodes also gets removed taints, which do not occur here.
    return event in PLUGINS.get(plugin, {})


def answer(plugin: str, event: str, pod: PodInfo, old: Any, new: Any) -> bool:
    """Return whether an event helps a pod, according to a plugin."""
    subject = new if new is not None else old
    if event in (POD_DELETE, POD_LABEL):
        if subject.uid == pod.uid:
            return True
        subject = 0
    reads = PLUGINS[plugin][event]
    if callable(reads):
        reads = reads(pod.shape, old, new)
    part = {
        "nothing": 0,
        "shape": pod.shape.requests["cpu"],
        "template": pod.shape.requests["cpu"] + sum(map(ord, pod.labels["app"])),
        "pod": int(pod.name[1:]),
    }[reads]
    return bool((part + int(subject)) % 2)


def registrations(plugin: str) -> list[EventRegistration]:
    """Return a plugin's registrations."""
    return [
        EventRegistration(_REGISTERED[event], _hint(plugin, event), reads=reads)
        for event, reads in PLUGINS[plugin].items()
    ]


def _hint(plugin: str, event: str) -> Callable[[PodInfo, Any, Any], QueueingHint]:
    def hint(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
        is_helped = answer(plugin, event, pod, old, new)
        return QueueingHint.QUEUE if is_helped else QueueingHint.QUEUE_SKIP

    return hint


def a_queue(
    holds: Callable[[str, PodInfo], bool], clock: Clock, metrics: SchedulerMetrics
) -> SchedulingQueue:
    """Return a queue of one profile with these plugins; `holds` decides which pods a gate holds."""

    def gate(name: str) -> Callable[[PodInfo], Status | None]:
        return lambda pod: unresolvable("held") if holds(name, pod) else None

    profile = ProfileQueueing(
        {name: gate(name) for name in GATES}, {plugin: registrations(plugin) for plugin in PLUGINS}
    )
    sort = PrioritySort()
    log = NullLog()
    return SchedulingQueue(
        {"default-scheduler": profile},
        less=sort.less,
        key=sort.sort_key,
        settings=QueueSettings(),
        clock=clock,
        metrics=metrics,
        log=log,
        nominator=Nominator(
            nominate=lambda _pod, _node: None,
            remove=lambda _pod: None,
            pod_of=lambda _key: None,
            log=log,
        ),
    )
