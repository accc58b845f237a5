"""Ephemeral volumes: creates the claims of pods' generic ephemeral volumes.

The pods own the claims, so that both are deleted together. Never binds claims.
Upstream: pkg/controller/volume/ephemeral/controller.go
"""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.documents import Document, is_terminating, key_of, name_of, namespace_of
from kubesched.client.errors import ApiError
from kubesched.client.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kubesched.cluster.controllers.controller import Context, Controller
from kubesched.cluster.controllers.pod_claims import (
    ephemeral_volumes,
    index_by_claim,
    is_made_for,
    pods_with_claim,
)
from kubesched.workloads.volume_provisioning import ephemeral_claim, ephemeral_claim_name


class ForeignClaimError(Exception):
    """A claim with the required name belongs to something else."""


class EphemeralVolumeController(Controller):
    """Creates a claim for each ephemeral volume of a pod."""

    name: ClassVar[str] = "ephemeral-volume-controller"
    component: ClassVar[str] = "ephemeral_volume"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods = context.informers.of(PODS)
        self._claims = context.informers.of(PERSISTENT_VOLUME_CLAIMS)
        index_by_claim(self._pods)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)

    def _pod_changed(self, old: Document | None, new: Document | None) -> None:
        if old is None and new is not None:
            self._enqueue(new)

    def _claim_changed(self, old: Document | None, new: Document | None) -> None:
        if old is not None and new is None:
            for pod in pods_with_claim(self._pods, key_of(old)):
                self._enqueue(pod)

    def _enqueue(self, pod: Document) -> None:
        if not is_terminating(pod) and any(ephemeral_volumes(pod)):
            self.queue.add(key_of(pod))

    async def sync(self, key: str) -> None:
        """Create the missing claims of one pod."""
        pod = self._pods.get(key)
        if pod is None or is_terminating(pod):
            return
        for volume in ephemeral_volumes(pod):
            try:
                await self._ensure(pod, volume)
            except (ForeignClaimError, ApiError) as error:
                note = f"ephemeral volume {volume['name']}: {error}"
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
