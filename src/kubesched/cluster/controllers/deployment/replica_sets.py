"""A Deployment and its ReplicaSets during one sync, and every write to them.

Owns the writes and their events; each response replaces what was read before. Never decides sizes:
`rollout` does.
Upstream: pkg/controller/deployment/sync.go

Upstream continues with the version it read first, gets a conflict with its own write and retries.
Continuing with the responses gives the same result in one sync.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api.documents import (
    Document,
    condition_of,
    is_terminating,
    key_of,
    name_of,
    namespace_of,
    owner_of,
    uid_of,
)
from kubesched.client.errors import AlreadyExistsError, ApiError
from kubesched.client.resources import DEPLOYMENTS, REPLICA_SETS
from kubesched.cluster.controllers.controller import Controller, is_namespace_terminating
from kubesched.cluster.controllers.deployment.revisions import (
    REVISION,
    is_same_template,
    max_revision,
    new_replica_set,
    new_replica_set_annotations,
    new_replica_set_document,
    old_replica_sets,
    replicas_annotations,
    revision_order,
)
from kubesched.cluster.controllers.deployment.sizes import new_replicas, status_total
from kubesched.cluster.controllers.deployment.status import (
    FAILED_CREATE,
    NEW_CREATED,
    NEW_FOUND,
    PROGRESSING,
    history_limit,
    new_condition,
    progress_deadline_s,
    with_condition,
)
from kubesched.cluster.controllers.replica_set.status import min_ready_s_of, replicas_of


class HashCollisionError(Exception):
    """A ReplicaSet with another template has the name; the next sync tries another name."""


class DeploymentSync:
    """One sync of a Deployment: its current state and the writes to it."""

    def __init__(
        self, controller: Controller, deployment: Document, sets: Sequence[Document]
    ) -> None:
        self.controller = controller
        self.deployment = deployment
        self.sets = list(sets)
        self._api = controller.api

    @property
    def new(self) -> Document | None:
        """Return the ReplicaSet of the deployment's template."""
        return new_replica_set(self.deployment, self.sets)

    @property
    def old(self) -> list[Document]:
        """Return the other ReplicaSets."""
        return old_replica_sets(self.deployment, self.sets)

    @property
    def status(self) -> Document:
        """Return the status of the Deployment."""
        return self.deployment.get("status") or {}

    @property
    def now_s(self) -> float:
        """Return the current time."""
        return self.controller.clock.now_s()

    def record_event(self, kind: str, reason: str, note: str) -> None:
        """Record an event about the Deployment."""
        self.controller.event(self.deployment, kind, reason, note)

    async def update(self, deployment: Document) -> None:
        """Update the Deployment."""
        self.deployment = await self._api.update(DEPLOYMENTS, deployment)

    async def update_status(self, status: Document, *, revision: str | None = None) -> None:
        """Update the status and the revision annotation if they changed."""
        annotations = self.deployment["metadata"].get("annotations") or {}
        is_new_revision = revision is not None and annotations.get(REVISION) != revision
        if status == self.status and not is_new_revision:
            return
        changed = {**self.deployment, "status": status}
        if is_new_revision:
            annotations = {**annotations, REVISION: revision}
            changed["metadata"] = {**changed["metadata"], "annotations": annotations}
        self.deployment = await self._api.update_status(DEPLOYMENTS, changed)

    async def sync_revision(self) -> None:
        """Update the revision of the new ReplicaSet, if it exists, and of the Deployment.

        Parity: sync.go getNewReplicaSet, v1.36, for one that exists.
        """
        new = self.new
        if new is None:
            return
        annotations = new_replica_set_annotations(
            self.deployment, new, max_revision(self.old) + 1, exists=True
        )
        min_ready_s = min_ready_s_of(self.deployment)
        has_annotations = annotations == (new["metadata"].get("annotations") or {})
        if not has_annotations or min_ready_s_of(new) != min_ready_s:
            spec = {**new["spec"], "minReadySeconds": min_ready_s}
            if not min_ready_s:
                del spec["minReadySeconds"]
            metadata = {**new["metadata"], "annotations": annotations}
            await self._update_set({**new, "metadata": metadata, "spec": spec})
            return
        status = self.status
        if progress_deadline_s(self.deployment) is not None:
            message = f'Found new replica set "{name_of(new)}"'
            if condition_of(self.deployment, PROGRESSING) is None:
                status = with_condition(status, self._progressing("True", NEW_FOUND, message))
        await self.update_status(status, revision=annotations.get(REVISION))

    async def create_new_replica_set(self) -> Document:
        """Create the ReplicaSet of the current template, as large as allowed at once.

        Parity: sync.go getNewReplicaSet, v1.36, for one that does not exist.
        """
        deployment = self.deployment
        replica_set = new_replica_set_document(deployment)
        size = new_replicas(deployment, [*self.sets, replica_set], replica_set)
        replica_set["spec"]["replicas"] = size
        revision = max_revision(self.sets) + 1
        replica_set["metadata"]["annotations"] = new_replica_set_annotations(
            deployment, replica_set, revision, exists=False
        )
        try:
            created = await self._api.create(REPLICA_SETS, replica_set)
        except AlreadyExistsError as error:
            created = await self._existing(replica_set, error)
            status = self.status
        except ApiError as error:
            await self._report_creation_failure(replica_set, error)
            raise
        else:
            status = self._status_after_creation(created, size)
        self._replace(created)
        await self.update_status(status, revision=str(revision))
        return created

    async def scale(self, replica_set: Document, size: int, *, force: bool = False) -> bool:
        """Scale a ReplicaSet; return whether its size changed.

        With force, its annotations about the Deployment's size are updated in any case.

        Parity: sync.go scaleReplicaSet, v1.36.
        """
        before = replicas_of(replica_set)
        if before == size and not force:
            return False
        metadata = replica_set["metadata"]
        annotations = {
            **(metadata.get("annotations") or {}),
            **replicas_annotations(self.deployment),
        }
        if before == size and annotations == metadata.get("annotations"):
            return False
        await self._update_set(
            {
                **replica_set,
                "metadata": {**metadata, "annotations": annotations},
                "spec": {**replica_set["spec"], "replicas": size},
            }
        )
        if before == size:
            return False
        direction = "up" if before < size else "down"
        note = f"Scaled {direction} replica set {name_of(replica_set)} from {before} to {size}"
        self.record_event("Normal", "ScalingReplicaSet", note)
        return True

    async def clean_up(self) -> None:
        """Delete the oldest ReplicaSets without pods above the history limit.

        Parity: sync.go cleanupDeployment, v1.36.
        """
        limit = history_limit(self.deployment)
        if limit is None:
            return
        candidates = sorted(
            (one for one in self.old if not is_terminating(one)), key=revision_order
        )
        for one in candidates[: max(len(candidates) - limit, 0)]:
            observed = (one.get("status") or {}).get("observedGeneration") or 0
            is_behind = one["metadata"].get("generation", 0) > observed
            if status_total([one], "replicas") or replicas_of(one) or is_behind:
                continue
            await self._api.delete(REPLICA_SETS, one)
            self.sets = [other for other in self.sets if uid_of(other) != uid_of(one)]

    async def _update_set(self, replica_set: Document) -> None:
        self._replace(await self._api.update(REPLICA_SETS, replica_set))

    def _replace(self, replica_set: Document) -> None:
        uid = uid_of(replica_set)
        self.sets = [replica_set for replica_set in self.sets if uid_of(replica_set) != uid] + [
            replica_set
        ]

    async def _existing(self, replica_set: Document, error: AlreadyExistsError) -> Document:
        """Return the ReplicaSet that has the name if it is ours; else count a collision."""
        existing = self.controller.informers.of(REPLICA_SETS).get(key_of(replica_set))
        if existing is None:
            existing = await self._api.get(
                REPLICA_SETS, name_of(replica_set), namespace_of(replica_set)
            )
        owner = owner_of(existing)
        template, found_template = self.deployment["spec"]["template"], existing["spec"]["template"]
        is_ours = owner is not None and owner["uid"] == uid_of(self.deployment)
        if is_ours and is_same_template(template, found_template):
            return existing
        collisions = int(self.status.get("collisionCount") or 0)
        await self.update_status({**self.status, "collisionCount": collisions + 1})
        raise HashCollisionError(str(error)) from error

    async def _report_creation_failure(self, replica_set: Document, error: ApiError) -> None:
        if is_namespace_terminating(error):
            return
        note = f'Failed to create new replica set "{name_of(replica_set)}": {error}'
        self.record_event("Warning", FAILED_CREATE, note)
        if progress_deadline_s(self.deployment) is not None:
            condition = self._progressing("False", FAILED_CREATE, note)
            await self.update_status(with_condition(self.status, condition))

    def _status_after_creation(self, created: Document, size: int) -> Document:
        """Record the creation and return the new status."""
        name = name_of(created)
        if size > 0:
            note = f"Scaled up replica set {name} from 0 to {size}"
            self.record_event("Normal", "ScalingReplicaSet", note)
        if progress_deadline_s(self.deployment) is None:
            return self.status
        message = f'Created new replica set "{name}"'
        return with_condition(self.status, self._progressing("True", NEW_CREATED, message))

    def _progressing(self, value: str, reason: str, message: str) -> Document:
        return new_condition(PROGRESSING, value, reason, message, self.now_s)
