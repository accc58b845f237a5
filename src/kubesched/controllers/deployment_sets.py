"""A deployment and its ReplicaSets during one look, and every write to them.

Owns what is written and in which event it is told; each answer takes the place of what was read.
Never decides on sizes: deployment_rollout does.
Upstream: pkg/controller/deployment/sync.go

Upstream goes on with the version it read at first, meets a conflict of its own making, and comes
again. Going on with the answers comes to the same, in one look.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.client.cached.documents import (
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
from kubesched.controllers.controller import Controller
from kubesched.controllers.deployment_revisions import (
    REVISION,
    annotations_of_new,
    by_revision,
    first_of_template,
    is_same_template,
    max_revision,
    new_replica_set,
    old_replica_sets,
    replicas_annotations,
)
from kubesched.controllers.deployment_sizes import counted, new_replicas
from kubesched.controllers.deployment_status import (
    FAILED_CREATE,
    NEW_CREATED,
    NEW_FOUND,
    PROGRESSING,
    history_limit,
    new_condition,
    progress_deadline_s,
    with_condition,
)
from kubesched.controllers.pod_control import NAMESPACE_TERMINATING, has_cause
from kubesched.controllers.replica_set_status import min_ready_s_of, replicas_of


class HashCollisionError(Exception):
    """A ReplicaSet of another template has the name; the next look tries another one."""


class DeploymentSets:
    """A deployment and its ReplicaSets as they are now."""

    def __init__(
        self, controller: Controller, deployment: Document, sets: Sequence[Document]
    ) -> None:
        self.controller = controller
        self.deployment = deployment
        self.sets = list(sets)
        self._api = controller.api
        self._clock = controller.clock

    @property
    def new(self) -> Document | None:
        """Return the ReplicaSet of the deployment's template."""
        return new_replica_set(self.deployment, self.sets)

    @property
    def old(self) -> list[Document]:
        """Return all others."""
        return old_replica_sets(self.deployment, self.sets)

    @property
    def status(self) -> Document:
        """Return the status of the deployment."""
        return self.deployment.get("status") or {}

    def tell(self, kind: str, reason: str, note: str) -> None:
        """Write an event about the deployment."""
        self.controller.event(self.deployment, kind, reason, note)

    async def update(self, deployment: Document) -> None:
        """Write the deployment itself."""
        self.deployment = await self._api.update(DEPLOYMENTS, deployment)

    async def update_status(self, status: Document, *, revision: str | None = None) -> None:
        """Write the status of the deployment, and its revision, where they change."""
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
        """Give the new ReplicaSet, if there is one, its revision, and the deployment the same.

        Parity: sync.go getNewReplicaSet, v1.36, for one that exists.
        """
        new = self.new
        if new is None:
            return
        annotations = annotations_of_new(
            self.deployment, new, max_revision(self.old) + 1, exists=True
        )
        min_ready_s = min_ready_s_of(self.deployment)
        is_told = annotations == (new["metadata"].get("annotations") or {})
        if not is_told or min_ready_s_of(new) != min_ready_s:
            spec = {**new["spec"], "minReadySeconds": min_ready_s}
            if not min_ready_s:
                del spec["minReadySeconds"]
            metadata = {**new["metadata"], "annotations": annotations}
            await self._update_set({**new, "metadata": metadata, "spec": spec})
            return
        status = self.status
        if progress_deadline_s(self.deployment) is not None:
            told = f'Found new replica set "{name_of(new)}"'
            if condition_of(self.deployment, PROGRESSING) is None:
                status = with_condition(status, self._progressing("True", NEW_FOUND, told))
        await self.update_status(status, revision=annotations.get(REVISION))

    async def create_new(self) -> Document:
        """Create the ReplicaSet of the deployment's template, as large as it may be at once.

        Parity: sync.go getNewReplicaSet, v1.36, for one that does not exist.
        """
        deployment = self.deployment
        wanted = first_of_template(deployment)
        size = new_replicas(deployment, [*self.sets, wanted], wanted)
        wanted["spec"]["replicas"] = size
        revision = max_revision(self.sets) + 1
        wanted["metadata"]["annotations"] = annotations_of_new(
            deployment, wanted, revision, exists=False
        )
        try:
            created = await self._api.create(REPLICA_SETS, wanted)
        except AlreadyExistsError as error:
            created = await self._existing(wanted, error)
            status = self.status
        except ApiError as error:
            await self._tell_failure(wanted, error)
            raise
        else:
            status = self._tell_created(created, size)
        self._replace(created)
        await self.update_status(status, revision=str(revision))
        return created

    async def scale(self, replica_set: Document, size: int, *, force: bool = False) -> bool:
        """Give a ReplicaSet another size; return whether that was needed.

        With force, what it notes of the deployment's size is brought up to date in any case.

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
        way = "up" if before < size else "down"
        note = f"Scaled {way} replica set {name_of(replica_set)} from {before} to {size}"
        self.tell("Normal", "ScalingReplicaSet", note)
        return True

    async def clean_up(self) -> None:
        """Delete the oldest ReplicaSets beyond those that are kept, unless they have pods.

        Parity: sync.go cleanupDeployment, v1.36.
        """
        limit = history_limit(self.deployment)
        if limit is None:
            return
        alive = sorted((one for one in self.old if not is_terminating(one)), key=by_revision)
        for one in alive[: max(len(alive) - limit, 0)]:
            observed = (one.get("status") or {}).get("observedGeneration") or 0
            is_behind = one["metadata"].get("generation", 0) > observed
            if counted([one], "replicas") or replicas_of(one) or is_behind:
                continue
            await self._api.delete(REPLICA_SETS, one)
            self.sets = [other for other in self.sets if uid_of(other) != uid_of(one)]

    async def _update_set(self, replica_set: Document) -> None:
        self._replace(await self._api.update(REPLICA_SETS, replica_set))

    def _replace(self, replica_set: Document) -> None:
        uid = uid_of(replica_set)
        self.sets = [one for one in self.sets if uid_of(one) != uid] + [replica_set]

    async def _existing(self, wanted: Document, error: AlreadyExistsError) -> Document:
        """Return the ReplicaSet that has the name if it is ours; else count a collision."""
        found = self.controller.informers.of(REPLICA_SETS).get(key_of(wanted))
        if found is None:
            found = await self._api.get(REPLICA_SETS, name_of(wanted), namespace_of(wanted))
        owner = owner_of(found)
        template, its = self.deployment["spec"]["template"], found["spec"]["template"]
        is_ours = owner is not None and owner["uid"] == uid_of(self.deployment)
        if is_ours and is_same_template(template, its):
            return found
        collisions = int(self.status.get("collisionCount") or 0)
        await self.update_status({**self.status, "collisionCount": collisions + 1})
        raise HashCollisionError(str(error)) from error

    async def _tell_failure(self, wanted: Document, error: ApiError) -> None:
        if has_cause(error, NAMESPACE_TERMINATING):
            return
        note = f'Failed to create new replica set "{name_of(wanted)}": {error}'
        self.tell("Warning", FAILED_CREATE, note)
        if progress_deadline_s(self.deployment) is not None:
            condition = self._progressing("False", FAILED_CREATE, note)
            await self.update_status(with_condition(self.status, condition))

    def _tell_created(self, created: Document, size: int) -> Document:
        """Return the status that says so."""
        name = name_of(created)
        if size > 0:
            note = f"Scaled up replica set {name} from 0 to {size}"
            self.tell("Normal", "ScalingReplicaSet", note)
        if progress_deadline_s(self.deployment) is None:
            return self.status
        told = f'Created new replica set "{name}"'
        return with_condition(self.status, self._progressing("True", NEW_CREATED, told))

    def _progressing(self, value: str, reason: str, message: str) -> Document:
        return new_condition(PROGRESSING, value, reason, message, self._clock.now_s())
