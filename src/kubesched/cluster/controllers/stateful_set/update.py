"""The sync of a StatefulSet: creates, deletes and replaces pods in order.

Never writes a pod itself: `pods` does.
Upstream: pkg/controller/statefulset/stateful_set_control.go
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kubesched.api.documents import Document, is_available, is_terminating, name_of
from kubesched.cluster.controllers.controller_revisions import with_revision
from kubesched.cluster.controllers.pod_control import slow_start_batch
from kubesched.cluster.controllers.replica_set.status import min_ready_s_of, replicas_of
from kubesched.cluster.controllers.stateful_set.identity import (
    belongs_to_current,
    identity_matches,
    is_in_range,
    new_pod,
    ordinal_of,
    revision_of,
    start_ordinal,
    storage_matches,
)
from kubesched.cluster.controllers.stateful_set.pods import StatefulPodControl
from kubesched.cluster.controllers.stateful_set.status import (
    StatefulSetStatus,
    is_running_and_ready,
    phase_of,
)


@dataclass(frozen=True, slots=True)
class Revisions:
    """The current and the update revision of a set."""

    current: Document
    update: Document
    collision_count: int


class StatefulSetSync:
    """One sync of a set; `status` is valid at any time, after an error too."""

    def __init__(
        self,
        stateful_set: Document,
        revisions: Revisions,
        pods: Sequence[Document],
        pod_control: StatefulPodControl,
        now_s: float,
    ) -> None:
        self._set = stateful_set
        self._update_set = with_revision(stateful_set, revisions.update)
        self._update_name = name_of(revisions.update)
        self._pod_control = pod_control
        self._now_s = now_s
        self._ready_s = min_ready_s_of(stateful_set)
        self._is_monotonic = stateful_set["spec"].get("podManagementPolicy") != "Parallel"
        self._replicas = desired_replicas(stateful_set, revisions, pods)
        self._condemned = condemned_pods(stateful_set, pods)
        self.status = StatefulSetStatus(
            observed_generation=int(stateful_set["metadata"].get("generation") or 0),
            current_revision=name_of(revisions.current),
            update_revision=self._update_name,
            collision_count=revisions.collision_count,
        )
        self.status.count(pods, self._ready_s, now_s)
        self._first_unavailable = next(
            (pod for pod in (*self._replicas, *self._condemned[::-1]) if self._is_unavailable(pod)),
            None,
        )

    async def run(self) -> None:
        """Do the next possible step.

        Parity: stateful_set_control.go updateStatefulSet, v1.36, without maxUnavailable, whose gate
        is off.
        """
        if is_terminating(self._set):
            return
        try:
            if await self._for_all(self._replicas, self._process_replica):
                return
            if await self._for_all(self._condemned, self._correct_claims):
                return
            if await self._for_all(self._condemned, self._process_condemned):
                return
        finally:
            self.status.count((*self._replicas, *self._condemned), self._ready_s, self._now_s)
        strategy = self._set["spec"].get("updateStrategy") or {}
        if strategy.get("type") != "OnDelete":
            await self._replace_one((strategy.get("rollingUpdate") or {}).get("partition") or 0)

    async def _for_all(
        self, pods: Sequence[Document], work: Callable[[Document], Awaitable[bool]]
    ) -> bool:
        """Process all pods, in order until one stops the sync, or in parallel."""
        if self._is_monotonic:
            for pod in pods:
                if await work(pod):
                    return True
            return False
        rest = iter(pods)
        await slow_start_batch(len(pods), lambda: work(next(rest)))
        return False

    async def _process_replica(self, pod: Document) -> bool:
        """Create or update a replica; return whether later ones must wait.

        Parity: stateful_set_control.go processReplica, v1.36.
        """
        if phase_of(pod) in ("Failed", "Succeeded"):
            # It is recreated once it is gone, regardless of its exit code.
            if not is_terminating(pod):
                await self._pod_control.delete(self._set, pod)
            return True
        if not phase_of(pod):
            if self._pod_control.has_stale_claim(self._set, pod):
                return True
            await self._pod_control.create(self._set, pod)
            if self._is_monotonic:
                return True
        if phase_of(pod) == "Pending":
            await self._pod_control.create_missing_claims(self._set, pod)
        if self._is_monotonic and not self._is_healthy(pod):
            return True
        is_consistent = (
            identity_matches(self._set, pod)
            and storage_matches(self._set, pod)
            and self._pod_control.claims_match(self._update_set, pod)
        )
        if not is_consistent:
            await self._pod_control.correct(self._update_set, pod)
        return False

    async def _correct_claims(self, pod: Document) -> bool:
        await self._pod_control.correct_claims(self._update_set, pod)
        return False

    async def _process_condemned(self, pod: Document) -> bool:
        """Delete a surplus pod; return whether later ones must wait.

        Parity: stateful_set_control.go processCondemned, v1.36.
        """
        if is_terminating(pod):
            return self._is_monotonic
        is_healthy = is_running_and_ready(pod) and is_available(pod, self._ready_s, self._now_s)
        if self._is_monotonic and not is_healthy and pod is not self._first_unavailable:
            return True
        await self._pod_control.delete(self._set, pod)
        return True

    async def _replace_one(self, partition: int) -> None:
        """Delete the last outdated replica if all later ones are healthy."""
        for pod in reversed(self._replicas[partition:]):
            if revision_of(pod) != self._update_name and not is_terminating(pod):
                await self._pod_control.delete(self._set, pod)
                self.status.current_replicas -= 1
                return
            if self._is_unavailable(pod):
                return

    def _is_healthy(self, pod: Document) -> bool:
        return (
            not is_terminating(pod)
            and is_running_and_ready(pod)
            and is_available(pod, self._ready_s, self._now_s)
        )

    def _is_unavailable(self, pod: Document) -> bool:
        return is_terminating(pod) or not is_available(pod, self._ready_s, self._now_s)


def desired_replicas(
    stateful_set: Document, revisions: Revisions, pods: Sequence[Document]
) -> list[Document]:
    """Return a pod per desired ordinal: the existing one, or one to create."""
    start = start_ordinal(stateful_set)
    existing = {ordinal_of(pod): pod for pod in pods}
    current_set = with_revision(stateful_set, revisions.current)
    update_set = with_revision(stateful_set, revisions.update)
    replicas = []
    for ordinal in range(start, start + replicas_of(stateful_set)):
        pod = existing.get(ordinal)
        if pod is None:
            is_current = belongs_to_current(stateful_set, ordinal)
            template_set = current_set if is_current else update_set
            revision = revisions.current if is_current else revisions.update
            pod = new_pod(template_set, ordinal, name_of(revision))
        replicas.append(pod)
    return replicas


def condemned_pods(stateful_set: Document, pods: Sequence[Document]) -> list[Document]:
    """Return the surplus pods in descending order of ordinals."""
    too_many = [pod for pod in pods if ordinal_of(pod) >= 0 and not is_in_range(pod, stateful_set)]
    return sorted(too_many, key=ordinal_of, reverse=True)
