"""ReplicaSets and ReplicationControllers: keep the requested number of pods running.

Owns when a set is synced, the creation and deletion of its pods, and its status. Which pods are
deleted first is controller_pods'. Never writes Deployments.
Upstream: pkg/controller/replicaset/replica_set.go, pkg/controller/replication/

Upstream waits for its expectations before it syncs a set again. Here our own writes are in the
informers at once, so a sync always sees its own pods and expectations are not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from kubesched.api.documents import (
    Document,
    is_active,
    is_terminating,
    key_of,
    labels_of,
    owner_of,
    selector_of,
    uid_of,
)
from kubesched.api.label_selectors import Selector, selector_from_set
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Resource
from kubesched.cluster.controllers.controller import Context, Controller, is_namespace_terminating
from kubesched.cluster.controllers.controller_pods import pod_from_template, pods_to_delete
from kubesched.cluster.controllers.controller_refs import (
    claim_children,
    enqueue_parents,
    index_orphans,
)
from kubesched.cluster.controllers.pod_control import (
    DeletePodError,
    create_pod,
    delete_pods,
    slow_start_batch,
)
from kubesched.cluster.controllers.replica_set.status import (
    min_ready_s_of,
    next_availability_check_s,
    replica_set_status,
    replicas_of,
)

BURST_REPLICAS: Final = 500

# A sync reads all pods of a set, and every pod change triggers one. The minimum interval between
# syncs therefore grows with the set; small sets do not notice it.
_PAUSE_S_PER_POD: Final = 0.004
_PAUSE_S_MAX: Final = 1.0


class ReplicaSetController(Controller):
    """Reconciles ReplicaSets."""

    name = "replicaset"
    component = "replicaset-controller"
    workers = 10
    resource: ClassVar[Resource] = REPLICA_SETS
    reports_terminating: ClassVar[bool] = True
    """Whether the kind has status.terminatingReplicas."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.sets = self.informers.of(self.resource)
        self.pods = self.informers.of(PODS)
        self._selectors: dict[str, tuple[object, Selector]] = {}
        self._paused_until_s: dict[str, float] = {}
        index_orphans(self.pods)
        self.sets.on_change(self._set_changed)
        self.pods.on_change(self._pod_changed)

    def selector(self, replica_set: Mapping[str, Any]) -> Selector:
        """Return the selector of a set."""
        return selector_of(replica_set["spec"].get("selector"))

    # -- events -----------------------------------------------------------------------------------

    def _set_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            self._forget(old)
        elif old is None or _spec_changed(old, new):
            self.queue.add(key_of(new))
        else:
            # Usually our own status update.
            self._enqueue_paused(key_of(new))

    def _forget(self, deleted: Document | None) -> None:
        if deleted is not None:
            self._selectors.pop(uid_of(deleted), None)
            self._paused_until_s.pop(key_of(deleted), None)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        enqueue_parents(self.sets, self._enqueue_paused, old, new, self._cached_selector)

    def _enqueue_paused(self, key: str) -> None:
        """Enqueue a set once its pause is over."""
        self.queue.add_after(key, self._paused_until_s.get(key, 0.0) - self.clock.monotonic_s())

    def _cached_selector(self, replica_set: Document) -> Selector:
        raw = replica_set["spec"].get("selector")
        cached = self._selectors.get(uid_of(replica_set))
        if cached is None or cached[0] != raw:
            cached = self._selectors[uid_of(replica_set)] = (raw, self.selector(replica_set))
        return cached[1]

    # -- sync -------------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Create or delete pods until the set has as many as it should, then update its status.

        Parity: replica_set.go syncReplicaSet, v1.36.
        """
        replica_set = self.sets.get(key)
        if replica_set is None:
            return
        active = await claim_children(
            self.api,
            PODS,
            replica_set,
            self.resource,
            self._cached_selector(replica_set),
            is_candidate=is_active,
        )
        failure: Exception | None = None
        if not is_terminating(replica_set):
            try:
                await self._manage_replicas(replica_set, active)
            except (ApiError, TransportError, DeletePodError) as error:
                failure = error
        await self._write_status(key, replica_set, failure)
        if failure is not None:
            raise failure

    async def _manage_replicas(self, replica_set: Document, pods: Sequence[Document]) -> None:
        """Create missing pods, or delete surplus ones.

        Parity: replica_set.go manageReplicas, v1.36.
        """
        missing = replicas_of(replica_set) - len(pods)
        if missing > 0:
            pod = pod_from_template(replica_set["spec"]["template"], replica_set)
            await slow_start_batch(
                min(missing, BURST_REPLICAS), lambda: self._create(pod, replica_set)
            )
        elif missing < 0:
            to_delete = pods_to_delete(
                pods,
                self._related_pods(replica_set),
                min(-missing, BURST_REPLICAS),
                now_s=self.clock.now_s(),
            )
            await delete_pods(self, to_delete, replica_set)

    async def _create(self, pod: Document, replica_set: Document) -> None:
        try:
            await create_pod(self, pod, replica_set)
        except ApiError as error:
            # All further creations would fail as well.
            if not is_namespace_terminating(error):
                raise

    def _related_pods(self, replica_set: Document) -> list[Document]:
        """Return the pods of all sets with the same owner.

        Parity: replica_set.go getIndirectlyRelatedPods, v1.36.
        """
        owner = owner_of(replica_set)
        if owner is None:
            return []
        related = self.sets.owned_by(owner["uid"])
        return [pod for one in related for pod in self.pods.owned_by(uid_of(one))]

    async def _write_status(
        self, key: str, replica_set: Document, failure: Exception | None
    ) -> None:
        """Update the status from the current pods, including those just created."""
        selector = self._cached_selector(replica_set)
        now_s = self.clock.now_s()
        owned = [
            p for p in self.pods.owned_by(uid_of(replica_set)) if selector.matches(labels_of(p))
        ]
        active = [pod for pod in owned if is_active(pod)]
        status = replica_set_status(
            replica_set,
            active,
            terminating_count=_terminating_count(owned) if self.reports_terminating else None,
            failure=failure,
            now_s=now_s,
        )
        pause_s = min(_PAUSE_S_PER_POD * len(owned), _PAUSE_S_MAX)
        self._paused_until_s[key] = self.clock.monotonic_s() + pause_s
        if status != (replica_set.get("status") or {}):
            await self.api.update_status(self.resource, {**replica_set, "status": status})
        self._schedule_availability_check(key, replica_set, active, now_s)

    def _schedule_availability_check(
        self, key: str, replica_set: Document, pods: Sequence[Document], now_s: float
    ) -> None:
        min_ready_s = min_ready_s_of(replica_set)
        if min_ready_s > 0:
            wait_s = next_availability_check_s(pods, min_ready_s, now_s)
            if wait_s is not None:
                self.queue.add_after(key, wait_s)


def _spec_changed(old: Document, new: Document) -> bool:
    """Return whether more than the status changed."""
    before, after = old["metadata"], new["metadata"]
    fields = ("generation", "deletionTimestamp", "labels", "ownerReferences")
    return any(before.get(field) != after.get(field) for field in fields)


def _terminating_count(pods: Sequence[Document]) -> int:
    """Return the number of pods that are being deleted and have not finished.

    Parity: controller_utils.go IsPodTerminating, v1.36.
    """
    return sum(
        is_terminating(pod)
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        for pod in pods
    )


class ReplicationControllerController(ReplicaSetController):
    """Reconciles ReplicationControllers; their selector is a plain label map."""

    name = "replicationmanager"
    component = "replication-controller"
    resource = REPLICATION_CONTROLLERS
    reports_terminating = False

    def selector(self, replica_set: Mapping[str, Any]) -> Selector:
        """Return the selector of a ReplicationController."""
        return selector_from_set(replica_set["spec"].get("selector") or {})
