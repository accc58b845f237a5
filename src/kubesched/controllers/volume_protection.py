"""Claims and volumes that are in use stay, even when somebody deletes them.

Owns the two finalizers. Never deletes anything itself.
Upstream: pkg/controller/volume/pvcprotection/pvc_protection_controller.go,
pkg/controller/volume/pvprotection/pv_protection_controller.go
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from kubesched.client.cached.documents import (
    Document,
    is_terminating,
    key_of,
    uid_of,
)
from kubesched.client.cached.informers import Informer
from kubesched.client.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    Resource,
)
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.pod_claims import (
    claim_keys,
    has_ended,
    index_by_claim,
    pods_with_claim,
    uses_claim,
)

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"


class _ProtectionController(Controller):
    """Gives objects of one kind a finalizer, and takes it away when they are out of use."""

    resource: ClassVar[Resource]
    finalizer: ClassVar[str]

    def __init__(self, parts: Parts) -> None:
        """Watch what is protected."""
        super().__init__(parts)
        self._protected: Informer = parts.informers.of(self.resource)
        self._protected.on_change(self._changed)

    def is_used(self, document: Document) -> bool:
        """Return whether it has to stay."""
        raise NotImplementedError

    def _changed(self, _old: Document | None, new: Document | None) -> None:
        if new is not None and is_terminating(new) == self._has_finalizer(new):
            self.queue.add(key_of(new))

    def _has_finalizer(self, document: Document) -> bool:
        return self.finalizer in (document["metadata"].get("finalizers") or ())

    async def sync(self, key: str) -> None:
        """Give or take the finalizer of one object."""
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
        changed = {**document, "metadata": {**metadata, "finalizers": finalizers}}
        left = await self.api.update(self.resource, changed)
        if is_terminating(left) and not finalizers:
            # The answer shows it for the last time.
            self._protected.forget(key, uid_of(left))


class ClaimProtectionController(_ProtectionController):
    """Keeps claims of pods that have a node.

    Differs: upstream asks the API server for all pods of the namespace once more before it lets a
    claim go. A pod of which the watch has not told yet has no data here that it could lose.
    """

    name: ClassVar[str] = "persistentvolumeclaim-protection-controller"
    resource: ClassVar[Resource] = PERSISTENT_VOLUME_CLAIMS
    finalizer: ClassVar[str] = CLAIM_FINALIZER

    def __init__(self, parts: Parts) -> None:
        """Watch claims and the pods that use them."""
        super().__init__(parts)
        self._pods = parts.informers.of(PODS)
        index_by_claim(self._pods)
        self._pods.on_change(self._pod_changed)

    def is_used(self, document: Document) -> bool:
        """Return whether a pod that has a node uses a claim."""
        pods = pods_with_claim(self._pods, key_of(document))
        return any(uses_claim(pod, document) for pod in pods)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if new is not None and not has_ended(new):
            return
        for key in claim_keys(new or old or {}):
            self.queue.add(key)


class VolumeProtectionController(_ProtectionController):
    """Keeps volumes that are bound."""

    name: ClassVar[str] = "persistentvolume-protection-controller"
    resource: ClassVar[Resource] = PERSISTENT_VOLUMES
    finalizer: ClassVar[str] = VOLUME_FINALIZER

    def is_used(self, document: Document) -> bool:
        """Return whether a claim has the volume."""
        return bool(document.get("status", {}).get("phase") == "Bound")
