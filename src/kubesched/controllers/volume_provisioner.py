"""The provisioners of a cluster: whoever a class names, a claim of it gets a volume.

Owns the writes and events of provisioning. What a volume looks like is volume_provisioning's.
Never binds: the volume is there for its claim, which then takes it.
Upstream: pkg/controller/volume/persistentvolume/pv_controller.go provisionClaimOperation,
provisionClaimOperationExternal; kubernetes-csi/external-provisioner, whose part it plays
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kubesched.client.cached.documents import Document, name_of
from kubesched.client.errors import AlreadyExistsError
from kubesched.client.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
)
from kubesched.controllers.controller import Parts
from kubesched.controllers.volume_matching import SELECTED_NODE, annotations_of, class_of
from kubesched.controllers.volume_provisioning import (
    BETA_PROVISIONER,
    PROVISIONER,
    Provisioner,
    ProvisioningError,
    RescheduleError,
    Site,
    provisioned_volume,
    provisioner_of,
    volume_name_of,
)

Tell: TypeAlias = Callable[[Document, str, str, str], None]


class VolumeProvisioner:
    """Makes volumes for claims."""

    def __init__(self, parts: Parts, tell: Tell, event: Tell) -> None:
        """Take what says something once while it is true (`tell`), or every time (`event`)."""
        self._api = parts.api
        self._recorder = parts.recorder
        self._tell = tell
        self._event = event
        self._volumes = parts.informers.of(PERSISTENT_VOLUMES)
        self._nodes = parts.informers.of(NODES)
        self._csi_nodes = parts.informers.of(CSI_NODES)
        self._csi_drivers = parts.informers.of(CSI_DRIVERS)

    async def provision(self, claim: Document, storage_class: Document | None) -> None:
        """Make a volume for a claim, or say why there is none."""
        try:
            if storage_class is None:
                name = class_of(claim)
                raise ProvisioningError(f'storageclass.storage.k8s.io "{name}" not found')
            by = provisioner_of(storage_class)
            claim = await self._with_provisioner(claim, by)
            volume = provisioned_volume(claim, storage_class, by, self._site(claim, by))
        except RescheduleError as problem:
            note = f'failed to provision volume with StorageClass "{class_of(claim)}": {problem}'
            self._tell(claim, "Warning", "ProvisioningFailed", note)
            await self._reschedule(claim)
        except ProvisioningError as problem:
            self._tell(claim, "Warning", "ProvisioningFailed", str(problem))
        else:
            await self._create(volume, claim, by)

    async def _with_provisioner(self, claim: Document, by: Provisioner) -> Document:
        if annotations_of(claim).get(PROVISIONER) == by.name:
            return claim
        names = {BETA_PROVISIONER: by.name, PROVISIONER: by.name}
        return await self._annotated(claim, {**annotations_of(claim), **names})

    async def _reschedule(self, claim: Document) -> None:
        """Have the scheduler choose another node."""
        annotations = dict(annotations_of(claim))
        del annotations[SELECTED_NODE]
        await self._annotated(claim, annotations)

    async def _annotated(self, claim: Document, annotations: dict[str, str]) -> Document:
        changed = {**claim, "metadata": {**claim["metadata"], "annotations": annotations}}
        return await self._api.update(PERSISTENT_VOLUME_CLAIMS, changed)

    def _site(self, claim: Document, by: Provisioner) -> Site:
        """Return where a claim's volume is to be made; RescheduleError if that is gone."""
        is_csi = self._csi_drivers.get(by.name) is not None
        name = annotations_of(claim).get(SELECTED_NODE)
        if name is None:
            return Site(None, is_csi)
        node = self._nodes.get(name)
        if node is None:
            raise RescheduleError(f'failed to get target node: node "{name}" not found')
        csi_node = self._csi_nodes.get(name) or {"spec": {}}
        for driver in csi_node["spec"].get("drivers") or ():
            if driver["name"] == by.name:
                return Site(node, is_csi, tuple(driver.get("topologyKeys") or ()))
        return Site(node, is_csi)

    async def _create(self, volume: Document, claim: Document, by: Provisioner) -> None:
        name = volume_name_of(claim)
        if self._volumes.get(name) is not None:
            return
        if by.is_external:
            note = (
                "Waiting for a volume to be created either by the external provisioner "
                f"'{by.name}' or manually by the system administrator. If volume creation is "
                "delayed, please verify that the provisioner is running and correctly registered."
            )
            self._tell(claim, "Normal", "ExternalProvisioning", note)
        try:
            await self._api.create(PERSISTENT_VOLUMES, volume)
        except AlreadyExistsError:
            # Made before a restart; the watch has not told of it yet.
            await self._api.get(PERSISTENT_VOLUMES, name_of(volume))
            return
        if by.is_external:
            note = f"Successfully provisioned volume {name}"
            self._recorder(by.name).event(claim, reason="ProvisioningSucceeded", note=note)
        else:
            note = f"Successfully provisioned volume {name} using {by.name}"
            self._event(claim, "Normal", "ProvisioningSucceeded", note)
