"""Volume protection: finalizers that keep claims and volumes while they are in use.

Owns the two finalizers. Never deletes anything.
Upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go,
pkg/controller/volume/pvprotection/pv_protection_controller.go
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from kubesched.api.documents import Document, is_terminating, key_of, uid_of
from kubesched.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, Resource
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.pod_claims import (
    claim_keys,
    has_ended,
    index_by_claim,
    pods_with_claim,
    uses_claim,
)
from kubesched.cluster.informers.informer import Informer

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"


class _ProtectionController(Controller):
    """Adds a finalizer to objects of one kind, and removes it once they are unused."""

    resource: ClassVar[Resource]
    finalizer: ClassVar[str]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._protected: Informer = context.informers.of(self.resource)
        self._protected.on_change(self._changed)

    def is_used(self, document: Document) -> bool:
        """Return whether the object is in use."""
        raise NotImplementedError

    def _changed(self, _old: Document | None, new: Document | None) -> None:
        if new is not None and is_terminating(new) == self._has_finalizer(new):
            self.queue.add(key_of(new))

    def _has_finalizer(self, document: Document) -> bool:
        return self.finalizer in (document["metadata"].get("finalizers") or ())

    async def sync(self, key: str) -> None:
        """Add or remove the finalizer of one object."""
        document = self._protected.get(key)
        if document is None or is_terminating(document) != self._has_finalizer(document):
            return
        metadata: dict[str, Any] = document["metadata"]
        finalizers = list(metadata.get("finalizers") or ())
        if not is_terminating(document):
            finalizers.append(self.finalizer)
        elif self.is_used(document):
            return
        else:
            finalizers.remove(self.finalizer)
        updated = {**document, "metadata": {**metadata, "finalizers": finalizers}}
        result = await self.api.update(self.resource, updated)
        if is_terminating(result) and not finalizers:
            # Removing the last finalizer deleted it.
            self._protected.forget(key, uid_of(result))


class ClaimProtectionController(_ProtectionController):
    """Protects claims used by scheduled pods.

    Differs: upstream lists the pods of the namespace once more before it removes the finalizer. A
    pod that the watch has not delivered yet has no data here that it could lose.
    """

    name: ClassVar[str] = "persistentvolumeclaim-protection-controller"
    resource: ClassVar[Resource] = PERSISTENT_VOLUME_CLAIMS
    finalizer: ClassVar[str] = CLAIM_FINALIZER

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.of(PODS)
        index_by_claim(self._pods)
        self._pods.on_change(self._pod_changed)

    def is_used(self, document: Document) -> bool:
        """Return whether a scheduled pod uses a claim."""
        pods = pods_with_claim(self._pods, key_of(document))
        return any(uses_claim(pod, document) for pod in pods)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is not None and not has_ended(new):
            return
        for key in claim_keys(new or old or {}):
            self.queue.add(key)


class VolumeProtectionController(_ProtectionController):
    """Protects bound volumes."""

    name: ClassVar[str] = "persistentvolume-protection-controller"
    resource: ClassVar[Resource] = PERSISTENT_VOLUMES
    finalizer: ClassVar[str] = VOLUME_FINALIZER

    def is_used(self, document: Document) -> bool:
        """Return whether the volume is bound."""
        return bool(document.get("status", {}).get("phase") == "Bound")
