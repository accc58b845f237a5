"""Pods that were refused and wait for a change, and gated pods.

Owns this part of the queue, and its order by what hints can tell apart: groups of pods that the
same plugins refused, and in each the pods of one shape. Never decides what an event means.
Upstream: pkg/scheduler/backend/queue/unschedulable_pods.go
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from kubesched.model.cluster_event import ClusterEvent
from kubesched.model.pod_info import PodShape
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.recorder import Recorder

UNSCHEDULABLE = "Unschedulable"
PodsByKey: TypeAlias = "dict[str, QueuedPodInfo]"


class Alike:
    """Waiting pods of one shape."""

    __slots__ = ("_template_of", "_templates", "pods")

    def __init__(self) -> None:
        self.pods: PodsByKey = {}
        self._templates: dict[Hashable, PodsByKey] | None = None
        self._template_of: dict[str, Hashable] = {}

    def by_template(self) -> Iterable[PodsByKey]:
        """Return the pods in groups that share all but names and times."""
        if self._templates is None:
            self._templates = {}
            for queued in self.pods.values():
                self._put_by_template(queued, self._templates)
        return self._templates.values()

    def add(self, queued: QueuedPodInfo) -> None:
        """Take a pod in."""
        self.pods[queued.key] = queued
        if self._templates is not None:
            self._put_by_template(queued, self._templates)

    def _put_by_template(self, queued: QueuedPodInfo, templates: dict[Hashable, PodsByKey]) -> None:
        template = self._template_of[queued.key] = queued.pod.template
        templates.setdefault(template, {})[queued.key] = queued

    def remove(self, key: str) -> None:
        """Take a pod out."""
        del self.pods[key]
        if self._templates is not None:
            # By what it was when it came: it may have changed since.
            template = self._template_of.pop(key)
            same = self._templates[template]
            del same[key]
            if not same:
                del self._templates[template]


class Group:
    """Waiting pods of one profile that the same plugins refused, by shape."""

    __slots__ = ("gating_events", "key", "pending", "profile", "rejectors", "shapes")

    def __init__(self, key: Hashable, first: QueuedPodInfo) -> None:
        self.key = key
        self.profile = first.pod.scheduler_name
        self.rejectors = frozenset(first.rejector_plugins)
        self.pending = frozenset(first.pending_plugins)
        self.gating_events: Sequence[ClusterEvent] | None = (
            first.gating_plugin_events if first.is_gated else None
        )
        """What may end the gate; None if the pods are not gated."""
        self.shapes: dict[PodShape, Alike] = {}

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return chain.from_iterable(alike.pods.values() for alike in self.shapes.values())

    def add(self, queued: QueuedPodInfo) -> PodShape:
        """Take a pod in; return the shape it is found under."""
        shape = queued.pod.shape
        alike = self.shapes.get(shape)
        if alike is None:
            alike = self.shapes[shape] = Alike()
        alike.add(queued)
        return shape

    def remove(self, key: str, shape: PodShape) -> None:
        """Take a pod out."""
        alike = self.shapes[shape]
        alike.remove(key)
        if not alike.pods:
            del self.shapes[shape]


class UnschedulablePods:
    """Refused and gated pods by key, and in groups."""

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
        """Return a pod that is here."""
        return self._pods.get(key)

    def add_or_update(self, queued: QueuedPodInfo, event: str, *, gated_before: bool) -> None:
        """Take a pod in, or what is new about one that is here; the event is why it came."""
        gated = queued.is_gated
        if queued.key not in self._pods:
            (self._recorder.pending_gated if gated else self._recorder.pending_unschedulable).inc()
            self._recorder.incoming_unschedulable[event].inc()
        elif gated != gated_before:
            came, went = self._recorder.pending_gated, self._recorder.pending_unschedulable
            if gated_before:
                came, went = went, came
            came.inc()
            went.dec()
        self._pods[queued.key] = queued
        self._leave_group(queued.key)
        self._join_group(queued)

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

    def _leave_group(self, key: str) -> None:
        place = self._place_of.pop(key, None)
        if place is not None:
            group, shape = place
            group.remove(key, shape)
            if not group.shapes:
                del self._groups[group.key]

    def remove(self, key: str, *, gated: bool) -> None:
        """Take a pod out, if it is here; `gated` is what it was counted as."""
        if self._pods.pop(key, None) is not None:
            (self._recorder.pending_gated if gated else self._recorder.pending_unschedulable).dec()
            self._leave_group(key)
