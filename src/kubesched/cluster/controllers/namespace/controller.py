"""Namespaces: deletes the content of terminating namespaces, then finalizes them.

Owns when a namespace is processed, its conditions and its finalizer. The deletion of content is
`resources_deleter`'s.
Upstream: pkg/controller/namespace/namespace_controller.go

Differs: upstream waits five seconds before the first pass, for API servers that have not seen the
deletion, and then half the longest grace period of the pods. Here there is one API server, and the
next pass starts as soon as the last pod is gone.
"""

from __future__ import annotations

from typing import Final

from kubesched.api.documents import Document, is_terminating, name_of, namespace_of, seconds_of
from kubesched.api.times import time_text
from kubesched.client.errors import ConflictError, NotFoundError
from kubesched.client.resources import NAMESPACES, PODS
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.discovery import discover_resources
from kubesched.cluster.controllers.namespace.conditions import DeletionProgress, updated_conditions
from kubesched.cluster.controllers.namespace.resources_deleter import NamespacedResourcesDeleter

_FINALIZER: Final = "kubernetes"
_WAIT_S_INITIAL: Final = 0.5


class NamespaceController(Controller):
    """Reconciles terminating namespaces."""

    name = "namespace"
    component = "namespace-controller"
    workers = 4

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._namespaces = context.informers.of(NAMESPACES)
        self._pods = context.informers.of(PODS)
        self._waits_s: dict[str, float] = {}
        """Delay before the next pass of a namespace that is not empty yet."""
        self._namespaces.on_change(self._namespace_changed)
        self._pods.on_change(self._pod_changed)

    def _namespace_changed(self, old: Document | None, new: Document | None) -> None:
        if new is None:
            if old is not None:
                self._waits_s.pop(name_of(old), None)
        elif is_terminating(new) and (old is None or not is_terminating(old)):
            self.queue.add(name_of(new))

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is not None or old is None:
            return
        namespace = namespace_of(old)
        if namespace in self._waits_s and not self._pods.in_namespace(namespace):
            self.queue.add(namespace)

    async def sync(self, key: str) -> None:
        """Delete the content of a namespace, and finalize it once it is empty."""
        try:
            namespace = await self.api.get(NAMESPACES, key)
        except NotFoundError:
            return
        if not is_terminating(namespace):
            return
        if (namespace.get("status") or {}).get("phase") != "Terminating":
            namespace = await self._write_status(namespace, {"phase": "Terminating"})
        if not _finalizers(namespace):
            return
        resources = await discover_resources(self.api.client)
        age_s = self.clock.now_s() - seconds_of(namespace["metadata"]["deletionTimestamp"])
        deleter = NamespacedResourcesDeleter(self.api.client, key, age_s)
        progress, pods_only = await deleter.delete(resources)
        namespace = await self._update_conditions(namespace, progress, pods_only)
        if progress.has_failed:
            self._requeue(key, progress, is_failed=True)
        elif progress.remaining:
            self._requeue(key, progress, is_failed=False)
        else:
            self._waits_s.pop(key, None)
            await self._finalize(namespace)

    def _requeue(self, key: str, progress: DeletionProgress, *, is_failed: bool) -> None:
        """Enqueue a namespace with a growing delay, up to upstream's."""
        wait_s = self._waits_s.get(key, _WAIT_S_INITIAL)
        wait_s_max = 60.0 if is_failed else progress.wait_s // 2 + 1.0
        self._waits_s[key] = min(wait_s * 2, wait_s_max)
        self.queue.add_after(key, min(wait_s, wait_s_max))

    async def _update_conditions(
        self, namespace: Document, progress: DeletionProgress, pods_only: bool
    ) -> Document:
        """Write the progress into the status."""
        status = namespace.get("status") or {}
        conditions = updated_conditions(
            status.get("conditions") or [],
            progress,
            time_text(self.clock.now_s()),
            pods_only=pods_only,
        )
        if conditions is None:
            return namespace
        return await self._write_status(namespace, {**status, "conditions": conditions})

    async def _write_status(self, namespace: Document, status: Document) -> Document:
        updated = {**namespace, "status": {**(namespace.get("status") or {}), **status}}
        return await self.api.update_status(NAMESPACES, updated)

    async def _finalize(self, namespace: Document) -> None:
        """Remove the kubernetes finalizer."""
        remaining = [finalizer for finalizer in _finalizers(namespace) if finalizer != _FINALIZER]
        finalized = {**namespace, "spec": {**namespace["spec"], "finalizers": remaining}}
        try:
            await self.api.update(NAMESPACES, finalized, "finalize")
        except NotFoundError:
            return
        except ConflictError:
            self.queue.add(name_of(namespace))


def _finalizers(namespace: Document) -> list[str]:
    found: list[str] = (namespace.get("spec") or {}).get("finalizers") or []
    return found
