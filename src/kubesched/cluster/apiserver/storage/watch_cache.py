"""Watch history and subscribers of one resource.

Encodes an event once for all subscribers with the same representation. Subscribers have bounded
queues; a client that does not read loses its watch.
Upstream: staging/src/k8s.io/apiserver/pkg/storage/cacher/{cacher,watch_cache,cache_watcher}.go
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

_COUNT_MAX: Final = 100_000
_BYTES_MAX: Final = 32 * 1024 * 1024
_FRAMED_MAX: Final = 1000


class Entry:
    """One version of one object."""

    __slots__ = ("data", "fields", "key", "labels", "version")

    def __init__(
        self,
        key: str,
        version: int,
        data: bytes,
        labels: Mapping[str, str],
        fields: Mapping[str, str],
    ) -> None:
        self.key = key
        self.version = version
        self.data = data
        self.labels = labels
        self.fields = fields


class ChangeType(StrEnum):
    """Types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change:
    """A change from one version of an object to another."""

    __slots__ = ("entry", "frames", "previous", "type", "version")

    def __init__(self, kind: ChangeType, entry: Entry, previous: Entry | None) -> None:
        self.type = kind
        self.entry = entry
        """The new state; for a deletion, the last state with the version of the deletion."""
        self.previous = previous
        self.version = entry.version
        self.frames: dict[tuple[str, str], bytes] = {}
        """Encoded events by representation and type."""


class Subscriber(Protocol):
    """Receiver of changes."""

    def notice(self, change: Change) -> None:
        """Handle a change; must not wait and must not raise."""


class TooOldError(Exception):
    """The requested version is older than the history."""

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


class History:
    """Changes of one bucket, the latest last."""

    def __init__(self, version: int) -> None:
        self.floor = version
        """The version after which the history is complete."""
        self.changes: deque[Change] = deque()
        self.subscribers: dict[Subscriber, None] = {}
        self._bytes = 0
        self._framed: deque[Change] = deque()
        """The latest changes, whose encoded events are cached; older ones are encoded again."""

    def add(self, change: Change) -> None:
        """Record a change and notify the subscribers."""
        self.changes.append(change)
        self._bytes += len(change.entry.data)
        while len(self.changes) > _COUNT_MAX or self._bytes > _BYTES_MAX:
            oldest = self.changes.popleft()
            self._bytes -= len(oldest.entry.data)
            self.floor = oldest.version
        self._framed.append(change)
        if len(self._framed) > _FRAMED_MAX:
            self._framed.popleft().frames.clear()
        for subscriber in list(self.subscribers):
            subscriber.notice(change)

    def compact(self, version: int) -> None:
        """Drop the changes up to a version."""
        while self.changes and self.changes[0].version <= version:
            self._bytes -= len(self.changes.popleft().entry.data)
        self.floor = max(self.floor, version)

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version; TooOldError if some were dropped."""
        if version < self.floor:
            raise TooOldError(self.floor)
        found: list[Change] = []
        for change in reversed(self.changes):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def undone(self, version: int) -> dict[str, Entry | None]:
        """Return the state at a version of each key changed since; None if it was absent."""
        was: dict[str, Entry | None] = {}
        for change in reversed(self.since(version)):
            was[change.entry.key] = change.previous
        return was
