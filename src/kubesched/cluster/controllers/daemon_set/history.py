"""Revision history of a DaemonSet.

Owns the current ControllerRevision, its uniqueness, and the deletion of old ones. Never rolls back:
kubectl does, and the controller follows.
Upstream: pkg/controller/daemon/update.go constructHistory, snapshot, cleanupHistory
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubesched.api.documents import (
    Document,
    labels_of,
    name_of,
    namespace_of,
)
from kubesched.client.errors import AlreadyExistsError, ConflictError
from kubesched.client.resources import CONTROLLER_REVISIONS, DAEMON_SETS, PODS
from kubesched.client.rest import MERGE_PATCH
from kubesched.cluster.controllers.controller_revisions import (
    REVISION_LABEL,
    new_revision,
    pod_template_hash,
    revision_name,
    revision_number,
    same_data,
    sorted_revisions,
    template_patch,
)
from kubesched.cluster.informers.write_through import WriteThroughClient


class DaemonSetHistory:
    """The revisions of one DaemonSet."""

    def __init__(
        self, api: WriteThroughClient, daemon_set: Document, revisions: Iterable[Document]
    ) -> None:
        self._api = api
        self._set = daemon_set
        self._template: Document = {"data": template_patch(daemon_set)}
        self._current: list[Document] = []
        self._old: list[Document] = []
        for revision in sorted_revisions(revisions):
            is_current = same_data(revision, self._template)
            (self._current if is_current else self._old).append(revision)

    async def current(self, pods: Sequence[Document]) -> Document:
        """Return the revision of the current template, as the newest.

        Parity: update.go constructHistory, v1.36.
        """
        number = max((revision_number(one) for one in self._old), default=0) + 1
        if not self._current:
            return await self._snapshot(number)
        current = await self._single_current(pods)
        if REVISION_LABEL not in labels_of(current):
            # Created before the label existed: its name serves as the hash.
            labels = {**labels_of(current), REVISION_LABEL: name_of(current)}
            metadata = {**current["metadata"], "labels": labels}
            current = await self._api.update(
                CONTROLLER_REVISIONS, {**current, "metadata": metadata}
            )
        if revision_number(current) < number:
            current = await self._api.update(CONTROLLER_REVISIONS, {**current, "revision": number})
        return current

    async def clean_up(self, pods: Iterable[Document]) -> None:
        """Delete the oldest unused revisions above the history limit.

        Parity: update.go cleanupHistory, v1.36.
        """
        limit = self._set["spec"].get("revisionHistoryLimit")
        surplus_count = len(self._old) - (10 if limit is None else int(limit))
        if surplus_count <= 0:
            return
        live = {labels_of(pod).get(REVISION_LABEL) for pod in pods} - {None, ""}
        unused = [one for one in self._old if labels_of(one).get(REVISION_LABEL) not in live]
        for revision in unused[:surplus_count]:
            await self._api.delete(CONTROLLER_REVISIONS, revision)

    async def _single_current(self, pods: Sequence[Document]) -> Document:
        """Keep the newest revision of the template; relabel pods and delete duplicates.

        Parity: update.go dedupCurHistories, v1.36.
        """
        kept = self._current[-1]
        if len(self._current) == 1:
            return kept
        hash_ = labels_of(kept).get(REVISION_LABEL)
        for pod in pods:
            if labels_of(pod).get(REVISION_LABEL) != hash_:
                patch = {"metadata": {"labels": {REVISION_LABEL: hash_}}}
                await self._api.patch(PODS, pod, patch, content_type=MERGE_PATCH)
        for revision in self._current[:-1]:
            await self._api.delete(CONTROLLER_REVISIONS, revision)
        return kept

    async def _snapshot(self, number: int) -> Document:
        """Create the revision of the template; count a collision if its name is taken.

        Parity: update.go snapshot, v1.36.
        """
        daemon_set = self._set
        collision_count = (daemon_set.get("status") or {}).get("collisionCount")
        hash_ = pod_template_hash(daemon_set["spec"]["template"], collision_count)
        name = revision_name(name_of(daemon_set), hash_)
        revision = new_revision(
            daemon_set, self._template["data"], number, name=name, labels={REVISION_LABEL: hash_}
        )
        try:
            return await self._api.create(CONTROLLER_REVISIONS, revision)
        except AlreadyExistsError:
            namespace = namespace_of(daemon_set)
            existing = await self._api.get(CONTROLLER_REVISIONS, name, namespace)
            if same_data(existing, self._template):
                return existing
            latest = await self._api.get(DAEMON_SETS, name_of(daemon_set), namespace)
            status = dict(latest.get("status") or {})
            if status.get("collisionCount") != collision_count:
                raise ConflictError(
                    f"found a stale collision count of DaemonSet {name_of(daemon_set)!r} while "
                    "processing; will retry until it is updated"
                ) from None
            status["collisionCount"] = (collision_count or 0) + 1
            await self._api.update_status(DAEMON_SETS, {**latest, "status": status})
            raise
