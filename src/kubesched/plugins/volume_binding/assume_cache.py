"""Volumes and claims as they will be once decisions under way are written.

Owns an overlay of assumed objects over a store. An object whose resourceVersion moved on is worth
more than what was assumed of it. Never writes to the store.
Upstream: pkg/scheduler/framework/plugins/volumebinding/{assume_cache,passive_assume_cache}.go
"""

from __future__ import annotations

from typing import Generic, TypeVar

from kubesched.columns.object_store import ObjectStore
from kubesched.framework.handle import Logger
from kubesched.kit.log import NullLog
from kubesched.objects.storage import PersistentVolume, PersistentVolumeClaim

ObjectT = TypeVar("ObjectT", PersistentVolume, PersistentVolumeClaim)


class AssumeError(Exception):
    """An object cannot be assumed: it is gone, or has changed meanwhile."""


class AssumeCache(Generic[ObjectT]):
    """Assumed objects of one kind, by key."""

    def __init__(self, resource: str, log: Logger | None = None) -> None:
        self.resource = resource
        self._log: Logger = log or NullLog()
        self._assumed: dict[str, ObjectT] = {}

    def latest(self, stored: ObjectT) -> ObjectT:
        """Return what was assumed of a stored object, or the object itself."""
        assumed = self._assumed.get(stored.key)
        if assumed is None:
            return stored
        if assumed.metadata.resource_version != stored.metadata.resource_version:
            self._expire(assumed, newVersion=stored.metadata.resource_version)
            return stored
        return assumed

    def _expire(self, assumed: ObjectT, **fields: object) -> None:
        del self._assumed[assumed.key]
        version = assumed.metadata.resource_version
        self._log.info(
            "assumed object expired", level=4, **fields, key=assumed.key, version=version
        )

    def get(self, store: ObjectStore[ObjectT], key: str) -> ObjectT | None:
        """Return an object of the store as it is assumed to be."""
        stored = store.get(key)
        if stored is not None:
            return self.latest(stored)
        assumed = self._assumed.get(key)
        if assumed is not None:
            self._expire(assumed)
        return None

    def stored(self, store: ObjectStore[ObjectT], key: str) -> ObjectT:
        """Return an object as the API server last showed it; AssumeError if it is not there."""
        found = store.get(key)
        if found is None:
            raise AssumeError(f'{self.resource} "{key}" not found')
        return found

    def assume(self, store: ObjectStore[ObjectT], wanted: ObjectT) -> None:
        """Take an object for what it is to become."""
        key = wanted.key
        have = self.stored(store, key).metadata.resource_version
        want = wanted.metadata.resource_version
        if have != want:
            raise AssumeError(f'"{key}" is out of sync (stored: {have}, assume: {want})')
        self._assumed[key] = wanted
        self._log.info("Assumed object", level=4, key=key, version=want)

    def all_of(self, store: ObjectStore[ObjectT]) -> list[ObjectT]:
        """Return what is assumed of objects of the store, by key."""
        found = []
        for key in sorted(self._assumed):
            assumed = self._assumed[key]
            if self.get(store, key) is assumed:
                found.append(assumed)
        return found

    def restore(self, assumed: ObjectT) -> None:
        """Forget what was assumed, unless something newer was."""
        key, version = assumed.key, assumed.metadata.resource_version
        known = self._assumed.get(key)
        if known is not None and known.metadata.resource_version == version:
            del self._assumed[key]
            self._log.info("Restored object", level=4, key=key, version=version)
