"""StatefulSets: pods with a stable identity.

Owns when a set is synced, its revisions and its status. The steps of a sync are `update`'s.
Upstream: pkg/controller/statefulset/stateful_set.go, stateful_set_control.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

from kubesched.api.documents import Document, name_of, namespace_of, selector_of
from kubesched.client.errors import AlreadyExistsError
from kubesched.client.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.controller_refs import (
    claim_children,
    enqueue_parents,
    index_orphans,
)
from kubesched.cluster.controllers.controller_revisions import (
    HASH_LABEL,
    data_hash,
    new_revision,
    revision_name,
    revision_number,
    same_data,
    sorted_revisions,
    template_patch,
)
from kubesched.cluster.controllers.replica_set.status import (
    min_ready_s_of,
    next_availability_check_s,
)
from kubesched.cluster.controllers.stateful_set.identity import is_member, revision_of
from kubesched.cluster.controllers.stateful_set.pods import StatefulPodControl
from kubesched.cluster.controllers.stateful_set.status import StatefulSetStatus
from kubesched.cluster.controllers.stateful_set.update import Revisions, StatefulSetSync


class StatefulSetController(Controller):
    """Reconciles StatefulSets."""

    name: ClassVar[str] = "statefulset"
    component: ClassVar[str] = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets = self.informers.of(STATEFUL_SETS)
        self._pods = self.informers.of(PODS)
        self._revisions = self.informers.of(CONTROLLER_REVISIONS)
        # Requested before the start, so that it has synced before the first pod is processed.
        self.informers.of(PERSISTENT_VOLUME_CLAIMS)
        index_orphans(self._pods)
        index_orphans(self._revisions)
        self._pod_control = StatefulPodControl(self)
        self._sets.on_change(self.enqueue)
        self._pods.on_change(partial(enqueue_parents, self._sets, self.queue.add))

    async def sync(self, key: str) -> None:
        """Reconcile one set."""
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return
        selector = selector_of(stateful_set["spec"].get("selector"))
        revisions = sorted_revisions(
            await claim_children(
                self.api, CONTROLLER_REVISIONS, stateful_set, STATEFUL_SETS, selector
            )
        )
        pods = await claim_children(
            self.api,
            PODS,
            stateful_set,
            STATEFUL_SETS,
            selector,
            is_member=lambda pod: is_member(stateful_set, pod),
        )
        revisions_in_use = await self._resolve_revisions(stateful_set, revisions)
        now_s = self.clock.now_s()
        step = StatefulSetSync(stateful_set, revisions_in_use, pods, self._pod_control, now_s)
        try:
            await step.run()
        finally:
            await self._write_status(stateful_set, step.status)
            await self._truncate_history(stateful_set, pods, revisions, revisions_in_use)
        self._schedule_availability_check(key, stateful_set, pods, step.status, now_s)

    async def _resolve_revisions(
        self, stateful_set: Document, revisions: Sequence[Document]
    ) -> Revisions:
        """Return the current and the update revision; create the latter if needed.

        Parity: stateful_set_control.go getStatefulSetRevisions, v1.36.
        """
        status = stateful_set.get("status") or {}
        collision_count = int(status.get("collisionCount") or 0)
        number = revision_number(revisions[-1]) + 1 if revisions else 1
        template_revision: Document = {"data": template_patch(stateful_set)}
        equal = [revision for revision in revisions if same_data(revision, template_revision)]
        if equal and equal[-1] is revisions[-1]:
            update = revisions[-1]
        elif equal:
            # A rollback to an earlier template: its revision becomes the newest.
            update = await self.api.update(CONTROLLER_REVISIONS, {**equal[-1], "revision": number})
        else:
            update, collision_count = await self._create_revision(
                stateful_set, template_revision["data"], number, collision_count
            )
        current_name = status.get("currentRevision")
        current = next(
            (revision for revision in revisions if name_of(revision) == current_name), update
        )
        return Revisions(current, update, collision_count)

    async def _create_revision(
        self, stateful_set: Document, data: Document, number: int, collision_count: int
    ) -> tuple[Document, int]:
        """Create a revision; a name collision increases the collision count."""
        # The label has the hash before the first collision, as upstream's.
        labels = {HASH_LABEL: data_hash(data, collision_count)}
        while True:
            name = revision_name(name_of(stateful_set), data_hash(data, collision_count))
            revision = new_revision(stateful_set, data, number, name=name, labels=labels)
            try:
                return await self.api.create(CONTROLLER_REVISIONS, revision), collision_count
            except AlreadyExistsError:
                existing = await self.api.get(
                    CONTROLLER_REVISIONS, name, namespace_of(stateful_set)
                )
                if same_data(existing, revision):
                    return existing, collision_count
                collision_count += 1

    async def _write_status(self, stateful_set: Document, status: StatefulSetStatus) -> None:
        status.complete_rolling_update(stateful_set)
        if not status.differs_from(stateful_set):
            return
        updated = {**stateful_set, "status": status.document()}
        await self.api.update_status(STATEFUL_SETS, updated)

    async def _truncate_history(
        self,
        stateful_set: Document,
        pods: Iterable[Document],
        revisions: Sequence[Document],
        revisions_in_use: Revisions,
    ) -> None:
        """Delete the oldest unused revisions above the history limit."""
        live = {
            name_of(revisions_in_use.current),
            name_of(revisions_in_use.update),
            *map(revision_of, pods),
        }
        history = [revision for revision in revisions if name_of(revision) not in live]
        limit = stateful_set["spec"].get("revisionHistoryLimit")
        if limit is None or limit < 0:
            return
        for revision in history[: max(len(history) - limit, 0)]:
            await self.api.delete(CONTROLLER_REVISIONS, revision)

    def _schedule_availability_check(
        self,
        key: str,
        stateful_set: Document,
        pods: Iterable[Document],
        status: StatefulSetStatus,
        now_s: float,
    ) -> None:
        """Enqueue a set for when its next ready pod becomes available."""
        ready_s = min_ready_s_of(stateful_set)
        if ready_s <= 0 or status.ready_replicas == status.available_replicas:
            return
        next_s = next_availability_check_s(pods, ready_s, now_s)
        self.queue.add_after(key, ready_s if next_s is None else next_s)
