"""Object stores: the objects that rules read besides pods and nodes, one store per kind.

Owns lookup by key, and an epoch per kind that increases with every change that a rule may notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from kubesched.api.kinds import KINDS

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
        self._objects: dict[str, ObjectT] = {}
        self._sorted: list[str] | None = []
        self._stores = stores
        """The stores of all kinds, whose change count is incremented as well."""
        self._read = read
        """Returns all that rules read of an object beside its key; None: anything."""
        self.epoch = 0
        """Moves when an object is added, removed, or changed in a way that rules notice."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectT]:
        if self._sorted is None:
            self._sorted = sorted(self._objects)
        return (self._objects[key] for key in self._sorted)

    def get(self, key: str) -> ObjectT | None:
        return self._objects.get(key)

    def put(self, key: str, value: ObjectT) -> None:
        """Add or replace an object."""
        before = self._objects.get(key)
        self._objects[key] = value
        if before is None:
            self._sorted = None
        elif self._read is not None and self._read(before) == self._read(value):
            return
        self._count_change()

    def remove(self, key: str) -> None:
        """Remove an object, if it is there."""
        if self._objects.pop(key, None) is not None:
            self._sorted = None
            self._count_change()

    def _count_change(self) -> None:
        self.epoch += 1
        if self._stores is not None:
            self._stores.change_count += 1


class ObjectStores:
    """One store per kind that scheduling reads beside nodes and pods.

    Each is an attribute as well, by the name that `Reads.objects` has for it.
    """

    def __init__(self) -> None:
        self.change_count = 0
        """Increases with the epoch of any store."""
        self._by_struct: dict[type, ObjectStore[Any]] = {}
        for kind in KINDS:
            if kind.struct is not None and kind.store:
                store = self._by_struct[kind.struct] = ObjectStore(self, kind.rules_read)
                setattr(self, kind.store, store)

    def store_of(self, struct: type[ObjectT]) -> ObjectStore[ObjectT]:
        """Return the store for objects of a struct; KeyError if it has none."""
        return self._by_struct[struct]

    def kind_of(self, name: str) -> type | None:
        """Return the struct that has a store, by the name of its kind; None if there is none."""
        return next((struct for struct in self._by_struct if struct.__name__ == name), None)
