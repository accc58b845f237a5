"""Deletes events one hour after their last write.

Upstream: pkg/controlplane/instance.go DefaultEventTTL; etcd's leases do this there
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kubesched.cluster.apiserver.storage.watch_cache import Change, ChangeType
from kubesched.cluster.apiserver.verbs.context import Context
from kubesched.cluster.apiserver.verbs.deletion import remove

TTL_S: Final = 3600.0
_LOOKS_EVERY_S: Final = 60.0


class EventExpiry:
    """Keeps the write times of events, in order."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._written: deque[tuple[float, str, int]] = deque()
        resource = context.find("", "events")
        assert resource is not None
        self._resource = resource
        bucket = context.bucket(resource)
        now_s = context.clock.monotonic_s()
        # The age of loaded events is unknown: they expire in an hour.
        for entry in bucket.range():
            self._written.append((now_s, entry.key, entry.version))
        bucket.history.subscribers[self] = None

    def notice(self, change: Change) -> None:
        """Record the write of an event."""
        if change.type is not ChangeType.DELETED:
            now_s = self._context.clock.monotonic_s()
            self._written.append((now_s, change.entry.key, change.version))

    def sweep(self) -> None:
        """Delete expired events."""
        oldest_s = self._context.clock.monotonic_s() - TTL_S
        entries = self._context.bucket(self._resource).entries
        request = self._context.system_request(self._resource, "delete")
        while self._written and self._written[0][0] <= oldest_s:
            _, key, version = self._written.popleft()
            entry = entries.get(key)
            if entry is not None and entry.version == version:
                document = self._context.document(self._resource, entry)
                remove(self._context, self._resource, document, request)


async def expire_events(context: Context) -> None:
    """Delete events as they expire, until cancelled."""
    expiry = EventExpiry(context)
    while True:
        await context.clock.sleep(_LOOKS_EVERY_S)
        expiry.sweep()
