"""StatefulSets: pods that are told apart.

Owns which sets are looked at when, their revisions and their status. How far a set gets in one look
is stateful_set_update's.
Upstream: pkg/controller/statefulset/stateful_set.go, stateful_set_control.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from kubesched.client.cached.documents import (
    Document,
    key_of,
    name_of,
    namespace_of,
    selector_of,
)
from kubesched.client.errors import AlreadyExistsError
from kubesched.client.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)
from kubesched.controllers.claiming import claimed, index_orphans, wake_parents
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.controller_revisions import (
    HASH_LABEL,
    data_hash,
    new_revision,
    revision_name,
    revision_number,
    same_data,
    sorted_revisions,
    template_patch,
)
from kubesched.controllers.replica_set_status import min_ready_s_of, next_availability_check_s
from kubesched.controllers.stateful_set_identity import is_member, revision_of
from kubesched.controllers.stateful_set_pods import StatefulPods
from kubesched.controllers.stateful_set_status import (
    StatefulSetStatus,
)
from kubesched.controllers.stateful_set_update import Revisions, StatefulSetStep


class StatefulSetController(Controller):
    """Makes StatefulSets produce pods."""

    name: ClassVar[str] = "statefulset"
    component: ClassVar[str] = "statefulset-controller"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sets = self.informers.of(STATEFUL_SETS)
        self._pods = self.informers.of(PODS)
        self._revisions = self.informers.of(CONTROLLER_REVISIONS)
        # Asked for before the start, so that it has synced when the first pod is looked at.
        self.informers.of(PERSISTENT_VOLUME_CLAIMS)
        index_orphans(self._pods)
        index_orphans(self._revisions)
        self._writer = StatefulPods(self)
        self._sets.on_change(self._set_changed)
        self._pods.on_change(self._pod_changed)

    def _set_changed(self, _: Document | None, new: Document | None) -> None:
        if new is not None:
            self.queue.add(key_of(new))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        wake_parents(self._sets, old, new, self.queue.add)

    async def sync(self, key: str) -> None:
        """Bring one set a step closer to what it wants."""
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return
        selector = selector_of(stateful_set["spec"].get("selector"))
        revisions = sorted_revisions(
            await claimed(self.api, CONTROLLER_REVISIONS, stateful_set, STATEFUL_SETS, selector)
        )
        pods = await claimed(
            self.api,
            PODS,
            stateful_set,
            STATEFUL_SETS,
            selector,
            is_member=lambda pod: is_member(stateful_set, pod),
        )
        chosen = await self._choose_revisions(stateful_set, revisions)
        now_s = self.clock.now_s()
        step = StatefulSetStep(stateful_set, chosen, pods, self._writer, now_s)
        try:
            await step.run()
        finally:
            await self._write_status(stateful_set, step.status)
            await self._truncate_history(stateful_set, pods, revisions, chosen)
        self._look_again(key, stateful_set, pods, step.status, now_s)

    async def _choose_revisions(
        self, stateful_set: Document, revisions: Sequence[Document]
    ) -> Revisions:
        """Return the current revision and the one to update to, which may be made for it.

        Parity: stateful_set_control.go getStatefulSetRevisions, v1.36.
        """
        status = stateful_set.get("status") or {}
        collision_count = int(status.get("collisionCount") or 0)
        number = revision_number(revisions[-1]) + 1 if revisions else 1
        wanted: Document = {"data": template_patch(stateful_set)}
        equal = [one for one in revisions if same_data(one, wanted)]
        if equal and equal[-1] is revisions[-1]:
            update = revisions[-1]
        elif equal:
            # Back to an earlier template: its revision becomes the newest.
            update = await self.api.update(CONTROLLER_REVISIONS, {**equal[-1], "revision": number})
        else:
            update, collision_count = await self._create_revision(
                stateful_set, wanted["data"], number, collision_count
            )
        current_name = status.get("currentRevision")
        current = next((one for one in revisions if name_of(one) == current_name), update)
        return Revisions(current, update, collision_count)

    async def _create_revision(
        self, stateful_set: Document, data: Document, number: int, collision_count: int
    ) -> tuple[Document, int]:
        """Create a revision; another of the same name makes the count of collisions grow."""
        # The label says the hash of before the first collision, as upstream's does.
        labels = {HASH_LABEL: data_hash(data, collision_count)}
        while True:
            name = revision_name(name_of(stateful_set), data_hash(data, collision_count))
            revision = new_revision(stateful_set, data, number, name=name, labels=labels)
            try:
                return await self.api.create(CONTROLLER_REVISIONS, revision), collision_count
            except AlreadyExistsError:
                there = await self.api.get(CONTROLLER_REVISIONS, name, namespace_of(stateful_set))
                if same_data(there, revision):
                    return there, collision_count
                collision_count += 1

    async def _write_status(self, stateful_set: Document, status: StatefulSetStatus) -> None:
        status.complete_rolling_update(stateful_set)
        if not status.differs_from(stateful_set):
            return
        written = {**stateful_set, "status": status.document()}
        await self.api.update_status(STATEFUL_SETS, written)

    async def _truncate_history(
        self,
        stateful_set: Document,
        pods: Iterable[Document],
        revisions: Sequence[Document],
        chosen: Revisions,
    ) -> None:
        """Delete the oldest revisions that nobody uses, beyond those that are kept for undoing."""
        live = {name_of(chosen.current), name_of(chosen.update), *map(revision_of, pods)}
        history = [one for one in revisions if name_of(one) not in live]
        limit = stateful_set["spec"].get("revisionHistoryLimit")
        if limit is None or limit < 0:
            return
        for revision in history[: max(len(history) - limit, 0)]:
            await self.api.delete(CONTROLLER_REVISIONS, revision)

    def _look_again(
        self,
        key: str,
        stateful_set: Document,
        pods: Iterable[Document],
        status: StatefulSetStatus,
        now_s: float,
    ) -> None:
        """Have a set looked at when the next of its ready pods becomes available."""
        ready_s = min_ready_s_of(stateful_set)
        if ready_s <= 0 or status.ready_replicas == status.available_replicas:
            return
        next_s = next_availability_check_s(pods, ready_s, now_s)
        self.queue.add_after(key, ready_s if next_s is None else next_s)
