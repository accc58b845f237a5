"""Claims for the ephemeral volumes of pods.

Owns their creation. They end with their pods, which own them. Never binds them.
Upstream: pkg/controller/volume/ephemeral/controller.go
"""

from __future__ import annotations

from typing import ClassVar

from kubesched.client.cached.documents import (
    Document,
    is_terminating,
    key_of,
    name_of,
    namespace_of,
)
from kubesched.client.errors import ApiError
from kubesched.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kubesched.controllers.controller import Controller, Parts
from kubesched.controllers.pod_claims import (
    ephemeral_claim,
    ephemeral_claim_name,
    ephemeral_volumes,
    index_by_claim,
    is_made_for,
    pods_with_claim,
)


class ForeignClaimError(Exception):
    """A claim has the name that a pod's ephemeral volume needs."""


class EphemeralVolumeController(Controller):
    """Makes a claim for each ephemeral volume of a pod."""

    name: ClassVar[str] = "ephemeral-volume-controller"
    component: ClassVar[str] = "ephemeral_volume"

    def __init__(self, parts: Parts) -> None:
        """Watch pods and claims."""
        super().__init__(parts)
        self._pods = parts.informers.of(PODS)
        self._claims = parts.informers.of(PERSISTENT_VOLUME_CLAIMS)
        index_by_claim(self._pods)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None and new is not None:
            self._add(new)

    def _claim_changed(self, old: Document | None, new: Document | None) -> None:
        if old is not None and new is None:
            for pod in pods_with_claim(self._pods, key_of(old)):
                self._add(pod)

    def _add(self, pod: Document) -> None:
        if not is_terminating(pod) and any(ephemeral_volumes(pod)):
            self.queue.add(key_of(pod))

    async def sync(self, key: str) -> None:
        """Make the claims of one pod that are missing."""
        pod = self._pods.get(key)
        if pod is None or is_terminating(pod):
            return
        for volume in ephemeral_volumes(pod):
            try:
                await self._ensure(pod, volume)
            except (ForeignClaimError, ApiError) as problem:
                note = f"ephemeral volume {volume['name']}: {problem}"
                self.event(pod, "Warning", "FailedBinding", note)
                raise

    async def _ensure(self, pod: Document, volume: Document) -> None:
        name, namespace = ephemeral_claim_name(pod, volume), namespace_of(pod)
        claim = self._claims.get(f"{namespace}/{name}")
        if claim is None:
            await self.api.create(PERSISTENT_VOLUME_CLAIMS, ephemeral_claim(pod, volume))
        elif not is_made_for(claim, pod):
            raise ForeignClaimError(
                f"PVC {namespace}/{name} was not created for pod "
                f"{namespace}/{name_of(pod)} (pod is not owner)"
            )
