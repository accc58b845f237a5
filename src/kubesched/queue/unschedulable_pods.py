"""Unschedulable and gated pods, grouped so that a queueing hint runs once for many of them.

A group holds the pods that the same plugins rejected; within it pods are kept by shape, and on
demand by template. Never decides what an event means.
Upstream: pkg/scheduler/backend/queue/unschedulable_pods.go
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

from kubesched.framework.cluster_event import ClusterEvent
from kubesched.framework.queued_pod import QueuedPodInfo
from kubesched.queue.interface import Recorder
from kubesched.snapshot.pod_info import PodShape

UNSCHEDULABLE = "Unschedulable"
PodsByKey: TypeAlias = "dict[str, QueuedPodInfo]"


class PodsOfShape:
    """Waiting pods of one shape."""

    __slots__ = ("_template_of", "_templates", "pods")

    def __init__(self) -> None:
        self.pods: PodsByKey = {}
        self._templates: dict[Hashable, PodsByKey] | None = None
        self._template_of: dict[str, Hashable] = {}

    def by_template(self) -> Iterable[PodsByKey]:
        """Return the pods grouped by template: equal but for names and times."""
        if self._templates is None:
            self._templates = {}
            for queued in self.pods.values():
                self._put_by_template(queued, self._templates)
        return self._templates.values()

    def add(self, queued: QueuedPodInfo) -> None:
        self.pods[queued.key] = queued
        if self._templates is not None:
            self._put_by_template(queued, self._templates)

    def _put_by_template(self, queued: QueuedPodInfo, templates: dict[Hashable, PodsByKey]) -> None:
        template = self._template_of[queued.key] = queued.pod.template
        templates.setdefault(template, {})[queued.key] = queued

    def remove(self, key: str) -> None:
        del self.pods[key]
        if self._templates is not None:
            # By its template when it was added: the pod may have changed since.
            template = self._template_of.pop(key)
            same = self._templates[template]
            del same[key]
            if not same:
                del self._templates[template]


class Group:
    """Waiting pods of one profile that the same plugins rejected, by shape."""

    __slots__ = ("gating_events", "key", "pending", "profile", "rejectors", "shapes")

    def __init__(self, key: Hashable, first: QueuedPodInfo) -> None:
        self.key = key
        self.profile = first.pod.scheduler_name
        self.rejectors = frozenset(first.rejector_plugins)
        self.pending = frozenset(first.pending_plugins)
        self.gating_events: Sequence[ClusterEvent] | None = (
            first.gating_plugin_events if first.is_gated else None
        )
        """The events that may open the gate; None if the pods are not gated."""
        self.shapes: dict[PodShape, PodsOfShape] = {}

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain.from_iterable(same_shape.pods.values() for same_shape in self.shapes.values())

    def add(self, queued: QueuedPodInfo) -> PodShape:
        """Add a pod; return its shape, by which it is found."""
        shape = queued.pod.shape
        same_shape = self.shapes.get(shape)
        if same_shape is None:
            same_shape = self.shapes[shape] = PodsOfShape()
        same_shape.add(queued)
        return shape

    def remove(self, key: str, shape: PodShape) -> None:
        same_shape = self.shapes[shape]
        same_shape.remove(key)
        if not same_shape.pods:
            del self.shapes[shape]


class UnschedulablePods:
    """Unschedulable and gated pods, by key and in groups."""

    def __init__(self, recorder: Recorder) -> None:
        self._pods: PodsByKey = {}
        self._groups: dict[Hashable, Group] = {}
        self._place_of: dict[str, tuple[Group, PodShape]] = {}
        self._recorder = recorder

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._pods.values())

    @property
    def groups(self) -> list[Group]:
        """Return the groups, none of them empty."""
        return list(self._groups.values())

    def group_of(self, queued: QueuedPodInfo) -> Group:
        """Return the group of a pod that is here."""
        return self._place_of[queued.key][0]

    def get(self, key: str) -> QueuedPodInfo | None:
        return self._pods.get(key)

    def add_or_update(self, queued: QueuedPodInfo, event: str) -> None:
        """Add or update a pod; the event is the reason."""
        if queued.key in self._pods:
            self._leave_group(queued.key)
        else:
            self._recorder.incoming_unschedulable[event].inc()
        self._pods[queued.key] = queued
        self._join_group(queued)

    def remove(self, key: str) -> None:
        """Remove a pod, if it is here."""
        if self._pods.pop(key, None) is not None:
            self._leave_group(key)

    def _join_group(self, queued: QueuedPodInfo) -> None:
        key = (
            queued.pod.scheduler_name,
            frozenset(queued.unschedulable_plugins),
            frozenset(queued.pending_plugins),
            queued.gating_plugin,
        )
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, queued)
        self._place_of[queued.key] = group, group.add(queued)
        self._gauge_of(group).inc()

    def _leave_group(self, key: str) -> None:
        group, shape = self._place_of.pop(key)
        self._gauge_of(group).dec()
        group.remove(key, shape)
        if not group.shapes:
            del self._groups[group.key]

    def _gauge_of(self, group: Group) -> Any:
        is_gated = group.gating_events is not None
        return self._recorder.pending_gated if is_gated else self._recorder.pending_unschedulable
