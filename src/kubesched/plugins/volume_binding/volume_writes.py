"""Writes the assumed volumes of a pod, then waits for the controllers to bind them.

Never undoes what was written: the next attempt finds it.
Upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go BindPodVolumes, bindAPIUpdate,
checkBindings
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from kubesched.api.meta import ObjectReference
from kubesched.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from kubesched.framework.handle import Handle
from kubesched.kit.log import Ref
from kubesched.plugins.volume_binding.assume_cache import AssumeError, ObjectT
from kubesched.plugins.volume_binding.binder import (
    BindingError,
    VolumeBinder,
    check_volume,
    is_fully_bound,
)
from kubesched.plugins.volume_binding.delayed_search import SELECTED_NODE, PodVolumes
from kubesched.plugins.volume_binding.matching import BOUND_BY_CONTROLLER
from kubesched.snapshot.object_store import ObjectStores
from kubesched.snapshot.pod_info import PodInfo
from kubesched.snapshot.view import ClusterView, NodeTable

_CHECK_EVERY_S: Final = 1.0
_VOLUMES: Final = "persistentvolumes"
_CLAIMS: Final = "persistentvolumeclaims"


@dataclass(slots=True)
class Writing:
    """A pod's volumes and claims while they are written to the API server."""

    assumed: PodVolumes
    bindings: list[tuple[PersistentVolumeClaim, PersistentVolume]]
    claims: list[PersistentVolumeClaim]
    """Volumes and claims, replaced by the API server's responses as they arrive."""
    volumes_done: int = 0
    claims_done: int = 0

    @classmethod
    def of(cls, assumed: PodVolumes) -> Writing:
        """Return the state before the first write."""
        return cls(assumed, list(assumed.static_bindings), list(assumed.dynamic_provisions))

    def not_written(self) -> PodVolumes:
        """Return the assumed objects that are not written yet."""
        return PodVolumes(
            tuple(self.bindings[self.volumes_done :]), tuple(self.claims[self.claims_done :])
        )

    def still_assumed(self) -> PodVolumes:
        """Return the objects to revert: volumes as last written, claims as assumed."""
        # Parity: binder.go bindAPIUpdate, v1.36: the response replaces the volume in the attempt's
        # state, so that a written volume is never reverted; that for a claim replaces nothing.
        return PodVolumes(tuple(self.bindings), self.assumed.dynamic_provisions)


class VolumeWriter:
    """Writes volumes and claims, and waits until they are bound."""

    def __init__(self, handle: Handle, binder: VolumeBinder, timeout_s: float) -> None:
        self._handle = handle
        self._binder = binder
        self._timeout_s = timeout_s

    async def bind(self, pod: PodInfo, node_name: str, writing: Writing) -> None:
        """Bind the pod's volumes; ApiCallError or BindingError if that fails."""
        node = Ref("", node_name)
        self._handle.log.info("BindPodVolumes", level=4, pod=_ref(pod), node=node)
        try:
            await self._write_volumes(pod, writing)
            await self._write_claims(pod, writing)
        finally:
            self._binder.revert(writing.not_written())
        try:
            await self._wait(pod, node_name, writing)
        except BindingError as problem:
            raise BindingError(f"binding volumes: {problem}") from problem

    # -- writing ----------------------------------------------------------------------------------

    async def _write_volumes(self, pod: PodInfo, writing: Writing) -> None:
        log = self._handle.log
        for place, (claim, volume) in enumerate(writing.bindings):
            refs = {"pod": _ref(pod), "PV": _ref(volume), "PVC": _ref(claim)}
            log.info("Updating PersistentVolume: binding to claim", level=5, **refs)
            try:
                updated = await self._patched(_VOLUMES, volume, volume_patch(volume))
            except Exception as problem:
                text = "Updating PersistentVolume: binding to claim failed"
                log.info(text, level=4, **refs, err=str(problem))
                raise
            text = "Updated PersistentVolume with claim. Waiting for binding to complete"
            log.info(text, level=2, **refs)
            writing.bindings[place] = (claim, updated)
            writing.volumes_done += 1

    async def _write_claims(self, pod: PodInfo, writing: Writing) -> None:
        log = self._handle.log
        for place, claim in enumerate(writing.claims):
            text = "Updating claims objects to trigger volume provisioning"
            log.info(text, level=5, pod=_ref(pod), PVC=_ref(claim))
            try:
                updated = await self._patched(_CLAIMS, claim, claim_patch(claim))
            except Exception as problem:
                text = "Updating PersistentVolumeClaim: binding to volume failed"
                log.info(text, level=4, PVC=_ref(claim), err=str(problem))
                raise
            writing.claims[place] = updated
            writing.claims_done += 1

    async def _patched(self, resource: str, obj: ObjectT, patch: Mapping[str, Any]) -> ObjectT:
        """Write the change; return the object with its new version."""
        # Differs: upstream PUTs the whole object, of which we keep only what scheduling reads. A
        # merge patch of the same fields with the same resourceVersion has the same effect: nothing
        # else changes, and the server rejects it with the same text if the object is another now.
        meta = obj.metadata
        client = self._handle.client
        answer = await client.patch_object(resource, meta.namespace, meta.name, patch)
        version = str(answer["metadata"]["resourceVersion"])
        newer = msgspec.structs.replace(meta, resource_version=version)
        return msgspec.structs.replace(obj, metadata=newer)

    # -- waiting ----------------------------------------------------------------------------------

    async def _wait(self, pod: PodInfo, node_name: str, writing: Writing) -> None:
        """Check every second until all claims are bound, one fails, or the timeout ends."""
        # Parity: apimachinery/pkg/util/wait PollUntilContextTimeout, v1.36: not at once, and no
        # more if the timeout ends at the same time.
        clock = self._handle.clock
        start_s = clock.monotonic_s()
        deadline_s, due_s = start_s + self._timeout_s, start_s
        while True:
            due_s += _CHECK_EVERY_S
            await clock.sleep(max(min(due_s, deadline_s) - clock.monotonic_s(), 0.0))
            if clock.monotonic_s() >= deadline_s:
                raise BindingError("context deadline exceeded")
            if self._is_bound(pod, node_name, writing):
                self._handle.log.info("All PVCs for pod are bound", level=2, pod=_ref(pod))
                return

    def _is_bound(self, pod: PodInfo, node_name: str, writing: Writing) -> bool:
        """Return whether all claims are bound; BindingError if one can never be bound."""
        # Parity: binder.go checkBindings, v1.36. What the API server showed last counts here, since
        # the assumed state of a volume may belong to another attempt.
        view = self._handle.snapshot
        nodes = self._node(view, node_name)
        if self._handle.informer("pods").get(pod.key) is None:
            raise BindingError(f'pod does not exist any more: pod "{pod.name}" not found')
        for claim, volume in writing.bindings:
            if not self._has_volume(claim, volume, nodes):
                return False
        return all(self._has_any_volume(claim, nodes) for claim in writing.claims)

    def _node(self, view: ClusterView, node_name: str) -> NodeTable:
        row = view.row_of(node_name)
        if row < 0:
            missing = f'node "{node_name}" not found'
            raise BindingError(f'failed to get node "{node_name}": {missing}')
        if view.objects.store_of(CSINode).get(node_name) is None:
            self._handle.log.info(
                "Could not get a CSINode object for the node",
                level=4,
                node=Ref("", node_name),
                err=f'csinode.storage.k8s.io "{node_name}" not found',
            )
        return view.nodes_at(np.array([row]))

    def _has_volume(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume, nodes: NodeTable
    ) -> bool:
        """Return whether a claim is bound to the volume that was written for it."""
        objects, name = nodes.view.objects, volume.metadata.name
        try:
            shown = self._binder.volumes.stored(objects, name)
            shown_claim = self._binder.claims.stored(objects, claim.key)
        except AssumeError as problem:
            raise BindingError(f"failed to check binding: {problem}") from problem
        if _version(volume) > _version(shown):
            return False
        _check_reachable(shown, nodes, "failed to translate pv to csi: ")
        claim_ref = shown.spec.claim_ref
        if claim_ref is None or not claim_ref.uid:
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(shown_claim)

    def _has_any_volume(self, claim: PersistentVolumeClaim, nodes: NodeTable) -> bool:
        """Return whether a claim got the volume that was requested."""
        objects, node_name = nodes.view.objects, nodes.name(0)
        try:
            shown = self._binder.claims.stored(objects, claim.key)
        except AssumeError as problem:
            raise BindingError(f"failed to check provisioning pvc: {problem}") from problem
        if _version(claim) > _version(shown):
            return False
        name, annotations = shown.metadata.name, shown.metadata.annotations
        if not annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{name}"')
        # A provisioner that fails removes the selected node, so that another node is tried.
        if annotations.get(SELECTED_NODE, "") != node_name:
            raise BindingError(f'provisioning failed for PVC "{name}"')
        return self._is_made(shown, nodes, objects) and is_fully_bound(shown)

    def _is_made(
        self, claim: PersistentVolumeClaim, nodes: NodeTable, objects: ObjectStores
    ) -> bool:
        """Return whether the claim's volume is known; the watch may show the claim first."""
        name = claim.spec.volume_name
        if not name:
            return True
        volume = objects.store_of(PersistentVolume).get(name)
        if volume is None:
            return False
        _check_reachable(volume, nodes)
        return True


def volume_patch(volume: PersistentVolume) -> dict[str, Any]:
    """Return the patch that binds a volume to a claim, if the volume is unchanged."""
    metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
    mark = volume.metadata.annotations.get(BOUND_BY_CONTROLLER)
    if mark is not None:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: mark}
    reference = volume.spec.claim_ref
    assert reference is not None, "only volumes that are some claim's are written"
    return {"metadata": metadata, "spec": {"claimRef": _whole(reference)}}


def claim_patch(claim: PersistentVolumeClaim) -> dict[str, Any]:
    """Return the patch that selects the node for which to provision a claim's volume."""
    meta = claim.metadata
    chosen = {SELECTED_NODE: meta.annotations[SELECTED_NODE]}
    return {"metadata": {"resourceVersion": meta.resource_version, "annotations": chosen}}


def _whole(reference: ObjectReference) -> dict[str, str | None]:
    """Return a reference with null for absent fields, so that a merge patch removes old values."""
    fields = msgspec.structs.fields(ObjectReference)
    return {field.encode_name: getattr(reference, field.name) or None for field in fields}


def _check_reachable(volume: PersistentVolume, nodes: NodeTable, untranslated: str = "") -> None:
    """Raise BindingError if the node cannot reach the volume: its labels may have changed."""
    check = check_volume(volume, nodes)
    if check.failed is not None and check.failed[0]:
        raise BindingError(f"{untranslated}{check.error}")
    if check.reachable is not None and not check.reachable[0]:
        raise BindingError(
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{nodes.name(0)}": '
            "no matching NodeSelectorTerms"
        )


def _version(obj: PersistentVolume | PersistentVolumeClaim) -> int:
    return int(obj.metadata.resource_version or 0)


def _ref(named: PodInfo | PersistentVolume | PersistentVolumeClaim) -> Ref:
    meta = named if isinstance(named, PodInfo) else named.metadata
    return Ref(meta.namespace, meta.name)
