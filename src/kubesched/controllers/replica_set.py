"""ReplicaSets, and ReplicationControllers by the same rules: as many pods as they ask for.

Owns when a set is looked at again and what it then does: claim its pods, create or delete some, say
how many there are. Never decides which pods go first (active_pods), nor writes deployments.
Upstream: pkg/controller/replicaset/replica_set.go

Upstream waits for its expectations before it acts on a set again. What we wrote is in the informers
at once, so that a sync always sees its own pods and needs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    Selector,
    is_active,
    is_terminating,
    key_of,
    labels_of,
    owner_of,
    selector_of,
    uid_of,
)
from kubesched.client.errors import ApiError, TransportError
from kubesched.client.resources import PODS, REPLICA_SETS, Resource
from kubesched.controllers.active_pods import pods_to_delete
from kubesched.controllers.claiming import claimed, index_orphans, wake_parents
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.pod_control import (
    NAMESPACE_TERMINATING,
    DeletePodError,
    create_pod,
    delete_pod,
    has_cause,
    pod_from_template,
)
from kubesched.controllers.replica_set_status import (
    min_ready_s_of,
    next_availability_check_s,
    replica_set_status,
    replicas_of,
)
from kubesched.controllers.slow_start import slow_start_batch

BURST_REPLICAS: Final = 500

# A sync looks at all pods of a set, and every change of a pod asks for one. Sets of thousands are
# therefore looked at again only after a pause that grows with them; small ones notice none.
_PAUSE_S_PER_POD: Final = 0.004
_PAUSE_S_MAX: Final = 1.0


class ReplicaSetController(Controller):
    """Keeps the pods of ReplicaSets."""

    name = "replicaset"
    component = "replicaset-controller"
    workers = 10
    resource: ClassVar[Resource] = REPLICA_SETS
    tells_terminating: ClassVar[bool] = True
    """Whether the kind has status.terminatingReplicas."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.sets = self.informers.of(self.resource)
        self.pods = self.informers.of(PODS)
        self._selectors: dict[str, tuple[object, Selector]] = {}
        self._paused_until_s: dict[str, float] = {}
        index_orphans(self.pods)
        self.sets.on_change(self._set_changed)
        self.pods.on_change(self._pod_changed)

    def selector(self, document: Mapping[str, Any]) -> Selector:
        """Return which pods a set wants."""
        return selector_of(document["spec"].get("selector"))

    # -- when to look -----------------------------------------------------------------------------

    def _set_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            self._forget(old)
        elif old is None or _is_asked_anew(old, new):
            self.queue.add(key_of(new))
        else:
            # Most often the answer to a status of our own.
            self._look_at(key_of(new))

    def _forget(self, gone: Document | None) -> None:
        if gone is not None:
            self._selectors.pop(uid_of(gone), None)
            self._paused_until_s.pop(key_of(gone), None)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        wake_parents(self.sets, old, new, self._look_at, self._cached_selector)

    def _look_at(self, key: str) -> None:
        """Have a set looked at when its pause is over."""
        self.queue.add_after(key, self._paused_until_s.get(key, 0.0) - self.clock.monotonic_s())

    def _cached_selector(self, document: Document) -> Selector:
        raw = document["spec"].get("selector")
        cached = self._selectors.get(uid_of(document))
        if cached is None or cached[0] != raw:
            cached = self._selectors[uid_of(document)] = (raw, self.selector(document))
        return cached[1]

    # -- what to do -------------------------------------------------------------------------------

    async def sync(self, key: str) -> None:
        """Bring a set to as many pods as it asks for, and its status to what there is.

        Parity: replica_set.go syncReplicaSet, v1.36.
        """
        document = self.sets.get(key)
        if document is None:
            return
        active = await claimed(
            self.api,
            PODS,
            document,
            self.resource,
            self._cached_selector(document),
            is_candidate=is_active,
        )
        failure: Exception | None = None
        if not is_terminating(document):
            try:
                await self._manage_replicas(document, active)
            except (ApiError, TransportError, DeletePodError) as error:
                failure = error
        await self._write_status(key, document, failure)
        if failure is not None:
            raise failure

    async def _manage_replicas(self, document: Document, pods: Sequence[Document]) -> None:
        """Create the pods that are missing, or delete those that are too many.

        Parity: replica_set.go manageReplicas, v1.36.
        """
        missing = replicas_of(document) - len(pods)
        if missing > 0:
            pod = pod_from_template(document["spec"]["template"], document)
            await slow_start_batch(
                min(missing, BURST_REPLICAS), lambda: self._create(pod, document)
            )
        elif missing < 0:
            spared = pods_to_delete(
                pods,
                self._related_pods(document),
                min(-missing, BURST_REPLICAS),
                now_s=self.clock.now_s(),
            )
            outcomes = await asyncio.gather(
                *(delete_pod(self, pod, document) for pod in spared), return_exceptions=True
            )
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _create(self, pod: Document, document: Document) -> None:
        try:
            await create_pod(self, pod, document)
        except ApiError as error:
            # Every further one would fail as well, and nobody is there to care.
            if not has_cause(error, NAMESPACE_TERMINATING):
                raise

    def _related_pods(self, document: Document) -> list[Document]:
        """Return the pods of all sets with the same owner.

        Parity: replica_set.go getIndirectlyRelatedPods, v1.36.
        """
        owner = owner_of(document)
        if owner is None:
            return []
        related = self.sets.owned_by(owner["uid"])
        return [pod for one in related for pod in self.pods.owned_by(uid_of(one))]

    async def _write_status(self, key: str, document: Document, failure: Exception | None) -> None:
        """Say what there is: by the pods as they are now, the ones just created among them."""
        selector = self._cached_selector(document)
        now_s = self.clock.now_s()
        mine = [p for p in self.pods.owned_by(uid_of(document)) if selector.matches(labels_of(p))]
        active = [pod for pod in mine if is_active(pod)]
        status = replica_set_status(
            document,
            active,
            terminating_count=_leaving_count(mine) if self.tells_terminating else None,
            failure=failure,
            now_s=now_s,
        )
        pause_s = min(_PAUSE_S_PER_POD * len(mine), _PAUSE_S_MAX)
        self._paused_until_s[key] = self.clock.monotonic_s() + pause_s
        if status != (document.get("status") or {}):
            await self.api.update_status(self.resource, {**document, "status": status})
        self._plan_next_check(key, document, active, now_s)

    def _plan_next_check(
        self, key: str, document: Document, pods: Sequence[Document], now_s: float
    ) -> None:
        min_ready_s = min_ready_s_of(document)
        if min_ready_s > 0:
            wait_s = next_availability_check_s(pods, min_ready_s, now_s)
            if wait_s is not None:
                self.queue.add_after(key, wait_s)


def _is_asked_anew(old: Document, new: Document) -> bool:
    """Return whether somebody changed more than the status."""
    before, after = old["metadata"], new["metadata"]
    fields = ("generation", "deletionTimestamp", "labels", "ownerReferences")
    return any(before.get(field) != after.get(field) for field in fields)


def _leaving_count(pods: Sequence[Document]) -> int:
    """Return how many pods are being deleted and still run.

    Parity: controller_utils.go IsPodTerminating, v1.36.
    """
    return sum(
        is_terminating(pod)
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        for pod in pods
    )
