"""Uses of volumes by pods and attachments, each resolved to a volume.

Follows claims, volumes, classes and attachments by comparing the objects it read with those stored.
Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go filterAttachableVolumes,
getNodeVolumeAttachmentInfo
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from operator import is_not
from typing import Any, Final, NamedTuple

from kubesched.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kubesched.api.volumes import Volume
from kubesched.framework.status import StatusError
from kubesched.plugins.node_volume_limits.resolve import (
    claim_handle,
    inline_handle,
    may_be_attached,
)
from kubesched.plugins.pod_volumes import NO_NAME, claim_use, not_owner_text
from kubesched.snapshot.object_store import ObjectStore, ObjectStores
from kubesched.snapshot.pod_columns import BoundPod
from kubesched.snapshot.pod_info import PodShape

NO_VOLUME: Final = -1

# Not the key of any object.
_NO_KEY: Final = ""


class Holding(NamedTuple):
    """The volumes that a pod uses, or the error of resolving them."""

    uses: tuple[int, ...] = ()
    problem: str = ""


NOTHING: Final = Holding()
"""The uses of a pod without attachable volumes."""
# Claims of ephemeral volumes are named after the pod.
_EACH_ITS_OWN: Final = Holding()


class VolumeUses:
    """Uses by number: a claim, an in-line volume or an attachment, with its volume.

    Two uses may refer to the same volume; the volume of a use may change with its objects.
    """

    def __init__(self, objects: ObjectStores) -> None:
        self._objects = objects
        self.volume_of: list[int] = []
        """The volume of each use, `NO_VOLUME` for one that does not count."""
        self.driver_of: list[int] = []
        """The driver of each volume."""
        self.drivers: dict[str, int] = {}
        self._volumes: dict[str, int] = {}
        self._uses_of: dict[int, dict[int, None]] = {}
        self._use_of_key: dict[str, int] = {}
        # The objects from which each use was resolved, as columns: many are compared at once.
        self._claim_keys: list[str] = []
        self._claims: list[PersistentVolumeClaim | None] = []
        self._volume_names: list[str] = []
        self._bound: list[PersistentVolume | None] = []
        self._attached: dict[int, VolumeAttachment] = {}
        self._attachments: dict[str, tuple[VolumeAttachment, int]] = {}
        self.by_shape: dict[int, Holding] = {}
        """The uses of pods by shape, as far as they were needed."""
        self._epochs = self._current_epochs()
        self._attachment_epoch = -1
        self.on_node: dict[str, dict[int, None]] = {}
        """The uses by attachments, by node name."""

    def __len__(self) -> int:
        return len(self.volume_of)

    @property
    def attachment_count(self) -> int:
        """Return how many of the uses are by existing attachments."""
        return len(self._attachments)

    # -- uses -----------------------------------------------------------------------------------

    def of_pod(self, shape: int, pod: BoundPod) -> Holding:
        """Return the uses of a bound pod, by the number of its shape."""
        holding = self.by_shape.get(shape)
        if holding is None:
            holding = self.by_shape[shape] = self._of_shape(pod.shape)
        return self._of_volumes(pod.shape, pod) if holding is _EACH_ITS_OWN else holding

    def _of_shape(self, shape: PodShape) -> Holding:
        if not any(map(may_be_attached, shape.volumes)):
            return NOTHING
        if any(volume.ephemeral is not None for volume in shape.volumes):
            return _EACH_ITS_OWN
        return self._of_volumes(shape, None)

    def _of_volumes(self, shape: PodShape, pod: BoundPod | None) -> Holding:
        uses: dict[int, None] = {}
        for volume in shape.volumes:
            use = claim_use(pod.name if pod is not None else "", volume)
            if use is None:
                try:
                    inline = self._of_inline(volume, shape.namespace)
                except StatusError as problem:
                    return Holding(tuple(uses), problem.status.message)
                uses.update(dict.fromkeys(inline))
                continue
            if not use.claim_name:
                return Holding(tuple(uses), NO_NAME)
            place = self._of_claim(f"{shape.namespace}/{use.claim_name}")
            uses[place] = None
            claim = self._claims[place]
            if use.is_ephemeral and claim is not None and pod is not None:
                problem_text = not_owner_text(pod, claim)
                if problem_text is not None:
                    return Holding(tuple(uses), problem_text)
        return Holding(tuple(uses))

    def _of_inline(self, volume: Volume, namespace: str) -> tuple[int, ...]:
        # Volumes of pods are counted only on nodes with limits, hence with a CSINode.
        handle = inline_handle(volume, namespace, has_csi_node=True)
        if handle is None:
            return ()
        driver, name = handle
        key = f"\0{driver}/{name}"
        place = self._use_of_key.get(key)
        if place is None:
            place = self._use_of_key[key] = self._enter(_NO_KEY)
            self._stand_for(place, self._volume_id(f"{driver}/{name}", driver))
        return (place,)

    def _of_claim(self, key: str) -> int:
        place = self._use_of_key.get(key)
        if place is None:
            place = self._use_of_key[key] = self._enter(key)
            self._resolve(place)
        return place

    def _enter(self, claim_key: str) -> int:
        self._claim_keys.append(claim_key)
        self._claims.append(None)
        self._volume_names.append(_NO_KEY)
        self._bound.append(None)
        self.volume_of.append(NO_VOLUME)
        return len(self.volume_of) - 1

    # -- volumes ----------------------------------------------------------------------------------

    def volume_named(self, unique_name: str) -> int:
        """Return a volume by its unique name, `NO_VOLUME` if nothing uses it."""
        return self._volumes.get(unique_name, NO_VOLUME)

    def uses_of(self, volume: int) -> Sequence[int]:
        """Return the uses of a volume."""
        return tuple(self._uses_of.get(volume, ()))

    def _resolve(self, use: int) -> bool:
        """Resolve the use of a claim or attachment again; return whether its volume changed."""
        attachment = self._attached.get(use)
        handle: tuple[str, str] | None = None
        if attachment is not None:
            volume = self._read_volume(use, self._volume_names[use])
            # Parity: csi.go getNodeVolumeAttachmentInfo, v1.36: in-tree volumes are not translated.
            if volume is not None and volume.spec.csi is not None:
                handle = attachment.spec.attacher, volume.spec.csi.volume_handle
        elif self._claim_keys[use]:
            claim = self._objects.store_of(PersistentVolumeClaim).get(self._claim_keys[use])
            self._claims[use] = claim
            volume = self._read_volume(use, _NO_KEY if claim is None else claim.spec.volume_name)
            # Parity: csi.go filterAttachableVolumes, v1.36: a claim that is gone does not count.
            if claim is not None:
                handle = claim_handle(claim, volume, self._objects, has_csi_node=True)
        else:
            return False
        if handle is None:
            return self._stand_for(use, NO_VOLUME)
        driver, name = handle
        return self._stand_for(use, self._volume_id(f"{driver}/{name}", driver))

    def _read_volume(self, use: int, name: str) -> PersistentVolume | None:
        volume = self._objects.store_of(PersistentVolume).get(name) if name else None
        self._volume_names[use], self._bound[use] = name, volume
        return volume

    def _stand_for(self, use: int, volume: int) -> bool:
        before = self.volume_of[use]
        if before == volume:
            return False
        if before != NO_VOLUME:
            del self._uses_of[before][use]
        if volume != NO_VOLUME:
            self._uses_of.setdefault(volume, {})[use] = None
        self.volume_of[use] = volume
        return True

    def _volume_id(self, unique_name: str, driver: str) -> int:
        place = self._volumes.get(unique_name)
        if place is None:
            place = self._volumes[unique_name] = len(self.driver_of)
            self.driver_of.append(self.drivers.setdefault(driver, len(self.drivers)))
        return place

    # -- following the objects --------------------------------------------------------------------

    def _current_epochs(self) -> tuple[int, int, int]:
        objects = self._objects
        return (
            objects.store_of(PersistentVolumeClaim).epoch,
            objects.store_of(PersistentVolume).epoch,
            objects.store_of(StorageClass).epoch,
        )

    def follow(self) -> list[int]:
        """Resolve the uses whose objects were replaced again; return them."""
        epochs = self._current_epochs()
        if epochs == self._epochs:
            return []
        (claims, volumes, classes), self._epochs = self._epochs, epochs
        touched: set[int] = set(range(len(self))) if classes != epochs[2] else set()
        if claims != epochs[0]:
            store = self._objects.store_of(PersistentVolumeClaim)
            touched.update(_differing(store, self._claim_keys, self._claims))
        if volumes != epochs[1]:
            bound_store = self._objects.store_of(PersistentVolume)
            touched.update(_differing(bound_store, self._volume_names, self._bound))
        order = sorted(touched)
        for use in order:
            self._resolve(use)
        return order

    def follow_attachments(self) -> list[str]:
        """Update the attachments; return the names of the nodes where they changed."""
        store = self._objects.store_of(VolumeAttachment)
        if store.epoch == self._attachment_epoch:
            return []
        self._attachment_epoch = store.epoch
        current = {attachment.key: attachment for attachment in store}
        nodes: dict[str, None] = {}
        for key, (attachment, use) in list(self._attachments.items()):
            if current.get(key) is not attachment:
                self._drop_attachment(key, attachment, use)
                nodes[attachment.spec.node_name] = None
        for key, attachment in current.items():
            if key not in self._attachments:
                self._add_attachment(key, attachment)
                nodes[attachment.spec.node_name] = None
        return list(nodes)

    def _add_attachment(self, key: str, attachment: VolumeAttachment) -> None:
        spec = attachment.spec
        use = self._enter(_NO_KEY)
        self._attachments[key] = (attachment, use)
        if spec.attacher and spec.source.persistent_volume_name is not None:
            self._attached[use] = attachment
            self._volume_names[use] = spec.source.persistent_volume_name
            self._resolve(use)
            self.on_node.setdefault(spec.node_name, {})[use] = None

    def _drop_attachment(self, key: str, attachment: VolumeAttachment, use: int) -> None:
        del self._attachments[key]
        self._attached.pop(use, None)
        self._volume_names[use], self._bound[use] = _NO_KEY, None
        self._stand_for(use, NO_VOLUME)
        uses = self.on_node.get(attachment.spec.node_name)
        if uses is not None:
            uses.pop(use, None)
            if not uses:
                del self.on_node[attachment.spec.node_name]

    def node_attached_to(self, use: int) -> str | None:
        """Return the node of a use by an attachment; None for any other use."""
        attachment = self._attached.get(use)
        return None if attachment is None else attachment.spec.node_name


def _differing(store: ObjectStore[Any], keys: list[str], previous: Sequence[object]) -> list[int]:
    """Return the indexes whose key has another object now."""
    current = map(store.get, keys)
    return list(compress(range(len(keys)), map(is_not, current, previous)))
