"""A namespace that is deleted takes everything in it along.

Owns when a namespace that is going is looked at, its conditions, and that it may go in the end.
What is deleted in which order is namespace_content's.
Upstream: pkg/controller/namespace/namespace_controller.go

Differs: upstream waits five seconds before the first look, for API servers that have not heard of
the deletion, and then half the longest grace period of the pods. Here there is one API server, and
the next look comes as soon as the last pod is gone.
"""

from __future__ import annotations

from typing import Final

from kubesched.client.cached.documents import (
    Document,
    is_terminating,
    name_of,
    namespace_of,
    seconds_of,
)
from kubesched.client.errors import ConflictError, NotFoundError
from kubesched.client.resources import NAMESPACES, PODS
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.namespace_conditions import Progress, updated_conditions
from kubesched.controllers.namespace_content import NamespaceContent
from kubesched.controllers.served_kinds import served_kinds
from kubesched.objects.times import time_text

_FINALIZER: Final = "kubernetes"
_FIRST_WAIT_S: Final = 0.5


class NamespaceController(Controller):
    """Empties namespaces that are being deleted, and lets them go."""

    name = "namespace"
    component = "namespace-controller"
    workers = 4

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._namespaces = parts.informers.of(NAMESPACES)
        self._pods = parts.informers.of(PODS)
        self._waits_s: dict[str, float] = {}
        """How long the next look at a namespace that is not empty yet is put off."""
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
        """Delete what is in a namespace, and the namespace when nothing is left."""
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
        kinds = await served_kinds(self.api.client)
        age_s = self.clock.now_s() - seconds_of(namespace["metadata"]["deletionTimestamp"])
        content = NamespaceContent(self.api.client, key, age_s)
        progress, ended_at_pods = await content.delete(kinds)
        namespace = await self._tell(namespace, progress, ended_at_pods)
        if progress.has_failed:
            self._wait(key, progress, is_failed=True)
        elif progress.remaining:
            self._wait(key, progress, is_failed=False)
        else:
            self._waits_s.pop(key, None)
            await self._finalize(namespace)

    def _wait(self, key: str, progress: Progress, *, is_failed: bool) -> None:
        """Have another look in a while: soon at first, at last as seldom as upstream does."""
        wait_s = self._waits_s.get(key, _FIRST_WAIT_S)
        longest_s = 60.0 if is_failed else progress.wait_s // 2 + 1.0
        self._waits_s[key] = min(wait_s * 2, longest_s)
        self.queue.add_after(key, min(wait_s, longest_s))

    async def _tell(self, namespace: Document, progress: Progress, ended_at_pods: bool) -> Document:
        """Write how far it is into the status."""
        status = namespace.get("status") or {}
        conditions = updated_conditions(
            status.get("conditions") or [],
            progress,
            time_text(self.clock.now_s()),
            pods_only=ended_at_pods,
        )
        if conditions is None:
            return namespace
        return await self._write_status(namespace, {**status, "conditions": conditions})

    async def _write_status(self, namespace: Document, status: Document) -> Document:
        written = {**namespace, "status": {**(namespace.get("status") or {}), **status}}
        return await self.api.update_status(NAMESPACES, written)

    async def _finalize(self, namespace: Document) -> None:
        """Take our finalizer from it, which lets it go unless somebody else holds it."""
        left = [one for one in _finalizers(namespace) if one != _FINALIZER]
        finalized = {**namespace, "spec": {**namespace["spec"], "finalizers": left}}
        try:
            await self.api.update(NAMESPACES, finalized, "finalize")
        except NotFoundError:
            return
        except ConflictError:
            self.queue.add(name_of(namespace))


def _finalizers(namespace: Document) -> list[str]:
    found: list[str] = (namespace.get("spec") or {}).get("finalizers") or []
    return found
