"""Pods that were refused and wait for a change, and gated pods.

Owns this part of the queue, and the buckets of pods that hints can rarely tell apart: one shape,
refused by the same plugins. Never decides what an event means.
Upstream: pkg/scheduler/backend/queue/unschedulable_pods.go
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from kubesched.model.cluster_event import ClusterEvent
from kubesched.model.queued_pod import QueuedPodInfo
from kubesched.queue.recorder import Recorder

UNSCHEDULABLE = "Unschedulable"
PodsByKey = dict[str, QueuedPodInfo]


class Bucket:
    """Waiting pods of one shape that the same plugins refused."""

    __slots__ = (
        "_template_of",
        "_templates",
        "gating_events",
        "key",
        "pending",
        "pods",
        "rejectors",
    )

    def __init__(self, key: Hashable, first: QueuedPodInfo) -> None:
        self.key = key
        self.pods: PodsByKey = {}
        self.rejectors = frozenset(first.rejector_plugins)
        self.pending = frozenset(first.pending_plugins)
        self.gating_events: Sequence[ClusterEvent] | None = (
            first.gating_plugin_events if first.is_gated else None
        )
        """What may end the gate; None if the pods are not gated."""
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
            alike = self._templates[template]
            del alike[key]
            if not alike:
                del self._templates[template]


class UnschedulablePods:
    """Refused and gated pods by key, and in buckets."""

    def __init__(self, recorder: Recorder) -> None:
        self._pods: PodsByKey = {}
        self._buckets: dict[Hashable, Bucket] = {}
        self._bucket_of: dict[str, Bucket] = {}
        self._recorder = recorder

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._pods.values())

    @property
    def buckets(self) -> list[Bucket]:
        """Return the buckets, none of them empty."""
        return list(self._buckets.values())

    def bucket_of(self, key: str) -> Bucket | None:
        """Return the bucket of a pod that is here."""
        return self._bucket_of.get(key)

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
        self._put_in_bucket(queued)

    def _put_in_bucket(self, queued: QueuedPodInfo) -> None:
        key = (
            queued.pod.shape,
            frozenset(queued.unschedulable_plugins),
            frozenset(queued.pending_plugins),
            queued.gating_plugin,
        )
        self._leave_bucket(queued.key)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(key, queued)
        bucket.add(queued)
        self._bucket_of[queued.key] = bucket

    def _leave_bucket(self, key: str) -> None:
        bucket = self._bucket_of.pop(key, None)
        if bucket is not None:
            bucket.remove(key)
            if not bucket.pods:
                del self._buckets[bucket.key]

    def remove(self, key: str, *, gated: bool) -> None:
        """Take a pod out, if it is here; `gated` is what it was counted as."""
        if self._pods.pop(key, None) is not None:
            (self._recorder.pending_gated if gated else self._recorder.pending_unschedulable).dec()
            self._leave_bucket(key)
