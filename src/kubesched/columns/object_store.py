"""The other objects rules ask about, each kind kept once.

Owns lookup by name, and a number that moves with every change of a kind that a rule may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, cast

from kubesched.objects.namespace import Namespace
from kubesched.objects.policy import PodDisruptionBudget
from kubesched.objects.scheduling import PriorityClass
from kubesched.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kubesched.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet

ObjectT = TypeVar("ObjectT")


class ObjectStore(Generic[ObjectT]):
    """Objects of one kind by key: `name`, or `namespace/name` where the kind has namespaces.

    Iteration is by key, so that no rule can depend on the order of arrival.
    """

    def __init__(
        self,
        stores: ObjectStores | None = None,
        read: Callable[[ObjectT], object] | None = None,
    ) -> None:
        """Begin without objects.

        Args:
            stores: those of all kinds, if there are others.
            read: all that rules read of an object beside its key; None: they may read anything.
        """
        self._objects: dict[str, ObjectT] = {}
        self._sorted: list[str] | None = []
        self._stores = stores
        self._read = read
        self.epoch = 0
        """Moves when an object comes, goes, or has other content that rules read."""

    def __repr__(self) -> str:
        return f"<ObjectStore of {len(self._objects)}, epoch {self.epoch}>"

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectT]:
        if self._sorted is None:
            self._sorted = sorted(self._objects)
        return (self._objects[key] for key in self._sorted)

    def get(self, key: str) -> ObjectT | None:
        """Return the object of that key, if known."""
        return self._objects.get(key)

    def put(self, key: str, value: ObjectT) -> None:
        """Add or replace an object."""
        before = self._objects.get(key)
        self._objects[key] = value
        if before is None:
            self._sorted = None
        elif self._read is not None and self._read(before) == self._read(value):
            return
        self._move_on()

    def remove(self, key: str) -> None:
        """Drop an object; one that is not there is no error."""
        if self._objects.pop(key, None) is not None:
            self._sorted = None
            self._move_on()

    def _move_on(self) -> None:
        self.epoch += 1
        if self._stores is not None:
            self._stores.change_count += 1


def _selector(one: Service | ReplicationController | ReplicaSet | StatefulSet) -> object:
    return one.spec.selector


class ObjectStores:
    """One store per kind that scheduling reads beside nodes and pods."""

    def __init__(self) -> None:
        self.change_count = 0
        """Moves with the epoch of any of them."""
        self.namespaces: ObjectStore[Namespace] = ObjectStore(self)
        self.persistent_volumes: ObjectStore[PersistentVolume] = ObjectStore(self)
        self.persistent_volume_claims: ObjectStore[PersistentVolumeClaim] = ObjectStore(self)
        self.storage_classes: ObjectStore[StorageClass] = ObjectStore(self)
        self.csi_nodes: ObjectStore[CSINode] = ObjectStore(self)
        self.csi_drivers: ObjectStore[CSIDriver] = ObjectStore(self)
        self.csi_storage_capacities: ObjectStore[CSIStorageCapacity] = ObjectStore(self)
        self.volume_attachments: ObjectStore[VolumeAttachment] = ObjectStore(self)
        self.pod_disruption_budgets: ObjectStore[PodDisruptionBudget] = ObjectStore(self)
        # The status of an owner changes with each of its pods; rules read whom it selects.
        self.services: ObjectStore[Service] = ObjectStore(self, _selector)
        self.replication_controllers: ObjectStore[ReplicationController] = ObjectStore(
            self, _selector
        )
        self.replica_sets: ObjectStore[ReplicaSet] = ObjectStore(self, _selector)
        self.stateful_sets: ObjectStore[StatefulSet] = ObjectStore(self, _selector)
        self.priority_classes: ObjectStore[PriorityClass] = ObjectStore(self)
        self._by_type: dict[type, ObjectStore[Any]] = {
            Namespace: self.namespaces,
            PersistentVolume: self.persistent_volumes,
            PersistentVolumeClaim: self.persistent_volume_claims,
            StorageClass: self.storage_classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.csi_drivers,
            CSIStorageCapacity: self.csi_storage_capacities,
            VolumeAttachment: self.volume_attachments,
            PodDisruptionBudget: self.pod_disruption_budgets,
            Service: self.services,
            ReplicationController: self.replication_controllers,
            ReplicaSet: self.replica_sets,
            StatefulSet: self.stateful_sets,
            PriorityClass: self.priority_classes,
        }

    def store_of(self, kind: type[ObjectT]) -> ObjectStore[ObjectT]:
        """Return the store of a kind of object; KeyError if it has none."""
        return cast("ObjectStore[ObjectT]", self._by_type[kind])

    def kind_of(self, name: str) -> type | None:
        """Return the type that has a store, by the name of its kind; None if there is none."""
        return next((kind for kind in self._by_type if kind.__name__ == name), None)
