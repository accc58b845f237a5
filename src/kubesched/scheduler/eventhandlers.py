"""Event handlers: apply changes in the cluster to the cache and the scheduling queue.

Owns the translation of watch events into calls of cache and queue, in upstream's order. Never
decides whether a pod gets another attempt: the queue does, by the plugins' queueing hints.
Upstream: pkg/scheduler/eventhandlers.go
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from kubesched.api.decode import KubeObject
from kubesched.api.kinds import KINDS
from kubesched.api.meta import KubeResource
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.cache.cache import TERMINAL_PHASES, Cache, UnassignedPods
from kubesched.client.resources import NODES, PODS, Resource
from kubesched.client.watch.changes import Change
from kubesched.framework.cluster_event import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
)
from kubesched.framework.object_changes import (
    node_scheduling_property_changes,
    pod_scheduling_property_changes,
)
from kubesched.kit.clock import Clock
from kubesched.kit.log import Log, Ref
from kubesched.metrics.scheduler import SchedulerMetrics
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.snapshot.node_info import NodeInfo
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodInfo


@dataclass(slots=True)
class EventHandlers:
    """Applies changes, one at a time."""

    cache: Cache
    queue: SchedulingQueue
    pods: UnassignedPods
    scheduler_names: Collection[str]
    reject_waiting_pod: Callable[[str], bool]
    """Rejects a pod that waits in Permit; returns whether it was waiting."""
    clock: Clock
    log: Log
    metrics: SchedulerMetrics
    others: dict[Resource, dict[str, Any]] = field(default_factory=dict)
    """Objects of kinds without an object store, which out-of-tree plugins read."""
    _registered: Mapping[str, ActionType] = field(init=False)
    """The actions that plugins registered for, by event resource."""

    def __post_init__(self) -> None:
        self.rules_changed()

    def rules_changed(self, added: Collection[str] = ()) -> None:
        """Read the queue's registrations again; queue the pods of added profiles."""
        self._registered = self.queue.registered_actions()
        if not added:
            return
        in_flight = {pod.uid for pod in self.queue.in_flight_pods()}
        for pod in list(self.pods):
            if pod.scheduler_name not in added:
                continue
            if pod.uid not in in_flight and not self.cache.is_assumed(pod):
                self._add_unassigned(pod)

    def _is_ours(self, pod: PodInfo) -> bool:
        """Return whether this scheduler places the pod, or did with a profile since removed."""
        return pod.scheduler_name in self.scheduler_names or self.cache.is_assumed(pod)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.resource is PODS or change.resource == PODS:
            self._apply_pod(change)
        elif change.resource == NODES:
            self._apply_node(change)
        else:
            self._apply_other(change)

    # -- pods -------------------------------------------------------------------------------------

    def _apply_pod(self, change: Change) -> None:
        pod = change.object
        if change.type == "DELETED":
            self._pod_deleted(change)
            return
        assert isinstance(pod, Pod)
        new = self.cache.pod_info(pod, change.raw or None)
        if new.phase in TERMINAL_PHASES:  # An API server that ignores the field selector.
            self._pod_deleted(change)
            return
        assigned = self.cache.bound_pod(new.uid)
        if assigned is not None and not self.cache.is_assumed(new):
            self._update_assigned(assigned, new)
            return
        old = self.pods.get(new.key)
        if old is not None and old.uid != new.uid:  # Recreated between two lists.
            self._drop_unassigned(old.key, old.uid)
            old = None
        if new.node_name:
            self._add_assigned(new)
            if old is not None:
                self.pods.pop(old.key, old.uid)
                if old.scheduler_name in self.scheduler_names:
                    self._delete_from_queue(old, in_binding=True)
            return
        self.pods.put(new)
        if not self._is_ours(new):
            return
        if old is None:
            self._add_unassigned(new)
        else:
            self._update_unassigned(old, new)

    def _pod_deleted(self, change: Change) -> None:
        assigned = self.cache.bound_pod(change.uid)
        if assigned is not None and not self.cache.is_assumed(assigned):
            self._delete_assigned(assigned)
            return
        self._drop_unassigned(change.key, change.uid)

    def _drop_unassigned(self, key: str, uid: str) -> None:
        pod = self.pods.pop(key, uid)
        if pod is not None and self._is_ours(pod):
            self._delete_from_queue(pod, in_binding=False)

    def _add_assigned(self, pod: PodInfo) -> None:
        start = self.clock.monotonic_s()
        self._log_pod("Add event for scheduled pod", pod)
        self.cache.add_pod(pod)
        self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_ADD, None, pod)
        self._observe(ASSIGNED_POD_ADD, start)

    def _update_assigned(self, old: BoundPod, new: PodInfo) -> None:
        start = self.clock.monotonic_s()
        self._log_pod("Update event for scheduled pod", new, level=4)
        # Before the cache is updated, which may change the old state in place.
        events = pod_scheduling_property_changes(old, new)
        self.cache.update_pod(new)
        for event in events:
            self.queue.move_all_to_active_or_backoff_queue(event, old, new)
            self._observe(event, start)
        self._observe(ASSIGNED_POD_UPDATE, start)

    def _delete_assigned(self, pod: BoundPod) -> None:
        start = self.clock.monotonic_s()
        self._log_pod("Delete event for scheduled pod", pod)
        self.cache.remove_pod(pod)
        self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pod, None)
        self._observe(ASSIGNED_POD_DELETE, start)

    def _add_unassigned(self, pod: PodInfo) -> None:
        start = self.clock.monotonic_s()
        self._log_pod("Add event for unscheduled pod", pod)
        self.queue.add(pod)
        self._observe(UNSCHEDULED_POD_ADD, start)

    def _update_unassigned(self, old: PodInfo, new: PodInfo) -> None:
        # Parity: eventhandlers.go updatePodInSchedulingQueue, v1.36.
        if old.resource_version == new.resource_version:
            return
        start = self.clock.monotonic_s()
        events = pod_scheduling_property_changes(old, new)
        if self.cache.is_assumed(new):
            if new.terminating and not old.terminating:
                self._assumed_pod_deleted(new)
        else:
            self._log_pod("Update event for unscheduled pod", new, level=4)
            self.queue.update(old, new)
            nominated = old.nominated_node_name
            if nominated and nominated != new.nominated_node_name:
                self._nomination_ended(old)
        for event in {UNSCHEDULED_POD_UPDATE: None, **dict.fromkeys(events)}:
            self._observe(event, start)

    def _delete_from_queue(self, pod: PodInfo, *, in_binding: bool) -> None:
        # Parity: eventhandlers.go deletePodFromSchedulingQueue, v1.36.
        start = self.clock.monotonic_s()
        self._log_pod("Delete event for unscheduled pod", pod)
        self.queue.delete(pod)
        if not in_binding:
            if self.cache.is_assumed(pod):
                self._assumed_pod_deleted(pod)
            elif pod.nominated_node_name:
                self._nomination_ended(pod)
        self._observe(UNSCHEDULED_POD_DELETE, start)

    def _assumed_pod_deleted(self, pod: PodInfo) -> None:
        """Release the resources of an assumed pod that is being deleted."""
        # Parity: eventhandlers.go handleAssumedPodDeletion, v1.36.
        assumed = self.cache.bound_pod(pod.uid)
        if assumed is None:
            self._log_pod("Assumed pod was already forgotten", pod, level=5)
            return
        if not self.reject_waiting_pod(pod.uid):
            self.cache.forget_pod(assumed)
        self.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, assumed, None)

    def _nomination_ended(self, pod: PodInfo) -> None:
        """Requeue pods that a nominated pod of the same or a higher priority kept off its node."""
        self.queue.move_all_to_active_or_backoff_queue(
            ASSIGNED_POD_DELETE, pod, None, lambda other: other.priority <= pod.priority
        )

    # -- nodes ------------------------------------------------------------------------------------

    def _apply_node(self, change: Change) -> None:
        start = self.clock.monotonic_s()
        old = self.cache.node_info(change.key)
        if change.type == "DELETED":
            if old is None:
                return
            self.queue.move_all_to_active_or_backoff_queue(NODE_DELETE, old, None)
            self.log.info("Delete event for node", level=3, node=Ref("", old.name))
            self.cache.remove_node(old.name)
            self._observe(NODE_DELETE, start)
            return
        node = change.object
        assert isinstance(node, Node)
        new = NodeInfo(node, change.raw or None)
        if old is None:
            self.log.info("Add event for node", level=3, node=Ref("", new.name))
            self.cache.set_node_info(new)
            self.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, new)
            self._observe(NODE_ADD, start)
            return
        if self.log.verbosity >= 4:
            self.log.info("Update event for node", level=4, node=Ref("", new.name))
        events = node_scheduling_property_changes(old, new)
        self.cache.set_node_info(new)
        for event in events:
            self.queue.move_all_to_active_or_backoff_queue(event, old, new)
            self._observe(event, start)

    # -- everything else --------------------------------------------------------------------------

    def _apply_other(self, change: Change) -> None:
        start = self.clock.monotonic_s()
        old, new = self._replaced(change)
        if new is None and old is None:
            return
        name = KINDS.event_name(change.resource)
        if old is None:
            action = ActionType.ADD
        else:
            action = ActionType.DELETE if new is None else ActionType.UPDATE
        if not self._registered.get(name, ActionType(0)) & action:
            return
        event = ClusterEvent(name, action)
        self.queue.move_all_to_active_or_backoff_queue(event, old, new)
        self._observe(event, start)

    def _replaced(self, change: Change) -> tuple[Any, Any]:
        """Store the object; return the old and the new object."""
        obj = change.object
        is_deleted = change.type == "DELETED"
        kind = self.cache.kind_of(change.resource.kind)
        if kind is None or (obj is not None and not isinstance(obj, KubeResource)):
            stored = self.others.setdefault(change.resource, {})
            old = stored.pop(change.key, None) if is_deleted else stored.get(change.key)
            if not is_deleted:
                stored[change.key] = obj
            return old, None if is_deleted else obj
        old = self.cache.stored(kind, change.key)
        if is_deleted:
            if old is not None:
                self.cache.drop(old)
            return old, None
        self.cache.put(cast("KubeObject", obj))
        return old, obj

    # -- logs and metrics -------------------------------------------------------------------------

    def _log_pod(self, message: str, pod: PodInfo | BoundPod, level: int = 3) -> None:
        if self.log.verbosity >= level:
            self.log.info(message, level=level, pod=Ref(pod.namespace, pod.name))

    def _observe(self, event: ClusterEvent, start_s: float) -> None:
        taken_s = self.clock.monotonic_s() - start_s
        self.metrics.event_handling_duration_seconds.labels(event.label).observe(taken_s)
