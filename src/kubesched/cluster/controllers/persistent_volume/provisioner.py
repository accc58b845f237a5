"""Dynamic provisioning: creates a volume for any claim with a storage class.

Owns the writes and events. The volume document is volume_provisioning's. Never binds: the claim
takes the volume reserved for it.
Upstream: pkg/controller/volume/persistentvolume/pv_controller.go provisionClaimOperation,
provisionClaimOperationExternal; stands in for kubernetes-csi/external-provisioner
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from kubesched.api.documents import Document, name_of
from kubesched.client.errors import AlreadyExistsError
from kubesched.client.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
)
from kubesched.cluster.controllers.controller import Context
from kubesched.workloads.volume_matching import annotations_of, class_of
from kubesched.workloads.volume_provisioning import (
    Provisioner,
    ProvisioningError,
    RescheduleError,
    Site,
    provisioned_volume,
    provisioner_of,
    volume_name_of,
)

PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

RecordEvent: TypeAlias = Callable[[Document, str, str, str], None]


class VolumeProvisioner:
    """Provisions volumes."""

    def __init__(self, context: Context, event_once: RecordEvent, event: RecordEvent) -> None:
        """Take two event recorders: `event_once` skips repetitions, `event` does not."""
        self._api = context.api
        self._recorder = context.recorder
        self._event_once = event_once
        self._event = event
        self._volumes = context.informers.of(PERSISTENT_VOLUMES)
        self._nodes = context.informers.of(NODES)
        self._csi_nodes = context.informers.of(CSI_NODES)
        self._csi_drivers = context.informers.of(CSI_DRIVERS)

    async def provision(self, claim: Document, storage_class: Document | None) -> None:
        """Create a volume for a claim, or record why it is impossible."""
        try:
            if storage_class is None:
                name = class_of(claim)
                raise ProvisioningError(f'storageclass.storage.k8s.io "{name}" not found')
            provisioner = provisioner_of(storage_class)
            claim = await self._with_provisioner(claim, provisioner)
            volume = provisioned_volume(
                claim, storage_class, provisioner, self._site(claim, provisioner)
            )
        except RescheduleError as error:
            note = f'failed to provision volume with StorageClass "{class_of(claim)}": {error}'
            self._event_once(claim, "Warning", "ProvisioningFailed", note)
            await self._reschedule(claim)
        except ProvisioningError as error:
            self._event_once(claim, "Warning", "ProvisioningFailed", str(error))
        else:
            await self._create(volume, claim, provisioner)

    async def _with_provisioner(self, claim: Document, provisioner: Provisioner) -> Document:
        if annotations_of(claim).get(PROVISIONER) == provisioner.name:
            return claim
        names = {BETA_PROVISIONER: provisioner.name, PROVISIONER: provisioner.name}
        return await self._annotated(claim, {**annotations_of(claim), **names})

    async def _reschedule(self, claim: Document) -> None:
        """Remove the selected node, so that the scheduler chooses another."""
        annotations = dict(annotations_of(claim))
        del annotations[SELECTED_NODE]
        await self._annotated(claim, annotations)

    async def _annotated(self, claim: Document, annotations: dict[str, str]) -> Document:
        updated = {**claim, "metadata": {**claim["metadata"], "annotations": annotations}}
        return await self._api.update(PERSISTENT_VOLUME_CLAIMS, updated)

    def _site(self, claim: Document, provisioner: Provisioner) -> Site:
        """Return the topology for a claim's volume; RescheduleError if the node is gone."""
        is_csi = self._csi_drivers.get(provisioner.name) is not None
        name = annotations_of(claim).get(SELECTED_NODE)
        if name is None:
            return Site(None, is_csi)
        node = self._nodes.get(name)
        if node is None:
            raise RescheduleError(f'failed to get target node: node "{name}" not found')
        csi_node = self._csi_nodes.get(name) or {"spec": {}}
        for driver in csi_node["spec"].get("drivers") or ():
            if driver["name"] == provisioner.name:
                return Site(node, is_csi, tuple(driver.get("topologyKeys") or ()))
        return Site(node, is_csi)

    async def _create(self, volume: Document, claim: Document, provisioner: Provisioner) -> None:
        name = volume_name_of(claim)
        if self._volumes.get(name) is not None:
            return
        if provisioner.is_external:
            note = (
                "Waiting for a volume to be created either by the external provisioner "
                f"'{provisioner.name}' or manually by the system administrator. If volume creation "
                "is delayed, please verify that the provisioner is running and correctly "
                "registered."
            )
            self._event_once(claim, "Normal", "ExternalProvisioning", note)
        try:
            await self._api.create(PERSISTENT_VOLUMES, volume)
        except AlreadyExistsError:
            # Created before a restart; the watch has not delivered it yet.
            await self._api.get(PERSISTENT_VOLUMES, name_of(volume))
            return
        if provisioner.is_external:
            note = f"Successfully provisioned volume {name}"
            self._recorder(provisioner.name).event(claim, reason="ProvisioningSucceeded", note=note)
        else:
            note = f"Successfully provisioned volume {name} using {provisioner.name}"
            self._event(claim, "Normal", "ProvisioningSucceeded", note)
