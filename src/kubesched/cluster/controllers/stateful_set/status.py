"""Status of a StatefulSet.

Owns the counts and the completion of an update. Never writes.
Upstream: pkg/controller/statefulset/stateful_set_{control,utils}.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubesched.api.documents import Document, is_available, is_ready, is_terminating
from kubesched.cluster.controllers.replica_set.status import replicas_of
from kubesched.cluster.controllers.stateful_set.identity import revision_of


def phase_of(pod: Document) -> str:
    """Return a pod's phase; empty if it is not created yet."""
    return str((pod.get("status") or {}).get("phase") or "")


def is_running_and_ready(pod: Document) -> bool:
    """Return whether a pod is running and ready."""
    return phase_of(pod) == "Running" and is_ready(pod)


@dataclass(slots=True)
class StatefulSetStatus:
    """A status under construction."""

    observed_generation: int
    current_revision: str
    update_revision: str
    collision_count: int
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0

    def count(self, pods: Iterable[Document], ready_s: int, now_s: float) -> None:
        """Recount the pods."""
        self.replicas = self.ready_replicas = self.available_replicas = 0
        self.current_replicas = self.updated_replicas = 0
        for pod in pods:
            is_created = phase_of(pod) != ""
            self.replicas += is_created
            if is_running_and_ready(pod):
                self.ready_replicas += 1
                self.available_replicas += is_available(pod, ready_s, now_s)
            if is_created and not is_terminating(pod):
                revision = revision_of(pod)
                self.current_replicas += revision == self.current_revision
                self.updated_replicas += revision == self.update_revision

    def complete_rolling_update(self, stateful_set: Document) -> None:
        """Promote the update revision once every replica has it and is ready.

        Parity: stateful_set_utils.go completeRollingUpdate, v1.36.
        """
        strategy = stateful_set["spec"].get("updateStrategy") or {}
        replicas = replicas_of(stateful_set)
        if strategy.get("type") == "RollingUpdate" and (
            self.updated_replicas == self.ready_replicas == self.replicas == replicas
        ):
            self.current_replicas = self.updated_replicas
            self.current_revision = self.update_revision

    def differs_from(self, stateful_set: Document) -> bool:
        """Return whether the set's current status differs.

        Parity: stateful_set_utils.go inconsistentStatus, v1.36.
        """
        current = stateful_set.get("status") or {}
        if self.observed_generation > int(current.get("observedGeneration") or 0):
            return True
        counts = (
            ("replicas", self.replicas),
            ("readyReplicas", self.ready_replicas),
            ("availableReplicas", self.available_replicas),
            ("currentReplicas", self.current_replicas),
            ("updatedReplicas", self.updated_replicas),
        )
        if any(int(current.get(field) or 0) != count for field, count in counts):
            return True
        return self.current_revision != current.get(
            "currentRevision"
        ) or self.update_revision != current.get("updateRevision")

    def document(self) -> Document:
        """Return the status to write; zero counts are omitted where upstream omits them."""
        written: Document = {
            "observedGeneration": self.observed_generation,
            "replicas": self.replicas,
            "availableReplicas": self.available_replicas,
            "currentRevision": self.current_revision,
            "updateRevision": self.update_revision,
            "collisionCount": self.collision_count,
        }
        for field, count in (
            ("readyReplicas", self.ready_replicas),
            ("currentReplicas", self.current_replicas),
            ("updatedReplicas", self.updated_replicas),
        ):
            if count:
                written[field] = count
        return written
