"""Volumes and claims in their assumed state: as decisions in progress will write them.

An overlay of assumed objects over a store. A stored object with a newer resourceVersion replaces
its assumed state.
Upstream: pkg/scheduler/framework/plugins/volumebinding/{assume_cache,passive_assume_cache}.go
"""

from __future__ import annotations

from typing import Generic, TypeVar

from kubesched.api.storage import PersistentVolume, PersistentVolumeClaim
from kubesched.framework.handle import Logger
from kubesched.kit.log import NullLog
from kubesched.snapshot.object_store import ObjectStores

ObjectT = TypeVar("ObjectT", PersistentVolume, PersistentVolumeClaim)


class AssumeError(Exception):
    """An object cannot be assumed: it was deleted or has changed."""


class AssumeCache(Generic[ObjectT]):
    """Assumed objects of one kind, by key."""

    def __init__(self, kind: type[ObjectT], resource: str, log: Logger | None = None) -> None:
        self._kind: type[ObjectT] = kind
        self._resource = resource
        self._log: Logger = log or NullLog()
        self._assumed: dict[str, ObjectT] = {}

    def get(self, objects: ObjectStores, key: str) -> ObjectT | None:
        """Return the assumed state of a stored object, or else the stored one."""
        stored, assumed = objects.store_of(self._kind).get(key), self._assumed.get(key)
        if assumed is None:
            return stored
        version = assumed.metadata.resource_version
        if stored is not None and version == stored.metadata.resource_version:
            return assumed
        del self._assumed[key]
        fields = {} if stored is None else {"newVersion": stored.metadata.resource_version}
        self._log.info("assumed object expired", level=4, **fields, key=key, version=version)
        return stored

    def stored(self, objects: ObjectStores, key: str) -> ObjectT:
        """Return an object as last watched; AssumeError if it does not exist."""
        stored = objects.store_of(self._kind).get(key)
        if stored is None:
            raise AssumeError(f'{self._resource} "{key}" not found')
        return stored

    def assume(self, objects: ObjectStores, assumed: ObjectT) -> None:
        """Assume an object in the state that is to be written."""
        key = assumed.key
        have = self.stored(objects, key).metadata.resource_version
        new_version = assumed.metadata.resource_version
        if have != new_version:
            raise AssumeError(f'"{key}" is out of sync (stored: {have}, assume: {new_version})')
        self._assumed[key] = assumed
        self._log.info("Assumed object", level=4, key=key, version=new_version)

    def all_of(self, objects: ObjectStores) -> list[ObjectT]:
        """Return the assumed states of stored objects by key."""
        by_key = sorted(self._assumed.items())
        return [assumed for key, assumed in by_key if self.get(objects, key) is assumed]

    def restore(self, assumed: ObjectT) -> None:
        """Forget an assumed state, unless a newer one was assumed."""
        key, version = assumed.key, assumed.metadata.resource_version
        current = self._assumed.get(key)
        if current is not None and current.metadata.resource_version == version:
            del self._assumed[key]
            self._log.info("Restored object", level=4, key=key, version=version)
