"""Stores objects as bytes, under one resource version counter.

One bucket per resource, keys in etcd's order, and the history that watches and old lists read.
Never waits.
Upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go,
staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from kubesched.cluster.apiserver.storage.watch_cache import Change, ChangeType, Entry, History

EMPTY: Final[Mapping[str, str]] = {}


class Journal(Protocol):
    """Persistent storage of changes."""

    def put(self, storage: str, entry: Entry) -> None:
        """Store an object."""

    def drop(self, storage: str, key: str, version: int) -> None:
        """Remove an object; the version is that of its deletion."""


class Bucket:
    """The objects of one resource."""

    def __init__(self, storage: str, version: int) -> None:
        self.storage = storage
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.history = History(version)

    @property
    def version(self) -> int:
        """Return the version of the last known change in this bucket."""
        changes = self.history.changes
        return changes[-1].version if changes else self.history.floor

    def range(self, prefix: str = "", start: str = "") -> Iterator[Entry]:
        """Yield entries with a key prefix, starting at a key, in order."""
        keys, entries = self.keys, self.entries
        index = bisect_left(keys, max(prefix, start))
        while index < len(keys):
            key = keys[index]
            if not key.startswith(prefix):
                return
            yield entries[key]
            index += 1

    def between(self, prefix: str = "") -> tuple[int, int]:
        """Return start and end of the keys with a prefix in `keys`."""
        first = bisect_left(self.keys, prefix)
        # No character sorts between "/" and "0", so that "0" follows all keys of a namespace.
        last = bisect_left(self.keys, f"{prefix[:-1]}0") if prefix else len(self.keys)
        return first, max(first, last)


class Store:
    """All buckets, and the version of the last change."""

    def __init__(self, journal: Journal | None = None, *, version: int = 0) -> None:
        self.version = version
        self.journal = journal
        self.buckets: dict[str, Bucket] = {}

    def bucket(self, storage: str) -> Bucket:
        """Return the bucket of a resource; create it if it is missing."""
        found = self.buckets.get(storage)
        if found is None:
            found = self.buckets[storage] = Bucket(storage, self.version)
        return found

    def next_version(self) -> int:
        """Return the version that the next change will have."""
        return self.version + 1

    def load(self, storage: str, entry: Entry) -> None:
        """Load a stored object without an event."""
        bucket = self.bucket(storage)
        bucket.entries[entry.key] = entry
        insort(bucket.keys, entry.key)

    def put(self, storage: str, entry: Entry) -> Change:
        """Store a new object or a new state; its version must be the next version."""
        assert entry.version == self.version + 1
        bucket = self.bucket(storage)
        if self.journal is not None:
            self.journal.put(storage, entry)
        previous = bucket.entries.get(entry.key)
        bucket.entries[entry.key] = entry
        if previous is None:
            insort(bucket.keys, entry.key)
        kind = ChangeType.ADDED if previous is None else ChangeType.MODIFIED
        return self._changed(bucket, Change(kind, entry, previous))

    def delete(self, storage: str, last: Entry) -> Change:
        """Remove an object; `last` is its last state with the version of the deletion."""
        assert last.version == self.version + 1
        bucket = self.bucket(storage)
        if self.journal is not None:
            self.journal.drop(storage, last.key, last.version)
        previous = bucket.entries.pop(last.key)
        del bucket.keys[bisect_left(bucket.keys, last.key)]
        return self._changed(bucket, Change(ChangeType.DELETED, last, previous))

    def _changed(self, bucket: Bucket, change: Change) -> Change:
        self.version = change.version
        bucket.history.add(change)
        return change
